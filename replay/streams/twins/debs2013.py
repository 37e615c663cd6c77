"""The twin of the DEBS 2013 football match: balls at 1,953 Hz and shoes at 206 Hz, interleaved in time, in picoseconds.

A stretch is 1,024 cycles of 9.7 ms, in which a ball ticks 19 times and a shoe twice. Each stretch loses a fixed number of records
to sensors that drop out, so a tuple's stretch is a division. Below 5 M tuples the match is one ball and two players, so that a
few hundred thousand tuples are some minutes; from there on it is the whole field, 47 M tuples a match, then further matches.

    one stretch      |#########-------####|####------##########|###    # records of all sensors, - a gap of 1.2 to 2.9 s
    starts about     0 s                  12 s                 24 s    so there are five gaps a minute, wherever they fall
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numba
import numpy as np
from numpy.typing import NDArray

from engines.spec import SpecError
from replay.streams.twins.draws import below, bits, uniform
from replay.streams.twins.formatting import Buffer, put_int
from replay.streams.twins.parts import TUPLES_A_BLOCK, Numbered, Part, check_twin, pieces

BALLS = (4, 8, 10, 12)
# Two sensors a player: left and right shoe, then the goalkeepers' gloves and the referee.
SHOES = (13, 14, 47, 16, 49, 88, 19, 52, 53, 54, 23, 24, 57, 58, 59, 28, 61, 62, 63, 64, 65, 66, 67, 68, 69, 38, 71, 40, 73, 74, 75, 44)
OTHERS = (97, 98, 99, 100, 105, 106)

TICK_PS = 511_996_000
TICKS_A_CYCLE = 19
CYCLE_PS = TICK_PS * TICKS_A_CYCLE
CYCLES = 1024
STRETCH_PS = 12 * 10**12
FIRST_RECORD_PS = 10_629_342_490_369_879
HALVES_PS = (10_753_295_594_424_116, 13_086_639_146_403_495)
LONGEST_LINE = 128

_BALL_OUT, _SHOE_OUT = 40, 200
"""Cycles of a stretch that one ball and one shoe lose, each in two pieces."""
_WAVES_S = np.array([[20.0, 4.0, 0.3], [6.0, 1.0, 0.05]])
_WAVES_MM = np.array([[12_000.0, 2_500.0, 180.0], [27_000.0, 6_000.0, 20.0]])
_WAVES_UP_MM = np.array([[0.0, 100.0, 120.0], [900.0, 300.0, 5.0]])
"""What a shoe's and a ball's way is made of: curves with a new direction every so many seconds, and how far they reach."""
_ABSENT, _BALL, _SHOE, _CUT, _AT, _GAP, _START, _PAUSE, _HOME, _WAY, _JITTER = range(11)


@dataclass(frozen=True)
class Debs2013:
    """The twin; `sensors` is "few", "all", or left to the number of tuples."""

    tuples: int
    seed: int = 0
    sensors: str | None = None
    gaps: bool = True
    """Five gaps a minute in all sensors at once, to separate sessions (general-slicing paper, 6.1)."""

    def __post_init__(self) -> None:
        """Refuse what cannot be made."""
        check_twin(self.tuples, self.seed)
        if self.sensors not in (None, "few", "all"):
            raise SpecError(f"sensors: {self.sensors!r} given; allowed are 'few' and 'all'.")
        if not isinstance(self.gaps, bool):
            raise SpecError(f"gaps: {self.gaps!r} given; allowed are true and false.")

    @property
    def parts(self) -> Sequence[Part]:
        """Files of a million tuples."""
        return Numbered(self.tuples, 1_000_000, "full-game-{:04d}")

    def blocks(self, part: Part) -> Iterator[bytes]:
        """The file's lines; there is no header."""
        out = np.empty(TUPLES_A_BLOCK * LONGEST_LINE, np.uint8)
        for first, count in pieces(part.first, part.tuples):
            done = 0
            while done < count:  # a block of tuples may lie across two stretches
                stretch, row = divmod(first + done, self._rows)
                taken = min(count - done, self._rows - row)
                start, gap, cycle = self._time(stretch)
                size = _lines(out, self.seed, stretch, row, taken, start, gap, cycle, *self._template)
                yield out[:size].tobytes()
                done += taken

    @cached_property
    def _ids(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        few = self.sensors == "few" or (self.sensors is None and self.tuples < 5_000_000)
        return (BALLS[:1], SHOES[:4]) if few else (BALLS, SHOES + OTHERS)

    @cached_property
    def _rows(self) -> int:
        balls, shoes = self._ids
        present = len(shoes) - (1 if len(shoes) > 4 else 0)
        return (TICKS_A_CYCLE * len(balls) + 2 * present) * CYCLES - TICKS_A_CYCLE * _BALL_OUT - 2 * _SHOE_OUT

    @cached_property
    def _template(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], int]:
        """The records of a cycle in their order: sensor and picoseconds; the sensors' ids, and how many of them are balls."""
        balls, shoes = self._ids
        # Balls tick just behind the quarters of a tick and shoes in the middle of them: 56 us apart, which is more than their jitter.
        ticks = np.concatenate(
            [np.arange(TICKS_A_CYCLE) + ball / 4 + 0.02 for ball in range(len(balls))]
            + [np.array([0, 9.5]) + 38 * shoe // len(shoes) / 4 + 0.13 for shoe in range(len(shoes))]
        )
        sensors = np.repeat(np.arange(len(balls) + len(shoes)), [TICKS_A_CYCLE] * len(balls) + [2] * len(shoes))
        order = np.argsort(ticks, kind="stable")
        offsets = (ticks[order] * TICK_PS).astype(np.int64)
        return sensors[order], offsets, np.array(balls + shoes), len(balls)

    def _time(self, stretch: int) -> tuple[int, int, int]:
        """When a stretch starts, how long its gap is, and the cycle before which the gap falls."""
        length = CYCLES * CYCLE_PS
        period = STRETCH_PS if self.gaps else length
        counts = [124 * 10**12 // period, 1776 * 10**12 // period, 1752 * 10**12 // period]
        match, at = divmod(stretch, sum(counts))
        start = FIRST_RECORD_PS + at * period
        for half in (0, 1):
            since = at - sum(counts[: half + 1])
            if since >= 0:
                # Once in each half the game is interrupted for half a minute or so, and nothing is recorded.
                interrupted = since > below(self.seed, _PAUSE, match, half, counts[half + 1])
                start = HALVES_PS[half] + since * period + (28, 41)[half] * 10**12 * interrupted
        start += match * 7200 * 10**12
        if not self.gaps:
            return start, 0, CYCLES
        here, there = (int(uniform(self.seed, _START, 0, stretch + i) * 8e11) for i in (0, 1))
        return start + here, STRETCH_PS - length + there - here, 100 + below(self.seed, _GAP, 0, stretch, CYCLES - 200)


@numba.njit(cache=True, nogil=True)
def _outages(out: NDArray[np.int64], seed: int, stretch: int, balls: int, sensors: int) -> None:  # pragma: no cover - compiled
    """Which cycles which sensors lose, as rows of sensor, first and last cycle: always the same number of records in all."""
    shoes, absent = sensors - balls, -1
    out[4, 0] = -1
    if shoes > 4:  # one sensor is out for a minute
        absent = balls + below(seed, _ABSENT, 0, stretch // 5, shoes)
        out[4, 0], out[4, 1], out[4, 2] = absent, 0, CYCLES
    for kind in range(2):
        lost = _BALL_OUT if kind == 0 else _SHOE_OUT
        cut = 2 + below(seed, _CUT, kind, stretch, lost - 3)
        for half in range(2):
            if kind == 0:
                sensor = below(seed, _BALL, half, stretch, balls)
            else:
                sensor = balls + below(seed, _SHOE, half, stretch, shoes - (1 if absent >= 0 else 0))
                if absent >= 0 and sensor >= absent:
                    sensor += 1  # who is out already has nothing to lose
            length = cut if half == 0 else lost - cut
            first = half * (CYCLES // 2) + below(seed, _AT, 2 * kind + half, stretch, CYCLES // 2 - length)
            row = 2 * kind + half
            out[row, 0], out[row, 1], out[row, 2] = sensor, first, first + length


@numba.njit(cache=True, nogil=True)
def _place(state: NDArray[np.float64], seed: int, sensor: int, ball: bool, time_s: float) -> None:  # pragma: no cover - compiled
    """Where a sensor is, how fast and how accelerated, in mm and s: the sum of curves whose derivatives are known."""
    kind = 1 if ball else 0
    player = -1 - sensor if ball else sensor // 2
    state[:] = 0.0
    state[0] = 26_000.0 if ball else 8_000.0 + 36_000.0 * uniform(seed, _HOME, player, 0)
    state[1] = 0.0 if ball else 56_000.0 * uniform(seed, _HOME, player, 1) - 28_000.0
    state[2] = 1_300.0 if ball else 100.0
    for wave in range(3):
        period = _WAVES_S[kind, wave]
        x = time_s / period
        at = np.floor(x)
        share = x - at
        # The two long waves are the player's, the short one is the step of each shoe.
        key = (1000 + sensor if wave == 2 else player) * 3 + wave
        here, there = bits(seed, _WAY, key, int(at)), bits(seed, _WAY, key, int(at) + 1)
        for axis in range(3):
            reach = _WAVES_UP_MM[kind, wave] if axis == 2 else _WAVES_MM[kind, wave]
            a = float((here >> np.uint64(21 * axis)) & np.uint64(0x1FFFFF)) * 2.0**-20 - 1.0
            b = float((there >> np.uint64(21 * axis)) & np.uint64(0x1FFFFF)) * 2.0**-20 - 1.0
            state[axis] += reach * (a + (b - a) * share * share * (3.0 - 2.0 * share))
            state[3 + axis] += reach * (b - a) * 6.0 * share * (1.0 - share) / period
            state[6 + axis] += reach * (b - a) * (6.0 - 12.0 * share) / (period * period)


@numba.njit(cache=True, nogil=True)
def _lines(
    out: Buffer,
    seed: int,
    stretch: int,
    row: int,
    count: int,
    start_ps: int,
    gap_ps: int,
    gap_cycle: int,
    sensors: NDArray[np.int64],
    offsets_ps: NDArray[np.int64],
    ids: NDArray[np.int64],
    balls: int,
) -> int:  # pragma: no cover - compiled
    """Lines row to row + count of a stretch; records before them are only counted."""
    outages = np.empty((5, 3), np.int64)
    _outages(outages, seed, stretch, balls, len(ids))
    out_now = np.zeros(len(ids), np.bool_)
    state = np.empty(9)
    at, seen = 0, 0
    for cycle in range(CYCLES):
        if seen >= row + count:
            break
        out_now[:] = False
        for outage in outages:
            if outage[0] >= 0 and outage[1] <= cycle < outage[2]:
                out_now[outage[0]] = True
        cycle_ps = start_ps + cycle * CYCLE_PS + (gap_ps if cycle >= gap_cycle else 0)
        for event in range(len(sensors)):
            sensor = sensors[event]
            if out_now[sensor]:
                continue
            seen += 1
            if seen <= row:
                continue
            if seen > row + count:
                break
            ball = sensor < balls
            # A ball's clock is good to a nanosecond or two, a shoe's to some microseconds; no jitter reaches the next record.
            jitter = uniform(seed, _JITTER, stretch, cycle * 1024 + event) * (2_000.0 if ball else 20_000_000.0)
            ts = cycle_ps + offsets_ps[event] + int(jitter)
            _place(state, seed, sensor, ball, ts * 1e-12)
            at = put_int(out, at, ids[sensor])
            out[at] = 44
            at = put_int(out, at + 1, ts)
            for axis in range(3):
                out[at] = 44
                at = put_int(out, at + 1, int(state[axis]))
            speed = np.sqrt(state[3] ** 2 + state[4] ** 2 + state[5] ** 2)
            rate = np.sqrt(state[6] ** 2 + state[7] ** 2 + state[8] ** 2)
            out[at] = 44
            at = put_int(out, at + 1, int(speed * 1000.0))
            out[at] = 44
            at = put_int(out, at + 1, int(rate * 1000.0))
            for axis in range(6):
                length = speed if axis < 3 else rate
                out[at] = 44
                at = put_int(out, at + 1, int(state[3 + axis] / length * 10_000.0) if length > 0 else 0)
            out[at] = 10
            at += 1
    return at
