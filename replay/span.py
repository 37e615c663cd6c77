"""Which part of the logs a run reads, which rows it may write, and where it begins.

A span is a plain value made before the run starts, from the logs' statistics alone; it is kept with the run, so that a
resumed run does exactly what it set out to do. How days follow from `lookback()` is told in docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any

import numpy as np

from engines.contract import BEGINNING, FOREVER, Clock, Engine
from engines.spec import SpecError
from replay.log import DAY_US, Log, day_end, day_of, day_start


@dataclass(frozen=True)
class Emission:
    """Which rows a run writes, and when."""

    early: bool = True
    """Write results when they are due and revise them; else once, when final."""
    since: int = BEGINNING
    """Rows decided before this belong to other runs."""
    until: int = FOREVER
    """Nothing decided at or after this is released, however far the clock has run ahead."""
    day_ends: tuple[int, ...] = ()
    """The ends of days whose state is to be left behind."""


@dataclass(frozen=True)
class Start:
    """The state that a run begins with: what an earlier day left, or nothing."""

    day_end: int
    read: Mapping[str, int]
    """The arrival up to which each stream was read for it."""
    address: str
    version: int


@dataclass(frozen=True)
class Span:
    """A part of the logs, from `begin` to before `end` of each stream, and what may be written of its results."""

    begin: Mapping[str, int]
    end: Mapping[str, int]
    flush: bool
    """Whether the run ends with a batch that releases everything before `until`."""
    since: int = BEGINNING
    until: int = FOREVER
    day_ends: tuple[int, ...] = ()
    days: tuple[str, ...] = ()
    """The days that this run publishes, first and last; empty: it is no backfill."""
    sealed: tuple[str, ...] = ()
    """Those of its days that nothing to come can change."""
    start: Start | None = None
    reason: str = field(default="from the beginning of the log", compare=False)

    def emission(self, *, early: bool) -> Emission:
        """What buckets need to know of this span."""
        return Emission(early=early, since=self.since, until=self.until, day_ends=self.day_ends)

    def to_json(self) -> dict[str, Any]:
        """This span as a document."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Span:
        """The span of a document."""
        start = document["start"]
        tuples = {name: tuple(document[name]) for name in ("day_ends", "days", "sealed")}
        return cls(**{**document, **tuples, "start": Start(**start) if start else None})


def whole(logs: Mapping[str, Log], *, flush: bool = True, first: int = 0, last: int | None = None) -> Span:
    """All of the logs, or the arrivals from `first` to before `last`."""
    for name, log in logs.items():
        if not 0 <= first <= (last if last is not None else log.end):
            raise SpecError(f"arrivals: {first} to {last} given; allowed are ranges within 0 to {log.end}, the end of '{name}'.")
    end = {name: min(log.end, last) if last is not None else log.end for name, log in logs.items()}
    return Span(begin={name: min(first, end[name]) for name in logs}, end=end, flush=flush)


def neighbours(days: Sequence[date]) -> list[tuple[date, date]]:
    """Days in order as ranges of neighbours.

    >>> neighbours([date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 4)])[0]
    (datetime.date(2024, 1, 1), datetime.date(2024, 1, 2))
    """
    ranges: list[tuple[date, date]] = []
    for day in days:
        if ranges and day.toordinal() == ranges[-1][1].toordinal() + 1:
            ranges[-1] = ranges[-1][0], day
        else:
            ranges.append((day, day))
    return ranges


def all_days(logs: Mapping[str, Log]) -> list[date]:
    """Every day of the logs together, silent ones too."""
    if silent := [name for name, log in logs.items() if not log.end]:
        raise SpecError(f"streams: the log of '{silent[0]}' has no tuples; allowed are streams with some.")
    first = min(log.days()[0] for log in logs.values())
    last = max(log.days()[-1] for log in logs.values())
    return [date.fromordinal(n) for n in range(first.toordinal(), last.toordinal() + 1)]


def days_of_tuples(logs: Mapping[str, Log]) -> list[date]:
    """The days of the clock in which tuples of any log arrived: no file straddles a day."""
    numbers = np.unique(np.concatenate([log.clock // DAY_US for log in logs.values()]))
    return [day_of(int(number) * DAY_US) for number in numbers]


def sealed(logs: Mapping[str, Log], engine: Engine, day: date) -> bool:
    """Whether nothing to come can change a day's results: every stream's final watermark has reached its end."""
    return all(log.clock_end - engine.clock(name).behind_us >= day_end(day) for name, log in logs.items())


def of_days(logs: Mapping[str, Log], engine: Engine, first: date, last: date, start: Start | None = None) -> Span:
    """The span of a backfill: the results decided from `first` to `last`.

    Args:
        logs: the streams' logs by name.
        engine: whose `lookback` tells how far back their tuples may lie.
        first: the first day whose results are wanted.
        last: the last one.
        start: the state that the nearest earlier day left, for an engine without a bound; None: there is none.
    """
    days = all_days(logs)
    if not days[0] <= first <= last <= days[-1]:
        raise SpecError(f"days: {first} to {last} given; allowed are days from {days[0]} to {days[-1]}.")
    is_last, until = last == days[-1], day_end(last)
    lookback = engine.lookback()
    begin, reason = dict.fromkeys(logs, 0), "from the beginning of the log"
    if first > days[0]:
        if lookback is not None:
            # A file is taken up whole: tuples before the lookback touch no row that is decided in these days.
            begin = {name: _file_start(log, day_start(first) - lookback) for name, log in logs.items()}
            reason, start = "from the lookback before the first day", None
        elif start is not None:
            begin, reason = dict(start.read), f"from the state of {day_of(start.day_end - 1)}"
    else:
        start = None
    end = {name: log.end if is_last else sealing_arrival(log, engine.clock(name), last) for name, log in logs.items()}
    wanted = [day for day in days if first <= day <= last]
    done = [day for day in wanted if sealed(logs, engine, day)]
    # In a silent day nothing arrives that the state of the day before does not tell, and of some sensors years are silent.
    passed = (
        [day for day in days_of_tuples(logs) if day <= last and (start is None or day_end(day) > start.day_end)] if lookback is None else []
    )
    return Span(
        begin={name: min(begin[name], end[name]) for name in logs},
        end=end,
        # A stream of which nothing is left to read brings no watermark: the last batch has to.
        flush=is_last or last not in done or any(begin[name] >= end[name] for name in logs),
        since=BEGINNING if first == days[0] else day_start(first),
        until=FOREVER if is_last else until,
        day_ends=tuple(day_end(day) for day in passed if sealed(logs, engine, day)),
        days=(first.isoformat(), last.isoformat()),
        sealed=tuple(day.isoformat() for day in done),
        start=start,
        reason=reason,
    )


def sealing_arrival(log: Log, clock: Clock, day: date) -> int:
    """The arrival up to which a log is read for a day's results: after the file that seals it, or the end if nothing does yet."""
    file = int(np.searchsorted(log.clock, day_end(day) + clock.behind_us, side="left"))
    return int(log.first[file] + log.rows[file]) if file < len(log.first) else log.end


def _file_start(log: Log, after: int) -> int:
    """The first arrival of the file that holds the first clock after this event time."""
    file = int(np.searchsorted(log.clock, after, side="right"))
    return int(log.first[file]) if file < len(log.first) else log.end
