"""What a batch costs however few tuples it has: the intercept of seconds over tuples.

From the medians of many small batches and of some ten times as large, of the same log and specification.
"""

from __future__ import annotations

from functools import partial
from statistics import median

from orchestration.bench.replays import replayed, sliding_spec, warm
from orchestration.bench.report import Measure, Outcome
from orchestration.bench.runner import Bench
from orchestration.bench.streams import DISORDERED
from orchestration.bench.timing import in_turn, told

ABOUT = "seconds of a batch without tuples: the intercept from batches of 1 M and 10 M tuples"
_BATCHES = {"small": 8, "large": 6}


def run(bench: Bench) -> Outcome:
    """Replay the same log in small and in large batches."""
    log = bench.log(DISORDERED, bench.scale.tuples)
    warm(bench, sliding_spec(), DISORDERED)
    tuples = {"small": max(log.end // 100, 1), "large": max(log.end // 10, 1)}
    actions = {
        name: partial(replayed, bench, sliding_spec(), log, f"batches of {size:,}", tuples=_BATCHES[name] * size, batch_tuples=size)
        for name, size in tuples.items()
    }
    runs = in_turn(bench.scale.repeats, actions)
    # The first batch of a query also starts it, and is left out.
    seconds = {name: [taken for timed in taken_by for _, taken in timed.batch_seconds()[1:]] for name, taken_by in runs.items()}
    small, large = (median(taken) for taken in seconds.values())
    per_tuple = (large - small) / (tuples["large"] - tuples["small"])
    return Outcome(
        [
            Measure("seconds of a batch without tuples", small - per_tuple * tuples["small"], "s", at_most=0.7, goal=0.5),
            Measure("seconds of a further million tuples", 1e6 * per_tuple, "s"),
        ],
        {"tuples_of_a_batch": tuples, "seconds_of_batches": seconds, **told(runs)},
    )
