"""What every oracle begins with: the accepted tuples in order of time, numbered keys, and values without what is skipped.

Columns of the result: `__key` (its number), `ts` (microseconds), and what the technique asks for under names of its own. Which tuples
are accepted is in `clock.py`; what is computed of values is in `aggregates.py`.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa


def keys_of(accepted: pl.LazyFrame, key: str | None) -> pl.DataFrame:
    """A row per key: `key`, its number `__key`, its `__text` as names have it. Null is a key; without a column null is the only one."""
    if key is None:
        keys = pl.DataFrame({"key": [None]}, schema={"key": pl.String})
    else:
        keys = accepted.select(_plain(accepted, key).alias("key")).unique().sort("key").collect()
    if keys.schema["key"] == pl.Binary:
        text = keys["key"].bin.encode("hex")
    else:
        text = pl.Series(keys["key"].to_arrow().cast(pa.large_string()), dtype=pl.String)
    return keys.with_columns(text.fill_null("").alias("__text")).with_row_index("__key")


def in_order(accepted: pl.LazyFrame, key: str | None, keys: pl.DataFrame, columns: list[pl.Expr]) -> pl.DataFrame:
    """The tuples with their key's number and these columns, in order of (ts, arrival): that settles first, last and every tie."""
    number = pl.lit(0, dtype=pl.UInt32) if key is None else _plain(accepted, key)
    tuples = accepted.select(number.alias("__key"), pl.col("ts").dt.timestamp("us"), "arrival", *columns)
    if key is not None:
        numbers = keys.lazy().select(pl.col("key").alias("__key"), pl.col("__key").alias("__number"))
        tuples = tuples.join(numbers, on="__key", how="left", nulls_equal=True).drop("__key").rename({"__number": "__key"})
    return tuples.sort("ts", "arrival").drop("arrival").collect()


def value(column: str, kind: pl.DataType, *, infinities: bool) -> pl.Expr:
    """A column's values with null for what aggregates skip: NaN and, where they are no values, infinities.

    Integers become int64 and floats float64, as they are in results.
    """
    values = pl.col(column)
    if kind.is_float():
        # First of all: polars takes NaN for the largest number.
        values = values.cast(pl.Float64).fill_nan(None)
        return values if infinities else pl.when(values.is_finite()).then(values)
    return values.cast(pl.Int64) if kind.is_integer() and kind != pl.UInt64 else values


def _plain(accepted: pl.LazyFrame, key: str) -> pl.Expr:
    """The key, as text where it is a dictionary of texts; minus zero is zero."""
    kind = accepted.collect_schema()[key]
    if kind.is_float():
        return pl.col(key) + pl.lit(0, dtype=kind)
    return pl.col(key).cast(pl.String) if kind in (pl.Categorical, pl.Enum) else pl.col(key)
