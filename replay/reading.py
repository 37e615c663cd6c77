"""Reading a piece of the log: the columns that an operator lifts, and late tuples in full.

Runs in the tasks. What is to be read was planned before, from statistics; here, and only here, data files are opened.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engines.contract import BEGINNING, Operator
from engines.state import one_batch
from replay.lake import Lake
from replay.lifting import Piece
from replay.log import Log


@dataclass(frozen=True)
class FileSlice:
    """Some rows of one file of a log."""

    stream: str
    address: str
    path: str
    first: int
    """The arrival of the file's first row."""
    skip: int
    take: int
    whole: bool
    """Whether these are all rows of the file."""
    clock_before: int
    """The clock before the file's first row."""
    alone_before: int
    alone: bool


def file_slices(stream: str, log: Log, begin: int, end: int, *, behind_us: int, alone: bool) -> list[FileSlice]:
    """The pieces of files that hold the arrivals from `begin` to before `end`."""
    if begin >= end:
        return []
    slices = []
    for file in range(log.file_of(begin), log.file_of(end - 1) + 1):
        first, rows = int(log.first[file]), int(log.rows[file])
        skip, stop = max(begin - first, 0), min(end - first, rows)
        # Later files' least times, and the final watermark of the whole log for files that do not exist yet.
        alone_before = min(int(log.least_ts_after[file]), log.clock_end - behind_us) if stop == rows else BEGINNING
        slices.append(
            FileSlice(
                stream,
                log.address,
                log.paths[file],
                first,
                skip,
                stop - skip,
                stop - skip == rows,
                log.clock_before(file),
                alone_before,
                alone,
            )
        )
    return slices


def read_piece(lake: Lake, part: FileSlice, operator: Operator, schema: pa.Schema) -> Piece:
    """The piece, with the columns that the operator lifts."""
    wanted = list(dict.fromkeys(["ts", *operator.columns]))
    made = {"arrival", "stream"}
    text = [name for name in wanted if name in schema.names and pa.types.is_string(schema.field(name).type)]
    files = lake.files(part.address)
    with pq.ParquetFile(files.open_input_file(part.path), read_dictionary=text) as parquet:
        there = set(parquet.schema_arrow.names)
        table = parquet.read(columns=[name for name in wanted if name in there - made], use_threads=False)
    clock_before = part.clock_before
    if not part.whole:
        if part.skip:
            clock_before = max(clock_before, int(np.max(table["ts"].combine_chunks().view(pa.int64()).to_numpy()[: part.skip])))
        table = table.slice(part.skip, part.take)
    rows, first = one_batch(table), part.first + part.skip

    def column(name: str) -> pa.Array:
        if name == "arrival":
            return pa.array(np.arange(first, first + rows.num_rows))
        if name == "stream":
            return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows.num_rows, np.int32)), pa.array([part.stream]))
        return rows[name] if name in there else pa.nulls(rows.num_rows, schema.field(name).type)

    def late_rows(at: NDArray[np.int64]) -> pa.RecordBatch:
        with pq.ParquetFile(files.open_input_file(part.path)) as parquet:
            late = one_batch(parquet.read(use_threads=False).take(pa.array(at + part.skip)))
        return conform(late, schema, part.stream)

    tuples = pa.record_batch([column(name) for name in wanted], names=wanted)
    return Piece(part.stream, first, tuples, clock_before, late_rows, part.alone, part.alone_before)


def conform(rows: pa.RecordBatch, schema: pa.Schema, stream: str) -> pa.RecordBatch:
    """Rows of one stream with the columns of all."""
    columns = []
    for field in schema:
        if field.name == "stream" and "stream" not in rows.schema.names:
            columns.append(pa.array([stream] * rows.num_rows, pa.string()))
        elif field.name in rows.schema.names:
            columns.append(rows[field.name].cast(field.type))
        else:
            columns.append(pa.nulls(rows.num_rows, field.type))
    return pa.record_batch(columns, schema=pa.schema(list(schema)))
