"""Invariants of windows: their ends, their counts and what lies between their least and greatest value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from quality.expectations import true

SUITE = (
    true("times_are_ordered", "A window begins before it ends, and is decided at its end.", "ordered"),
    true("windows_have_their_length", "Every window is as long as its query says, and begins on its grid.", "on_grid"),
    true("windows_hold_tuples", "A window that is there holds at least one tuple.", "filled"),
)


def add(rows: pl.DataFrame, spec: Any) -> pl.DataFrame:
    """The engine's rows with a truth value for each invariant."""
    length: Mapping[str, int] = {query.name: query.window.length for query in spec.queries}
    slide = {query.name: query.window.slide for query in spec.queries}
    offset = {query.name: query.window.offset for query in spec.queries}
    start, end = pl.col("measure_start"), pl.col("measure_end")

    def of(settings: Mapping[str, int]) -> pl.Expr:
        return pl.col("query").replace_strict(settings, return_dtype=pl.Int64, default=None)

    return rows.with_columns(
        ordered=(start < end) & (pl.col("decided").dt.timestamp("us") == end - 1),
        on_grid=((end - start) == of(length)) & ((start - of(offset)) % of(slide) == 0),
        filled=pl.col("tuples") >= 1,
    )
