"""Logs drawn as text, one column of text per tuple, from left to right as they arrive.

    ts | 0  4  9
    v  | 1  -  4

Times are seconds and `-` is null. Only tests use this; what results must be is written beside each drawing.
"""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa

SECOND = 1_000_000
TIME = pl.Datetime("us", "UTC")


def drawn(text: str) -> pl.DataFrame:
    """The log of a drawing: a column of whole numbers is int64, one of other numbers float64, the rest are texts."""
    lines = [line.split("|") for line in text.strip().splitlines()]
    frame = pl.DataFrame({name.strip(): _read(words.split()) for name, words in lines})
    return log_of(frame.with_columns((pl.col("ts") * SECOND).round().cast(pl.Int64).cast(TIME)))


def log_of(tuples: pl.DataFrame | pa.Table) -> pl.DataFrame:
    """Tuples in order of arrival, with the columns that a log adds: the clock is the running maximum of ts."""
    frame = pl.DataFrame(pl.from_arrow(tuples)) if isinstance(tuples, pa.Table) else tuples
    clock = pl.col("ts").dt.timestamp("us").cum_max()
    return frame.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("arrival"), clock.alias("arrived"), clock.alias("clock"))


def seconds(rows: pl.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """Rows of these columns, with times and measures in seconds."""
    times = [name for name in columns if rows.schema[name] == TIME]
    measures = [name for name in columns if name.startswith("measure_")]
    in_us = rows.select(columns).with_columns(pl.col(name).dt.timestamp("us") for name in times)
    return in_us.with_columns(pl.col(name) / SECOND for name in [*times, *measures]).rows()


def _read(words: list[str]) -> list[int | None] | list[float | None] | list[str | None]:
    given = [None if word == "-" else word for word in words]
    try:
        return [None if word is None else int(word) for word in given]
    except ValueError:
        pass
    try:
        return [None if word is None else float(word) for word in given]
    except ValueError:
        return given
