"""Rejects: the records that are not in the log, with their file, line, text and the reason, in a table beside it.

They are replaced file by file, before the log's commit: a crash in between leaves rejects of files that will be read again.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from deltalake import Schema
from deltalake.transaction import create_table_with_add_actions

from replay.lake import Lake
from replay.streams.splitting import Outcome
from replay.streams.staging import REJECTS
from replay.streams.tasks import Tasks
from replay.streams.writing import RejectsOf, write_rejects


def rejects_address(lake: Lake, stream: str) -> str:
    """Where a stream's rejects are."""
    return lake.address("streams", f"{stream}__rejects")


def replace_rejects(lake: Lake, stage: Lake, stream: str, outcome: Outcome, gone: Sequence[str], tasks: Tasks) -> None:
    """Put the rejects of the files that were read in the place of those that they, and files that are gone, had before."""
    address = rejects_address(lake, stream)
    written = tasks(write_rejects, [RejectsOf(stage, lake, address, *found) for found in outcome.rejects()])
    adds = [file.action() for file in written]
    table = lake.table(address)
    if table is None:
        create_table_with_add_actions(
            address, Schema.from_arrow(REJECTS), adds, mode="error", partition_by=[], storage_options=lake.options()
        )
        return
    names = {file.name for file in outcome.files} | set(gone)
    if names:
        quoted = ", ".join("'" + name.replace("'", "''") + "'" for name in sorted(names))
        table.delete(f"file in ({quoted})")
    if adds:
        table.create_write_transaction(list(adds), "append", table.schema(), [])


def read_rejects(lake: Lake, stream: str) -> pa.Table:
    """All rejects of a stream, in order of file and line."""
    table = lake.table(rejects_address(lake, stream))
    rows = table.to_pyarrow_table().cast(REJECTS) if table is not None else REJECTS.empty_table()
    return rows.sort_by([("file", "ascending"), ("line", "ascending")])
