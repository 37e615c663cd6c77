"""Results of slicing: windows, found as ranges of slices, as rows with their aggregates, in their fixed order.

Windows that several queries ask for are found once, and computed once for those that want the same aggregates of them.
How windows are found is said in `engine.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from engines.aggregates.kernels import Array
from engines.aggregates.layout import Layout
from engines.aggregates.spec import Aggregate
from engines.contract import TIMESTAMP
from engines.keys import key_type
from engines.slicing.spec import AFTER, BEFORE, Query, Spec
from engines.slicing.windows import Shape, shape_of
from engines.spec import SpecError

_TYPES = {
    "query": pa.string(),
    "window_start": TIMESTAMP,
    "window_end": TIMESTAMP,
    "measure_start": pa.int64(),
    "measure_end": pa.int64(),
    "tuples": pa.int64(),
    "decided": TIMESTAMP,
    "revision": pa.int64(),
    "retracted": pa.bool_(),
}


class Found(NamedTuple):
    """Windows of one shape, by key and start: rows `lo` to `hi - 1` of the slices make up the one that begins at `start`."""

    lo: Array
    hi: Array
    start: Array


class _Group:
    """Queries that want the same aggregates, and the shapes of their windows."""

    def __init__(self, aggregates: Sequence[Aggregate], queries: Sequence[Query], schema: pa.Schema) -> None:
        self.layout = Layout(aggregates, schema)
        self.shapes = tuple(dict.fromkeys(shape_of(query.window) for query in queries))


class Results:
    """The result rows of some queries over a stream."""

    def __init__(self, spec: Spec, schema: pa.Schema) -> None:
        """Gather queries that want the same; raises `SpecError` if a name stands for two types."""
        self._queries = sorted(spec.queries, key=lambda query: query.name)
        by_aggregates: dict[tuple[Aggregate, ...], list[Query]] = {}
        for query in self._queries:
            by_aggregates.setdefault(query.aggregates, []).append(query)
        self._groups = {aggregates: _Group(aggregates, queries, schema) for aggregates, queries in by_aggregates.items()}
        aggregated: dict[str, pa.Field] = {}
        for query in spec.queries:
            for field in self._groups[query.aggregates].layout.outputs:
                known = aggregated.setdefault(field.name, field)
                if known.type != field.type:
                    raise SpecError(
                        f"queries: the column '{field.name}' of query '{query.name}' is of type {field.type}, that of another query "
                        f"of type {known.type}; allowed is one type per name, and 'as' gives another name."
                    )
        types = {**_TYPES, "key": key_type(schema)}
        self.schema = pa.schema([*((name, types[name]) for name in BEFORE), *aggregated.values(), *((name, types[name]) for name in AFTER)])

    def rows(self, found: Mapping[Shape, Found], keys: pa.Array, partials: Mapping[str, Array]) -> tuple[pa.Table, dict[str, int]]:
        """The rows of all windows found, sorted by query, key, end and start; and what they took.

        Args:
            found: The windows, as ranges of slices.
            keys: The key of each slice, in order.
            partials: The columns of the slices' partials.
        """
        counts = {"combines": 0, "overflows": 0}
        if not any(len(some.lo) for some in found.values()):
            return self.schema.empty_table(), counts
        windows: dict[tuple[tuple[Aggregate, ...], Shape], pa.RecordBatch] = {}
        for aggregates, group in self._groups.items():
            lo, hi, start = (_joined([found[shape][column] for shape in group.shapes]) for column in range(3))
            end = start + np.repeat([shape.length for shape in group.shapes], [len(found[shape].lo) for shape in group.shapes])
            reduced = group.layout.reduce([partials[name] for name in group.layout.fields.names], lo, hi)
            counts["combines"] += int((hi - lo - 1).sum())
            counts["overflows"] += group.layout.overflows(reduced)
            block, at = self._block(keys.take(pa.array(lo)), start, end, group.layout, reduced), 0
            for shape in group.shapes:
                windows[aggregates, shape] = block.slice(at, len(found[shape].lo))
                at += len(found[shape].lo)
        # Views of what is computed once: with many queries copies of their rows would take longer than all the rest.
        asked = [self._asked(query, windows[query.aggregates, shape_of(query.window)]) for query in self._queries]
        return pa.Table.from_batches(asked), counts

    def _asked(self, query: Query, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of windows as those of a query."""
        return rows.set_column(0, self.schema.field("query"), pa.repeat(query.name, rows.num_rows))

    def _block(self, key: pa.Array, start: Array, end: Array, layout: Layout, reduced: Sequence[Array]) -> pa.RecordBatch:
        """Rows of windows, still without their query."""
        columns = {
            "key": key,
            "window_start": pa.array(start).view(TIMESTAMP),
            "window_end": pa.array(end).view(TIMESTAMP),
            "measure_start": pa.array(start),
            "measure_end": pa.array(end),
            **dict(zip((field.name for field in layout.outputs), layout.lower(reduced), strict=True)),
            "tuples": pa.array(reduced[0]),
            "decided": pa.array(end - 1).view(TIMESTAMP),
            "revision": pa.array(np.zeros(len(start), np.int64)),
            "retracted": pa.array(np.zeros(len(start), np.bool_)),
        }
        arrays = [columns[field.name] if field.name in columns else pa.nulls(len(start), field.type) for field in self.schema]
        return pa.record_batch(arrays, schema=self.schema)


def _joined(arrays: Sequence[Array]) -> Array:
    """The arrays one after the other, without a copy of a single one."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
