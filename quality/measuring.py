"""A stream's log, measured: small tables that the suite of raw streams judges.

One has a row per raw file, one per column, one per file of the log, one per day, one per day and column. Every measure that is judged
grows with what is wrong; how much is too much is decided in `suites/streams.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import pyarrow as pa

from quality.drift import drift, scales
from quality.scanning import OWN, Promised, Scanned, numbers, scan

COMPARABLE, SLIGHT = 0.75, 0.1
"""A day with less than this of the tuples of a middling day is not compared with the day before, for it may hold the night only; or is not
judged by shares of its tuples at all, for a few of them would decide."""


def measure(files: pl.DataFrame, found: pa.Schema, promised: Promised, options: Mapping[str, str] | None = None) -> dict[str, pl.DataFrame]:
    """The tables of a log, by name: columns, files, days, values.

    Args:
        files: the log's files in order of arrival, as its statistics tell them: `path`, `day`, `first` (arrival), `rows`, `clock_before`
            (null for the first), and `read`, whether its tuples are looked at.
        found: the log's columns.
        promised: what is declared.
        options: of the storage.
    """
    there = scan(files, found, promised, options)
    tuples = files.group_by("day").agg(tuples=pl.col("rows").sum()).join(there.order.select("day").unique(), on="day").sort("day")
    of_middling = pl.col("tuples") / pl.col("tuples").median()
    tuples = tuples.with_columns(comparable=of_middling >= COMPARABLE, slight=of_middling < SLIGHT)
    return {
        "columns": _columns(found, promised),
        "files": _files(files, there),
        "days": _days(tuples, there),
        "values": _values(tuples, there, found, promised),
    }


def raw_files(entries: pl.DataFrame, tuples: int) -> pl.DataFrame:
    """What became of each raw file's records, and below them all that of the whole log.

    >>> entries = pl.DataFrame({"file": ["a"], "records": [10], "rows": [8], "rejected": [2], "rejects": [1]})
    >>> raw_files(entries, 8).select("file", "unaccounted", "rejected_share").rows()
    [('a', 1.0, 0.2), ('the log', 0.0, None)]

    Args:
        entries: `file`, `records`, `rows` (stored) and `rejected`, as ingestion counted them, and `rejects`, those that are in the table.
        tuples: how many the log has.
    """
    lost = (pl.col("records") - pl.col("rows") - pl.col("rejected")).abs() + (pl.col("rejected") - pl.col("rejects")).abs()
    share = pl.when(pl.col("records") > 0).then(pl.col("rejected") / pl.col("records"))
    by_file = entries.with_columns(unaccounted=lost.cast(pl.Float64), rejected_share=share)
    stored = int(entries["rows"].sum())
    whole = {"file": ["the log"], "rows": [tuples], "unaccounted": [float(abs(stored - tuples))]}
    return pl.concat([by_file, pl.DataFrame(whole)], how="diagonal")


def _columns(found: pa.Schema, promised: Promised) -> pl.DataFrame:
    there = {column.name: str(column.type) for column in found if column.name not in OWN}
    wanted = {column.name: str(column.type) for column in promised.columns}
    rows = [(name, wanted.get(name), there.get(name), float(wanted.get(name) != there.get(name))) for name in {**wanted, **there}]
    return pl.DataFrame(rows, schema={"column": pl.String, "declared": pl.String, "found": pl.String, "differs": pl.Float64}, orient="row")


def _files(files: pl.DataFrame, there: Scanned) -> pl.DataFrame:
    begins = (pl.col("first").shift(1) + pl.col("rows").shift(1)).fill_null(0)
    judged = [name for name in there.order.columns if name.endswith("_wrong")]
    wrong = there.order.select("path", pl.col(judged).cast(pl.Float64))
    known = files.select("path", "day", "first", "rows", apart=(pl.col("first") - begins).abs().cast(pl.Float64))
    return known.join(wrong, on="path", how="left", maintain_order="left")


def _days(tuples: pl.DataFrame, there: Scanned) -> pl.DataFrame:
    """Disorder, duplicates and silences by day; a silence belongs to the day in which it ends."""
    again = there.hashes.with_columns(again=~pl.col("hash").is_first_distinct())
    until = pl.col("silent_until").gather(pl.col("silence_us").arg_max()).first()
    by_day = there.order.group_by("day").agg(
        out_of_order=pl.col("disordered").sum() / pl.col("tuples_read").sum(),
        largest_delay_s=pl.col("delay_us").max() / 1e6,
        silence_s=pl.col("silence_us").max() / 1e6,
        silent_until=until.cast(pl.Datetime("us", "UTC")),
        interval_s=pl.col("interval_us").median() / 1e6,
    )
    found = tuples.join(by_day, on="day").join(again.group_by("day").agg(there_twice=pl.col("again").mean()), on="day").sort("day")
    return found.with_columns(
        pl.when(~pl.col("slight")).then(pl.col("out_of_order", "there_twice")), silence_before_s=pl.col("silence_s").shift(1)
    )


def _values(tuples: pl.DataFrame, there: Scanned, found: pa.Schema, promised: Promised) -> pl.DataFrame:
    """What is missing or cannot be, and how far a distribution has moved, by day and column."""
    counts = there.content.group_by("column", "day").agg(pl.col("tuples_read", "nulls", "out_of_range").sum()).join(tuples, on="day")
    needed, optional = (pl.col("column").is_in(sorted(names)) for names in ({*OWN, *promised.needed}, promised.optional))
    by_day = counts.select(
        "column",
        "day",
        "comparable",
        unit=pl.col("column").replace_strict(promised.units, default=None, return_dtype=pl.String),
        missing=pl.when(~pl.col("slight")).then(pl.col("nulls") / pl.col("tuples_read")),
        lacking=pl.when(needed).then(pl.col("nulls").cast(pl.Float64)),
        out_of_range=pl.col("out_of_range").cast(pl.Float64),
        optional=optional,
    )
    before = by_day.filter("comparable").select("column", "day", missing_before=pl.col("missing").shift(1).over("column", order_by="day"))
    moved = _moved(there.sample.join(tuples.filter("comparable").select("day"), on="day"), found, promised)
    return by_day.join(before, on=["column", "day"], how="left").join(moved, on=["column", "day"], how="left").sort("column", "day")


def _moved(sample: pl.DataFrame, found: pa.Schema, promised: Promised) -> pl.DataFrame:
    """For each column of numbers and day what `drift` tells and, where a unit is declared, `factor`."""
    parts = []
    for name in numbers(found):
        moved = drift(sample, name)
        factor = scales(sample, name) if name in promised.units else moved.select("day", factor=pl.lit(None, pl.Float64))
        parts.append(moved.join(factor, on="day").with_columns(column=pl.lit(name)))
    measures = ("drift", "drift_within", "moved", "moved_within", "factor")
    empty = {"day": pl.Date, **dict.fromkeys(measures, pl.Float64), "column": pl.String}
    return pl.concat([pl.DataFrame(schema=empty), *parts])
