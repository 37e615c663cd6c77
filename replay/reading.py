"""Reading a piece of the log: the columns that an operator lifts, and late tuples in full.

Runs in the tasks. What is to be read was planned before, from statistics; here, and only here, data files are opened.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engines.contract import BEGINNING, Clock, Operator
from engines.state import one_batch
from replay.file_slices import FileSlice
from replay.lake import Lake
from replay.lifting import Piece, late_columns


def read_piece(lake: Lake, part: FileSlice, operator: Operator, schema: pa.Schema, clock: Clock) -> Piece:
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
            # Arrivals of several streams are told apart, or their merging would settle ties between them, as batches happen to be cut.
            return pa.array(np.arange(first, first + rows.num_rows) * part.streams + part.turn)
        if name == "stream":
            return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows.num_rows, np.int32)), pa.array([part.stream]))
        return rows[name] if name in there else pa.nulls(rows.num_rows, schema.field(name).type)

    def late_rows(late: NDArray[np.bool_]) -> pa.RecordBatch:
        with pq.ParquetFile(files.open_input_file(part.path)) as parquet:
            rows = parquet.read(use_threads=False).slice(part.skip, part.take)
        return conform(one_batch(rows.filter(pa.array(late))), late_columns(schema), part.stream)

    tuples = pa.record_batch([column(name) for name in wanted], names=wanted)
    # Later files' least times, and the final watermark of the whole log for files that do not exist yet.
    alone_before = BEGINNING if part.least_after is None else min(part.least_after, part.clock_end - clock.behind_us)
    return Piece(part.stream, first, tuples, clock_before, late_rows, part.alone, alone_before)


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
