"""The twin of the DEBS 2012 manufacturing equipment: 100 Hz in 100 ns units, 56 tab separated columns, CRLF.

A run is 1,024 records of 10 ms, three of which come a tick late. Between clusters of runs the machine is off: for seconds
after about 8 runs, for minutes after about 64, for hours after about 512. So 32.4 M tuples take from 22 February to 20 March.

    runs       ######## ###########   #####     ########## #######   ...         cluster of clusters, with gaps of all sizes
    records    | | | |   | |  | | |   intervals around 10 ms: 0.3 % are 20 ms and more, 0.4 % under 9 ms, some 0 or less
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numba
import numpy as np

from replay.streams.twins.draws import below, noise, normal, quantile, uniform
from replay.streams.twins.formatting import SECONDS_A_DAY, Buffer, put_clock, put_date, put_int, put_padded, put_text, text
from replay.streams.twins.parts import TUPLES_A_BLOCK, Numbered, Part, check_twin, pieces

SECOND = 10_000_000
"""In units of 100 ns, as all times here."""
START = int(datetime(2012, 2, 22, 16, 46, 28, tzinfo=UTC).timestamp()) * SECOND + 9_670_000
FIRST_INDEX = 2_556_001
TICK = SECOND // 100
RUN = 1024
RUN_TICKS = RUN + 3
"""A run skips three ticks, one in each third."""
LONGEST_LINE = 208

_OFF_RUNS = np.array([8, 64, 512])
_OFF = np.array([4 * SECOND, 240 * SECOND, 30_000 * SECOND])
"""The machine is off about once in so many runs, for so long on average."""
_LATE_SHARES = np.array([0.0, 0.002, 0.01, 0.04, 0.10, 0.90, 0.96, 0.99, 0.998, 1.0])
_LATE = np.array([-40_000.0, -2_000.0, -500.0, -150.0, -40.0, 40.0, 150.0, 500.0, 2_000.0, 40_000.0])
"""How far from its tick a record is stamped: most within 4 us, a few by up to 4 ms."""
_LEVELS = np.array([13_050.0, 13_050.0, 12_300.0, 15_900.0, 9_400.0, 17_200.0])
"""What mf01 jumps between."""
_SINCE, _CLUSTER, _OFF_FOR, _SKIP, _STAMP, _TWICE, _GLUE, _LEVEL, _DRIFT, _GRAIN, _ADDITIVE = range(11)
_ZONE, _FALSE, _TRUE, _END = text("+00:00\t"), text("\t0"), text("\t1"), text("\r\n")


@dataclass(frozen=True)
class Debs2012:
    """The twin."""

    tuples: int
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be made."""
        check_twin(self.tuples, self.seed)

    @property
    def parts(self) -> Sequence[Part]:
        """Files of a million tuples."""
        return Numbered(self.tuples, 1_000_000, "allData-{:04d}.txt")

    def blocks(self, part: Part) -> Iterator[bytes]:
        """The file's lines; there is no header."""
        out = np.empty(TUPLES_A_BLOCK * LONGEST_LINE, np.uint8)
        last = part.first + part.tuples - 1
        for first, count in pieces(part.first, part.tuples):
            yield out[: _lines(out, self.seed, first, count, last)].tobytes()


@numba.njit(cache=True, nogil=True)
def _started(seed: int, run: int) -> int:  # pragma: no cover - compiled
    """When a run starts: its ticks, and all that the machine was off before, on each of three scales.

    A cluster begins somewhere in each group of runs, so clusters are of one run to twice as many. The n-th time off ends near n
    times the average, by less than half of it, so its length is a difference of two draws and never negative.
    """
    start = START + run * RUN_TICKS * TICK
    for scale in range(3):
        runs, off = _OFF_RUNS[scale], _OFF[scale]
        group = run // runs
        cluster = group + (1 if run - group * runs >= 1 + below(seed, _CLUSTER, scale, group, runs - 1) else 0)
        if cluster > 0:
            start += int((cluster + 0.9 * uniform(seed, _OFF_FOR, scale, cluster)) * off)
    return start


@numba.njit(cache=True, nogil=True)
def _stamped(seed: int, number: int, run_start: int, skips: tuple[int, int, int]) -> int:  # pragma: no cover - compiled
    """The time that a record gets."""
    at = number % RUN
    tick, far = at, True
    for skip in range(3):
        if at >= skips[skip]:
            tick += 1
        far &= not skips[skip] - 1 <= at <= skips[skip]
    share = uniform(seed, _STAMP, 0, number)
    # Behind a skipped tick a record is stamped on time or up to 3.5 ms late: 20 to 24 ms after the one before.
    near = 20.0 * share if at not in skips or share < 0.8 else (share - 0.8) * 175_000.0
    return run_start + tick * TICK + int(quantile(share, _LATE_SHARES, _LATE) if far else near)


@numba.njit(cache=True, nogil=True)
def _power(seed: int, phase: int, number: int) -> int:  # pragma: no cover - compiled
    """A phase's electrical power; mf01 jumps between levels every few seconds to minutes and stays there."""
    level = 13_050.0 if phase == 0 else 14_400.0 if phase == 1 else 8_110.0
    if phase == 0:
        spell = number // 700
        spell -= 1 if number % 700 < below(seed, _SINCE, 0, spell, 700) else 0
        level = _LEVELS[below(seed, _LEVEL, 0, spell, 6)]
    slow = noise(seed, _DRIFT, phase, number / 900.0) * 220.0 + noise(seed, _DRIFT, phase + 3, number / 40.0) * 24.0
    return int(level + slow - 122.0 + 2.0 * normal(seed, _GRAIN, phase, number))


@numba.njit(cache=True, nogil=True)
def _lines(out: Buffer, seed: int, first: int, count: int, last: int) -> int:  # pragma: no cover - compiled
    """Records first to first + count; a file's last record is never glued to one that is not there."""
    at, known, run_start = 0, -1, 0
    skips = (0, 0, 0)
    for n in range(first, first + count):
        run = n // RUN
        if run != known:
            known, run_start = run, _started(seed, run)
            skips = (
                3 + below(seed, _SKIP, 0, run, 300),
                343 + below(seed, _SKIP, 1, run, 300),
                683 + below(seed, _SKIP, 2, run, 300),
            )
        ts = _stamped(seed, n, run_start, skips)
        twice = uniform(seed, _TWICE, 0, n)
        if twice < 0.0004 and n % RUN > 0:
            ts = _stamped(seed, n - 1, run_start, skips)
            if twice < 0.0002:  # not the same time again but one before it
                ts -= 20_000 + below(seed, _TWICE, 1, n, 400_000)
        seconds = ts // SECOND
        day = seconds // SECONDS_A_DAY
        at = put_date(out, at, day)
        out[at] = 84
        at = put_clock(out, at + 1, seconds - day * SECONDS_A_DAY)
        out[at] = 46
        at = put_padded(out, at + 1, ts - seconds * SECOND, 7)
        at = put_text(out, at, _ZONE)
        at = put_int(out, at, FIRST_INDEX + n)
        for phase in range(3):
            out[at] = 9
            at = put_int(out, at + 1, _power(seed, phase, n))
        for sensor in range(7):  # pc13 to pc15, pc25 to pc27, res
            value = 0
            if sensor < 3:
                drift = 22.0 * noise(seed, _DRIFT, 8 + sensor, n / 300.0)
                value = int(70.0 + 60.0 * sensor + drift + 1.6 * normal(seed, _GRAIN, 8 + sensor, n))
            elif sensor < 6:
                value = int(max(40.0 * noise(seed, _DRIFT, 8 + sensor, n / 2_000.0) - 30.0, 0.0))
            out[at] = 9
            at = put_padded(out, at + 1, max(value, 0), 4)
        for column in range(12, 56):
            on = column == 33 or column == 34 or column == 41 or column == 44
            if column < 18:
                # Once in 40 s an additive is sensed for a while (bm05 to bm07); its valve (bm08 to bm10) opens half a second later.
                chemical, late = (column - 12) % 3, 50 if column >= 15 else 0
                dose = (n - late + 1_300 * chemical) // 4_000
                begin = below(seed, _ADDITIVE, 2 * chemical, dose, 2_500)
                open_for = 200 + below(seed, _ADDITIVE, 2 * chemical + 1, dose, 1_000)
                on = begin <= (n - late + 1_300 * chemical) % 4_000 < begin + open_for
            at = put_text(out, at, _TRUE if on else _FALSE)
        glued = n % 2 == 0 and n < last and uniform(seed, _GLUE, 0, n) < 0.0004
        if not glued:
            at = put_text(out, at, _END)
    return at
