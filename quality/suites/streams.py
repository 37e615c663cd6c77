"""What is expected of raw streams: the log is what ingestion promises, and a day is much like the day before.

Critical is what replays build on: arrivals, clocks, days, ranges, and that no record is lost. A warning is something that a person should
look at: much is missing, rejected, out of order or there twice; silences; another unit; a distribution that has moved. The same for
every stream, from its declaration alone, which may set the limits of warnings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from quality.expectations import Expected, at_most

MORE_MISSING = 0.1
"""So much more than the day before may be missing."""
INTERVALS, TIMES_BEFORE = 1000, 3
"""A silence may last so many of the day's usual intervals, or so many times the longest silence of the day before."""
MORE_THAN_WITHIN, TIMES_WITHIN = 0.1, 3
"""So much further than within a day a distribution may move from one day to the next, if its median moves no more than so many times as
far: a counter does."""
_UNITS = {"raw_files": "raw file", "columns": "column", "files": "file", "days": "day", "values": "daily column"}
"""What a row of each table is."""
UNIT_FACTOR = 3.0
"""Another unit is at least so far off: feet for metres, Fahrenheit for Celsius, milliseconds for seconds."""


@dataclass(frozen=True)
class Limits:
    """How much is a warning; what `expect` in a declaration sets."""

    rejected: float = 0.01
    """The share of a raw file's records that are rejected."""
    missing: float = 0.5
    """The share of a day's values of a column that are missing."""
    out_of_order: float = 0.3
    """The share of a day's tuples that are behind the clock."""
    there_twice: float = 0.01
    """The share of a day's tuples that were there before, equal in every column."""
    silence_us: int = 60_000_000
    """A time without tuples."""
    drift: float = 0.3
    """The distance between a column's distributions on two days."""


@dataclass(frozen=True)
class Judged:
    """An expectation of a measure, and where that is."""

    expected: Expected
    table: str
    beside: tuple[str, ...]
    """The columns that the worst rows are shown with."""

    def worst(self, tables: Mapping[str, pl.DataFrame], n: int) -> pl.DataFrame:
        """The rows that are wrong, worst first."""
        column = self.expected.column
        return tables[self.table].filter(self.expected.broken()).sort(column, descending=True).select(*self.beside, column).head(n)


def suite(limits: Limits | None = None) -> list[Judged]:
    """What is expected of a stream."""
    return [*_CRITICAL, *_warnings(limits or Limits())]


def _critical(name: str, table: str, measure: str, description: str, beside: str) -> Judged:
    return Judged(at_most(name, description, measure, 0.0, "critical", _UNITS[table]), table, tuple(beside.split()))


_CRITICAL = [
    _critical(
        "records_add_up", "raw_files", "unaccounted",
        "Of every raw file, records = rows stored + records rejected, each of which is in the table of rejects.",
        "file records rows rejected rejects",
    ),
    _critical(
        "columns_are_as_declared", "columns", "differs",
        "The log has the columns that are declared, of the types that are declared.", "column declared found",
    ),
    _critical(
        "files_are_contiguous", "files", "apart",
        "Every file of the log begins with the arrival at which the one before ends, the first with 0.", "path first rows",
    ),
    _critical(
        "arrivals_have_no_holes", "files", "arrivals_wrong",
        "Arrivals are 0, 1, 2, ... in the order of the rows, and as many as the log's statistics say.", "path first rows",
    ),
    _critical(
        "arrived_never_goes_back", "files", "arrived_wrong",
        "No tuple reached the system before the one in front of it.", "path first rows",
    ),
    _critical(
        "clock_is_the_running_maximum", "files", "clocks_wrong",
        "The clock of a tuple is the greatest time up to it, its own included.", "path first rows",
    ),
    _critical(
        "days_are_those_of_the_clock", "files", "days_wrong",
        "Every tuple is kept under the (UTC) day of its clock.", "path day rows",
    ),
    _critical(
        "times_are_in_range", "files", "times_wrong",
        "No time is outside the range that is declared, and no event ends before it starts.", "path day rows",
    ),
    _critical(
        "values_are_in_range", "values", "out_of_range",
        "Every number is finite, and in the range that is declared for its column.", "day column unit",
    ),
    _critical(
        "needed_values_are_there", "values", "lacking",
        "Times, keys and required columns have a value in every tuple.", "day column",
    ),
]  # fmt: skip


def _warnings(limits: Limits) -> list[Judged]:
    def warning(name: str, table: str, measure: str, most: float, description: str, beside: str) -> Judged:
        return Judged(at_most(name, description, measure, most, unit=_UNITS[table]), table, tuple(beside.split()))

    return [
        warning(
            "few_records_are_rejected", "raw_files", "rejected_share", limits.rejected,
            f"Of no raw file more than {limits.rejected:.3g} of the records are rejected.", "file records rejected",
        ),
        warning(
            "little_is_missing", "values", "missing_over", 0.0,
            f"On no day more than {limits.missing:.3g} of a column is missing, nor {MORE_MISSING:g} more than on the day before.",
            "day column missing missing_before",
        ),
        warning(
            "few_tuples_are_out_of_order", "days", "out_of_order", limits.out_of_order,
            f"On no day more than {limits.out_of_order:.3g} of the tuples are behind the clock; files grouped by key want `order: time`.",
            "day tuples largest_delay_s",
        ),
        warning(
            "few_tuples_are_there_twice", "days", "there_twice", limits.there_twice,
            f"On no day more than {limits.there_twice:.3g} of the tuples were there before, equal in every column.", "day tuples",
        ),
        warning(
            "silences_are_usual", "days", "silence_over_s", 0.0,
            f"No silence lasts longer than {limits.silence_us / 1e6:g} s, than {INTERVALS:,} of the day's usual intervals and than "
            f"{TIMES_BEFORE} times the longest silence of the day before.",
            "day silence_s silent_until interval_s silence_before_s",
        ),
        warning(
            "units_stand", "values", "factor", UNIT_FACTOR,
            f"No column with a unit is {UNIT_FACTOR:g} times as large or as small, in all quartiles, as on the day before.",
            "day column unit",
        ),
        warning(
            "distributions_stand", "values", "drift_over", 0.0,
            f"No column's distribution is further than {limits.drift:.3g} (Kolmogorov-Smirnov) from that of the day before, unless "
            "it moves about as far within a day.",
            "day column drift drift_within moved moved_within",
        ),
    ]  # fmt: skip


def limited(tables: Mapping[str, pl.DataFrame], limits: Limits) -> dict[str, pl.DataFrame]:
    """The tables with the measures that hang on what is usual: by how much they are over what is allowed."""
    silence = pl.max_horizontal(limits.silence_us / 1e6, INTERVALS * pl.col("interval_s"), TIMES_BEFORE * pl.col("silence_before_s"))
    missing = pl.min_horizontal(pl.when("optional").then(1.0).otherwise(limits.missing), pl.col("missing_before") + MORE_MISSING)
    counts = pl.col("moved") <= TIMES_WITHIN * pl.col("moved_within")
    drift = pl.max_horizontal(limits.drift, pl.when(counts).then(pl.col("drift_within") + MORE_THAN_WITHIN))
    return {
        **tables,
        "days": tables["days"].with_columns(silence_over_s=pl.col("silence_s") - silence),
        "values": tables["values"].with_columns(missing_over=pl.col("missing") - missing, drift_over=pl.col("drift") - drift),
    }
