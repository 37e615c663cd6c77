"""Recipes: for each kind of aggregate the parts it is made of, the columns it takes, and how parts become a result.

One entry per kind in `RECIPES`; adding an aggregate adds a model to `spec.py` and an entry here, and a part only where
none of `parts.py` will do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engines.aggregates.columns import is_number, is_ordered, kept
from engines.aggregates.kernels import Array
from engines.aggregates.parts import Counted, Edge, Extreme, FloatSum, IntSum, Part

_HALF = 1 << 31
_INTEGERS = "integers (of at most 64 bits with a sign)"


@dataclass(frozen=True)
class Recipe:
    """How an aggregate is computed. `lower` gets the columns of the parts and gives values, and which of them are null."""

    takes: Callable[[pa.DataType], bool]
    allowed: str
    parts: Callable[[str | None, pa.DataType], tuple[Part, ...]]
    result: Callable[[pa.DataType], pa.DataType]
    lower: Callable[..., tuple[Array, Array]]


def overflown(high: Array) -> Array:
    """Which exact sums are beyond int64."""
    return (high < -_HALF) | (high >= _HALF)


def _summed(column: str | None, type_: pa.DataType) -> tuple[Part, ...]:
    return Counted(column), (FloatSum if pa.types.is_floating(type_) else IntSum)(column)


def _lower_sum(count: Array, total: Array, rest: Array) -> tuple[Array, Array]:
    if total.dtype == np.float64:
        return _compensated(total, rest), count == 0
    beyond = overflown(total)
    return np.where(beyond, 0, total << 32 | rest), (count == 0) | beyond


def _lower_mean(count: Array, total: Array, rest: Array) -> tuple[Array, Array]:
    exact = _compensated(total, rest) if total.dtype == np.float64 else total * 2.0**32 + rest
    return exact / np.maximum(count, 1), count == 0


def _compensated(total: Array, error: Array) -> Array:
    """Sum and error; the error of an infinite sum is NaN and means nothing."""
    finite = np.isfinite(total)
    return total + np.where(finite, error, 0.0)


def _lower_extreme(count: Array, extreme: Array) -> tuple[Array, Array]:
    # Adding zero makes -0.0 into 0.0: the two are equal, so which of them is found would depend on the order of merging.
    return extreme + extreme.dtype.type(0), count == 0


def _extreme(*, largest: bool) -> Recipe:
    return Recipe(
        takes=is_ordered,
        allowed=f"{_INTEGERS}, floats, booleans, dates, times and durations",
        parts=lambda column, type_: (Counted(column), Extreme(column, pa.types.is_floating(type_), largest)),
        result=kept,
        lower=_lower_extreme,
    )


def _edge(*, last: bool) -> Recipe:
    return Recipe(
        takes=is_ordered,
        allowed=f"{_INTEGERS}, floats, booleans, dates, times and durations",
        parts=lambda column, type_: (Counted(column), Edge(column, pa.types.is_floating(type_), last)),
        result=kept,
        lower=lambda count, value, ts, arrival: (value, count == 0),
    )


RECIPES: Mapping[str, Recipe] = {
    "count": Recipe(
        takes=lambda type_: True,
        allowed="columns of any type",
        parts=lambda column, type_: (Counted(column),),
        result=lambda type_: pa.int64(),
        lower=lambda count: (count, np.zeros(len(count), np.bool_)),
    ),
    "sum": Recipe(
        takes=is_number,
        allowed=f"{_INTEGERS} and floats",
        parts=_summed,
        result=kept,
        lower=_lower_sum,
    ),
    "mean": Recipe(
        takes=is_number,
        allowed=f"{_INTEGERS} and floats",
        parts=_summed,
        result=lambda type_: pa.float64(),
        lower=_lower_mean,
    ),
    "min": _extreme(largest=False),
    "max": _extreme(largest=True),
    "first": _edge(last=False),
    "last": _edge(last=True),
}
