"""Samples: of a log that is too long for its oracle some keys are verified, or some days, and it is said which.

What was red before is always among them: a sample that happens to miss it would call it green.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

import polars as pl

from assets.verdicts import NOTHING, Red

if TYPE_CHECKING:
    from replay.log import Log

MOST_TUPLES = 10_000_000
"""Of longer logs only some keys or some days are verified."""


@dataclass(frozen=True)
class Keys:
    """Some keys of a log."""

    column: str
    """That the log and its late tuples have them in; results always have them in `key`."""
    kind: pl.DataType
    some: pl.Series

    def among(self, column: str) -> pl.Expr:
        """The rows of these keys."""
        # Of one type on both sides: published keys may be read as wider numbers than those of the log.
        return pl.col(column).cast(self.kind).is_in(self.some.implode(), nulls_equal=True)

    def hashes(self, rows: Sequence[Mapping[str, Any]]) -> set[int]:
        """The hashes of the keys of rows that are shown, in whatever column they have them."""
        names = [f"{name}{side}" for name in dict.fromkeys(("key", self.column)) for side in ("", "__engine", "__oracle")]
        # Null is a key; beside a row that one side has not it is none.
        found = {row[name] for row in rows for name in names if name in row and (row[name] is not None or name == "key")}
        return set(pl.Series("key", list(found), dtype=self.kind, strict=False).hash(seed=0))


@dataclass(frozen=True)
class Sample:
    """What is verified of a log, and how that is told."""

    days: Sequence[date]
    told: str
    keys: Keys | None = None
    """Which keys; None: all."""
    reach: tuple[int, int] | None = None
    """How far before a day its tuples may lie, and how far behind it they may come, in microseconds; None: all of the log is read."""

    def parts(self, log: Log, tuples: pl.LazyFrame) -> Iterator[tuple[list[date], pl.LazyFrame]]:
        """Days that are verified together, and the tuples that they hang on."""
        from replay.span import neighbours

        if self.keys is not None:
            tuples = tuples.filter(self.keys.among(self.keys.column))
        if self.reach is None:
            yield list(self.days), tuples
            return
        for first, last in neighbours(self.days):
            yield [day for day in self.days if first <= day <= last], tuples.filter(_within(log, first, last, *self.reach))


def sampled(log: Log, tuples: pl.LazyFrame, spec: Mapping[str, Any], chosen: Sequence[date], red: Red = NOTHING) -> Sample:
    """Some keys of a long log; if it has none, some days, where results hang on no more than a stretch of the log."""
    from quality.oracles import reach
    from replay.log import day_of

    of_spec = reach(spec)
    if log.end <= MOST_TUPLES:
        return Sample(chosen, "all keys", reach=of_spec)
    column = str(spec.get("key") or "key")
    if column in log.schema.names:
        return replace(_some_keys(log, tuples, column, chosen, red), reach=of_spec)
    if of_spec is None:
        return Sample(chosen, "all of it: there are no keys, and results may hang on any tuple before them")
    of_days = sum(int(rows) for clock, rows in zip(log.clock, log.rows, strict=True) if day_of(int(clock)) in set(chosen))
    of = max(-(-of_days // MOST_TUPLES), 1)
    some = list(chosen)[::-of][::-1]
    again = [day for day in chosen if day in red.days and day not in some]
    told = (
        f"one day in {of}{f' and {len(again):,} that were red' if again else ''}: the log has {log.end:,} tuples" if of > 1 else "all keys"
    )
    return Sample(sorted([*some, *again]), told, reach=of_spec)


def _some_keys(log: Log, tuples: pl.LazyFrame, column: str, chosen: Sequence[date], red: Red) -> Sample:
    kind = pl.DataFrame(pl.from_arrow(log.schema.empty_table())).schema[column]
    key, number = pl.col(column).cast(kind), -(-log.end // MOST_TUPLES)
    # Those that were red, then those with tuples of these days: of others there may be nothing to compare.
    found = tuples.group_by(key).agg(here=pl.col("day").is_in(list(chosen)).any())
    order = (~key.hash(seed=0).is_in(list(red.keys)), ~pl.col("here"), key.hash(seed=0), key)
    keys = found.sort(*order).collect(engine="streaming")[column]
    some = keys.head(-(-keys.len() // number))
    return Sample(chosen, f"{some.len():,} of {keys.len():,} keys: the log has {log.end:,} tuples", keys=Keys(column, kind, some))


def _within(log: Log, first: date, last: date, lookback_us: int, behind_us: int) -> pl.Expr:
    """The tuples that results of these days hang on; those of the log's last day, on all that follow."""
    from replay.log import day_end, day_start

    clock = pl.col("clock")
    until = pl.lit(True) if last == log.days()[-1] else clock < day_end(last) + behind_us
    return (clock > day_start(first) - lookback_us) & until
