"""The engine of general slicing: tuples into slices (lift), slices into slices (combine), slices into windows (lower).

State is one row per key and slice that holds a tuple, so it follows the tuples and never the range of time. How a partial
looks inside is known to `Layout` only, where time is cut to `windows.py` only, and how rows of results look to `results.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from engines.aggregates.columns import numbers
from engines.aggregates.kernels import Array, fixed
from engines.aggregates.layout import Layout
from engines.contract import TIMESTAMP, Clock, Interval
from engines.keys import encode, encode_column, key_type, rank
from engines.slicing import kernels
from engines.slicing.plan import Plan, explain, plan
from engines.slicing.results import Found, Results
from engines.slicing.spec import Spec
from engines.slicing.windows import Shape, Slicing, shape_of
from engines.spec import SpecError
from engines.state import State

_DENSE_CELLS = 1024
"""So many cells of keys times slices are made even for a few tuples; beyond, at most one per tuple."""


class Engine:
    """General slicing with its settings."""

    version: ClassVar[int] = 1

    def __init__(self, spec: Spec) -> None:
        """Decide what has to be kept and done."""
        self.spec = spec
        self.plan: Plan = plan(spec)

    def clock(self, stream: str) -> Clock:
        """The delay and the lateness, the same for every stream."""
        return Clock(self.spec.delay, self.spec.lateness)

    def lookback(self) -> int | None:
        """The longest window."""
        return max(query.window.length for query in self.spec.queries)

    def explain(self) -> str:
        """The plan and the queries, in words."""
        return explain(self.spec)

    def on(self, schema: pa.Schema) -> Operator:
        """Bind the queries to the columns of a stream."""
        return Operator(self.spec, schema)


class _Arranged:
    """What combine learns of the rows of the state, and lower needs."""

    def __init__(self, codes: Array, starts: Array, touched: Array) -> None:
        self.codes = fixed(codes)
        """The place of each row's key among all; rows are sorted by it, and by start."""
        self.starts = fixed(starts)
        self.touched = touched
        """Which rows got tuples since the last lower."""
        self.touched_before = fixed(np.concatenate([[0], np.cumsum(touched)]))
        """How many such rows are before each."""


class Operator:
    """General slicing of a stream."""

    one_bucket: ClassVar[bool] = False

    def __init__(self, spec: Spec, schema: pa.Schema) -> None:
        """Lay out partials, cut time, and declare results; raises `SpecError` where columns do not fit."""
        if "ts" not in schema.names or schema.field("ts").type != TIMESTAMP:
            given = schema.field("ts").type if "ts" in schema.names else "no such column"
            raise SpecError(f"ts: {given} given; allowed is a column of type {TIMESTAMP}.")
        asked = [aggregate for query in spec.queries for aggregate in query.aggregates]
        # Under names of their own: two queries may use one name for different aggregates.
        self._layout = Layout([aggregate.model_copy(update={"rename": str(i)}) for i, aggregate in enumerate(asked)], schema)
        self._shapes = tuple(dict.fromkeys(shape_of(query.window) for query in spec.queries))
        self._slicing = Slicing(self._shapes)
        self._results = Results(spec, schema)
        self.partials = pa.schema([("key", key_type(schema)), ("start", pa.int64()), *self._layout.fields])
        self.tables: Mapping[str, pa.Schema] = {"slices": self.partials}
        self.outputs: Mapping[str, pa.Schema] = {"results": self._results.schema}
        self.identity: Mapping[str, Sequence[str]] = {"results": ("query", "key", "measure_end", "measure_start")}
        self.key = "key" if "key" in schema.names else None
        self.columns: Sequence[str] = tuple(dict.fromkeys(["ts", *filter(None, [self.key]), *self._layout.columns]))

    def lift(self, tuples: pa.RecordBatch, alone: Interval) -> pa.RecordBatch:
        """One partial for each key and slice that these tuples fall into."""
        codes, keys = encode_column(tuples)
        ts = numbers(tuples.column("ts"))
        cut = self._slicing.cut(ts)
        width = len(cut.starts)
        if len(keys) * width <= tuples.num_rows + _DENSE_CELLS:
            cells = np.require(codes, requirements="W")
            cut.place(ts, cells, width)
            fields = self._layout.lift(cells, len(keys) * width, tuples)
            occupied = np.flatnonzero(fields[0])
            fields, (code, place) = [column[occupied] for column in fields], np.divmod(occupied, max(width, 1))
        else:
            slices = np.zeros(len(ts), np.int32)
            cut.place(ts, slices, 0)
            cells, code, place = (np.empty(len(ts), np.int32) for _ in range(3))
            count = kernels.number_cells(fixed(codes), fixed(slices), len(keys), width, cells, code, place)
            fields, code, place = self._layout.lift(cells, count, tuples), code[:count], place[:count]
        return self._rows(keys.take(pa.array(code)), cut.starts[place], fields)

    def combine(self, state: State, partials: Sequence[pa.RecordBatch]) -> None:
        """Merge partials of the same key and slice; rows stay sorted by key and start, and so will be the windows made of them."""
        held = state["slices"]
        before: _Arranged | None = state.scratch.get("slices")
        rows = pa.concat_batches([held, *partials])
        numbered, keys = encode(rows.column("key"))
        codes = rank(keys)[numbered]
        starts = numbers(rows.column("start"))
        order = np.empty(rows.num_rows, np.int64)
        if not kernels.arrange(fixed(codes), starts, len(keys), order):
            order = np.lexsort((starts, codes))
        touched = np.ones(rows.num_rows, np.bool_)
        touched[: held.num_rows] = before.touched if before else False
        codes, starts, touched = codes[order], starts[order], touched[order]
        first = np.flatnonzero(_changes(codes) | _changes(starts))
        if len(first) < rows.num_rows or touched.any() or not np.array_equal(order, np.arange(len(order))):
            fields = [column[order] for column in self._layout.from_arrow(rows)]
            fields = self._layout.reduce(fields, first, np.append(first[1:], rows.num_rows))
            touched = np.logical_or.reduceat(touched, first)
            state["slices"] = self._rows(rows.column("key").take(pa.array(order[first])), starts[first], fields)
        state.scratch["slices"] = _Arranged(codes[first], starts[first], touched)
        inserted = sum(int(numbers(batch.column("tuples")).sum()) for batch in partials)
        _count(state, insertions=inserted, slices_made=len(first) - held.num_rows)

    def lower(self, state: State, due: int, final: int) -> Mapping[str, pa.Table]:
        """Windows that are due, new ones and those whose slices were touched; forgets slices of final windows."""
        if "slices" not in state.scratch:
            self.combine(state, [])
        arranged: _Arranged = state.scratch.pop("slices")
        slices = state["slices"]
        found = {shape: self._windows(shape, arranged, state, due) for shape in self._shapes}
        partials = dict(zip(self._layout.fields.names, self._layout.from_arrow(slices), strict=True))
        results, counts = self._results.rows(found, slices.column("key"), partials)
        _count(state, **counts)
        keep = arranged.starts >= final
        past = np.flatnonzero(~keep)
        keep[past] = np.logical_or.reduce([shape.needed(arranged.starts[past], final) for shape in self._shapes])
        if not keep.all():
            state["slices"] = slices.filter(pa.array(keep))
        return {"results": results}

    def _windows(self, shape: Shape, arranged: _Arranged, state: State, due: int) -> Found:
        """The windows of a shape that are due, and are new or hold a slice that was touched."""
        again, new, end = (shape.first_decided_from(instant) for instant in (state.final, state.due, due))
        room, count = -1, len(arranged.starts)
        while room < count:
            out, room = np.empty((count, 3), np.int64), count
            count = kernels.windows(arranged.codes, arranged.starts, arranged.touched_before, *shape, again, new, end, out)
        lo, hi, k = np.ascontiguousarray(out[:count].T)
        return Found(lo, hi, shape.offset + k * shape.slide)

    def _rows(self, key: pa.Array, start: Array, fields: Sequence[Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([key, pa.array(start), *self._layout.to_arrow(fields)], schema=self.partials)


def _changes(values: Array) -> Array:
    """Where a value differs from the one before; the first does."""
    return np.concatenate([np.ones(min(len(values), 1), np.bool_), values[1:] != values[:-1]])


def _count(state: State, **counts: int) -> None:
    """Add to the counters of this batch."""
    counters = state.scratch.setdefault("counters", {})
    for name, count in counts.items():
        counters[name] = counters.get(name, 0) + count
