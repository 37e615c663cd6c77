"""Data files: how rows become a Parquet file of a Delta table, with the statistics that planning relies on.

Committing files is left to whoever knows the transaction. Files that no commit names are invisible, so a task that dies
half-way leaves nothing behind that anyone could read.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from replay.lake import Lake

FILE_ROWS = 1 << 20
_RISING = ("arrival", "arrived", "clock", "ts", "start", "end")


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


def write_file(lake: Lake, address: str, rows: pa.Table, *, name: str = "part", partition: Mapping[str, str] | None = None) -> Written:
    """Rows as one file that reads fast: dictionaries for keys and text, small differences for what rises, LZ4."""
    folder = "".join(f"{column}={value}/" for column, value in (partition or {}).items())
    path = f"{folder}{name}-{uuid.uuid4()}.parquet"
    lake.make_folder(f"{address}/{folder}")
    files = lake.files(address)
    text = [f.name for f in rows.schema if f.name == "key" or pa.types.is_string(f.type) or pa.types.is_binary(f.type)]
    rising = dict.fromkeys(set(_RISING) & set(rows.schema.names), "DELTA_BINARY_PACKED")
    pq.write_table(rows, path, filesystem=files, use_dictionary=text, column_encoding=rising, row_group_size=FILE_ROWS, compression="lz4")
    return Written(path, files.get_file_info(path).size, rows.num_rows, dict(partition or {}), json.dumps(statistics(rows)))


def statistics(rows: pa.Table) -> dict[str, Any]:
    """Delta's statistics of a file, for numbers and times."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    for field in rows.schema:
        kind = field.type
        if pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
            bounds = pc.min_max(rows[field.name])
            low, high = bounds["min"], bounds["max"]
            if low.is_valid:
                least[field.name] = _stat(low)
                greatest[field.name] = _stat(high, up=True)
    nulls = {field.name: rows[field.name].null_count for field in rows.schema}
    return {"numRecords": rows.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def _stat(value: pa.Scalar, *, up: bool = False) -> Any:
    """A bound as Delta writes it: times in milliseconds, cut for the least and raised for the greatest."""
    if not pa.types.is_timestamp(value.type):
        return value.as_py()
    milliseconds = -(-value.value // 1000) if up else value.value // 1000
    return pa.scalar(milliseconds, pa.timestamp("ms", tz="UTC")).as_py().strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
