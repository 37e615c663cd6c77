"""The Spark sink: envelopes of outputs become Parquet files, and one Delta commit per output and batch.

Every commit carries the run and the number of its batch; a batch that is run again after a crash finds its number there
and is skipped. `results` is committed last. Publishing what a run wrote is not done here.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import AddAction
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from engines.state import unpack
from replay.envelope import LATE, METRICS, STATE
from replay.files import Written, write_file
from replay.lake import Lake
from replay.lifting import late_schema
from replay.metrics import SCHEMA as METRICS_SCHEMA
from replay.metrics import metrics_table
from replay.plan import Plan
from replay.snapshots import SNAPSHOT


@dataclass
class Files(WriterCommitMessage):
    """The files that a task wrote, by output, and the numbers of its buckets."""

    written: Mapping[str, Sequence[Written]]
    metrics: Sequence[Mapping[str, Any]]


class OutputWriter(DataSourceStreamArrowWriter):
    """Writes in tasks, commits on the driver."""

    def __init__(self, plan: Plan) -> None:
        """A writer for a plan's outputs."""
        self.plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """One file per output from the envelopes of a task."""
        outputs: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        metrics = []
        for batch in iterator:
            for output, payload in zip(batch["output"].to_pylist(), batch["payload"].to_pylist(), strict=True):
                if output == METRICS:
                    metrics.append(json.loads(payload))
                else:
                    outputs[output].append(unpack(payload))
        plan = self.plan
        written = {name: [write_file(plan.lake, output_address(plan, name), pa.Table.from_batches(rows))] for name, rows in outputs.items()}
        return Files(written, metrics)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Add a batch's files to their tables, each once."""
        plan, done = self.plan, [message for message in messages if isinstance(message, Files)]
        adds: dict[str, list[AddAction]] = defaultdict(list)
        for message in done:
            for output, files in message.written.items():
                adds[output] += [file.action() for file in files]
        for output in sorted(adds, key=lambda name: (name == "results", name)):
            commit_once(plan.lake, output_address(plan, output), adds[output], plan.run, batchId)
        rows = metrics_table([numbers for message in done for numbers in message.metrics])
        partition = {"run": plan.run}
        metrics = write_file(plan.lake, metrics_address(plan.lake), rows, partition=partition).action()
        commit_once(plan.lake, metrics_address(plan.lake), [metrics], plan.run, batchId, partition_by=["run"])

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to undo: files without a commit are invisible."""


class OutputSink(DataSource):
    """`writeStream.format("reprise_outputs").option("plan", ...)`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "reprise_outputs"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """A writer for the plan in the options."""
        return OutputWriter(Plan.from_json(self.options["plan"]))


def output_address(plan: Plan, output: str) -> str:
    """Where a run keeps one of its outputs."""
    return plan.lake.address("runs", plan.run, output)


def metrics_address(lake: Lake) -> str:
    """Where the metrics of all runs are kept."""
    return lake.address("metrics")


def output_schemas(plan: Plan) -> dict[str, pa.Schema]:
    """The schema of every table that a run writes."""
    return {**plan.operator.outputs, LATE: late_schema(plan.schema), STATE: SNAPSHOT}


def create_tables(plan: Plan) -> None:
    """Empty tables for all outputs, so that each can be read from the first moment on."""
    for output, schema in output_schemas(plan).items():
        DeltaTable.create(output_address(plan, output), Schema.from_arrow(schema), mode="ignore", storage_options=plan.lake.options())
    with_run = pa.schema([*METRICS_SCHEMA, ("run", pa.string())])
    DeltaTable.create(
        metrics_address(plan.lake), Schema.from_arrow(with_run), mode="ignore", partition_by=["run"], storage_options=plan.lake.options()
    )


def commit_once(
    lake: Lake, address: str, adds: Sequence[AddAction], run: str, batch: int, *, partition_by: list[str] | None = None
) -> None:
    """Add files to a table unless this batch of this run has done so."""
    table = lake.table(address)
    if table is None:
        raise FileNotFoundError(address)
    last = table.transaction_version(run)
    if last is not None and last >= batch:
        return
    properties = CommitProperties(app_transactions=[Transaction(run, batch)], max_commit_retries=50)
    table.create_write_transaction(list(adds), "append", table.schema(), partition_by, commit_properties=properties)
