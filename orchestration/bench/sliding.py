"""Sliding windows with disorder, from the log to published results: the main number, and where the time goes.

Beside Spark's own streaming windows and DuckDB in batch, on the same files. The results are compared with theirs, row by row.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from orchestration.bench import duck, spark_own
from orchestration.bench.replays import published, sliding_spec, warm, warm_log
from orchestration.bench.report import Measure, Outcome
from orchestration.bench.runner import Bench
from orchestration.bench.streams import DISORDERED
from orchestration.bench.timing import in_turn, told, typical

ABOUT = "sliding 20 s / 1 s, count + sum + min + max, 16 keys, 20 % disorder, log to published results: beside Spark's own and DuckDB"


def run(bench: Bench) -> Outcome:
    """Measure ours, Spark's own and DuckDB, and compare the results."""
    scale = bench.scale
    warm(bench, sliding_spec(), DISORDERED)
    spark_own.sliding(bench, warm_log(bench, DISORDERED), scale.spark_tuples, "to warm up")
    log = bench.log(DISORDERED, scale.tuples)
    ours = in_turn(scale.repeats, {"reprise": lambda: published(bench, sliding_spec(), log, "sliding windows")})
