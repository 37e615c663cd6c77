"""Frames by a threshold with a least duration over an in-order stream, beside sliding windows and Spark SQL's gaps and islands.

Values are waves of four seconds with a little noise: a run above zero has some 1,250 tuples of its key, and where the wave
crosses zero the noise makes a few runs of one or two tuples, which the least duration leaves out.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from orchestration.bench import duck, spark_own
from orchestration.bench.replays import Timed, processor_seconds, published, sliding_runs, typical, warm, warm_log
from orchestration.bench.report import Measure, Outcome
from orchestration.bench.runner import Bench
from orchestration.bench.streams import WAVES

ABOUT = "frames of v > 0 of at least 100 ms, count + mean, 16 keys, in order: beside sliding windows and Spark SQL's gaps and islands"
MIN_DURATION_US = 100_000


def run(bench: Bench) -> Outcome:
    """Compare on a short stream, then measure."""
    short = warm_log(bench, WAVES)
    islands = spark_own.islands(bench, short, short.end, "to warm up and compare", min_duration_us=MIN_DURATION_US)
    rows = _compare(warm(bench, spec(), WAVES), islands)
    log = bench.log(WAVES, bench.scale.tuples)
    runs = [published(bench, spec(), log, "frames") for _ in range(bench.scale.repeats)]
    own = spark_own.islands(bench, log, bench.scale.spark_tuples, "frames", min_duration_us=MIN_DURATION_US)
    ours, beside = typical(runs), typical(sliding_runs(bench))
    frames = ours.results()
    return Outcome(
        [
            Measure("speed beside sliding windows", ours.speed / beside.speed, at_least=0.6),
            Measure("speed beside Spark SQL's gaps and islands", ours.speed / own.speed, at_least=3),
            Measure("speed", ours.speed / 1e6, "M tuples/s"),
        ],
        {
            "million_tuples_per_second": {"reprise": ours.speed / 1e6, "sliding": beside.speed / 1e6, "spark_sql": own.speed / 1e6},
            "seconds": {"reprise": [timed.seconds for timed in runs], "spark_sql": [own.seconds]},
            "processor_seconds_per_million_tuples": processor_seconds(reprise=ours, sliding=beside, spark_sql=own),
            "where_the_time_goes": ours.phases(),
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
