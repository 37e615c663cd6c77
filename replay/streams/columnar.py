"""Columnar files: Parquet, and the data files of a Delta table, some row groups at a time.

Values have types already; those that do not fit the declared ones are rejected like texts that are no numbers. The text of a
rejected record is its JSON. The names of a Delta table are its schema's: of its files each may lack some.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from replay.lake import Lake
from replay.streams.parsed import Parsed, Reject, Rules, StreamError, not_a
from replay.streams.raw import natural
from replay.streams.values import Mask, convert, typed, without_markers

BATCH_ROWS, BATCH_BYTES, BUFFER_BYTES = 1 << 16, 32 << 20, 1 << 20
_COMMIT = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True)
class Group:
    """A row group of a file."""

    path: str
    number: int
    rows: int
    bytes: int
    fixed: Mapping[str, pa.Scalar] = field(default_factory=dict)
    """The columns of a Delta table's partition, which are in no file."""


@dataclass(frozen=True)
class Columnar:
    """How the columns of a file become declared ones."""

    at: Mapping[str, str]
    """The file's column for each that is read."""
    types: Mapping[str, pa.DataType]
    """Of those that are not times: times are kept as they are."""
    times: Sequence[str] = ()
    nulls: Sequence[str] = ("",)

    def read(self, files: pafs.FileSystem, group: Group) -> Iterator[Parsed]:
        """The records of a row group."""
        first = 0
        # A part of each column at a time: else all of a row group's bytes are read before its first rows, and a file may be one group.
        with pq.ParquetFile(files.open_input_file(group.path), buffer_size=BUFFER_BYTES, pre_buffer=False) as parquet:
            there = [source for source in dict.fromkeys(self.at.values()) if source in parquet.schema_arrow.names]
            rows = _fitting(parquet.metadata.row_group(group.number), there)
            batches = parquet.iter_batches(rows, row_groups=[group.number], columns=there, use_threads=False)
            while (batch := _next(batches, group)) is not None:
                yield self._parsed(self._whole(batch, group.fixed), first)
                first += batch.num_rows

    def _whole(self, batch: pa.RecordBatch, fixed: Mapping[str, pa.Scalar]) -> pa.RecordBatch:
        """All columns, those too that are not in the file: of the partition, or null where the table got them later."""
        for source in dict.fromkeys(self.at.values()):
            if source in fixed:
                values = pa.repeat(fixed[source], batch.num_rows)
                at = batch.schema.get_field_index(source)
                batch = batch.append_column(source, values) if at < 0 else batch.set_column(at, source, values)
            elif source not in batch.schema.names:
                batch = batch.append_column(source, pa.nulls(batch.num_rows))
        return batch

    def _parsed(self, batch: pa.RecordBatch, first: int) -> Parsed:
        def text(row: int) -> str:
            return json.dumps({name: _plain(batch[name][row]) for name in batch.schema.names}, default=str)

        rules = Rules(batch.num_rows)
        columns: dict[str, pa.Array] = {}
        for name, source in self.at.items():
            values, taken = self.values(name, batch[source])
            rules.refuse(~taken, not_a(name, self.types[name]))
            columns[name] = values
        bad, table, rows = rules.broken, pa.table(columns), batch.num_rows
        good = np.flatnonzero(~bad)
        rejects = [Reject(first + int(i), text(int(i)), rules.reason(int(i))) for i in np.flatnonzero(bad)]
        return Parsed(
            table.filter(pa.array(~bad)) if rejects else table, first + good, lambda row: text(int(good[row])), rows, rows, rejects
        )

    def values(self, name: str, values: pa.Array) -> tuple[pa.Array, Mask]:
        """A column's values as declared, and which of them can be."""
        kind = self.types[name]
        if pa.types.is_null(values.type):
            values = values.cast(kind)
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if pa.types.is_float16(values.type):  # for which there is no comparison
            values = values.cast(pa.float32())
        if pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type):
            values = values.cast(pa.string())
        taken = np.ones(len(values), bool)
        if pa.types.is_string(values.type):
            values = pc.if_else(pc.is_in(values, pa.array(self.nulls, pa.string())), pa.scalar(None, pa.string()), values)
            values, taken = typed(values.cast(pa.binary()), pa.string())  # whoever wrote the file may have put any bytes there
        values = without_markers(values, self.nulls)
        if (name in self.times and not _is_bytes(values.type)) or values.type == kind:
            return values, taken
        if pa.types.is_string(values.type):
            values, converted = typed(values, kind, self.nulls)
            return values, taken & converted
        # A whole number that no double is equal to becomes the nearest one, as its digits in a text do.
        exact = not (pa.types.is_integer(values.type) and pa.types.is_floating(kind))
        values, converted = convert(values, lambda these: these.cast(kind, safe=exact))
        return without_markers(values, self.nulls), taken & converted


def _plain(value: pa.Scalar) -> Any:
    """A value as Python has it; a time that Python has none for as its number, and bytes that are no text as they can be read."""
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return value.as_buffer().to_pybytes().decode("utf-8", "backslashreplace")
    except (ValueError, OverflowError):
        return value.value


def _is_bytes(kind: pa.DataType) -> bool:
    """Whether values may be texts, or not: it says nothing of their encoding."""
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)


def _fitting(group: pq.RowGroupMetaData, names: Sequence[str]) -> int:
    """How many rows are taken at a time: fewer if they are large."""
    columns = [group.column(at) for at in range(group.num_columns)]
    size = sum(column.total_uncompressed_size for column in columns if column.path_in_schema.partition(".")[0] in names)
    return int(max(min(BATCH_ROWS, BATCH_BYTES * group.num_rows // max(size, 1)), 1))


def _next(batches: Iterator[pa.RecordBatch], group: Group) -> pa.RecordBatch | None:
    """The next rows of a group, whose pages may be damaged though the footer is not."""
    try:
        return next(batches, None)
    except (pa.ArrowInvalid, OSError) as problem:
        told = str(problem).splitlines()[0].rstrip(".")
        raise StreamError(f"file {group.path}: its row group {group.number + 1} cannot be read ({told}); nothing was stored.") from None


def footer(folder: Lake, path: str) -> tuple[pa.Schema, list[tuple[int, int]]]:
    """What a Parquet file says of itself: its columns, and how many rows and bytes each row group has."""
    try:
        with pq.ParquetFile(folder.files(folder.root).open_input_file(path)) as parquet:
            groups = [parquet.metadata.row_group(number) for number in range(parquet.num_row_groups)]
            sizes = [sum(group.column(at).total_compressed_size for at in range(group.num_columns)) for group in groups]
            return parquet.schema_arrow, [(group.num_rows, size) for group, size in zip(groups, sizes, strict=True)]
    except FileNotFoundError:
        raise StreamError(f"file {path}: it is no longer in {folder.root}.") from None
    except (pa.ArrowInvalid, OSError) as problem:
        raise StreamError(f"file {path}: it is not Parquet, as files.format says ({str(problem).splitlines()[0]}).") from None


def table_at(folder: Lake, name: str, version: int) -> DeltaTable:
    """A Delta table at a version.

    Raises:
        StreamError: it cannot be read.
    """
    try:
        table = folder.table(f"{folder.root}/{name}", version)
    except DeltaError as problem:
        raise StreamError(f"file {name}: the Delta table cannot be read ({str(problem).splitlines()[0]}).") from None
    if table is None:
        raise StreamError(f"file {name}: the Delta table is no longer there.")
    return table


def delta_files(folder: Lake, name: str, version: int, before: Sequence[str] = ()) -> tuple[pa.Schema, dict[str, dict[str, pa.Scalar]]]:
    """The columns of a Delta table, and its files, each with the values of its partition, in the order in which they came.

    Those that were read before stay in front, in their order: of a commit that the table has forgotten nobody can tell it any more.

    Raises:
        StreamError: its files alone do not tell what is in it.
    """
    table = table_at(folder, name, version)
    if told := _why_not(table):
        raise StreamError(f"file {name}: the Delta table {told}.")
    added = pa.table(table.get_add_actions())
    partitions = added["partition"] if "partition" in added.column_names else [{}] * len(added)
    paths = [f"{name}/{unquote(path)}" for path in added["path"].to_pylist()]  # the log has them as parts of URLs
    files = {path: dict(partition) for path, partition in zip(paths, partitions, strict=True)}
    written, commits = dict(zip(paths, added["modification_time"].to_pylist(), strict=True)), _commits(folder, name, version)

    places = {path: place for place, path in enumerate(before)}

    def came(path: str) -> tuple[int, int, list[tuple[int, int, str]]]:
        if path in places:
            return -2, places[path], []
        # Of a forgotten commit there is only when its files were written.
        return (commits[path], 0, natural(path)) if path in commits else (-1, written[path], natural(path))

    return pa.schema(table.schema().to_arrow()), {path: files[path] for path in sorted(files, key=came)}


def _commits(folder: Lake, name: str, version: int) -> dict[str, int]:
    """The commit by which each file came into a Delta table: names of files are random, and those of one commit are written at once."""
    log = folder.files(f"{folder.root}/{name}/_delta_log")
    commits: dict[str, int] = {}
    for info in sorted(log.get_file_info(pafs.FileSelector("")), key=lambda info: info.base_name):
        found = _COMMIT.fullmatch(info.base_name)
        if found is None or int(found[1]) > version:
            continue
        with log.open_input_stream(info.path) as opened:
            actions = [json.loads(line) for line in opened.read().splitlines() if line.strip()]
        for action in actions:
            if "add" in action:
                commits.setdefault(f"{name}/{unquote(action['add']['path'])}", int(found[1]))
    return commits


def _why_not(table: DeltaTable) -> str:
    """What forbids to read a table's files as they are, or nothing."""
    mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    if mode != "none":
        return f"has column mapping (delta.columnMapping.mode is {mode!r}); allowed are tables whose files have the table's own names"
    # Many tables may have them and few do.
    may = "deletionVectors" in (table.protocol().reader_features or ())
    if may and any(batch.num_rows for batch in table.deletion_vectors()):
        return "has deletion vectors; allowed are tables without, such as REORG TABLE ... APPLY (PURGE) leaves"
    return ""
