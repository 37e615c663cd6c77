"""Rejects: the records that are not in the log, with their file, line, text and the reason, in a table beside it.

They are replaced file by file, before the log's commit, by commits that name the ingestion as the log's does. Where the two do not
name the same one, an ingestion was interrupted in between, and the rejects are none of the log's: all files are then read again.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from deltalake import CommitProperties, Schema
from deltalake.transaction import create_table_with_add_actions

from replay.lake import Lake
from replay.streams.manifest import INGESTION, ingestion_of
from replay.streams.splitting import Outcome
from replay.streams.staging import REJECTS
from replay.streams.tasks import Tasks
from replay.streams.writing import RejectsOf, write_rejects


def rejects_address(lake: Lake, stream: str) -> str:
    """Where a stream's rejects are."""
    return lake.address("streams", f"{stream}__rejects")


def replace_rejects(
    lake: Lake, stage: Lake, stream: str, ingestion: str, outcome: Outcome, tasks: Tasks, *, kept: bool, gone: Sequence[str]
) -> None:
    """Put the rejects of the files that were read in the place of those that they, and files that are gone, had before.

    Args:
        lake: where they are.
        stage: where those of the files that were read are staged.
        stream: its name.
        ingestion: the name of this one.
        outcome: what was read.
        tasks: where they are written.
        kept: whether there are other files, whose rejects stay.
        gone: files that are no longer there.
    """
    address = rejects_address(lake, stream)
    written = tasks(write_rejects, [RejectsOf(stage, lake, address, *found) for found in outcome.rejects()])
    adds = [file.action() for files in written for file in files]
    told = CommitProperties(custom_metadata={INGESTION: ingestion})
    table = lake.table(address)
    if table is None:
        create_table_with_add_actions(
            address, Schema.from_arrow(REJECTS), adds, mode="error", partition_by=[], storage_options=lake.options(), commit_properties=told
        )
        return
    names = {file.name for file in outcome.files} | set(gone)
    if kept and names:
        quoted = ", ".join("'" + name.replace("'", "''") + "'" for name in sorted(names))
        table.delete(f"file in ({quoted})", commit_properties=told)
    # Without any files too: it is the commit that tells that the table is that of this ingestion.
    table.create_write_transaction(list(adds), "append" if kept else "overwrite", table.schema(), [], commit_properties=told)


def rejects_are_of(lake: Lake, stream: str, ingestion: str) -> bool:
    """Whether the table holds the rejects of this ingestion, and not of one that was interrupted behind them."""
    table = lake.table(rejects_address(lake, stream))
    return table is not None and ingestion_of(table) == ingestion


def read_rejects(lake: Lake, stream: str) -> pa.Table:
    """All rejects of a stream, in order of file and line."""
    table = lake.table(rejects_address(lake, stream))
    rows = table.to_pyarrow_table().cast(REJECTS) if table is not None else REJECTS.empty_table()
    return rows.sort_by([("file", "ascending"), ("line", "ascending")])
