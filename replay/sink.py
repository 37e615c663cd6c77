"""The sink: what a batch released becomes Parquet files, and one Delta commit per output.

Tasks write the files and send their names; the driver commits them. Every commit carries the run and the number of its
batch, so a batch that is run again after a crash finds its number there and is skipped. `results` is committed last.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, Transaction
from deltalake.transaction import AddAction

from replay.bucket import Step
from replay.envelope import STATE
from replay.files import Written, write_file
from replay.lake import Lake
from replay.log import DAY_US
from replay.metrics import metrics_table

GROUP_ROWS = 1 << 16
"""Publishing picks days out of a file, and passes over groups of rows that hold nothing of a day."""


def write_step(lake: Lake, run: str, step: Step) -> str:
    """Write what a bucket released, a file per output; the message for whoever commits the batch."""
    outputs: dict[str, list[pa.Table]] = defaultdict(list)
    for output, rows in step.outputs:
        outputs[output].append(rows)
    written = {
        name: write_file(lake, lake.output(run, name), _by_time(pa.concat_tables(rows)), group_rows=1 if name == STATE else GROUP_ROWS)
        for name, rows in outputs.items()
    }
    return json.dumps({"written": {name: file.to_json() for name, file in written.items()}, "metrics": step.metrics})


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
        for output, file in message["written"].items():
            adds[output].append(Written(**file).action())
    for output in sorted(adds, key=lambda name: (name == "results", name)):
        _commit_once(lake, lake.output(run, output), adds[output], run, batch)
    metrics = metrics_table(numbers)
    written = write_file(lake, lake.metrics, metrics, partition={"run": run}).action()
    _commit_once(lake, lake.metrics, [written], run, batch, partition_by=["run"])
    return metrics


def _commit_once(
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
