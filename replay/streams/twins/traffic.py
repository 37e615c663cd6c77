r"""The twin of PORTAL's loop detectors: 20 s intervals, grouped by detector, with rush hours, congestion and what detectors get wrong.

Days of 4,320 intervals lose 23 of them, so a tuple's day is a division. There are about as many detectors as half the days (two
for 50,000 tuples, ten for a million, at most 2,000), unless `detectors` says how many; three are the lanes of one station.

    mph   62  ~~~~~~~~~~\              /~~~~~~~~~~~~\ /~~~~~~     free flow, with a dip of under three minutes
          40  . . . . . .\. . . . . . / . . . . . . .v. . . .
          20              ~~~~~~ ~~~~~                            congestion of minutes to hours, with single empty speeds
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import cached_property
from math import isqrt
from zoneinfo import ZoneInfo

import numba
import numpy as np
from numpy.typing import NDArray

from engines.spec import SpecError
from replay.streams.twins.draws import below, bits, hourly, noise, normal, uniform
from replay.streams.twins.formatting import MINUS, SECONDS_A_DAY, SPACE, Buffer, put_clock, put_date, put_int, put_padded
from replay.streams.twins.formatting import date as civil
from replay.streams.twins.parts import TUPLES_A_BLOCK, Groups, Numbered, Part, check_twin, check_whole, pieces
from replay.streams.twins.zones import Offsets, local_second, offsets_from

HEADER = b"detectorid,starttime,volume,speed,occupancy,status,dqflags\n"
ZONE = "America/Los_Angeles"
INTERVAL_S = 20
GAPS = np.array([1, 1, 1, 2, 3, 15])
"""Intervals that go missing together, one such gap in each sixth of a day, in an order that is drawn."""
SLOTS = SECONDS_A_DAY // INTERVAL_S
ROWS_A_DAY = SLOTS - int(GAPS.sum())
LONGEST_LINE = 64
YEARS = 80
"""No detector has more: that is how far the changes of its clock are worked out."""

_VOLUMES = np.array([0.4, 0.25, 0.2, 0.2, 0.4, 1.5, 5, 7.5, 7.5, 6, 5.5, 5.8, 6, 6.2, 6.8, 7.5, 8, 8, 6.5, 4.5, 3.5, 2.5, 1.6, 0.9])
_WEEKEND = np.array([1.0, 0.7, 0.4, 0.3, 0.3, 0.6, 1.2, 2, 3, 4, 5, 5.5, 5.8, 5.8, 5.6, 5.5, 5.2, 4.8, 4.2, 3.6, 3, 2.6, 2.2, 1.6])
"""Vehicles in 20 s on a lane, for each full hour."""
_GAP, _ORDER, _EPISODE, _LANE, _DIP, _FAIL, _VOLUME, _SPEED, _SLOW, _LEVEL, _ODD, _STATUS, _EMPTY = range(13)


@dataclass(frozen=True)
class Traffic:
    """The twin; `form` is "portal" (`2011-09-15 00:00:00-07`) or "spreadsheet" (`9/15/2011 0:00:00`)."""

    tuples: int
    seed: int = 0
    detectors: int | None = None
    start: str = "2011-09-15"
    """The first local day."""
    form: str = "portal"

    def __post_init__(self) -> None:
        """Refuse what cannot be made."""
        check_twin(self.tuples, self.seed)
        if self.detectors is not None:
            check_whole("detectors", self.detectors, -(-self.tuples // (YEARS * 365 * ROWS_A_DAY)), min(self.tuples, 100_000))
        if self.form not in ("portal", "spreadsheet"):
            raise SpecError(f"form: {self.form!r} given; allowed are 'portal' and 'spreadsheet'.")
        try:
            date.fromisoformat(self.start)
        except (TypeError, ValueError):
            raise SpecError(f"start: {self.start!r} given; allowed is a day such as '2011-09-15'.") from None

    @property
    def parts(self) -> Sequence[Part]:
        """Files of a million tuples."""
        return Numbered(self.tuples, 1_000_000, "traffic-{:04d}.csv")

    def blocks(self, part: Part) -> Iterator[bytes]:
        """The header, then the file's lines."""
        yield HEADER
        out = np.empty(TUPLES_A_BLOCK * LONGEST_LINE, np.uint8)
        start, offsets = self._clock
        for first, count in pieces(part.first, part.tuples):
            for detector, row, rows in self._detectors.within(first, count):
                size = _lines(out, self.seed, detector, row, rows, start, *offsets, self.form == "spreadsheet")
                yield out[:size].tobytes()

    @cached_property
    def _detectors(self) -> Groups:
        return Groups(self.tuples, self.detectors or min(2_000, max(1, isqrt(self.tuples // (2 * ROWS_A_DAY)))))

    @cached_property
    def _clock(self) -> tuple[int, Offsets]:
        """The first second, and the local clock from there on."""
        first = datetime.combine(date.fromisoformat(self.start), time(), ZoneInfo(ZONE))
        return int(first.timestamp()), offsets_from(first, self._detectors.rows(0) // ROWS_A_DAY + 1)


@numba.njit(cache=True, nogil=True)
def _missing(gaps: NDArray[np.int64], seed: int, detector: int, day: int) -> None:  # pragma: no cover - compiled
    """The gaps of a detector's day: first interval and length, in order."""
    turn = below(seed, _ORDER, detector, day, len(GAPS))
    sixth = SLOTS // len(GAPS)
    for gap in range(len(GAPS)):
        length = GAPS[(gap + turn) % len(GAPS)]
        gaps[gap, 0] = gap * sixth + below(seed, _GAP, detector * 8 + gap, day, sixth - length)
        gaps[gap, 1] = length


@numba.njit(cache=True, nogil=True)
def _congested(episodes: NDArray[np.int64], seed: int, detector: int, day: int) -> None:  # pragma: no cover - compiled
    """Seconds of a local day from and to which a lane is congested: morning, evening, an incident; then when the detector fails."""
    station, workday = detector // 3, (day + 3) % 7 < 5
    for kind in range(3):
        u = uniform(seed, _EPISODE, station, 16 * day + kind)
        start = uniform(seed, _EPISODE, station, 16 * day + 4 + kind)
        long = uniform(seed, _EPISODE, station, 16 * day + 8 + kind)
        episodes[kind, 0] = episodes[kind, 1] = 0
        lane = below(seed, _LANE, detector, 4 * day + kind, 240)
        if kind == 0 and workday and u < 0.7:
            episodes[kind, 0] = 23_400 + int(start * 4_500) + lane
            episodes[kind, 1] = episodes[kind, 0] + 600 + int(long * long * 10_000)
        elif kind == 1 and workday and u < 0.85:
            episodes[kind, 0] = 55_800 + int(start * 5_400) + lane
            episodes[kind, 1] = episodes[kind, 0] + 1_200 + int(long * long * 10_800)
        elif kind == 2 and u < 0.3:
            episodes[kind, 0] = 32_400 + int(start * 39_600) + lane
            episodes[kind, 1] = episodes[kind, 0] + 240 + int(long * 2_160)
    episodes[3, 0] = episodes[3, 1] = 0
    if uniform(seed, _FAIL, detector, 2 * day) < 0.06:
        episodes[3, 0] = 3_600 + below(seed, _FAIL, detector, 2 * day + 1, 7_200)
        episodes[3, 1] = episodes[3, 0] + 1_200 + below(seed, _FAIL, detector, 2 * day + 1, 3_600)


@numba.njit(cache=True, nogil=True)
def _dips(seed: int, detector: int, day: int, second: int) -> bool:  # pragma: no cover - compiled
    """Whether a lane is slow for a moment: once in eight hours or so, for one to eight intervals, which is under three minutes."""
    hour = day * 24 + second // 3600
    if uniform(seed, _DIP, detector, 4 * hour) > 0.12:
        return False
    first = below(seed, _DIP, detector, 4 * hour + 1, 170)
    return 0 <= second % 3600 // INTERVAL_S - first <= below(seed, _DIP, detector, 4 * hour + 2, 8)


@numba.njit(cache=True, nogil=True)
def _lines(
    out: Buffer,
    seed: int,
    detector: int,
    row: int,
    rows: int,
    start: int,
    changes: NDArray[np.int64],
    offsets: NDArray[np.int64],
    spreadsheet: bool,
) -> int:  # pragma: no cover - compiled
    """Some lines of a detector: which interval, what the lane is like then, what the detector makes of it."""
    gaps, episodes = np.empty((len(GAPS), 2), np.int64), np.empty((4, 2), np.int64)
    day_known, local_known, at = -1, -1 << 60, 0
    name = 1345 + 8 * (detector // 3) + detector % 3
    factor = 0.75 + 0.35 * uniform(seed, _LANE, detector, -1)
    for r in range(row, row + rows):
        day, slot = r // ROWS_A_DAY, r % ROWS_A_DAY
        if day != day_known:
            _missing(gaps, seed, detector, day)
            day_known = day
        for gap in range(len(GAPS)):
            if slot >= gaps[gap, 0]:
                slot += gaps[gap, 1]
        number = day * SLOTS + slot
        second = start + number * INTERVAL_S
        local_s = local_second(second, changes, offsets)
        local, clock = local_s // SECONDS_A_DAY, local_s % SECONDS_A_DAY
        if local != local_known:
            _congested(episodes, seed, detector, local)
            local_known = local

        congested = False
        for kind in range(3):
            congested |= episodes[kind, 0] <= clock < episodes[kind, 1]
        slow = not congested and _dips(seed, detector, local, clock)
        mean = hourly(_VOLUMES if (local + 3) % 7 < 5 else _WEEKEND, clock) * factor
        if congested:
            mean = 2.0 + 0.5 * mean
        volume = int(np.floor(max(mean + np.sqrt(mean) * normal(seed, _VOLUME, detector, number) + 0.5, 0.0)))
        sway = normal(seed, _SPEED, detector, number)
        if congested:
            # Never two such intervals in a row: a frame over speeds must survive a single one that is missing.
            stands = number % 2 == 0 and uniform(seed, _EMPTY, detector, number) < 0.05
            volume = 0 if stands else max(volume, 1)
            level = 14.0 + 10.0 * noise(seed, _LEVEL, detector // 3, number / 540.0)
            speed = max(level + 8.0 * noise(seed, _SLOW, detector, number / 12.0) - 4.0 + 2.2 * sway, 5.0)
        elif slow:
            volume, speed = max(volume, 1), 33.0 + 1.2 * sway
        else:
            speed = 64.0 - 0.9 * mean + 6.0 * noise(seed, _SLOW, detector, number / 30.0) - 3.0 + (3.2 if volume > 1 else 4.5) * sway
        mph = int(speed + 0.5) if volume > 0 else -1
        occupancy = min(int(volume * 88.6 / max(speed, 1.0)), 100)

        failed = episodes[3, 0] <= clock < episodes[3, 1]
        odd = 1.0 if congested or slow else uniform(seed, _ODD, detector, number)
        nothing = failed or odd < 0.001
        if 0.001 <= odd < 0.003 and volume > 0:
            mph = 101 + below(seed, _STATUS, detector, number, 20)
        elif 0.003 <= odd < 0.0045 and volume > 0:
            mph = 0
        elif 0.0045 <= odd < 0.006:
            volume, mph, occupancy = 0, (0 if odd < 0.005 else 67), 1
        flags = (1 if volume > 17 else 0) + (2 if occupancy > 95 else 0) + (4 if mph > 100 else 0) + (8 if 0 <= mph < 5 else 0)
        flags += (
            (16 if mph == 0 and volume > 0 else 0) + (32 if mph > 0 and volume == 0 else 0) + (64 if occupancy > 0 and volume == 0 else 0)
        )
        doubt = float(bits(seed, _STATUS, detector, number) >> np.uint64(40)) * 2.0**-24
        status = 0 if flags == 0 and volume == 0 else 3 if flags > 0 or doubt < (0.6 if volume == 1 else 0.15) else 2
        if nothing:
            flags, status = 0, (4 + local % 2 if failed else 0)

        at = put_int(out, at, name)
        out[at] = 44
        at = _put_time(out, at + 1, local, clock, second - local_s, spreadsheet)
        out[at] = 44
        at += 1
        if not nothing:
            at = put_int(out, at, volume)
        out[at] = 44
        at += 1
        if not nothing and mph >= 0:
            at = put_int(out, at, mph)
        out[at] = 44
        at += 1
        if not nothing:
            at = put_int(out, at, occupancy)
        out[at] = 44
        at = put_int(out, at + 1, status)
        out[at] = 44
        at = put_int(out, at + 1, flags)
        out[at] = 10
        at += 1
    return at


@numba.njit(cache=True, nogil=True)
def _put_time(out: Buffer, at: int, day: int, clock: int, behind: int, spreadsheet: bool) -> int:  # pragma: no cover - compiled
    """A local time with its offset, or as a spreadsheet saves it, which cannot tell the two hours of November apart."""
    if not spreadsheet:
        at = put_date(out, at, day)
        out[at] = SPACE
        at = put_clock(out, at + 1, clock)
        out[at] = MINUS
        return put_padded(out, at + 1, behind // 3600, 2)
    year, month, dom = civil(day)
    at = put_int(out, at, month)
    out[at] = 47
    at = put_int(out, at + 1, dom)
    out[at] = 47
    at = put_int(out, at + 1, year)
    out[at] = SPACE
    at = put_int(out, at + 1, clock // 3600)
    for part in (clock // 60 % 60, clock % 60):
        out[at] = 58
        at = put_padded(out, at + 1, part, 2)
    return at
