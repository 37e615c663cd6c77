"""Layout: the partial aggregates of a list of aggregates, as columns of numbers, one row per partial.

A technique decides which tuples belong together (cells) and which partials make up a result (ranges of rows); what is in
a row is known here only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from engines.aggregates.columns import Tuples, restored
from engines.aggregates.kernels import Array, fixed
from engines.aggregates.parts import Counted, Edge, IntSum, Part
from engines.aggregates.recipes import RECIPES, overflown
from engines.aggregates.spec import Aggregate
from engines.spec import SpecError

_BLOCK = 16
"""Rows that are reduced together beforehand where ranges overlap much; also how much overlap makes that worth while."""


class Layout:
    """Partials of aggregates over a stream's columns.

    >>> from engines.aggregates.spec import Mean, Sum
    >>> layout = Layout([Sum("v"), Mean("v")], pa.schema([("v", pa.int64())]))
    >>> layout.fields.names
    ['tuples', 'count:v', 'high:v', 'low:v']
    >>> partials = layout.lift(np.array([0, 1, 0]), 2, pa.record_batch({"v": [1, 2, 4]}))
    >>> [column.to_pylist() for column in layout.lower(partials)]
    [[5, 2], [2.5, 2.0]]
    """

    def __init__(self, aggregates: Sequence[Aggregate], schema: pa.Schema, *, finite: bool = False) -> None:
        """Find the parts of each aggregate; `finite`: infinities count as nulls too.

        Raises:
            SpecError: if a column is unknown, or of a type that the aggregate does not take.
        """
        self._finite = finite
        self._aggregates = tuple({aggregate.name: aggregate for aggregate in aggregates}.values())
        types = [_type(aggregate, schema) for aggregate in self._aggregates]
        recipes = [RECIPES[aggregate.kind] for aggregate in self._aggregates]
        needed = [recipe.parts(a.column, t) for a, t, recipe in zip(self._aggregates, types, recipes, strict=True)]
        self._lowers = [(recipe.lower, parts) for recipe, parts in zip(recipes, needed, strict=True)]
        self._parts = tuple(dict.fromkeys([Counted(None), *(part for parts in needed for part in parts)]))
        self.outputs = tuple(pa.field(a.name, recipe.result(t)) for a, t, recipe in zip(self._aggregates, types, recipes, strict=True))
        """One result column per distinct aggregate, in order."""
        self.fields = pa.schema([field for part in self._parts for field in part.fields()])
        """The columns of a partial; the first is `tuples`."""
        read = [part.column for part in self._parts] + ["arrival"] * any(isinstance(part, Edge) for part in self._parts)
        self.columns = tuple(dict.fromkeys(column for column in read if column not in (None, "ts")))
        """The columns that lift reads besides `ts`."""

    def lift(self, cells: Array, n: int, tuples: pa.RecordBatch) -> list[Array]:
        """Partials of n cells; tuple i belongs to cell `cells[i]`, or to none if that is -1."""
        batch = Tuples(cells, tuples, finite=self._finite)
        return [column for part in self._parts for column in part.lift(n, batch)]

    def reduce(self, partials: Sequence[Array], lo: Array, hi: Array) -> list[Array]:
        """One partial for each range of rows `lo[r]` to `hi[r] - 1`; ranges may overlap, an empty one gives the neutral partial."""
        rows = len(partials[0])
        if (hi - lo).sum() <= _BLOCK * (rows + len(lo)):
            return self._reduce(partials, lo, hi)
        # Whole blocks are reduced once and shared by all ranges, and blocks of blocks in turn: a tree of partials (FlatFAT
        # with a wider base), so that a range costs its logarithm and not its length.
        starts = np.arange(0, rows, _BLOCK)
        blocks = self._reduce(partials, starts, np.minimum(starts + _BLOCK, rows))
        first = -(-lo // _BLOCK)
        last = np.maximum(first, hi // _BLOCK)
        head = np.minimum(first * _BLOCK, hi)
        tail = np.maximum(last * _BLOCK, head)
        pieces = self._reduce(partials, lo, head), self.reduce(blocks, first, last), self._reduce(partials, tail, hi)
        thirds = 3 * np.arange(len(lo))
        return self._reduce([np.stack(columns, axis=1).ravel() for columns in zip(*pieces, strict=True)], thirds, thirds + 3)

    def lower(self, partials: Sequence[Array]) -> list[pa.Array]:
        """One array per output."""
        columns = dict(self._split(partials))
        lowered = (lower(*(column for part in parts for column in columns[part])) for lower, parts in self._lowers)
        return [restored(values, field.type, nulls) for (values, nulls), field in zip(lowered, self.outputs, strict=True)]

    def overflows(self, partials: Sequence[Array]) -> int:
        """How many integer sums are beyond int64, and therefore null."""
        return sum(int(overflown(own[0]).sum()) for part, own in self._split(partials) if isinstance(part, IntSum))

    def to_arrow(self, partials: Sequence[Array]) -> list[pa.Array]:
        """The columns named in `fields`."""
        return [pa.array(column) for column in partials]

    def from_arrow(self, batch: pa.RecordBatch) -> list[Array]:
        """The columns named in `fields`, of a batch that may have others too."""
        return [fixed(batch.column(name).to_numpy()) for name in self.fields.names]

    def _reduce(self, partials: Sequence[Array], lo: Array, hi: Array) -> list[Array]:
        lo, hi = fixed(lo, np.int64), fixed(hi, np.int64)
        return [out for part, own in self._split(partials) for out in part.reduce([fixed(column) for column in own], lo, hi)]

    def _split(self, partials: Sequence[Array]) -> Iterator[tuple[Part, Sequence[Array]]]:
        at = 0
        for part in self._parts:
            width = len(part.fields())
            yield part, partials[at : at + width]
            at += width


def _type(aggregate: Aggregate, schema: pa.Schema) -> pa.DataType:
    """The type of the column that an aggregate is of."""
    if aggregate.column is None:
        return pa.null()
    recipe = RECIPES[aggregate.kind]
    fitting = [field.name for field in schema if recipe.takes(field.type)]
    known = schema.names.count(aggregate.column) == 1
    if known and aggregate.column in fitting:
        return schema.field(aggregate.column).type
    given = f"the column is of type {schema.field(aggregate.column).type}" if known else "the stream has no such column"
    raise SpecError(
        f"{aggregate.kind} of {aggregate.column!r}: {given}; allowed are {recipe.allowed}, here {', '.join(fitting) or 'none'}."
    )
