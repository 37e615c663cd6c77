"""Sliding windows with disorder, from the log to published results: the main number, and where the time goes.

Beside Spark's own streaming windows and DuckDB in batch, on the same files. The results are compared with theirs, row by row.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from orchestration.bench import duck, spark_own
from orchestration.bench.replays import processor_seconds, sliding_runs, typical, warm_log
from orchestration.bench.report import Measure, Outcome
from orchestration.bench.runner import Bench
from orchestration.bench.streams import DISORDERED

ABOUT = "sliding 20 s / 1 s, count + sum + min + max, 16 keys, 20 % disorder, log to published results: beside Spark's own and DuckDB"


def run(bench: Bench) -> Outcome:
    """Measure ours, Spark's own and DuckDB, and compare the results."""
    runs = sliding_runs(bench)
    log = bench.log(DISORDERED, bench.scale.tuples)
    batches = [duck.sliding(bench, log, "sliding windows") for _ in range(bench.scale.repeats)]
    spark_own.sliding(bench, warm_log(bench, DISORDERED), bench.scale.spark_tuples, "to warm up")
    own = spark_own.sliding(bench, log, bench.scale.spark_tuples, "sliding windows")
    ours, batch = typical(runs), typical(batches)
    expected = batches[0].results()
    equal = compare("windows, ours and DuckDB's", in_microseconds(ours.results()), expected)
    # Spark's own never writes the windows at the end of a stream, for it has no flush.
    decided = own.results()
    compare("windows, Spark's own and DuckDB's", decided, expected.filter(pc.field("window_end") <= pc.max(decided["window_end"])))
    return Outcome(
        [
            Measure("speed beside Spark's own windows", ours.speed / own.speed, at_least=15, goal=20),
            Measure("speed beside DuckDB in batch", ours.speed / batch.speed, at_least=0.2, goal=0.25),
            Measure("speed", ours.speed / 1e6, "M tuples/s"),
        ],
        {
            "million_tuples_per_second": {"reprise": ours.speed / 1e6, "spark": own.speed / 1e6, "duckdb": batch.speed / 1e6},
            "seconds": {"reprise": [timed.seconds for timed in runs], "spark": [own.seconds], "duckdb": [each.seconds for each in batches]},
            "processor_seconds_per_million_tuples": processor_seconds(reprise=ours, spark=own, duckdb=batch),
            "where_the_time_goes": ours.phases(),
            "state_bytes": {"reprise": ours.state_bytes, "spark": own.state_bytes},
            "rows_equal_to_duckdb": equal,
        },
    )


def in_microseconds(results: pa.Table) -> pa.Table:
    """Rows of slicing with `window_end` as other systems are asked for it."""
    return results.drop_columns("window_end").rename_columns({"measure_end": "window_end"})


def compare(what: str, ours: pa.Table, theirs: pa.Table) -> int:
    """Make sure that windows are equal; tells how many there are."""
    return duck.agree(what, ours, theirs, identity=["key", "window_end"], exact=["count", "min_v", "max_v"], close=["sum_v"])
