"""The twin of the Intel Berkeley lab: 54 motes, grouped by mote, single spaces, and all that goes wrong with motes.

A chunk is 64 rows of a mote out of 156 epochs of 31 s, so a tuple's chunk is a division. 2.3 M tuples are 54 motes and 37 days,
50,000 are 7 motes and 6 days; beyond 2.3 M there are more days, with new batteries every 37. What fails does so in any size: a
battery lasts 60 to 105 % of a deployment, which is the whole time where that is shorter.

    epochs of a mote    x x xx   x x x xxx ........... xx x  x xx     x a row, . the radio is out, for half an hour or so
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isqrt
from zoneinfo import ZoneInfo

import numba
import numpy as np
from numpy.typing import NDArray

from replay.streams.twins.draws import below, hourly, noise, normal, uniform
from replay.streams.twins.formatting import SECONDS_A_DAY, SPACE, Buffer, put_clock, put_date, put_int, put_scaled
from replay.streams.twins.parts import TUPLES_A_BLOCK, Groups, Numbered, Part, check_twin, check_whole, pieces
from replay.streams.twins.zones import local_second, offsets_from

MOTES = 54
EPOCH_S = 31
CHUNK, CHUNK_EPOCHS = 64, 156
ROWS_A_DAY = SECONDS_A_DAY / EPOCH_S / CHUNK_EPOCHS * CHUNK
DEPLOYMENT_EPOCHS = 37 * SECONDS_A_DAY // EPOCH_S
START = datetime(2004, 2, 28, 0, 58, 15, tzinfo=ZoneInfo("America/Los_Angeles"))
"""The lab's clock is a local one, and the file names no zone."""
START_US = int(START.timestamp()) * 1_000_000
MONTH_US = 31 * SECONDS_A_DAY * 1_000_000
LONGEST_LINE = 96
MOST_DAYS = 365 * 500

_STEPS = np.array([1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 5])
"""Epochs from a row to the next: none is lost, one, two or four; the median is one, nine in ten are three at most."""
_WARMTH = np.array([0.8, 0.6, 0.4, 0.3, 0.2, 0.1, 0.1, 0.5, 1.5, 2.5, 3.5, 4.2, 4.8, 5.2, 5.5, 5.4, 5, 4.5, 3.8, 3, 2.4, 1.9, 1.5, 1.1])
_DAYLIGHT = np.array([0, 0, 0, 0, 0, 0.02, 0.1, 0.35, 0.6, 0.8, 0.9, 1, 1, 1, 0.95, 0.9, 0.75, 0.5, 0.3, 0.25, 0.2, 0.12, 0.05, 0.01])
_GARBAGE = np.array([65407, 33117, 6485, 55, 56, 0])
_STEP, _OUT, _TIME, _TWICE, _SWAP, _MONTH, _CUT, _ODD, _EMPTY, _DEATH, _HOME, _AIR, _GRAIN, _FINE = range(14)


@dataclass(frozen=True)
class IntelLab:
    """The twin."""

    tuples: int
    seed: int = 0
    motes: int | None = None
    """How many of the 54 motes; left out, as many as make some days of them."""

    def __post_init__(self) -> None:
        """Refuse what cannot be made."""
        check_twin(self.tuples, self.seed)
        if self.motes is not None:
            check_whole("motes", self.motes, -(-self.tuples // int(MOST_DAYS * ROWS_A_DAY)), min(self.tuples, MOTES))

    @property
    def parts(self) -> Sequence[Part]:
        """Files of a million tuples."""
        return Numbered(self.tuples, 1_000_000, "data-{:04d}.txt")

    def blocks(self, part: Part) -> Iterator[bytes]:
        """The file's lines; there is no header."""
        out = np.empty(TUPLES_A_BLOCK * LONGEST_LINE, np.uint8)
        # As many motes as days, and half as many again: at 2.3 M tuples that is 54.
        motes = self.motes or max(1, min(MOTES, isqrt(int(1.46 * self.tuples / ROWS_A_DAY))))
        groups = Groups(self.tuples, motes)
        life = min(DEPLOYMENT_EPOCHS, -(-groups.rows(0) // CHUNK) * CHUNK_EPOCHS)
        clock = offsets_from(START, int(groups.rows(0) / ROWS_A_DAY) + 33)  # a clock that is off is a month ahead
        for first, count in pieces(part.first, part.tuples):
            for mote, row, rows in groups.within(first, count):
                yield out[: _lines(out, self.seed, mote + 1, row, rows, groups.rows(mote), life, *clock)].tobytes()


@numba.njit(cache=True, nogil=True)
def _epochs(epochs: NDArray[np.int64], seed: int, mote: int, chunk: int) -> None:  # pragma: no cover - compiled
    """The epochs of a chunk's rows: a walk of random steps; what it leaves of the chunk is the time that the radio is out."""
    epoch = -1
    for k in range(CHUNK):
        epoch = min(epoch + _STEPS[below(seed, _STEP, mote, chunk * CHUNK + k, len(_STEPS))], CHUNK_EPOCHS - CHUNK + k)
        epochs[k] = epoch
    left = CHUNK_EPOCHS - 1 - epoch
    for k in range(1 + below(seed, _OUT, mote, chunk, CHUNK - 1), CHUNK):
        epochs[k] += left
    for k in range(CHUNK):
        epochs[k] += chunk * CHUNK_EPOCHS


@numba.njit(cache=True, nogil=True)
def _readings(values: NDArray[np.int64], seed: int, mote: int, epoch: int, life: int) -> None:  # pragma: no cover - compiled
    """Temperature (4 decimals), humidity (4), light (2) and voltage (5), each in the steps of its sensor."""
    deployment = epoch // life
    age = (epoch - deployment * life) / life
    death = 0.6 + 0.45 * uniform(seed, _DEATH, mote, deployment)
    second = (START_US // 1_000_000 + epoch * EPOCH_S - 8 * 3600) % SECONDS_A_DAY  # the sun keeps to standard time
    days = epoch * EPOCH_S / SECONDS_A_DAY
    home = uniform(seed, _HOME, mote, 0)
    celsius = 17.5 + 2.5 * home + hourly(_WARMTH, second) + 2.0 * noise(seed, _AIR, 0, days) + 0.5 * noise(seed, _AIR, mote, 48.0 * days)
    humidity = 52.0 - 1.1 * celsius + 12.0 * noise(seed, _AIR, 1000, 0.7 * days) + 0.2 * normal(seed, _GRAIN, mote, 4 * epoch)
    volts = 2.75 - 0.12 * home - 0.35 * age + 0.004 * normal(seed, _GRAIN, mote, 4 * epoch + 1)
    if age > death:
        # The battery fails: within a hundredth of a deployment the readings drift to where they stay.
        drift = min((age - death) * 100.0, 1.0)
        celsius += (122.153 - celsius) * drift
        humidity += (-3.9 - humidity) * drift
        volts -= 0.1 + 0.15 * drift
    celsius += 0.012 * normal(seed, _GRAIN, mote, 4 * epoch + 2)
    values[0] = int(celsius * 10_000) // 98 * 98 + 62
    if age > death + 0.01:
        values[0] = 1_221_530
    values[1] = int(humidity * 10_000)
    lux = hourly(_DAYLIGHT, second) * (200.0 + 900.0 * home) * (0.3 + 0.7 * noise(seed, _AIR, 2000, 6.0 * days))
    values[2] = int(lux / 0.46 + 1.5) * 46
    values[3] = int(59_392_000.0 / np.floor(593.92 / volts + 0.5) + 0.5)


@numba.njit(cache=True, nogil=True)
def _lines(
    out: Buffer,
    seed: int,
    mote: int,
    row: int,
    rows: int,
    total: int,
    life: int,
    changes: NDArray[np.int64],
    offsets: NDArray[np.int64],
) -> int:  # pragma: no cover - compiled
    """Some lines of a mote; a line may hold its neighbour's record instead of its own, or in a second copy."""
    epochs, values, at, known = np.empty(CHUNK, np.int64), np.empty(4, np.int64), 0, -1
    decimals = (4, 4, 2, 5)
    dark = mote % 7 == 0
    for line in range(row, row + rows):
        r = line
        if (line | 1) < total and uniform(seed, _SWAP, mote, line // 2) < 0.003:
            r = line ^ 1
        elif line % CHUNK > 0 and uniform(seed, _TWICE, mote, line) < 0.004:
            r = line - 1
        chunk = r // CHUNK
        if chunk != known:
            known = chunk
            _epochs(epochs, seed, mote, chunk)
        epoch = epochs[r % CHUNK]
        us = START_US + epoch * EPOCH_S * 1_000_000 + int(uniform(seed, _TIME, mote, r) * 4_000_000.0)
        if uniform(seed, _MONTH, mote, chunk // 4) < 0.012:
            us += MONTH_US
        if uniform(seed, _FINE, mote, 2 * r) < 0.006:  # a clock that is read to fewer digits: none to five
            unit = 10
            for _ in range(below(seed, _FINE, mote, 2 * r + 1, 6)):
                unit *= 10
            us -= us % unit
        second = local_second(us // 1_000_000, changes, offsets)
        day = second // SECONDS_A_DAY
        at = put_date(out, at, day)
        out[at] = SPACE
        at = put_clock(out, at + 1, second - day * SECONDS_A_DAY)
        if us % 1_000_000 > 0:
            # What put_scaled writes before the point is the last digit of the seconds, once more.
            at = put_scaled(out, at - 1, (second % 10) * 1_000_000 + us % 1_000_000, 6, True)
        out[at] = SPACE
        at = put_int(out, at + 1, epoch + 2)

        cut = uniform(seed, _CUT, mote, r)
        fields = 8 if cut >= 0.002 else 3 + int(cut * 2_500.0)
        odd = uniform(seed, _ODD, mote, r) < 0.0008
        _readings(values, seed, mote, epoch, life)
        if fields > 3:
            out[at] = SPACE
            at = put_int(out, at + 1, _GARBAGE[below(seed, _ODD, mote, -1 - r, len(_GARBAGE))] if odd else mote)
        if odd:
            values[0], values[3] = 2_942_510, 1_306
        empty = int(uniform(seed, _EMPTY, mote, r) * 1_000.0)  # 0 to 3: this field is empty, and of the others none
        for field in range(min(4, fields - 4)):
            out[at] = SPACE
            at += 1
            if not (empty == field or (dark and field == 2) or (odd and 1 <= field <= 2)):
                at = put_scaled(out, at, values[field], decimals[field], True)
        out[at] = 10
        at += 1
    return at
