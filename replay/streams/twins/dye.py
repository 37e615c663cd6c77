"""The twin of the dye tows: Sea-Bird `.cnv` files of 400,000 scans at 24 Hz, most of them in clear water.

Of five blocks of 5,000 scans three have dye. A block has four slots; a patch of 20 to 960 scans lies in two of them or three, and
shorter ones, of 1 to 19, at both ends of a slot. That makes 100 patches and 300 shorter ones a tow. Fewer than 800,000 tuples are
two shorter tows, more are further tows of 400,000.

    slot   | ##      ###########################      # |      two short patches and one that counts, never touching
           0  100                                  1,250 scans
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numba
import numpy as np

from engines.spec import SpecError
from replay.streams.twins.draws import below, noise, normal, quantile, uniform
from replay.streams.twins.formatting import Buffer, put_right, put_text, text
from replay.streams.twins.parts import TUPLES_A_BLOCK, Numbered, Part, check_twin, pieces

SCANS = 400_000
SCANS_A_SECOND = 24
LONG_PATCH = 151_026
SHORTEST_LONG = 155_000
BLOCK, SLOT = 5_000, 1_250
WIDTH = 11
START = datetime(2012, 7, 11, 2, 22, 32)
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
"""As Sea-Bird writes them, in whatever language the machine's own are."""
COLUMNS = (
    "scan: Scan Count",
    "timeS: Time, Elapsed [seconds]",
    "depSM: Depth [salt water, m]",
    "flSP: Fluorescence, Seapoint",
    "sal00: Salinity, Practical [PSU]",
    "t090C: Temperature [ITS-90, deg C]",
    "flag:  0.000e+00",
)

_SHARES = np.array([0.0, 0.2, 0.5, 0.8, 0.95, 1.0])
_LENGTHS = np.array([20.0, 90.0, 280.0, 520.0, 800.0, 960.0])
"""Scans of a patch, 324 on average (frames paper, table 1)."""
_CLEAR, _WHICH, _THIRD, _LENGTH, _PLACE, _SHORT, _PEAK, _FLOW, _GRAIN, _FAULT, _WATER, _LONG = range(12)
_GOOD, _BAD, _END = text("  0.000e+00"), text(" -9.990e-29"), text("\r\n")
_NOWHERE = -1 << 40


@dataclass(frozen=True)
class Tows(Numbered):
    """The tows that the paper names, then those after the last of them."""

    def label(self, at: int) -> str:
        """The file's name.

        >>> [part.name for part in Tows(1_300_000, SCANS, "")]
        ['tow4.cnv', 'tow13.cnv', 'tow14.cnv', 'tow15.cnv']
        """
        return f"tow{4 if at == 0 else 12 + at}.cnv"


@dataclass(frozen=True)
class Dye:
    """The twin; `long` adds `tow13_long.cnv`, which has one patch of 151,026 scans and is counted in the tuples."""

    tuples: int
    seed: int = 0
    long: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be made."""
        check_twin(self.tuples, self.seed)
        if not isinstance(self.long, bool):
            raise SpecError(f"long: {self.long!r} given; allowed are true and false.")
        if self.long and self.tuples < 2 * SHORTEST_LONG:
            raise SpecError(f"tuples: {self.tuples} given; with a long patch at least {2 * SHORTEST_LONG} are needed.")

    @property
    def parts(self) -> Sequence[Part]:
        """One file a tow."""
        long = min(SCANS, self.tuples // 2) if self.long else 0
        short = self.tuples - long
        tows = Tows(short, min(SCANS, -(-short // 2)), "")
        return [*tows, Part("tow13_long.cnv", short, long)] if long else tows

    def blocks(self, part: Part) -> Iterator[bytes]:
        """The header, then the tow's scans."""
        name = part.name.removesuffix(".cnv")
        tow = int(name.removeprefix("tow").removesuffix("_long"))
        start, key = _NOWHERE, tow
        if name.endswith("_long"):
            key = -tow
            start = 1_500 + below(self.seed, _LONG, tow, 0, part.tuples - LONG_PATCH - 3_000)
        yield header(name, part.tuples, START + timedelta(hours=8 * (tow - 4)))
        out = np.empty(TUPLES_A_BLOCK * (WIDTH * len(COLUMNS) + 2), np.uint8)
        for first, count in pieces(0, part.tuples):
            yield out[: _lines(out, self.seed, key, first, count, start)].tobytes()


def header(name: str, scans: int, start: datetime) -> bytes:
    """What stands above the data.

    >>> header("tow4", 400_000, START).decode().splitlines()[-4:]
    ['# start_time = Jul 11 2012 02:22:32', '# bad_flag = -9.990e-29', '# file_type = ascii', '*END*']
    """
    began = f"{MONTHS[start.month - 1]} {start:%d %Y %H:%M:%S}"
    lines = [
        "* Sea-Bird SBE 9 Data File:",
        f"* FileName = {name}.hex",
        "* Software Version Seasave V 7.21g",
        f"* System UpLoad Time = {began}",
        f"# nquan = {len(COLUMNS)}",
        f"# nvalues = {scans}",
        "# units = specified",
        *(f"# name {number} = {column}" for number, column in enumerate(COLUMNS)),
        f"# interval = seconds: {1 / SCANS_A_SECOND:.7f}",
        f"# start_time = {began}",
        "# bad_flag = -9.990e-29",
        "# file_type = ascii",
        "*END*",
    ]
    return "".join(f"{line}\r\n" for line in lines).encode("ascii")


@numba.njit(cache=True, nogil=True)
def _patch(seed: int, tow: int, slot: int, place: int) -> tuple[int, int]:  # pragma: no cover - compiled
    """First scan and length of a slot's patch at a place: 0 and 2 are the short ones, 1 is the one between them."""
    block, group = slot // 4, slot // 20
    clear = below(seed, _CLEAR, tow, 2 * group, 5)
    other = (clear + 1 + below(seed, _CLEAR, tow, 2 * group + 1, 4)) % 5
    if block % 5 == clear or block % 5 == other:
        return _NOWHERE, 0
    if place != 1:
        if uniform(seed, _SHORT, tow, 8 * slot + place) > 0.8:
            return _NOWHERE, 0
        length = 1 + below(seed, _SHORT, tow, 8 * slot + place + 1, 19)
        return slot * SLOT + 550 * place + (10 if place == 2 else 0) + below(seed, _SHORT, tow, 8 * slot + 5 + place, 70), length
    turn = (slot + below(seed, _WHICH, tow, block, 4)) % 4
    if turn == 0 or (turn == 1 and uniform(seed, _THIRD, tow, block) > 0.16):
        return _NOWHERE, 0
    length = int(quantile(uniform(seed, _LENGTH, tow, slot), _SHARES, _LENGTHS))
    return slot * SLOT + 100 + below(seed, _PLACE, tow, slot, 1_000 - length), length


@numba.njit(cache=True, nogil=True)
def _lines(out: Buffer, seed: int, tow: int, first: int, count: int, long: int) -> int:  # pragma: no cover - compiled
    """Some scans of a tow; `long` is where its long patch starts."""
    at, known, start, length, place = 0, -1, 0, 0, 0
    for s in range(first, first + count):
        slot = s // SLOT
        third = 0 if s % SLOT < 100 else 1 if s % SLOT < 1_100 else 2
        if 3 * slot + third != known:
            known, place = 3 * slot + third, third
            start, length = _patch(seed, tow, slot, place)
            if long - 2 * SLOT <= s <= long + LONG_PATCH + 2 * SLOT:
                start, length = long, LONG_PATCH  # and clear water around it, or it would be longer
        grain = uniform(seed, _GRAIN, tow, s)
        fault = uniform(seed, _FAULT, tow, s)
        inside = start <= s < start + length
        if inside:
            share = (s - start + 0.5) / length
            height = uniform(seed, _PEAK, tow, start)
            peak = 0.2 + 4.0 * height * height * (60.0 if height > 0.98 else 1.0)
            flow = 0.6 + 0.4 * noise(seed, _FLOW, tow, s / 7.0)
            dye = min(0.204 + peak * 4.0 * share * (1.0 - share) * flow + 0.03 * grain, 123.2)
        else:
            dye = 0.02 + 0.08 * noise(seed, _FLOW, tow, s / 400.0) + 0.03 * grain
            if fault < 0.0001:
                dye = -1.8
        down = 2.0 * abs(s / 7_200.0 - np.floor(s / 7_200.0) - 0.5)
        depth = 3.0 + 27.0 * down + 0.4 * noise(seed, _WATER, tow, s / 50.0)
        layer = min(max((depth - 12.0) / 6.0, 0.0), 1.0)
        salinity = 32.6 + 2.8 * layer + 0.2 * noise(seed, _WATER, tow + 1_000_000, s / 300.0) + 0.002 * normal(seed, _WATER, tow, 2 * s)
        warmth = 16.5 - 5.0 * layer + 0.5 * noise(seed, _WATER, tow + 2_000_000, s / 300.0) + 0.002 * normal(seed, _WATER, tow, 2 * s + 1)
        at = put_right(out, at, WIDTH, s + 1, 0)
        at = put_right(out, at, WIDTH, (s * 1000 + SCANS_A_SECOND // 2) // SCANS_A_SECOND, 3)
        at = put_right(out, at, WIDTH, int(depth * 1000.0), 3)
        # A value that the instrument flags as bad would cut a patch in two.
        if not inside and 0.0001 <= fault < 0.0002:
            at = put_text(out, at, _BAD)
        else:
            at = put_right(out, at, WIDTH, int(np.floor(dye * 10_000.0 + 0.5)), 4)
        at = put_text(out, at, _BAD) if 0.0002 <= fault < 0.0004 else put_right(out, at, WIDTH, int(salinity * 10_000.0), 4)
        at = put_text(out, at, _BAD) if 0.0003 <= fault < 0.0005 else put_right(out, at, WIDTH, int(warmth * 10_000.0), 4)
        at = put_text(out, at, _GOOD)
        at = put_text(out, at, _END)
    return at
