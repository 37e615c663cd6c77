"""Columnar files: Parquet, and the data files of a Delta table, some row groups at a time.

Values have types already; those that do not fit the declared ones are rejected like texts that are no numbers. The text of a
rejected record is its JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from replay.streams.parsed import Parsed, Reject, Rules, not_a
from replay.streams.values import Mask, convert, typed

BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class Columnar:
    """How the columns of a file become declared ones."""

    at: Mapping[str, str]
    """The file's column for each that is read."""
    types: Mapping[str, pa.DataType]
    """Of those that are not times: times are kept as they are."""
    times: Sequence[str] = ()
    nulls: Sequence[str] = ("",)

    def read(self, files: pafs.FileSystem, path: str, groups: Sequence[int]) -> Iterator[Parsed]:
        """The records of some row groups."""
        first = 0
        with pq.ParquetFile(files.open_input_file(path)) as parquet:
            if not groups:
                return
            for batch in parquet.iter_batches(
                BATCH_ROWS, row_groups=list(groups), columns=list(dict.fromkeys(self.at.values())), use_threads=False
            ):
                yield self._parsed(batch, first)
                first += batch.num_rows

    def _parsed(self, batch: pa.RecordBatch, first: int) -> Parsed:
        def text(row: int) -> str:
            return json.dumps({name: batch[name][row].as_py() for name in batch.schema.names}, default=str)

        rules = Rules(batch.num_rows)
        columns: dict[str, pa.Array] = {}
        for name, source in self.at.items():
            values, taken = self._values(name, batch[source])
            rules.refuse(~taken, not_a(name, self.types[name]))
            columns[name] = values
        bad, table, rows = rules.broken, pa.table(columns), batch.num_rows
        good = np.flatnonzero(~bad)
        rejects = [Reject(first + int(i), text(int(i)), rules.reason(int(i))) for i in np.flatnonzero(bad)]
        return Parsed(
            table.filter(pa.array(~bad)) if rejects else table, first + good, lambda row: text(int(good[row])), rows, rows, rejects
        )

    def _values(self, name: str, values: pa.Array) -> tuple[pa.Array, Mask]:
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type):
            values = values.cast(pa.string())
        if pa.types.is_string(values.type):
            values = pc.if_else(pc.is_in(values, pa.array(self.nulls, pa.string())), pa.scalar(None, pa.string()), values)
        if name in self.times or values.type == self.types[name]:
            return values, np.ones(len(values), bool)
        if pa.types.is_string(values.type):
            return typed(values, self.types[name])
        return convert(values, lambda these: these.cast(self.types[name]))
