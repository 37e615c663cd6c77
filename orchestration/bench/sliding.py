"""Sliding windows with disorder, from the log to published results: the main number, and where the time goes.

Beside Spark's own streaming windows and DuckDB in batch, on the same files. The results are compared with theirs, row by row.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from orchestration.bench import duck, spark_own
from orchestration.bench.replays import published, sliding_spec, warm, warm_log
from orchestration.bench.report import Measure, Outcome
from orchestration.bench.runner import Bench
from orchestration.bench.streams import DISORDERED
from orchestration.bench.timing import Taken, in_turn, told, typical

ABOUT = "sliding 20 s / 1 s, count + sum + min + max, 16 keys, 20 % disorder, log to published results: beside Spark's own and DuckDB"


def run(bench: Bench) -> Outcome:
    """Measure ours, Spark's own and DuckDB, and compare the results."""
    scale, what = bench.scale, "sliding windows"
    warm(bench, sliding_spec(), DISORDERED)
    spark_own.sliding(bench, warm_log(bench, DISORDERED), scale.spark_tuples, "to warm up")
    log = bench.log(DISORDERED, scale.tuples)
    actions: dict[str, Callable[[], Taken]] = {
        "reprise": lambda: published(bench, sliding_spec(), log, what),
        "duckdb": lambda: duck.sliding(bench, log, what),
        "spark": lambda: spark_own.sliding(bench, log, scale.spark_tuples, what),
    }
    runs = in_turn(scale.repeats, actions)
    ours, batch, own = typical(runs).values()
    expected, decided = batch.results(), own.results()
    equal = compare("windows, ours and DuckDB's", in_microseconds(ours.results()), expected)
    # Spark's own never writes the windows at the end of a stream, for it has no flush.
    compare("windows, Spark's own and DuckDB's", decided, expected.filter(pc.field("window_end") <= pc.max(decided["window_end"])))
    return Outcome(
        [
            Measure("speed beside Spark's own windows", ours.speed / own.speed, at_least=15, goal=20),
            Measure("speed beside DuckDB in batch", ours.speed / batch.speed, at_least=0.2, goal=0.25),
            Measure("speed", ours.speed / 1e6, "M tuples/s"),
        ],
        {**told(runs), "rows_equal_to_duckdb": equal},
    )


def in_microseconds(results: pa.Table) -> pa.Table:
    """Rows of slicing with `window_end` as other systems are asked for it."""
    return results.drop_columns("window_end").rename_columns({"measure_end": "window_end"})


def compare(what: str, ours: pa.Table, theirs: pa.Table) -> int:
    """Make sure that windows are equal; tells how many there are."""
    return duck.agree(what, ours, theirs, identity=["key", "window_end"], exact=["count", "min_v", "max_v"], close=["sum_v"])
