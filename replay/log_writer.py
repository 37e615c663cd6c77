"""Writing a log: tuples in order of arrival become contiguous files, none across a day, in one commit.

This is the single-process writer, for small streams, tests and benchmarks; it holds one file's rows in memory at a time.
Reading raw formats and ordering their tuples is ingestion's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, Schema
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, create_table_with_add_actions

from engines.contract import BEGINNING, TIMESTAMP
from replay.files import FILE_ROWS, Written, write_file
from replay.lake import Lake, LakeError
from replay.lifting import check_times
from replay.log import DAY_US, FIRST_CHANGED, FIRST_US, FORMAT, LAST_US, OWN_COLUMNS, Log, day_of

_PROPERTIES = {
    # Statistics of every column, not of the first 32: a profile tells what is missing from them.
    "delta.dataSkippingNumIndexedCols": "-1",
    # Every commit says from which arrival on it has changed the log. Were old ones forgotten, published days could not be known to stand.
    "delta.logRetentionDuration": "interval 36500 days",
}


def append(lake: Lake, stream: str, tuples: Iterable[pa.Table] | pa.Table, *, file_rows: int = FILE_ROWS) -> Log:
    """Put tuples behind the end of a stream's log, which is made if there is none.

    Args:
        lake: where the log lives.
        stream: its name.
        tuples: `ts` (or `start` and `end`), perhaps `key` and `arrived`, and values, in order of arrival; in parts if there are many.
        file_rows: the most tuples that a file holds.
    """
    address = lake.address("streams", stream)
    known = Log.open(lake, address) if lake.table(address) is not None else None
    arrival, clock, arrived = (known.end, known.clock_end, known.arrived_end) if known else (0, BEGINNING, BEGINNING)
    first, schema, adds = arrival, known.schema if known else None, []
    for part in _parts([tuples] if isinstance(tuples, pa.Table) else tuples, file_rows):
        _check(stream, part)
        rows, clock, arrived = complete(part, arrival, clock, arrived)
        if schema is not None and rows.schema != schema:
            raise LakeError(f"stream {stream}: columns {_told(rows.schema)} given; its log has {_told(schema)}.")
        schema = rows.schema
        for day_rows in by_day(rows):
            adds.append(write_day(lake, address, day_rows).action())
        arrival += rows.num_rows
    if schema is None:
        raise LakeError(f"stream {stream}: no tuples given; a log begins with its first.")
    commit(lake, address, schema, adds, {FIRST_CHANGED: str(first)}, onto=known)
    return Log.open(lake, address)


def _check(stream: str, tuples: pa.Table) -> None:
    """Refuse tuples that a log cannot hold."""
    check_times(tuples)
    if taken := [name for name in ("arrival", "clock", "day") if name in tuples.schema.names]:
        raise LakeError(f"stream {stream}: a column {taken[0]!r} given; the log keeps its own under that name, so another is allowed.")
    for name in ("ts", "start", "end"):
        if name in tuples.schema.names and tuples.num_rows:
            bounds = pc.min_max(tuples[name].cast(TIMESTAMP).cast(pa.int64()))
            if bounds["min"].as_py() < FIRST_US or bounds["max"].as_py() > LAST_US:
                raise LakeError(
                    f"stream {stream}: {name} reaches out of the years 1 to 9999; allowed are times in them, for a log has days."
                )


def commit(
    lake: Lake,
    address: str,
    schema: pa.Schema,
    adds: Sequence[AddAction],
    properties: Mapping[str, str],
    *,
    onto: Log | None,
    replacing: Sequence[str] | None = None,
) -> None:
    """Put files into a log in one commit: behind its end, or in the place of these days; a log that is not there is made.

    Arrivals were counted on from the log as it was read: `onto`, None if there was none. If it is another by now, nothing is written.
    """
    told = CommitProperties(custom_metadata=dict(properties), max_commit_retries=0)
    columns = Schema.from_arrow(pa.schema([*schema, ("day", pa.date32())]))
    try:
        table = lake.table(address, onto.version) if onto else None
        if table is None:
            create_table_with_add_actions(
                address, columns, list(adds), mode="error", partition_by=["day"], description=FORMAT, storage_options=lake.options(),
                commit_properties=told, configuration=_PROPERTIES,
            )  # fmt: skip
        elif replacing is None:
            table.create_write_transaction(list(adds), "append", table.schema(), ["day"], commit_properties=told)
        else:
            where: list[tuple[str, str, Any]] = [("day", "in", list(replacing))]
            table.create_write_transaction(list(adds), "overwrite", columns, ["day"], partition_filters=where, commit_properties=told)
    except DeltaError as problem:
        if (now := lake.table(address)) is None or onto and now.version() == onto.version:
            raise
        raise LakeError(
            f"log {address}: another process has written to it meanwhile, and nothing of this one is stored; do it again."
        ) from problem


def _parts(tables: Iterable[pa.Table], file_rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of `file_rows`."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        while sum(t.num_rows for t in held) >= file_rows:
            together = pa.concat_tables(held)
            yield together.slice(0, file_rows)
            held = [together.slice(file_rows)]
    if held and (rest := pa.concat_tables(held)).num_rows:
        yield rest


def complete(rows: pa.Table, arrival: int, clock: int, arrived: int) -> tuple[pa.Table, int, int]:
    """The rows with the log's own columns; the clock and `arrived` at their end."""
    moves = rows["ts"] if "ts" in rows.schema.names else rows["end"]
    clocks = np.maximum.accumulate(np.maximum(moves.combine_chunks().cast(TIMESTAMP).view(pa.int64()).to_numpy(), clock))
    came = clocks
    if "arrived" in rows.schema.names:
        came = np.maximum.accumulate(np.maximum(rows["arrived"].combine_chunks().cast(pa.int64()).to_numpy(), arrived))
    own = [pa.array(np.arange(arrival, arrival + rows.num_rows)), pa.array(came), pa.array(clocks)]
    rest = [name for name in rows.schema.names if name not in OWN_COLUMNS]
    values = [rows[name].cast(TIMESTAMP) if name in ("ts", "start", "end") else rows[name] for name in rest]
    return pa.table([*own, *values], names=[*OWN_COLUMNS, *rest]), int(clocks[-1]), int(came[-1])


def by_day(rows: pa.Table) -> Iterator[pa.Table]:
    """The rows of each day of the clock."""
    days = rows["clock"].combine_chunks().to_numpy() // DAY_US
    edges = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), rows.num_rows]
    for start, end in zip(edges, edges[1:], strict=False):
        yield rows.slice(start, end - start)


def write_day(lake: Lake, address: str, rows: pa.Table) -> Written:
    """One file of one day."""
    name = f"{rows['arrival'][0].as_py():016d}"
    return write_file(lake, address, rows, name=name, partition={"day": day_of(rows["clock"][0].as_py()).isoformat()})


def _told(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema if field.name not in OWN_COLUMNS)
