"""What a batch costs however few tuples it has: the intercept of seconds over tuples.

From the medians of many small batches and of some ten times as large, of the same log and specification.
"""

from __future__ import annotations

from statistics import median

from orchestration.bench.replays import Timed, replayed, sliding_spec, warm
from orchestration.bench.report import Measure, Outcome
from orchestration.bench.runner import Bench
from orchestration.bench.streams import DISORDERED

ABOUT = "seconds of a batch without tuples: the intercept from batches of 1 M and 10 M tuples"
_SMALL_BATCHES, _LARGE_BATCHES = 16, 8


def run(bench: Bench) -> Outcome:
    """Replay the same log in small and in large batches."""
    log = bench.log(DISORDERED, bench.scale.tuples)
    small, large = max(log.end // 100, 1), max(log.end // 10, 1)
    warm(bench, sliding_spec(), DISORDERED)
    in_small = replayed(bench, sliding_spec(), log, f"batches of {small:,}", tuples=_SMALL_BATCHES * small, batch_tuples=small)
    in_large = replayed(bench, sliding_spec(), log, f"batches of {large:,}", tuples=_LARGE_BATCHES * large, batch_tuples=large)
    (few, short), (many, long) = _typical_batch(in_small), _typical_batch(in_large)
    per_tuple = (long - short) / (many - few)
    seconds = {f"{tuples:.0f}": [taken for _, taken in timed.batch_seconds()] for tuples, timed in ((few, in_small), (many, in_large))}
    return Outcome(
        [
            Measure("seconds of a batch without tuples", short - per_tuple * few, "s", at_most=0.7, goal=0.5),
            Measure("seconds of a further million tuples", 1e6 * per_tuple, "s"),
        ],
        {
            "seconds_per_batch": seconds,
            "where_the_time_goes": {"small batches": in_small.phases(), "large batches": in_large.phases()},
        },
    )


def _typical_batch(timed: Timed) -> tuple[float, float]:
    """Tuples and seconds of a batch, the medians; the first batch also starts the query and is left out."""
    batches = timed.batch_seconds()[1:]
    return median(tuples for tuples, _ in batches), median(seconds for _, seconds in batches)
