"""Aggregates as polars expressions over the tuples of one group, which are in order of (ts, arrival).

One expression per kind, by its definition. Values are expected without NaN (`tuples.py`): null is what is skipped, and nothing left
is null. Beside sums and means stands their scale, the sum of absolute values that their errors are measured by.

While an oracle computes, columns of aggregates have names that no column of its own has; at the end `named` gives them those they are asked
for under, whatever these are.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from engines.aggregates.spec import Aggregate, Count, First, Last, Max, Mean, Min, Sum
from quality.oracles.tuples import value

SCALES = ""
"""The column of what floats of the same row are judged against, with a field for each: no aggregate can have an empty name."""
_COMPUTED, _SCALE = "aggregate: ", "scale: "
_LEAST, _GREATEST = -(2**63), 2**63 - 1


def values(aggregates: Iterable[Aggregate], schema: pl.Schema, *, infinities: bool) -> list[pl.Expr]:
    """The value columns that these aggregates need, each once, under names that no column of a stream clashes with."""
    columns = dict.fromkeys(aggregate.column for aggregate in aggregates if aggregate.column is not None)
    return [value(column, schema[column], infinities=infinities).alias(_name(column)) for column in columns]


def expressions(aggregates: Iterable[Aggregate], schema: pl.Schema) -> list[pl.Expr]:
    """What is computed of the tuples of a group: a column per aggregate, then the scales of those that have one."""
    computed = [_computed(aggregate, schema).alias(_COMPUTED + aggregate.name) for aggregate in aggregates]
    scales = [_scale(aggregate).alias(_SCALE + aggregate.name) for aggregate in aggregates if _is_summed_float(aggregate, schema)]
    return [*computed, *scales]


def named(columns: Iterable[str]) -> tuple[list[pl.Expr], list[pl.Expr]]:
    """Of all columns those that `expressions` has given: the aggregates under the names that are asked for, and the scales, if any."""
    found = list(columns)
    aggregates = [pl.col(name).alias(name.removeprefix(_COMPUTED)) for name in found if name.startswith(_COMPUTED)]
    scales = [pl.col(name).alias(name.removeprefix(_SCALE)) for name in found if name.startswith(_SCALE)]
    return aggregates, [pl.struct(scales).alias(SCALES)] if scales else []


def summed(aggregates: Iterable[Aggregate]) -> list[str]:
    """The names of sums and of what is made of sums."""
    return [aggregate.name for aggregate in aggregates if isinstance(aggregate, Sum | Mean)]


def _name(column: str) -> str:
    return f"value of {column}"


def _is_summed_float(aggregate: Aggregate, schema: pl.Schema) -> bool:
    return isinstance(aggregate, Mean) or isinstance(aggregate, Sum) and schema[aggregate.column].is_float()


def _computed(aggregate: Aggregate, schema: pl.Schema) -> pl.Expr:
    if aggregate.column is None:
        return pl.len().cast(pl.Int64)
    v, of_integers = pl.col(_name(aggregate.column)), schema[aggregate.column].is_integer()
    match aggregate:
        case Count():
            return v.count().cast(pl.Int64)
        case Sum():
            total = _total(v, of_integers)
            if of_integers:
                return pl.when((v.count() > 0) & total.is_between(_LEAST, _GREATEST)).then(total).cast(pl.Int64)
            return pl.when(v.count() > 0).then(total)
        case Mean():
            return pl.when(v.count() > 0).then(_total(v, of_integers).cast(pl.Float64) / v.count())
        case Min():
            return v.min()
        case Max():
            return v.max()
        case First():
            return v.first(ignore_nulls=True)
        case Last():
            return v.last(ignore_nulls=True)
    raise TypeError(f"there is no oracle for the aggregate {aggregate.kind!r}")


def _total(v: pl.Expr, of_integers: bool) -> pl.Expr:
    return v.cast(pl.Int128).sum() if of_integers else v.sum()


def _scale(aggregate: Aggregate) -> pl.Expr:
    """The sum of absolute values; for a mean divided by their number, as the mean's error is the sum's, so divided."""
    v = pl.col(_name(str(aggregate.column))).cast(pl.Float64)
    return v.abs().sum() / v.count() if isinstance(aggregate, Mean) else v.abs().sum()
