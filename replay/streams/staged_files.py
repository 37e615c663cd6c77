"""Staged files: how tuples lie on the disk between reading and writing, as Arrow files of limited size.

Whoever reads a split adds its rows here; they are written as soon as they are many or large, so that memory does not grow with
the split. What is in the rows is not looked at, but for their times and what they are sorted by.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engines.contract import TIMESTAMP
from replay.lake import Lake
from replay.streams.samples import Sample

BATCH_ROWS = 1 << 16
BATCH_BYTES = 8 << 20
RUN_ROWS = 1 << 20
"""How many tuples are held, and sorted where arrival is not the order of the file, at a time ..."""
RUN_BYTES = 64 << 20
"""... unless they are larger than this before."""


@dataclass(frozen=True)
class Batch:
    """A record batch of a staged file. All but the last of a file have as many rows."""

    rows: int
    clock: int
    """The largest time in it."""
    first: int
    """Its first value of what the stream is ordered by; 0 where that is the file."""
    bytes: int = 0
    """How large its values are: the same for the same rows, however they are divided."""


@dataclass(frozen=True)
class Run:
    """A file of tuples: staged in the order of the raw file, or sorted by what they are ordered by; or one of the log."""

    path: str
    batches: list[Batch]
    of_log: bool = False

    @property
    def rows(self) -> int:
        """How many tuples it holds."""
        return sum(batch.rows for batch in self.batches)

    @property
    def batch_rows(self) -> int:
        """How many rows a batch of it has, but for the last."""
        return self.batches[0].rows


class StageWriter:
    """Rows become staged files: one in the order of the file, or sorted ones of limited size."""

    def __init__(self, stage: Lake, name: str, schema: pa.Schema, ordered_by: str | None) -> None:
        """To files of this name and these columns; `ordered_by`: sorted."""
        self._stage, self._name, self._schema, self._by = stage, name, schema, ordered_by
        even = [field.type for field in schema if pa.types.is_primitive(field.type)]
        self._row_bytes = sum(max(kind.bit_width // 8, 1) for kind in even)
        self._uneven = [field.name for field in schema if not pa.types.is_primitive(field.type)]
        self._held: list[pa.Table] = []
        self._rows = self._bytes = 0
        self._runs: list[Run] = []
        self.sample = Sample.empty()

    def add(self, rows: pa.Table) -> None:
        """Take rows on."""
        self._held.append(rows)
        self._rows, self._bytes = self._rows + rows.num_rows, self._bytes + self._size(rows)
        if self._rows >= RUN_ROWS or self._bytes >= RUN_BYTES:
            self._flush()

    def finish(self) -> list[Run]:
        """The files that were written."""
        self._flush()
        return self._runs

    def alone(self, row: pa.Table, name: str) -> Run:
        """A row in a file of its own, not sampled: it may yet be rejected."""
        return self._write(row, f"{self._name}-{name}")

    def _flush(self) -> None:
        rows = pa.concat_tables([self._schema.empty_table(), *self._held])
        self._held, self._rows, self._bytes = [], 0, 0
        if rows.num_rows:
            if self._by:
                rows = rows.take(pa.array(np.argsort(int64(rows, self._by), kind="stable")))
            self._sample(rows)
            self._runs.append(self._write(rows, f"{self._name}-{len(self._runs):04d}"))

    def _size(self, rows: pa.Table) -> int:
        """How many bytes the values of rows take: not counted are marks of nulls, which are there or not as it comes."""
        size = rows.num_rows * self._row_bytes
        for name in self._uneven:
            column = rows[name]
            if pa.types.is_string(column.type):
                size += rows.num_rows * 4 + sum(_characters(chunk) for chunk in column.chunks)
            else:  # of a log that was not made from files
                size += column.nbytes
        return size

    def _sample(self, rows: pa.Table) -> None:
        if self._by:
            self.sample = self.sample.merged(Sample.of(int64(rows, self._by), self._size(rows)))

    def _write(self, rows: pa.Table, name: str) -> Run:
        moves = "end" if "end" in self._schema.names and "start" in self._schema.names else "ts"
        path, batches = f"{name}.arrow", []
        step = min(max(rows.num_rows * BATCH_BYTES // max(self._size(rows), 1), 1), BATCH_ROWS)
        rows = rows.combine_chunks()
        with self._stage.files(self._stage.root).open_output_stream(path) as sink, pa.ipc.new_file(sink, self._schema) as out:
            for at in range(0, rows.num_rows, step):
                part = rows.slice(at, step).combine_chunks()  # of texts of more than 2 GiB Arrow makes chunks, which end anywhere
                out.write_table(part, step)
                first = int(int64(part, self._by)[0]) if self._by else 0
                batches.append(Batch(part.num_rows, int(int64(part, moves).max()), first, self._size(part)))
        return Run(path, batches)


def _characters(texts: pa.StringArray) -> int:
    """How many bytes texts have, by where the first begins and the last ends."""
    if not len(texts) or texts.buffers()[1] is None:
        return 0
    ends = np.frombuffer(texts.buffers()[1], np.int32)
    return int(ends[texts.offset + len(texts)] - ends[texts.offset])


def int64(rows: pa.Table, name: str) -> NDArray[np.int64]:
    """A column of numbers or times as numbers."""
    column = rows[name].combine_chunks()
    values: NDArray[np.int64] = (column.view(pa.int64()) if column.type == TIMESTAMP else column.cast(pa.int64())).to_numpy()
    return values
