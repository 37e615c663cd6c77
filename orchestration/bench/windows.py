"""Many windows at once: 1 to 1,000 tumbling queries that share slices, and how much slower they are than one.

Lengths go from 1 s to 20 s in turn, so that all edges lie on whole seconds: slices are the same for any number of queries, and
what grows is what is written. Results dominate where writing them takes longer than everything else.
"""

from __future__ import annotations

from typing import Any

from orchestration.bench.replays import replayed, typical, warm
from orchestration.bench.report import Measure, Outcome
from orchestration.bench.runner import Bench
from orchestration.bench.streams import DISORDERED

ABOUT = "1, 10, 100, 1000 tumbling queries of 1 to 20 s over the same stream: speed beside one query, and rows of results per tuple"
_QUERIES = (1, 10, 100, 1000)
_ROWS_PER_TUPLE = 0.01
"""From so many rows of results per tuple on the target no longer holds: a row costs many times what a tuple does."""


def run(bench: Bench) -> Outcome:
    """Replay the same tuples with more and more queries."""
    log = bench.log(DISORDERED, bench.scale.tuples)
    tuples = max(bench.scale.tuples // 4, 1)
    measures, details = [], dict[str, Any]()
    alone = 0.0
    for count in _QUERIES:
        warm(bench, spec(count), DISORDERED)
        timed = typical([replayed(bench, spec(count), log, f"{count:,} queries", tuples=tuples) for _ in range(bench.scale.repeats)])
        alone = alone or timed.speed
        rows = timed.replayed.progress.results / timed.tuples
        if count > 1:
            target = 0.9 if rows < _ROWS_PER_TUPLE else None
            measures.append(Measure(f"speed with {count:,} queries beside one", timed.speed / alone, at_least=target))
        details[f"{count} queries"] = {
            "million_tuples_per_second": timed.speed / 1e6,
            "processor_seconds_per_million_tuples": timed.processor_seconds / timed.tuples * 1e6,
            "results_per_tuple": rows,
            "results_per_second": timed.replayed.progress.results / timed.seconds,
            "state_bytes": timed.state_bytes,
            "where_the_time_goes": timed.phases(),
        }
    return Outcome(measures, details)


def spec(count: int) -> dict[str, Any]:
    """So many tumbling queries, their lengths in turn."""
    aggregates = [{"kind": "count"}, {"kind": "sum", "column": "v"}]
    queries = [
        {"name": f"q{n:04d}", "window": {"kind": "tumbling", "length": f"{n % 20 + 1}s"}, "aggregates": aggregates} for n in range(count)
    ]
    return {"technique": "slicing", "delay": "2s", "queries": queries}
