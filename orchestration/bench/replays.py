"""Our side of every comparison: a replay from the log, timed, and where its time went.

Published replays take the whole way, from the log to the days of `results/`; others end in the run's own tables. Both keep
state, checkpoint and commits as every replay does. Nothing is tuned here but the tuples of a batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from orchestration.bench.runner import Bench
from orchestration.bench.streams import Stream
from orchestration.bench.timing import Taken
from replay.backfill import backfill
from replay.file_slices import file_slices
from replay.log import Log
from replay.progress import Progress
from replay.reading import read_piece
from replay.runs import Replayed, execute, new_run_id, plan_run
from replay.span import whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_SPARKS_OWN = ("latestOffset", "getBatch", "queryPlanning", "walCommit", "commitOffsets", "commitBatch")
_FILES_READ = 3


def sliding_spec(length: str = "20s", slide: str = "1s") -> dict[str, Any]:
    """Count, sum, least and greatest over sliding windows, two seconds of disorder allowed."""
    aggregates = [{"kind": "count"}, *({"kind": kind, "column": "v"} for kind in ("sum", "min", "max"))]
    window = {"kind": "sliding", "length": length, "slide": slide}
    return {"technique": "slicing", "delay": "2s", "queries": [{"name": "q", "window": window, "aggregates": aggregates}]}


@dataclass(frozen=True)
class Timed(Taken):
    """A replay."""

    replayed: Replayed
    publish_seconds: float
    address: str
    """Where the results are."""
    batches: Sequence[Mapping[str, Any]]
    """Spark's progress of each batch."""

    @property
    def batch_speeds(self) -> list[float]:
        """Tuples per second of each batch but the first, which also starts the query: that takes the same second for any stream."""
        batches = self.batch_seconds()
        return [tuples / seconds for tuples, seconds in batches[1:] or batches]

    @property
    def state_bytes(self) -> int:
        """The most that was kept between two batches."""
        return int(max(self.replayed.metrics()["state_bytes"].to_pylist()))

    @property
    def results_per_tuple(self) -> float:
        """How much there was to write."""
        return self.replayed.progress.results / self.tuples

    def results(self) -> pa.Table:
        """The rows that it wrote."""
        table = self.replayed.plan.lake.table(self.address)
        assert table is not None  # noqa: S101 - it was just written
        return table.to_pyarrow_table()

    def details(self) -> dict[str, Any]:
        """State, results and where the time went."""
        return {
            "million_tuples_per_second_of_batches": median(self.batch_speeds) / 1e6,
            "state_bytes": self.state_bytes,
            "results_per_tuple": self.results_per_tuple,
            "where_the_time_goes": self.phases(),
        }

    def batch_seconds(self) -> list[tuple[int, float]]:
        """Tuples and seconds of each batch that had tuples."""
        tuples = self.replayed.metrics()
        known = dict(zip(tuples["batch"].to_pylist(), tuples["tuples"].to_pylist(), strict=True))
        seconds = {batch["batchId"]: batch["durationMs"]["triggerExecution"] / 1000 for batch in self.batches}
        return [(known[batch], taken) for batch, taken in sorted(seconds.items()) if known.get(batch)]

    def phases(self) -> dict[str, dict[str, float]]:
        """Where the time went: seconds of the clock, which add up; of tasks, of which several run at a time; of the median batch."""
        metrics, batches = self.replayed.metrics(), [batch["durationMs"] for batch in self.batches]
        triggers = sum(batch["triggerExecution"] for batch in batches) / 1000
        own = sum(batch.get(part, 0) for batch in batches for part in _SPARKS_OWN) / 1000
        clock = {
            "tasks_and_commits": triggers - own,
            "planning_and_checkpoint": own,
            "publish": self.publish_seconds,
            "start_and_stop": self.seconds - triggers - self.publish_seconds,
        }
        tasks = {name: sum(metrics[f"{name}_seconds"].to_pylist()) for name in ("lift", "combine", "lower")}
        tasks["read_estimated"] = self._read_seconds()
        parts = sorted({part for batch in batches for part in batch})
        batch = {part: median(batch.get(part, 0) for batch in batches) / 1000 for part in parts}
        return {"clock": _rounded(clock), "tasks": _rounded(tasks), "batch": _rounded(batch)}

    def _read_seconds(self) -> float:
        """What reading the files' columns takes one core, from reading a few of them here."""
        plan = self.replayed.plan
        (name, log), *_ = plan.logs.items()
        slices = file_slices(name, log, 0, min(self.tuples, log.end))[:_FILES_READ]
        begun = time.process_time()
        for part in slices:
            read_piece(plan.lake, part, plan.operator, plan.schema, plan.engine.clock(name))
        return (time.process_time() - begun) / sum(part.take for part in slices) * self.tuples


def published(bench: Bench, spec: Mapping[str, Any], log: Log, what: str) -> Timed:
    """A replay of all days of a log in a single run, and their publication."""
    spark, name = bench.spark, log.address.rsplit("/", 1)[-1]
    with bench.step(f"replay and publish: {what}", log.end) as step:
        watch = _Watch(spark, step.advance)
        (done,) = backfill(spark, bench.lake, spec, [name], on_progress=watch, batch_tuples=bench.scale.batch_tuples, publish=new_run_id())
        publish_seconds = time.perf_counter() - watch.last
    replayed = Replayed(done.plan, done.progress)
    return Timed(log.end, step.seconds, step.processor_seconds, replayed, publish_seconds, done.publication.address, watch.batches())


def replayed(
    bench: Bench, spec: Mapping[str, Any], log: Log, what: str, *, tuples: int | None = None, batch_tuples: int | None = None
) -> Timed:
    """A replay of the first tuples of a log into the tables of its run."""
    spark, name = bench.spark, log.address.rsplit("/", 1)[-1]
    span = whole({name: log}, last=min(tuples or log.end, log.end))
    plan = plan_run(bench.lake, spec, [name], early=False, span=span, batch_tuples=batch_tuples or bench.scale.batch_tuples)
    with bench.step(f"replay: {what}", span.end[name]) as step:
        watch = _Watch(spark, step.advance)
        done = execute(spark, plan, on_progress=watch)
    address = bench.lake.address("runs", plan.run, "results")
    return Timed(span.end[name], step.seconds, step.processor_seconds, done, 0.0, address, watch.batches())


def batch_speed(runs: Sequence[Timed]) -> float:
    """Tuples per second of the median batch of some runs."""
    return median(speed for run in runs for speed in run.batch_speeds)


def warm(bench: Bench, spec: Mapping[str, Any], stream: Stream) -> Timed:
    """A small replay before the one that counts: JVM, Python workers and compiled kernels are there then."""
    return published(bench, spec, warm_log(bench, stream), "to warm up")


def warm_log(bench: Bench, stream: Stream) -> Log:
    """A short log of the same kind."""
    return bench.log(stream, max(bench.scale.tuples // 100, 10_000))


@dataclass
class _Watch:
    """Notes when a run told of its last batch, and holds on to the query that Spark's own numbers are asked of."""

    spark: SparkSession
    advance: Callable[[int], None]
    last: float = 0.0
    tuples: int = 0
    query: StreamingQuery | None = None

    def __call__(self, progress: Progress) -> None:
        self.last = time.perf_counter()
        self.advance(progress.tuples - self.tuples)
        self.tuples = progress.tuples
        if self.query is None:
            self.query = next(iter(self.spark.streams.active), None)

    def batches(self) -> list[dict[str, Any]]:
        """Spark's progress of each batch."""
        return [dict(batch) for batch in self.query.recentProgress] if self.query is not None else []


def _rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in seconds.items()}
