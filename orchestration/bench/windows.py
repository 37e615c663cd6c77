"""Many windows at once: 1 to 1,000 tumbling queries that share slices, and how much slower they are than one.

Lengths go from 1 s to 20 s in turn, so that all edges lie on whole seconds: slices are the same for any number of queries, and
what grows is what is written. Results dominate where lowering takes longer than lifting.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from orchestration.bench.replays import batch_speed, replayed, warm
from orchestration.bench.report import Measure, Outcome
from orchestration.bench.runner import Bench
from orchestration.bench.streams import DISORDERED
from orchestration.bench.timing import in_turn, told

ABOUT = "1, 10, 100, 1000 tumbling queries of 1 to 20 s over the same stream: speed beside one query, and rows of results per tuple"
_QUERIES = (1, 10, 100, 1000)
_FEW_ROWS = 0.1
"""From so many rows of results per tuple on the target no longer holds: a row costs many times what a tuple does."""


def run(bench: Bench) -> Outcome:
    """Replay the same tuples with more and more queries."""
    log = bench.log(DISORDERED, bench.scale.tuples)
    warm(bench, spec(max(_QUERIES)), DISORDERED)
    # Twice as often as others: what is looked for is a tenth, and a batch alone varies by more.
    runs = in_turn(
        2 * bench.scale.repeats,
        {f"{count} queries": partial(replayed, bench, spec(count), log, f"{count:,} queries") for count in _QUERIES},
    )
    (_, one), *more = runs.items()
    measures = []
    for name, several in more:
        rows = several[0].results_per_tuple
        target = 0.9 if rows < _FEW_ROWS else None
        measures.append(Measure(f"speed of batches with {name} beside one", batch_speed(several) / batch_speed(one), at_least=target))
        measures.append(Measure(f"rows of results per tuple with {name}", rows, "rows"))
    return Outcome(measures, told(runs))


def spec(count: int) -> dict[str, Any]:
    """So many tumbling queries, their lengths in turn."""
    aggregates = [{"kind": "count"}, {"kind": "sum", "column": "v"}]
    queries = [
        {"name": f"q{n:04d}", "window": {"kind": "tumbling", "length": f"{n % 20 + 1}s"}, "aggregates": aggregates} for n in range(count)
    ]
    return {"technique": "slicing", "delay": "2s", "queries": queries}
