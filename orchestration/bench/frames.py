"""Frames by a threshold with a least duration over an in-order stream, beside sliding windows and Spark SQL's gaps and islands.

Values are waves of four seconds with a little noise: a run above zero has some 1,250 tuples of its key, and where the wave
crosses zero the noise makes a few runs of one or two tuples, which the least duration leaves out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from orchestration.bench import duck, spark_own
from orchestration.bench.replays import Timed, published, sliding_spec, warm, warm_log
from orchestration.bench.report import Measure, Outcome
from orchestration.bench.runner import Bench
from orchestration.bench.streams import DISORDERED, WAVES
from orchestration.bench.timing import Taken, in_turn, told, typical

ABOUT = "frames of v > 0 of at least 100 ms, count + mean, 16 keys, in order: beside sliding windows and Spark SQL's gaps and islands"
MIN_DURATION_US = 100_000


def run(bench: Bench) -> Outcome:
    """Compare on a short stream, then measure."""
    scale, short = bench.scale, warm_log(bench, WAVES)
    warm(bench, sliding_spec(), DISORDERED)
    islands = spark_own.islands(bench, short, short.end, "to warm up and compare", min_duration_us=MIN_DURATION_US)
    rows = _compare(warm(bench, spec(), WAVES), islands)
    log, beside = bench.log(WAVES, scale.tuples), bench.log(DISORDERED, scale.tuples)
    actions: dict[str, Callable[[], Taken]] = {
        "reprise": lambda: published(bench, spec(), log, "frames"),
        "sliding": lambda: published(bench, sliding_spec(), beside, "sliding windows"),
        "spark_sql": lambda: spark_own.islands(bench, log, scale.spark_tuples, "frames", min_duration_us=MIN_DURATION_US),
    }
    runs = in_turn(scale.repeats, actions)
    ours, sliding, own = typical(runs).values()
    frames = ours.results()
    return Outcome(
        [
            Measure("speed beside sliding windows", ours.speed / sliding.speed, at_least=0.6),
            Measure("speed beside Spark SQL's gaps and islands", ours.speed / own.speed, at_least=3),
            Measure("speed", ours.speed / 1e6, "M tuples/s"),
        ],
        {
            **told(runs),
            "frames": frames.num_rows,
            "tuples_of_a_frame": sum(frames["tuples"].to_pylist()) / max(frames.num_rows, 1),
            "rows_equal_to_spark_sql": rows,
        },
    )


def spec() -> dict[str, Any]:
    """Frames of positive values."""
    frame = {"kind": "threshold", "where": "v > 0", "min_duration": f"{MIN_DURATION_US // 1000}ms"}
    return {"technique": "frames", "frame": frame, "aggregates": [{"kind": "count"}, {"kind": "mean", "column": "v"}]}


def _compare(ours: Timed, own: spark_own.Own) -> int:
    rows = ours.results()
    for name in ("start", "end"):
        rows = rows.append_column(f"{name}_us", rows[name].cast(pa.int64()))
    return duck.agree(
        "frames, ours and Spark SQL's", rows, own.results(), identity=["key", "start_us"], exact=["end_us", "tuples"], close=["mean_v"]
    )
