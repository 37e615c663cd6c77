"""Writing a log: tuples in order of arrival become contiguous files, none across a day, in one commit.

This is the single-process writer, for small streams, tests and benchmarks; it holds one file's rows in memory at a time.
Reading raw formats and ordering their tuples is ingestion's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, Schema
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, create_table_with_add_actions
from numpy.typing import NDArray

from engines.contract import BEGINNING, TIMESTAMP
from engines.spec import SpecError
from replay.files import FILE_ROWS, Written, delta_type, write_file
from replay.lake import Lake, LakeError
from replay.lifting import check_tuples
from replay.log import DAY_US, FIRST_CHANGED, FORMAT, OWN_COLUMNS, Log, day_of, file_name, times_of

_PROPERTIES = {
    # Statistics of every column, not of the first 32: a profile tells what is missing from them.
    "delta.dataSkippingNumIndexedCols": "-1",
    # Every commit says from which arrival on it has changed the log. Were old ones forgotten, published days could not be known to stand.
    "delta.logRetentionDuration": "interval 36500 days",
}
_TAKEN = {"arrival": "the log", "clock": "the log", "day": "the log", "stream": "a replay"}
"""Names of columns that are not the tuples', and who has one of that name."""


def append(lake: Lake, stream: str, tuples: Iterable[pa.Table] | pa.Table, *, file_rows: int = FILE_ROWS) -> Log:
    """Put tuples behind the end of a stream's log, which is made if there is none. No tuples: the log stays as it is.

    Values are stored in the type of Delta that holds them exactly (`uint8` as `int16`, `timestamp[ns]` as `timestamp[us]`, dictionaries
    decoded, ...); where there is none, or a value does not fit, the tuples are refused.

    Args:
        lake: where the log lives.
        stream: its name.
        tuples: `ts` (or `start` and `end`), perhaps `key` and `arrived`, and values, in order of arrival; in parts if there are many.
        file_rows: the most tuples that a file holds.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = append(Lake(folder), "s", pa.table({"ts": pa.array([5, 3, 9], TIMESTAMP), "v": pa.array([1, 2, 4], pa.uint8())}))
    >>> log.end, log.clock_end
    (3, 9)
    >>> log.schema.names, log.schema.field("v").type
    (['arrival', 'arrived', 'clock', 'ts', 'v'], DataType(int16))
    """
    if file_rows < 1:
        raise SpecError(f"file_rows: {file_rows} given; allowed is a whole number from 1.")
    address = lake.address("streams", stream)
    known = Log.open(lake, address) if lake.table(address) is not None else None
    adds, schema = [], None
    for part in _parts(_rows(stream, [tuples] if isinstance(tuples, pa.Table) else tuples, known), file_rows):
        adds += [write_day(lake, address, day_rows).action() for day_rows in by_day(part)]
        schema = part.schema
    if schema is None:
        if known is None:
            raise LakeError(f"stream {stream}: no tuples given; a log begins with its first.")
        return known  # a new version, even of the same tuples, would have provisional days replayed
    commit(lake, address, schema, adds, {FIRST_CHANGED: str(known.end if known else 0)}, onto=known)
    return Log.open(lake, address)


def _rows(stream: str, tables: Iterable[pa.Table], known: Log | None) -> Iterator[pa.Table]:
    """The tuples as the log will hold them, in pieces of a file's size. A table is checked as a whole, before any of it is written."""
    arrival, clock, arrived = (known.end, known.clock_end, known.arrived_end) if known else (0, BEGINNING, BEGINNING)
    schema = known.schema if known else None
    for tuples in tables:
        _check(stream, tuples)
        stored = _stored(stream, tuples)
        for at in range(0, max(stored.num_rows, 1), FILE_ROWS):
            rows, clock, arrived = complete(stored.slice(at, FILE_ROWS), arrival, clock, arrived)
            if schema is not None and rows.schema != schema:
                raise LakeError(f"stream {stream}: columns {_told(rows.schema)} given; its log has {_told(schema)}.")
            schema = rows.schema
            arrival += rows.num_rows
            yield rows


def _check(stream: str, tuples: pa.Table) -> None:
    """Refuse tuples that a log cannot hold, by their names and times."""
    check_tuples(tuples)
    names = tuples.schema.names
    if taken := [name for name in _TAKEN if name in names]:
        raise LakeError(
            f"stream {stream}: a column {taken[0]!r} given; {_TAKEN[taken[0]]} keeps its own under that name, so another is allowed."
        )
    if "arrived" in names:
        kind, nulls = tuples["arrived"].type, tuples["arrived"].null_count
        if nulls or not (pa.types.is_integer(kind) or pa.types.is_timestamp(kind)):
            raise LakeError(
                f"stream {stream}: arrived is {kind} with {nulls} nulls; allowed are whole microseconds, or times, and no nulls."
            )
    alike: dict[str, str] = {}
    for name in dict.fromkeys([*OWN_COLUMNS, *_TAKEN, *names]):
        if (other := alike.setdefault(name.lower(), name)) != name:
            raise LakeError(f"stream {stream}: a column {name!r} given beside {other!r}; allowed are names that differ in more than case.")


def _stored(stream: str, tuples: pa.Table) -> pa.Table:
    """The tuples with the types that Delta has for them."""
    columns = []
    for field in tuples.schema:
        given, kind = f"stream {stream}: the column {field.name!r} is {field.type}", delta_type(field.type)
        if kind is None:
            raise LakeError(
                f"{given}; allowed are booleans, numbers (decimals of up to 38 digits), text, bytes, dates, timestamps, "
                "and lists, maps and structs of these, with names that differ in more than case."
            )
        try:
            columns.append(tuples[field.name].cast(kind))
        except pa.ArrowInvalid:
            raise LakeError(f"{given}, with values that {kind} cannot hold; allowed are those that it can hold exactly.") from None
    return pa.table(columns, names=tuples.schema.names)


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
    times = times_of(rows.schema.names)
    clocks = _highest(clock, rows[times[-1]].combine_chunks().cast(TIMESTAMP).view(pa.int64()))
    given = rows["arrived"].combine_chunks().cast(pa.int64()) if "arrived" in rows.schema.names else None
    came = np.maximum(arrived, clocks) if given is None else _highest(arrived, given)
    own = [pa.array(np.arange(arrival, arrival + rows.num_rows)), pa.array(came[1:]), pa.array(clocks[1:])]
    rest = [name for name in rows.schema.names if name not in OWN_COLUMNS]
    values = [rows[name].cast(TIMESTAMP) if name in times else rows[name] for name in rest]
    return pa.table([*own, *values], names=[*OWN_COLUMNS, *rest]), int(clocks[-1]), int(came[-1])


def _highest(before: int, values: pa.Array) -> NDArray[np.int64]:
    """What was highest before the first value, and after each."""
    return np.maximum.accumulate(np.append(np.int64(before), values.to_numpy()))


def by_day(rows: pa.Table) -> Iterator[pa.Table]:
    """The rows of each day of the clock."""
    days = rows["clock"].combine_chunks().to_numpy() // DAY_US
    edges = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), rows.num_rows]
    for start, end in zip(edges, edges[1:], strict=False):
        yield rows.slice(start, end - start)


def write_day(lake: Lake, address: str, rows: pa.Table) -> Written:
    """One file of one day."""
    name = file_name(rows["arrival"][0].as_py())
    return write_file(lake, address, rows, name=name, partition={"day": day_of(rows["clock"][0].as_py()).isoformat()})


def _told(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema if field.name not in OWN_COLUMNS)
