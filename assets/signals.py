"""The signal that a picture of results shows: tuples of the log, of the key with most results, with the units of their columns.

Of a long log no more is read than a picture needs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from assets.workplace import Workplace

if TYPE_CHECKING:
    from replay.log import Log

MOST_READ = 1_000_000
"""So many tuples are read at most, of all keys."""
_ALWAYS = ("ts", "start", "end", "key")


def signal_of(workplace: Workplace, log: Log, spec: Mapping[str, Any], results: pa.Table, days: Collection[object]) -> pa.Table:
    """Tuples of some days: the columns that a specification names, each with its `unit` in the field's metadata."""
    named = {*_ALWAYS, *re.findall(r"\w+", json.dumps(spec))}
    units = _units(workplace, log.address.rpartition("/")[2])
    schema = pa.schema([field.with_metadata(units.get(field.name)) for field in log.schema if field.name in named])
    key = most_frequent(results)
    found = [batch if key is None else batch.filter(pc.equal(batch["key"], key)) for batch in _batches(log, schema, days)]
    return pa.Table.from_batches([batch.cast(schema) for batch in found], schema)


def most_frequent(results: pa.Table) -> pa.Scalar | None:
    """The key with most results; None if there are none, or no keys."""
    if not results.num_rows or "key" not in results.column_names:
        return None
    counts = pc.value_counts(results["key"].drop_null())
    return counts.field("values")[pc.index(counts.field("counts"), pc.max(counts.field("counts"))).as_py()] if len(counts) else None


def _batches(log: Log, schema: pa.Schema, days: Collection[object]) -> Iterator[pa.RecordBatch]:
    read, files = 0, log.lake.files(log.address)
    for path in log.paths:
        if not any(f"day={day}/" in path for day in days):
            continue
        with pq.ParquetFile(files.open_input_file(path)) as parquet:
            for batch in parquet.iter_batches(columns=schema.names):
                yield batch
                read += batch.num_rows
                if read >= MOST_READ:
                    return


def _units(workplace: Workplace, stream: str) -> dict[str, dict[str, str]]:
    """The units that are declared, if the stream is."""
    from engines.spec import SpecError

    with suppress(SpecError):
        return {column.name: {"unit": column.unit} for column in workplace.declaration(stream).columns if column.unit}
    return {}
