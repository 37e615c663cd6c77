"""Time as the log tells it: which tuples came too late, and to which day a result belongs.

A row's own `clock` decides, so nothing here depends on batches, files or days. Windows and frames do not belong here.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import polars as pl

from engines.spec import TechniqueSpec

TIME = pl.Datetime("us", "UTC")
OF_THE_LOG = ("arrival", "arrived", "clock", "day")
"""The columns of a log that are no part of the tuple."""


def split(log: pl.LazyFrame, spec: TechniqueSpec) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    """The accepted tuples, and the late ones as they are reported: the tuple, its arrival, the watermark before it.

    Late is `ts < clock - delay - lateness`. A late tuple does not move the clock: the watermark before it is its own.
    """
    # In 128 bits, as the longest delay and lateness together reach back further than 64 bits can tell.
    behind = pl.col("clock").cast(pl.Int128) - pl.col("ts").dt.timestamp("us").cast(pl.Int128)
    is_late = behind > pl.lit(spec.delay + spec.lateness, dtype=pl.Int128)
    tuple_columns = [column for column in log.collect_schema().names() if column not in OF_THE_LOG]
    watermark = (pl.col("clock") - spec.delay).cast(TIME).alias("watermark")
    return log.filter(~is_late), log.filter(is_late).select("arrival", *tuple_columns, watermark).sort("arrival")


def day_of(log_days: Sequence[date]) -> pl.Expr:
    """The day that a row with the column `decided` belongs to.

    That in which it was decided (UTC). What was decided before the log's first day belongs to the first; what was decided after its last
    day, or by the flush alone, to the last.

    Args:
        log_days: days of the log, of which the first and the last count: those of its first and of its last clock.
    """
    return pl.col("decided").dt.date().fill_null(max(log_days)).clip(min(log_days), max(log_days))


def of_days(rows: pl.DataFrame, first: date, last: date, log_days: Sequence[date]) -> pl.DataFrame:
    """The rows that belong to the days from `first` to `last`, both included.

    >>> from datetime import datetime, UTC
    >>> rows = pl.DataFrame({"decided": [datetime(2024, 5, 1, 23, 59, 59, 999_999, UTC), datetime(2024, 5, 9, tzinfo=UTC), None]})
    >>> days = [date(2024, 5, 1), date(2024, 5, 2)]
    >>> [of_days(rows, day, day, days).height for day in days]
    [1, 2]

    Args:
        rows: rows of any output, with the column `decided`.
        first: the first day that is asked for.
        last: the last day that is asked for.
        log_days: days of the log.
    """
    return rows.filter(day_of(log_days).is_between(first, last))
