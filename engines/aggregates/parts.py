"""Parts: the columns of numbers that partial aggregates are made of, and how they merge.

A part is made from tuples (`lift`) and from ranges of itself (`reduce`). Aggregates are recipes over parts, and those that
need the same part share it: sum and mean of one column keep one sum. All parts commute.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engines.aggregates import kernels
from engines.aggregates.columns import Tuples
from engines.aggregates.kernels import Array

_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class Part(ABC):
    """A mergeable piece of a partial; equal parts are the same columns."""

    column: str | None

    @abstractmethod
    def fields(self) -> list[pa.Field]:
        """Its columns. The colon keeps their names apart from those of everything else."""

    @abstractmethod
    def lift(self, n: int, tuples: Tuples) -> list[Array]:
        """Its columns for n cells of tuples."""

    @abstractmethod
    def reduce(self, columns: Sequence[Array], lo: Array, hi: Array) -> list[Array]:
        """Its columns for ranges of rows; the neutral element where a range is empty."""


@dataclass(frozen=True)
class Counted(Part):
    """How many tuples, or how many values of a column."""

    def fields(self) -> list[pa.Field]:
        """One column."""
        return [_field("tuples" if self.column is None else f"count:{self.column}", pa.int64())]

    def lift(self, n: int, tuples: Tuples) -> list[Array]:
        """Count per cell."""
        count = np.zeros(n, np.int64)
        kernels.lift_count(tuples.cells(self.column), count)
        return [count]

    def reduce(self, columns: Sequence[Array], lo: Array, hi: Array) -> list[Array]:
        """Add up."""
        out = np.zeros(len(lo), np.int64)
        kernels.reduce_count(lo, hi, columns[0], out)
        return [out]


@dataclass(frozen=True)
class FloatSum(Part):
    """A float sum and the rounding errors that it made."""

    def fields(self) -> list[pa.Field]:
        """Sum and error; the value is both together."""
        return [_field(f"sum:{self.column}", pa.float64()), _field(f"error:{self.column}", pa.float64())]

    def lift(self, n: int, tuples: Tuples) -> list[Array]:
        """Compensated sum per cell."""
        total, error = np.zeros(n), np.zeros(n)
        kernels.lift_float_sum(tuples.cells(self.column), tuples.numbers(str(self.column)), total, error)
        return [total, error]

    def reduce(self, columns: Sequence[Array], lo: Array, hi: Array) -> list[Array]:
        """Compensated sum of sums."""
        out = [np.zeros(len(lo)), np.zeros(len(lo))]
        kernels.reduce_float_sum(lo, hi, *columns, *out)
        return out


@dataclass(frozen=True)
class IntSum(Part):
    """An exact integer sum of more than 64 bits: `high * 2**32 + low`, with 0 <= low < 2**32."""

    def fields(self) -> list[pa.Field]:
        """Both halves."""
        return [_field(f"high:{self.column}", pa.int64()), _field(f"low:{self.column}", pa.int64())]

    def lift(self, n: int, tuples: Tuples) -> list[Array]:
        """Exact sum per cell."""
        high, low = np.zeros(n, np.int64), np.zeros(n, np.int64)
        kernels.lift_int_sum(tuples.cells(self.column), tuples.numbers(str(self.column)), high, low)
        return [high, low]

    def reduce(self, columns: Sequence[Array], lo: Array, hi: Array) -> list[Array]:
        """Exact sum of sums."""
        out = [np.zeros(len(lo), np.int64), np.zeros(len(lo), np.int64)]
        kernels.reduce_int_sum(lo, hi, *columns, *out)
        return out


@dataclass(frozen=True)
class Extreme(Part):
    """The least or largest value."""

    floating: bool
    largest: bool

    def fields(self) -> list[pa.Field]:
        """One column of the numbers' type."""
        return [_field(f"{'max' if self.largest else 'min'}:{self.column}", pa.float64() if self.floating else pa.int64())]

    def lift(self, n: int, tuples: Tuples) -> list[Array]:
        """Extreme per cell."""
        out = self._neutral(n)
        kernels.lift_extreme(tuples.cells(self.column), tuples.numbers(str(self.column)), self.largest, out)
        return [out]

    def reduce(self, columns: Sequence[Array], lo: Array, hi: Array) -> list[Array]:
        """Extreme of extremes."""
        out = self._neutral(len(lo))
        kernels.reduce_extreme(lo, hi, columns[0], self.largest, out)
        return [out]

    def _neutral(self, n: int) -> Array:
        least, greatest = (-np.inf, np.inf) if self.floating else (_LEAST, _GREATEST)
        return np.full(n, least if self.largest else greatest)


@dataclass(frozen=True)
class Edge(Part):
    """The value of the first or last tuple, with its place (ts, arrival), so that merging does not depend on order."""

    floating: bool
    last: bool

    def fields(self) -> list[pa.Field]:
        """Value, ts and arrival."""
        name = "last" if self.last else "first"
        value = _field(f"{name}:{self.column}", pa.float64() if self.floating else pa.int64())
        return [value, *(_field(f"{name}_{place}:{self.column}", pa.int64()) for place in ("ts", "arrival"))]

    def lift(self, n: int, tuples: Tuples) -> list[Array]:
        """First or last per cell."""
        row = np.full(n, -1, np.int64)
        ts, arrival = tuples.numbers("ts"), tuples.numbers("arrival")
        kernels.lift_edge(tuples.cells(self.column), ts, arrival, self.last, row)
        return self._taken([tuples.numbers(str(self.column)), ts, arrival], row)

    def reduce(self, columns: Sequence[Array], lo: Array, hi: Array) -> list[Array]:
        """First of firsts, last of lasts."""
        row = np.empty(len(lo), np.int64)
        kernels.reduce_edge(lo, hi, columns[1], columns[2], self.last, row)
        return self._taken(columns, row)

    def _taken(self, columns: Sequence[Array], row: Array) -> list[Array]:
        neutral = 0, *(2 * [_LEAST if self.last else _GREATEST])
        if not len(columns[0]):
            return [np.full(len(row), value, column.dtype) for column, value in zip(columns, neutral, strict=True)]
        return [np.where(row < 0, column.dtype.type(value), column[row]) for column, value in zip(columns, neutral, strict=True)]


def _field(name: str, type_: pa.DataType) -> pa.Field:
    return pa.field(name, type_, nullable=False)
