"""The Spark sink: envelopes of outputs become Parquet files, and one Delta commit per output and batch.

Every commit carries the run and the number of its batch; a batch that is run again after a crash finds its number there
and is skipped. `results` is committed last. Spark starts a Python process for every commit, so this module imports little.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, Transaction
from deltalake.transaction import AddAction
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from engines.state import unpack
from replay.envelope import METRICS
from replay.files import Written, write_file
from replay.lake import Lake
from replay.metrics import metrics_table


@dataclass
class Files(WriterCommitMessage):
    """The files that a task wrote, by output, and the numbers of its buckets."""

    written: Mapping[str, Sequence[Written]]
    metrics: Sequence[Mapping[str, Any]]


class OutputWriter(DataSourceStreamArrowWriter):
    """Writes in tasks, commits on the driver."""

    def __init__(self, lake: Lake, run: str) -> None:
        """A writer for a run's outputs."""
        self._lake, self._run = lake, run

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
        tables = {output: pa.Table.from_batches(rows) for output, rows in outputs.items()}
        return Files({name: [write_file(self._lake, self._lake.output(self._run, name), t)] for name, t in tables.items()}, metrics)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Add a batch's files to their tables, each once."""
        lake, run = self._lake, self._run
        done = [message for message in messages if isinstance(message, Files)]
        adds: dict[str, list[AddAction]] = defaultdict(list)
        for message in done:
            for output, files in message.written.items():
                adds[output] += [file.action() for file in files]
        for output in sorted(adds, key=lambda name: (name == "results", name)):
            commit_once(lake, lake.output(run, output), adds[output], run, batchId)
        rows = metrics_table([numbers for message in done for numbers in message.metrics])
        metrics = write_file(lake, lake.metrics, rows, partition={"run": run}).action()
        commit_once(lake, lake.metrics, [metrics], run, batchId, partition_by=["run"])

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing to undo: files without a commit are invisible."""


class OutputSink(DataSource):
    """`writeStream.format("reprise_outputs")` with the options `lake` and `run`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "reprise_outputs"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """A writer for the run in the options."""
        return OutputWriter(Lake(**json.loads(self.options["lake"])), self.options["run"])


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
