"""Engine and oracle side by side: a full outer join on what names a row, and the rows that differ most.

Used by every check of results, whatever the technique. What must be equal to the bit and what may hang on the order of additions is told
by the oracle; whether a difference is serious is decided by those who look at the joined frame, not here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from quality.oracles.aggregates import SCALES

__all__ = ["compared", "equalities", "unlike", "worst"]

TOLERANCE = 1e-9
"""Of the sum of absolute values."""
DEPENDS_ON_BATCHES = ("revision", "retracted")
BOTH, ENGINE_ONLY, ORACLE_ONLY = "both", "engine only", "oracle only"


def unlike(engine: pl.DataFrame, expected: pl.DataFrame) -> list[str]:
    """A sentence for each column that only one side has, or that is of different types.

    >>> unlike(pl.DataFrame({"a": [1]}), pl.DataFrame({"a": [1.5], "b": [2]}))
    ["column 'a': the engine has Int64, the oracle Float64", "column 'b': the engine has none, the oracle Int64"]
    """
    found = {name: kind for name, kind in engine.schema.items() if name not in DEPENDS_ON_BATCHES}
    wanted = expected.schema
    return [
        f"column {name!r}: the engine has {found.get(name, 'none')}, the oracle {wanted.get(name, 'none')}"
        for name in {**wanted, **found}
        if found.get(name) != wanted.get(name)
    ]


def compared(engine: pl.DataFrame, expected: pl.DataFrame, identity: Sequence[str], judged: Iterable[str]) -> pl.DataFrame:
    """Every row of either side, once, with the values of both.

    The columns are those of the identity, `side`, `engine_rows` and `oracle_rows` (how often each has it: more than one is a fault, and
    the first is shown), and for each value `<name>__engine`, `<name>__oracle`, `<name>__equal`, which is null where one side has no row.
    A value may have any name: all columns of values, and no others, end so.

    >>> engine = pl.DataFrame({"key": ["a", "b", "b"], "sum_v": [0.1 + 0.2, 1.0, 1.0]})
    >>> expected = pl.DataFrame({"key": ["a", "c"], "sum_v": [0.3, 2.0], SCALES: [{"sum_v": 0.3}, {"sum_v": 2.0}]})
    >>> compared(engine, expected, ["key"], ["sum_v"]).select("key", "side", "engine_rows", "sum_v__equal").rows()
    [('a', 'both', 1, True), ('b', 'engine only', 2, None), ('c', 'oracle only', 0, None)]

    Args:
        engine: final rows.
        expected: what the oracle gave for the same output.
        identity: the columns that name a row.
        judged: the columns that may differ by `TOLERANCE` of their scale, if the oracle gave one in `SCALES`; all others are exact.

    Raises:
        ValueError: in one sentence, if the columns of both sides are not the same.
    """
    scales = scaled(expected, judged)
    wanted = expected.drop(SCALES) if scales else expected
    if problems := unlike(engine, wanted):
        raise ValueError(f"engine and oracle cannot be compared: {'; '.join(problems)}.")
    names = [name for name in wanted.columns if name not in identity]
    against = [pl.col(SCALES).struct.field(name).first().alias(f"{name}__scale") for name in scales]
    sides = _once(engine, identity, names, "engine"), _once(expected, identity, names, "oracle", against)
    joined = sides[0].join(sides[1], on=list(identity), how="full", coalesce=True, nulls_equal=True)
    joined = joined.with_columns(pl.col("engine_rows", "oracle_rows").fill_null(0))
    in_engine, in_oracle = pl.col("engine_rows") > 0, pl.col("oracle_rows") > 0
    side = pl.when(in_engine & in_oracle).then(pl.lit(BOTH)).when(in_engine).then(pl.lit(ENGINE_ONLY)).otherwise(pl.lit(ORACLE_ONLY))
    values: list[pl.Expr] = []
    for name in names:
        equal = pl.when(in_engine & in_oracle).then(_equal(name, near=name in scales))
        values += [pl.col(f"{name}__engine"), pl.col(f"{name}__oracle"), equal.alias(f"{name}__equal")]
    return joined.select(*identity, side.alias("side"), "engine_rows", "oracle_rows", *values).sort(*identity)


def equalities(joined: pl.DataFrame) -> dict[str, pl.Expr]:
    """For each value of `compared`, whether it is equal.

    >>> rows = pl.DataFrame({"key": [1, 2], "max_v": [5, 7]})
    >>> list(equalities(compared(rows, rows, ["key"], [])))
    ['max_v']
    """
    return {name.removesuffix("__equal"): pl.col(name) for name in joined.columns if name.endswith("__equal")}


def worst(joined: pl.DataFrame, n: int) -> pl.DataFrame:
    """The rows of `compared` that differ most, side by side, with the names of the columns that differ; no row that is right.

    First those that one side lacks and those that one side has twice, then by the number of columns that differ and by how far they do.

    >>> engine, expected = pl.DataFrame({"key": [1, 2], "max_v": [5, 7]}), pl.DataFrame({"key": [1, 2], "max_v": [5, 6]})
    >>> worst(compared(engine, expected, ["key"], []), 3).select("key", "differ", "max_v__engine", "max_v__oracle").rows()
    [(2, 'max_v', 7, 6)]
    """
    wrong = {name: ~equal.fill_null(True) for name, equal in equalities(joined).items()}
    names = list(wrong)
    twice = (pl.col("engine_rows") > 1) | (pl.col("oracle_rows") > 1)
    out_of_place = (pl.col("side") != BOTH) | twice
    differing = pl.sum_horizontal(pl.lit(0), *wrong.values())
    furthest = pl.max_horizontal(pl.lit(0.0), *(pl.when(wrong[name]).then(_distance(name, joined)) for name in names))
    differ = pl.concat_str([pl.when(wrong[name]).then(pl.lit(name)) for name in names] or [pl.lit("")], separator=", ", ignore_nulls=True)
    return (
        joined.with_columns(differ.alias("differ"), _place=out_of_place, _differing=differing, _furthest=furthest)
        .filter(pl.col("_place") | (pl.col("_differing") > 0))
        .sort("_place", "_differing", "_furthest", descending=True, maintain_order=True)
        .head(n)
        .drop("_place", "_differing", "_furthest", *(f"{name}__equal" for name in names))
    )


def scaled(expected: pl.DataFrame, judged: Iterable[str]) -> list[str]:
    """The columns that are judged, and have a scale in what the oracle gave."""
    scales = expected.schema.get(SCALES)
    fields = [field.name for field in scales.fields] if isinstance(scales, pl.Struct) else []
    return [name for name in judged if name in fields]


def _once(frame: pl.DataFrame, identity: Sequence[str], names: list[str], side: str, more: Sequence[pl.Expr] = ()) -> pl.DataFrame:
    """Each identity once, with its first row and the number of its rows: a join would multiply what is there twice."""
    first = [pl.col(name).first().alias(f"{name}__{side}") for name in names]
    return frame.group_by(*identity, maintain_order=True).agg(pl.len().cast(pl.Int64).alias(f"{side}_rows"), *first, *more)


def _equal(name: str, *, near: bool) -> pl.Expr:
    """Null is equal to null and NaN to NaN; a float that is judged need only be near, where its scale is a number."""
    found, expected = pl.col(f"{name}__engine"), pl.col(f"{name}__oracle")
    exact = found.eq_missing(expected)
    if not near:
        return exact
    scale = pl.col(f"{name}__scale")
    within = ((found - expected).abs() <= TOLERANCE * scale) & scale.is_finite()
    # A difference that is NaN counts as larger than anything in polars, and one with a null is unknown: neither is near.
    return exact | within.fill_null(False)


def _distance(name: str, joined: pl.DataFrame) -> pl.Expr:
    """From 0 to 1, how far the two values are apart, for their size; 1 where that cannot be said."""
    found, expected = pl.col(f"{name}__engine"), pl.col(f"{name}__oracle")
    if not joined.schema[f"{name}__engine"].is_numeric():
        return pl.lit(1.0)
    found, expected = found.cast(pl.Float64), expected.cast(pl.Float64)
    return ((found - expected).abs() / (found.abs() + expected.abs())).fill_nan(1.0).fill_null(1.0)
