"""Spark's own operators on the same files: streaming windows, and gaps and islands in batch.

Written the way Spark is fast: no Python, one shuffle partition per core, Parquet in and out, and batches as large as ours. The
state store is Spark's default, in memory; RocksDB took the same time. The same session runs our replays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from orchestration.bench.runner import Bench
from orchestration.bench.timing import Taken
from replay.log import Log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
_IN_MEMORY = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_PARTITIONS = "spark.sql.shuffle.partitions"
_ISLANDS = """
    SELECT key, unix_micros(min(ts)) AS start_us, unix_micros(max(ts)) AS end_us, count(*) AS tuples, avg(v) AS mean_v
    FROM (
        SELECT *, sum(changes) OVER (PARTITION BY key ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS run
        FROM (
            SELECT key, ts, v, v > 0 AS holds,
                coalesce(CAST((v > 0) <> lag(v > 0) OVER (PARTITION BY key ORDER BY ts) AS int), 0) AS changes
            FROM waves
        )
    )
    WHERE holds
    GROUP BY key, run
    HAVING end_us - start_us >= {min_duration_us}
"""


@dataclass(frozen=True)
class Own(Taken):
    """What one of Spark's own operators did."""

    written: Path
    """The folder of Parquet files that it wrote."""
    state_rows: int = 0
    """The most rows of state between two batches."""
    state_bytes: int = 0

    def results(self) -> pa.Table:
        """The rows that it wrote."""
        return pq.read_table(self.written)

    def details(self) -> dict[str, Any]:
        """State, if it keeps any."""
        return {"state_bytes": self.state_bytes, "state_rows": self.state_rows}


def sliding(bench: Bench, log: Log, tuples: int, what: str, *, slide: str = "1 second", batch_tuples: int | None = None) -> Own:
    """Spark's own sliding windows over the first files of a log: streaming, append mode, watermark of two seconds, to Parquet."""
    from pyspark.sql import functions as f

    first = Files.of(bench, log, tuples)
    folder = bench.folder("spark-sliding")
    with _settings(bench), bench.step(f"Spark's own windows: {what}, {first.tuples:,} tuples") as step:
        columns = "arrival long, arrived long, clock long, ts timestamp, key {}, v double".format(
            "string" if str(log.schema.field("key").type) == "string" else "int"
        )
        reader = bench.spark.readStream.schema(columns).option(
            "maxFilesPerTrigger", _files_of(bench, batch_tuples or bench.scale.batch_tuples)
        )
        windows = (
            reader.parquet(str(first.folder)).withWatermark("ts", "2 seconds").groupBy(f.window("ts", "20 seconds", slide), "key")
            .agg(f.count("*").alias("count"), f.sum("v").alias("sum_v"), f.min("v").alias("min_v"), f.max("v").alias("max_v"))
            .withColumn("window_end", f.unix_micros("window.end")).drop("window")
        )  # fmt: skip
        writer = windows.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint")).outputMode("append")
        query = writer.option("path", str(folder / "results")).trigger(availableNow=True).start()
        query.awaitTermination()
    states: Sequence[Mapping[str, Any]] = [batch["stateOperators"][0] for batch in query.recentProgress]
    return Own(
        first.tuples, step.seconds, step.processor_seconds, folder / "results",
        state_rows=max(state["numRowsTotal"] for state in states), state_bytes=max(state["memoryUsedBytes"] for state in states),
    )  # fmt: skip


def islands(bench: Bench, log: Log, tuples: int, what: str, *, min_duration_us: int) -> Own:
    """Frames of `v > 0` by Spark SQL in batch: a run begins where the predicate changes, and its number groups it."""
    first = Files.of(bench, log, tuples)
    folder = bench.folder("spark-islands")
    with _settings(bench), bench.step(f"Spark SQL's gaps and islands: {what}, {first.tuples:,} tuples") as step:
        bench.spark.read.parquet(str(first.folder)).createOrReplaceTempView("waves")
        bench.spark.sql(_ISLANDS.format(min_duration_us=int(min_duration_us))).write.parquet(str(folder / "results"))
    return Own(first.tuples, step.seconds, step.processor_seconds, folder / "results")


@dataclass(frozen=True)
class Files:
    """The first files of a log in a folder of their own: Spark reads folders."""

    folder: Path
    paths: Sequence[Path]
    tuples: int

    @classmethod
    def of(cls, bench: Bench, log: Log, tuples: int) -> Files:
        """As many files as hold so many tuples; links, so that they are the very same files."""
        count = int((log.first < tuples).sum())
        folder = bench.folder("files")
        paths = [folder / Path(path).name for path in log.paths[:count]]
        for path, original in zip(paths, log.paths, strict=False):
            path.hardlink_to(Path(log.address) / original)
        return cls(folder, paths, int(log.rows[:count].sum()))


def _files_of(bench: Bench, tuples: int) -> int:
    return max(tuples // bench.scale.file_tuples, 1)


@contextmanager
def _settings(bench: Bench) -> Iterator[None]:
    """The settings that suit Spark's own operators, for the time of a block."""
    spark: SparkSession = bench.spark
    wanted = {_STATE_STORE: _IN_MEMORY, _PARTITIONS: str(bench.scale.cores)}
    before = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, known in before.items():
            if known is not None:
                spark.conf.set(name, known)
