"""Runs: a plan carried out on Spark, watched, stopped, resumed.

A run keeps its plan, its checkpoint and its outputs in its own folder and writes nowhere else but to the lake's metrics, so a
run that fails or is cancelled changes nothing that anyone reads. Which days are published is decided in `publish.py`.
"""

from __future__ import annotations

import json
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from engines import build
from engines.contract import BEGINNING, FOREVER
from engines.spec import SpecError, TechniqueSpec
from replay.claims import claimed
from replay.finals import final_rows
from replay.interrupts import interrupts_noted
from replay.lake import Lake, LakeError
from replay.lifting import late_schema
from replay.log import Log
from replay.metrics import metrics_of
from replay.outputs import create_tables
from replay.plan import PLAN, Plan, columns_of, serialised
from replay.processor import Processor
from replay.progress import STATUS, Progress, Watch, finished, note_status
from replay.sink import commit_batch, settle
from replay.span import Span, whole

_POLL_SECONDS = 0.1
_LOCAL_CHECKPOINTS = (
    "spark.sql.streaming.checkpointFileManagerClass",
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
)
"""In a folder Spark's default manager starts 40 processes a batch (`readlink`, `chmod`), one after the other; this one starts 8."""
_SETTING = threading.Lock()
"""Queries of one session start one after the other: each would take the settings of the other, or put them back."""
_GONE = "Spark's JVM has ended, killed perhaps for want of memory"
_RAISED = re.compile(r"[A-Za-z_][\w.]*\.?[A-Z]\w*: \S")
_WRAPPERS = ("py4j.", "pyspark.", "org.", "java.", "Py4J", "Caused by", "Traceback", "SQLSTATE")
"""How lines begin that tell where a failure passed through, not what it was."""


class RunError(RuntimeError):
    """A run that could not be carried out, told in one sentence."""


@dataclass(frozen=True)
class Replayed:
    """A run that came to its end."""

    plan: Plan
    progress: Progress

    def table(self, output: str = "results") -> pa.Table:
        """All rows of an output, early ones too."""
        table = self.plan.lake.table(self.plan.output(output))
        if table is None:
            raise LakeError(f"run {self.plan.run}: it has no output '{output}'.")
        return table.to_pyarrow_table()

    def final(self, output: str = "results") -> pa.Table:
        """The rows of an output that can no longer change."""
        reached = FOREVER if self.plan.span.flush else pc.max(self.metrics()["final_watermark"].cast(pa.int64())).as_py()
        return final_rows(self.table(output), self.plan.operator.identity[output], BEGINNING if reached is None else reached)

    def metrics(self) -> pa.Table:
        """A row per batch."""
        return metrics_of(self.plan.lake, self.plan.run)


def new_run_id() -> str:
    """A name that no other run has, in order of time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"


def plan_run(
    lake: Lake,
    spec: Mapping[str, Any] | TechniqueSpec,
    streams: Sequence[str],
    *,
    run: str | None = None,
    span: Span | None = None,
    flush: bool = True,
    **settings: Any,
) -> Plan:
    """The plan of a replay of streams, of all of their logs as they are now unless a span is given.

    Args:
        lake: where the logs are and the results go.
        spec: the specification.
        streams: names of streams, or paths of logs inside the lake.
        run: the run's name; a new one if there is none.
        span: the part of the logs to read.
        flush: whether a replay of the whole log ends with a flush.
        settings: further settings of `Plan`.
    """
    document = build(spec).spec.document()  # a wrong specification is told before anything is opened
    names = [path.rstrip("/").rsplit("/", 1)[-1] for path in streams]
    if len(set(names)) != len(names) or not names:
        raise SpecError(f"streams: {list(streams)} given; allowed are one or several with different names.")
    logs = {name: Log.open(lake, stream_address(lake, path)) for name, path in zip(names, streams, strict=True)}
    columns = columns_of(logs)
    late_schema(columns)  # refused before anything is written, like all else
    pinned = {name: (log.address, log.version) for name, log in logs.items()}
    settings = {"buckets": os.cpu_count() or 1, "tasks": os.cpu_count() or 1, **settings}
    plan = Plan(
        run=new_run_id() if run is None else run, spec=document, lake=lake, streams=pinned, span=span or whole(logs, flush=flush),
        columns=serialised(columns), log_ids={name: log.id for name, log in logs.items()}, **settings,
    )  # fmt: skip
    if plan.operator.one_bucket:
        plan = replace(plan, buckets=1)
    return plan


def stream_address(lake: Lake, name: str) -> str:
    """The log of a stream, by its name or by a path in the lake."""
    return lake.inside(name) if "/" in name else lake.address("streams", name)


def execute(spark: SparkSession, plan: Plan, *, on_progress: Callable[[Progress], None] | None = None) -> Replayed:
    """Carry a plan out, or go on where an earlier process left it.

    An interrupt (ctrl-C, Dagster's Terminate) stops the run cleanly and is raised again; the next call with the same plan resumes it.
    `on_progress` is called after batches, and at the end.
    """
    _ = plan.logs  # other logs than those that it was planned for are refused before Spark asks for them
    refuse_used_name(plan)  # before its folder is made
    watch = Watch(plan)
    with claimed(plan.lake, plan.folder), interrupts_noted() as interrupted:
        query = _start(spark, plan, watch)
        note_status(plan, "running")
        _follow(query, plan, watch, on_progress, interrupted)
        if not finished(plan, metrics_of(plan.lake, plan.run)):
            note_status(plan, "cancelled")
            raise RunError(f"run {plan.run}: its query was stopped before its end, though not by this process; resume the run.")
        settle(plan.lake, plan.run)
        note_status(plan, "succeeded")
        progress = watch.progress()
        if on_progress:
            on_progress(progress)
    return Replayed(plan, progress)


def _follow(
    query: StreamingQuery, plan: Plan, watch: Watch, on_progress: Callable[[Progress], None] | None, interrupted: threading.Event
) -> None:
    """Wait for the end of a run, and note how it came to it."""
    try:
        while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type]
            if interrupted.is_set():
                raise KeyboardInterrupt
            if on_progress and watch.news():
                on_progress(watch.progress())
            if plan.speed is not None and watch.ended(query):
                query.stop()
    except StreamingQueryException as problem:
        cause = cause_of(problem)
        note_status(plan, "failed", reason=cause, details=str(problem))
        raise RunError(f"run {plan.run}: it failed ({cause}); put right what it says and resume the run.") from problem
    except BaseException as problem:
        try:
            query.stop()
        except Exception:  # nobody is there to be told
            if not isinstance(problem, KeyboardInterrupt):
                note_status(plan, "failed", reason=_GONE, details=str(problem))
                raise RunError(f"run {plan.run}: it failed ({_GONE}); resume the run.") from problem
        note_status(plan, "cancelled")
        raise


def load_plan(lake: Lake, run: str) -> Plan:
    """The plan of a run that was begun."""
    document = lake.read_json(lake.address("runs", run), PLAN)
    if document is None:
        raise LakeError(f"run {run}: there is none in {lake.root}.")
    return Plan.from_json(
        json.dumps({**document, "lake": {"root": document["lake"]["root"], "storage_options": dict(lake.storage_options)}})
    )


def refuse_used_name(plan: Plan) -> None:
    """Refuse the name of a run that is gone: the metrics know how far it came, and would take nothing of another one."""
    metrics = plan.lake.table(plan.lake.metrics)
    if metrics is None or metrics.transaction_version(plan.run) is None or plan.lake.read_json(plan.folder, PLAN) is not None:
        return
    raise RunError(f"run {plan.run}: the lake's metrics know a run of this name, which is gone; give this one another name.")


def _keep_plan(plan: Plan) -> None:
    """Write the plan down, or make sure that the run's folder belongs to this very plan."""
    known = plan.lake.read_json(plan.folder, PLAN)
    document = json.loads(plan.to_json())
    for written in filter(None, (known, document)):
        written["lake"].pop("storage_options", None)  # keys to a store are no one's to read, and may be others when a run goes on
    if known is None:
        refuse_used_name(plan)
        plan.lake.write_json(plan.folder, PLAN, document)
    elif known != document:
        other = sorted(name for name in document if known.get(name) != document[name])
        raise RunError(f"run {plan.run}: it was begun with another {', '.join(other)}; resume it as it was, or give this one another name.")


def _start(spark: SparkSession, plan: Plan, watch: Watch) -> StreamingQuery:
    envelopes = spark.readStream.format("reprise_log").option("plan", plan.to_json()).load()
    trigger = {"availableNow": True} if plan.speed is None else {"processingTime": "1 second"}
    return start_query(spark, plan, envelopes, trigger, on_commit=watch.add)


def start_query(
    spark: SparkSession,
    plan: Plan,
    envelopes: DataFrame,
    trigger: Mapping[str, Any],
    *,
    on_commit: Callable[[pa.Table], None] | None = None,
) -> StreamingQuery:
    """Envelopes through the buckets into the run's outputs; the run's folder must belong to this plan.

    Args:
        spark: the session to run in.
        plan: what is done.
        envelopes: from whatever source.
        trigger: when a batch begins.
        on_commit: called with the metrics of each batch that is committed.
    """
    _refuse_unknown_store(spark, plan.lake)
    _keep_plan(plan)
    create_tables(plan)
    released = envelopes.groupBy("bucket").transformWithStateInPandas(Processor(plan), "message string", "append", "none")

    def commit(messages: DataFrame, batch: int) -> None:
        metrics = commit_batch(plan.lake, plan.run, batch, [row["message"] for row in messages.collect()])
        if on_commit:
            on_commit(metrics)

    writer = released.writeStream.foreachBatch(commit).option("checkpointLocation", f"{plan.folder}/checkpoint")
    settings = {
        # Frozen in the checkpoint: one per bucket.
        "spark.sql.shuffle.partitions": str(plan.buckets),
        # The only one that holds the state of processors.
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        _LOCAL_CHECKPOINTS[0]: _LOCAL_CHECKPOINTS[1] if plan.lake.local else None,
    }
    with _meanwhile(spark, settings):
        try:
            return writer.trigger(**trigger).queryName(plan.run).start()
        except Py4JJavaError as problem:
            raise RunError(f"run {plan.run}: Spark could not start it ({cause_of(problem)}).") from problem


def _refuse_unknown_store(spark: SparkSession, lake: Lake) -> None:
    """Refuse an object store that Spark cannot write checkpoints to: Hadoop's clients are not among Spark's own jars."""
    hadoop, scheme = spark._jvm.org.apache.hadoop, lake.root.partition("://")[0]  # type: ignore[union-attr]
    try:
        if not lake.local:
            hadoop.fs.FileSystem.getFileSystemClass(scheme, spark._jsc.hadoopConfiguration())
    except Py4JJavaError:
        raise RunError(
            f"lake: {lake.root} given; Spark has no client for '{scheme}', and needs one for checkpoints. Allowed are folders, and stores "
            f"for which the Spark configuration names the jars of Hadoop {hadoop.util.VersionInfo.getVersion()} (docs/object-stores.md)."
        ) from None


@contextmanager
def _meanwhile(spark: SparkSession, settings: Mapping[str, str | None]) -> Iterator[None]:
    """Settings of a session for the time of a block: a query takes a copy of them at its start, and the session is the user's."""
    with _SETTING:
        before = {name: spark.conf.get(name, None) for name in settings}
        try:
            _set(spark, settings)
            yield
        finally:
            _set(spark, before)


def _set(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def cause_of(problem: Exception) -> str:
    """The line of a failure that says what was wrong, without the traces of three languages around it."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    told = [line for line in lines if _RAISED.match(line) and not line.startswith(_WRAPPERS)]
    # Where no Python of ours raised anything, the innermost cause of the JVM's is what was wrong.
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ") and "py4j." not in line]
    return (told[0] if told else causes[-1] if causes else lines[0])[:500]


def remove_old(lake: Lake, older_than: timedelta) -> list[str]:
    """Remove the folders of runs that ended longer ago than this; what they published stays. Returns their names."""
    gone = []
    for run in lake.folders("runs"):
        address = lake.address("runs", run)
        with suppress(LakeError):  # held by somebody, or not readable
            status = lake.read_json(address, STATUS)
            # What is said to run may have been killed: in a folder of this machine it is seen by whether somebody holds it.
            ended = status is not None and (status["status"] != "running" or lake.local)
            if status and ended and datetime.now(UTC) - datetime.fromisoformat(status["at"]) > older_than:
                with claimed(lake, address):
                    lake.remove_folder(address)
                    gone.append(run)
    return gone
