"""One pass over the files of a log: what each holds, in sums, a hash per tuple and a sample.

Every file is scanned by itself, so that no more than some columns of one file are in memory at a time; the parts are small and add up
by day. What they mean together is in `measuring.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import polars as pl
import pyarrow as pa

OWN = ("arrival", "arrived", "clock")
DAY_US = 86_400_000_000
SAMPLED_A_DAY = 4000
"""About so many tuples of a day are compared with those of the day before; chance sets such samples 0.03 apart."""


@dataclass(frozen=True)
class Promised:
    """What a declaration says of the tuples of its log."""

    columns: pa.Schema
    """Times, key and values, as they are declared."""
    ranges: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    times: tuple[int, int] | None = None
    """The first microsecond of the stream's range of time, and the one behind its last."""
    needed: frozenset[str] = frozenset()
    """Columns in which no value may be missing."""
    optional: frozenset[str] = frozenset()
    """Columns that whole files may lack."""
    units: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Scanned:
    """What the files hold that were looked at; every row has the `day` of its file."""

    order: pl.DataFrame
    """A row per file (`path`): how many arrivals, clocks, days and times are wrong, its disorder and its silences."""
    content: pl.DataFrame
    """A row per file and column: how many values are missing, and how many cannot be."""
    sample: pl.DataFrame
    """Some tuples of each day: `arrival` and the columns of numbers."""
    hashes: pl.DataFrame
    """The `hash` of every tuple, in order of arrival."""


def choose(files: pl.DataFrame, most: int) -> tuple[pl.DataFrame, str]:
    """The files of a log with `read`, whether their tuples are looked at, and how that is told.

    All of them, if they have no more than so many tuples; else those of the last days, two at least, so that there is a day before; and if
    these have more, one file in so many of each day.

    >>> files = pl.DataFrame({"day": [1, 2, 3, 3], "rows": [10, 10, 10, 10]})
    >>> told, one_in_two = choose(files, 30)[1], choose(files, 15)[0]["read"].to_list()
    >>> told, one_in_two
    ('the last 2 of 3 days: the log has 40 tuples', [False, True, True, False])
    """
    tuples = int(files["rows"].sum())
    if tuples <= most:
        return files.with_columns(read=pl.lit(True)), "the whole log"
    by_day = files.group_by("day").agg(pl.col("rows").sum()).sort("day", descending=True)
    taken = max(int((by_day["rows"].cum_sum() <= most).sum()), min(2, by_day.height))
    window = by_day.head(taken)
    one_in = max(-(-int(window["rows"].sum()) // most), 1)
    of_day = pl.int_range(pl.len()).over("day")
    told = f"the last {taken} of {by_day.height} days" + (f", about one file in {one_in}" if one_in > 1 else "")
    read = pl.col("day").is_in(window["day"].implode()) & (of_day % one_in == 0)
    return files.with_columns(read=read), f"{told}: the log has {tuples:,} tuples"


def scan(files: pl.DataFrame, found: pa.Schema, promised: Promised, options: Mapping[str, str] | None = None) -> Scanned:
    """Look at the files that are to be `read`, of which there is at least one; `measuring.measure` tells what is given."""
    parts: list[list[pl.DataFrame]] = []
    arrived: int | None = None
    for file in files.with_columns(of_day=pl.col("rows").sum().over("day")).iter_rows(named=True):
        if not file["read"]:
            arrived = None
            continue
        log = pl.scan_parquet(file["path"], hive_partitioning=False, storage_options=dict(options) if options else None)
        queries = [
            _order(log, found, promised, file, arrived),
            _content(log, found, promised),
            _sample(log, found, max(file["of_day"] // SAMPLED_A_DAY, 1)),
            log.select(hash=pl.struct(name for name in found.names if name not in OWN).hash(seed=0)),
        ]
        order, content, sample, hashes = pl.collect_all(queries, engine="streaming")
        arrived = order["arrived_last"].item()
        order = order.with_columns(path=pl.lit(file["path"]))
        parts.append([part.with_columns(day=pl.lit(file["day"], pl.Date)) for part in (order, _by_column(content), sample, hashes)])
    return Scanned(*(pl.concat(part) for part in zip(*parts, strict=True)))


def numbers(found: pa.Schema) -> list[str]:
    """The columns of a log with numbers or truth values, but for its own and the key."""
    return [
        field.name for field in found if field.name not in (*OWN, "key") and (_is_number(field.type) or pa.types.is_boolean(field.type))
    ]


def _order(log: pl.LazyFrame, found: pa.Schema, promised: Promised, file: Mapping[str, Any], arrived_before: int | None) -> pl.LazyFrame:
    times = [pl.col(name).dt.timestamp("us") for name in ("ts", "start", "end") if name in found.names]
    moves, (arrival, arrived, clock) = times[-1], (pl.col(name) for name in OWN)
    # Of the log's first file nothing is known before: its first tuple makes the clock.
    before = pl.lit(file["clock_before"], pl.Int64)
    step = clock - clock.shift(1).fill_null(before)
    low, high = promised.times or (None, None)
    outside = [(time < low) | (time >= high) for time in times] if promised.times else []
    outside += [times[1] < times[0]] if len(times) > 1 else []
    rows = pl.len().cast(pl.Int64)
    return log.select(
        arrivals_wrong=arrival.ne_missing(file["first"] + pl.int_range(pl.len(), dtype=pl.Int64)).sum() + (rows - file["rows"]).abs(),
        arrived_wrong=(arrived < arrived.shift(1).fill_null(pl.lit(arrived_before, pl.Int64))).sum(),
        clocks_wrong=clock.ne_missing(pl.max_horizontal(moves.cum_max(), before)).sum(),
        days_wrong=(clock // DAY_US).ne_missing((file["day"] - date(1970, 1, 1)).days).sum(),
        times_wrong=pl.any_horizontal(pl.lit(False), *outside).sum(),
        tuples_read=rows,
        disordered=(moves < clock).sum(),
        delay_us=(clock - moves).max(),
        silence_us=step.max(),
        silent_until=clock.gather(step.arg_max()).first(),
        interval_us=step.filter(step > 0).median(),
        arrived_last=arrived.last(),
    )


def _content(log: pl.LazyFrame, found: pa.Schema, promised: Promised) -> pl.LazyFrame:
    """For every column, the log's own too, how many values there are, how many are missing, and how many are out of range."""
    told = []
    for column in found:
        value, (low, high) = pl.col(column.name), promised.ranges.get(column.name, (None, None))
        wrong = [value < low] if low is not None else []
        wrong += [value > high] if high is not None else []
        wrong += [~value.is_finite()] if pa.types.is_floating(column.type) else []
        told.append(
            pl.struct(tuples_read=pl.len(), nulls=value.null_count(), out_of_range=pl.any_horizontal(pl.lit(False), *wrong).sum()).alias(
                column.name
            )
        )
    return log.select(told)


def _by_column(content: pl.DataFrame) -> pl.DataFrame:
    rows = [{"column": name, **told} for name, told in content.row(0, named=True).items()]
    return pl.DataFrame(rows, schema={"column": pl.String, "tuples_read": pl.Int64, "nulls": pl.Int64, "out_of_range": pl.Int64})


def _sample(log: pl.LazyFrame, found: pa.Schema, one_in: int) -> pl.LazyFrame:
    # By hash, not every so manieth: keys that take turns would be met always or never.
    chosen = log.filter(pl.col("arrival").hash(seed=0) % one_in == 0) if one_in > 1 else log
    return chosen.select("arrival", *numbers(found))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
