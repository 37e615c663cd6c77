"""The sink: what a batch released becomes Parquet files, and one Delta commit per output.

Tasks write the files and send their names; the driver commits them. Every commit carries the run and the number of its
batch, so a batch that is run again after a crash finds its number there and is skipped. `results` is committed last.

A commit costs with every file that its table has, and each batch adds some: now and then a commit puts small ones together.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction, RemoveAction

from replay.bucket import Step
from replay.envelope import STATE
from replay.files import Written, read_file, write_file
from replay.lake import Lake
from replay.log import DAY_US
from replay.metrics import metrics_table

GROUP_ROWS = 1 << 16
"""Publishing picks days out of a file, and passes over groups of rows that hold nothing of a day."""
MERGE_BATCHES = 64
"""After so many commits of a run to a table its small files are put together."""
_SMALL_BYTES = 1 << 20
_MERGED_BYTES = 4 << 20
"""What is read at once to be put together, so that memory does not follow the length of a run."""


class Writer:
    """Writes what a bucket releases in a batch: rows that it gives away before the batch ends, and the rest."""

    def __init__(self, lake: Lake, run: str) -> None:
        """For a run's outputs."""
        self._lake, self._run = lake, run
        self._written: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def take(self, outputs: Iterable[tuple[str, pa.Table]]) -> None:
        """Write rows, a file per output."""
        tables: dict[str, list[pa.Table]] = defaultdict(list)
        for output, rows in outputs:
            tables[output].append(rows)
        for output, some in tables.items():
            rows, group_rows = _by_time(pa.concat_tables(some)), 1 if output == STATE else GROUP_ROWS
            file = write_file(self._lake, self._lake.output(self._run, output), rows, group_rows=group_rows)
            self._written[output].append(file.to_json())

    def message(self, step: Step) -> str:
        """Write the rest; the message for whoever commits the batch."""
        self.take(step.outputs)
        return json.dumps({"written": self._written, "metrics": step.metrics})


def _by_time(rows: pa.Table) -> pa.Table:
    """Rows of several days in the order in which they were decided, so that few groups of rows hold those of a day."""
    if "decided" not in rows.schema.names:
        return rows
    first, last = pc.min_max(rows["decided"].cast(pa.int64())).as_py().values()
    if first is None or first // DAY_US == last // DAY_US:
        return rows
    return rows.take(pc.sort_indices(rows["decided"]))


def commit_batch(lake: Lake, run: str, batch: int, messages: Iterable[str]) -> pa.Table:
    """Add a batch's files to their tables, each once; its row of metrics."""
    adds: dict[str, list[AddAction]] = defaultdict(list)
    numbers = []
    for message in map(json.loads, messages):
        numbers.append(message["metrics"])
        for output, written in message["written"].items():
            adds[output] += [Written(**file).action() for file in written]
    for output in sorted(adds, key=lambda name: (name == "results", name)):
        _commit_once(lake, lake.output(run, output), adds[output], run, batch)
    metrics = metrics_table(numbers)
    of_run = {"run": run}
    _commit_once(lake, lake.metrics, [write_file(lake, lake.metrics, metrics, partition=of_run).action()], run, batch, partition=of_run)
    return metrics


def settle(lake: Lake, run: str) -> None:
    """At the end of a run: one file of metrics is left of it, for the lake keeps those of all runs in one table."""
    table = lake.table(lake.metrics)
    if table is not None and (merged := list(_merged(lake, lake.metrics, table, {"run": run}))):
        table.create_write_transaction(merged, "append", table.schema(), ["run"], commit_properties=CommitProperties(max_commit_retries=50))


def _commit_once(
    lake: Lake, address: str, adds: Sequence[AddAction], run: str, batch: int, *, partition: Mapping[str, str] | None = None
) -> None:
    """Add files to a table unless this batch of this run has done so."""
    table = lake.table(address)
    if table is None:
        raise FileNotFoundError(address)
    last = table.transaction_version(run)
    if last is not None and last >= batch:
        return
    actions: list[AddAction | RemoveAction] = list(adds)
    # All runs share the table of metrics; to another a batch may have nothing to add.
    commits = batch if partition else table.version()
    if commits % MERGE_BATCHES == MERGE_BATCHES - 1 and address != lake.output(run, STATE):
        # Within the commit of the batch: killed at any moment, rows are in the files before or in those behind.
        actions += _merged(lake, address, table, partition or {})
        table.vacuum(dry_run=False)
    properties = CommitProperties(app_transactions=[Transaction(run, batch)], max_commit_retries=50)
    table.create_write_transaction(actions, "append", table.schema(), list(partition or ()), commit_properties=properties)


def _merged(lake: Lake, address: str, table: DeltaTable, partition: Mapping[str, str]) -> Iterator[AddAction | RemoveAction]:
    """Few files in the place of the small ones of a table or a partition; who follows the table as a stream sees no change of data."""
    known, files, now = pa.table(table.get_add_actions(flatten=True)), lake.files(address), int(time.time() * 1000)
    for column, value in partition.items():
        known = known.filter(pc.equal(known[f"partition.{column}"].cast(pa.string()), value))
    small = known.filter(pc.less(known["size_bytes"], _SMALL_BYTES)).select(["path", "size_bytes"]).sort_by("size_bytes")
    share = np.cumsum(small["size_bytes"].to_numpy()) // _MERGED_BYTES
    for one in np.unique(share):
        few = small.filter(pa.array(share == one)).to_pylist()
        if len(few) > 1:
            rows = pa.concat_tables([read_file(files, file["path"]) for file in few], promote_options="default")
            together = write_file(lake, address, _by_time(rows), partition=partition, group_rows=GROUP_ROWS).action()
            together.data_change = False
            yield together
            yield from (RemoveAction(file["path"], False, now, file["size_bytes"], dict(partition)) for file in few)
