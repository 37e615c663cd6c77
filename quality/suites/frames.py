"""Invariants of frames: in order, long enough, and no two of a key that overlap or meet."""

from __future__ import annotations

from typing import Any

import polars as pl

from quality.expectations import true

SUITE = (
    true("times_are_ordered", "A frame starts no later than it ends, and is decided no earlier than it ends.", "ordered"),
    true("frames_are_long_enough", "Every frame has the least duration and the least number of tuples.", "long_enough"),
    true("frames_are_apart", "No two frames of a key overlap: each is maximal.", "apart"),
)


def add(rows: pl.DataFrame, spec: Any) -> pl.DataFrame:
    """The engine's rows with a truth value for each invariant."""
    start, end = pl.col("start"), pl.col("end")
    before = end.shift(1).over("key", order_by="start")
    return rows.with_columns(
        ordered=(start <= end) & (pl.col("decided").is_null() | (pl.col("decided") >= end)),
        long_enough=((end - start).dt.total_microseconds() >= spec.frame.min_duration) & (pl.col("tuples") >= spec.frame.min_tuples),
        apart=before.is_null() | (before < start),
    )
