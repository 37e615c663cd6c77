"""Data files: how rows become a Parquet file of a Delta table, with the statistics that planning relies on.

Committing files is left to whoever knows the transaction. Files that no commit names are invisible, so a task that dies
half-way leaves nothing behind that anyone could read.
"""

from __future__ import annotations

import json
import math
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from replay.lake import Lake
from replay.log import PLAIN

FILE_ROWS = 1 << 20
_LONGEST_BOUND = 32
"""As many characters of a text Spark keeps, too."""
_CLOSE = (
    "arrival", "arrived", "clock", "ts", "start", "end", "window_start", "window_end", "measure_start", "measure_end", "decided",
    "tuples", "count",
)  # fmt: skip
"""Whole numbers that differ little from row to row."""
_STORED = {
    **{kind: kind for kind in (
        pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(),
        pa.date32(),
    )},
    **PLAIN,
    # Delta has no unsigned numbers: it would declare a signed type of the same width, and lose every statistic of a file that exceeds it.
    pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.int64(),
    pa.float16(): pa.float32(), pa.date64(): pa.date32(),
}  # fmt: skip
"""The types that Delta has, and those whose values fit into one of them."""
_DELTA_DIGITS = 38


def delta_type(kind: pa.DataType) -> pa.DataType | None:
    """The type in which Delta stores values of this one; None: it has none.

    Values of `uint64` from 2**63, and times of no whole microseconds, do not fit into it: that a cast tells.

    >>> delta_type(pa.uint8()), delta_type(pa.list_(pa.timestamp("ns"))), delta_type(pa.duration("s"))
    (DataType(int16), ListType(list<item: timestamp[us]>), None)
    """
    types = pa.types
    if kind in _STORED:
        return _STORED[kind]
    if types.is_dictionary(kind):
        return None if types.is_nested(kind.value_type) else delta_type(kind.value_type)
    if types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    if types.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale) if 0 <= kind.scale <= kind.precision <= _DELTA_DIGITS else None
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    inner = [delta_type(kind.field(at).type) for at in range(kind.num_fields)]
    if not inner or None in inner:
        return None
    if types.is_struct(kind):
        names = [kind.field(at).name for at in range(kind.num_fields)]
        alike = len({name.lower() for name in names}) < len(names)
        return None if alike else pa.struct(list(zip(names, inner, strict=True)))
    if types.is_map(kind):
        return pa.map_(delta_type(kind.key_type), delta_type(kind.item_type))
    # Arrow loses elements when it casts views of lists.
    return pa.list_(inner[0]) if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind) else None


@dataclass(frozen=True)
class Written:
    """A file that is written and not yet committed."""

    path: str
    size: int
    rows: int
    partition: Mapping[str, str]
    statistics: str

    def to_json(self) -> dict[str, Any]:
        """What another process needs to commit it."""
        return asdict(self)

    def action(self) -> AddAction:
        """What a commit needs to name it."""
        return AddAction(self.path, self.size, dict(self.partition), int(time.time() * 1000), True, self.statistics)


def write_file(
    lake: Lake,
    address: str,
    rows: pa.Table,
    *,
    name: str = "part",
    partition: Mapping[str, str] | None = None,
    group_rows: int = FILE_ROWS,
) -> Written:
    """Rows as one file that reads fast: dictionaries for keys and text, differences for what is close, LZ4, no nulls where none are."""
    folder = "".join(f"{column}={value}/" for column, value in (partition or {}).items())
    path = f"{folder}{name}-{uuid.uuid4()}.parquet"
    lake.make_folder(f"{address}/{folder}")
    files = lake.files(address)
    text = [f.name for f in rows.schema if f.name == "key" or pa.types.is_string(f.type) or pa.types.is_binary(f.type)]
    close = [f.name for f in rows.schema if f.name in _CLOSE and (pa.types.is_int64(f.type) or pa.types.is_timestamp(f.type))]
    packed = dict.fromkeys(close, "DELTA_BINARY_PACKED")
    bounded = [name for name in rows.column_names if not _has_nan(rows[name])]
    pq.write_table(
        _required(rows), path, filesystem=files,
        use_dictionary=text, column_encoding=packed, row_group_size=group_rows, compression="lz4",
        write_statistics=len(bounded) == rows.num_columns or bounded,
    )  # fmt: skip
    return Written(path, files.get_file_info(path).size, rows.num_rows, dict(partition or {}), json.dumps(statistics(rows)))


def read_file(files: pafs.FileSystem, path: str, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a file. Any column may hold nulls then, as in the table: files differ in that, and could not be put together."""
    with pq.ParquetFile(files.open_input_file(path)) as parquet:
        rows = parquet.read(columns=columns, use_threads=False)
    return pa.Table.from_arrays(rows.columns, schema=pa.schema([field.with_nullable(True) for field in rows.schema]))


def _required(rows: pa.Table) -> pa.Table:
    """The rows, with columns that hold no null declared so: Parquet then stores no place for nulls, and is read a quarter faster."""
    full = [not pa.types.is_nested(f.type) and not column.null_count for f, column in zip(rows.schema, rows.columns, strict=True)]
    fields = [field.with_nullable(not known) for field, known in zip(rows.schema, full, strict=True)]
    return pa.Table.from_arrays(rows.columns, schema=pa.schema(fields))


def statistics(rows: pa.Table) -> dict[str, Any]:
    """Delta's statistics of a file, of every column that can have them: some readers take a missing bound for one that nothing meets."""
    bounds = {field.name: _bounds(rows[field.name]) for field in rows.schema if not pa.types.is_nested(field.type)}
    least, greatest = ({name: both[side] for name, both in bounds.items() if both[side] is not None} for side in (0, 1))
    # Of a struct Delta wants the nulls of each of its fields: a single number makes every statistic of the file unreadable.
    nulls = {field.name: rows[field.name].null_count for field in rows.schema if not pa.types.is_struct(field.type)}
    return {"numRecords": rows.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def _has_nan(column: pa.ChunkedArray) -> bool:
    """Whether some values are no numbers. Arrow's bounds leave them out, but to Spark they are greater than all: it would not find them."""
    return pa.types.is_floating(column.type) and bool(pc.any(pc.is_nan(column)).as_py())


def _bounds(column: pa.ChunkedArray) -> tuple[Any, Any]:
    """The least and the greatest value as Delta writes them; None where there is none, or none that can be written."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_null(kind):
        return None, None
    found = pc.min_max(column)
    least, greatest = _bound(found["min"], kind, up=False), _bound(found["max"], kind, up=True)
    if least is not None and _has_nan(column):
        # Without a bound other readers would pass over the file.
        greatest = float(np.finfo(kind.to_pandas_dtype()).max)
    return least, greatest


def _bound(value: pa.Scalar, kind: pa.DataType, *, up: bool) -> Any:
    """A bound, no tighter than it is: times in milliseconds, long texts cut."""
    if not value.is_valid:
        return None
    if pa.types.is_timestamp(kind):
        us = value.cast(pa.timestamp("us", tz=kind.tz), safe=False).value
        milliseconds = -(-us // 1000) if up else us // 1000
        with suppress(OverflowError):  # outside of the years 1 to 9999
            return f"{(datetime(1970, 1, 1) + timedelta(milliseconds=milliseconds)).isoformat(timespec='milliseconds')}Z"  # noqa: DTZ001
        return None
    try:
        plain = value.as_py()
    except OverflowError:  # a date outside of the years 1 to 9999
        return None
    if isinstance(plain, str) and len(plain) > _LONGEST_BOUND:
        return plain[:_LONGEST_BOUND] + chr(sys.maxunicode) * up
    if isinstance(plain, Decimal):
        near = float(plain)
        return near if Decimal(near) == plain else math.nextafter(near, math.inf if up else -math.inf)
    if isinstance(plain, float) and not math.isfinite(plain):
        return None
    return plain.isoformat() if isinstance(plain, date) else plain if isinstance(plain, str | int | float) else None
