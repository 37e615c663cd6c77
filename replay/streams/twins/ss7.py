"""The twin of the SS7 telephony events: intervals of 16 s on average and up to 2.5 h, written when they stop.

The n-th event stops in the n-th of equal pieces of time, 3.2 M of them a minute; fewer than 3.2 M tuples are spread over ten
minutes. A share of events is written late: it stopped up to two seconds before. The original is not public; of its 119 fields
the first twelve have names here, and the rest are numbers. The variant "synthetic" is the paper's: one event per chronon.

    events     |--------------------------|  |-|              lines are in the order of stop,
                          |-----|      |------------|         except for those that are late
    stops                       ^     ^      ^ ^    ^
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numba
import numpy as np

from engines.spec import SpecError
from replay.streams.twins.draws import below, bits, normal, quantile, signed, uniform
from replay.streams.twins.formatting import SECONDS_A_DAY, Buffer, put_clock, put_date, put_int, put_padded
from replay.streams.twins.parts import TUPLES_A_BLOCK, Numbered, Part, check_twin, check_whole, pieces

NAMED = ("start", "stop", "opc", "dpc", "cic", "message", "calling", "called", "cause", "octets", "cell", "switch")
MOST_FIELDS = 119
MINUTE_US = 60_000_000
EVENTS_A_MINUTE = 3_200_000
CHRONON_US = 1_000
START_US = int(datetime(2020, 3, 2, 8, tzinfo=UTC).timestamp()) * 1_000_000
"""When the first event stops."""

_SHARES = np.array([0.0, 0.25, 0.5, 0.75, 0.9, 0.97, 0.99, 0.999, 0.9999, 1.0])
_SECONDS = np.array([0.05, 1.5, 4.6, 11.5, 28.0, 58.0, 110.0, 600.0, 3_000.0, 9_000.0])
"""How long events last: the mean is 16.0 s, one in a thousand is over ten minutes, none over 2.5 h."""
_STOP, _DURATION, _LATE, _DELAY, _FIELD = range(5)


@dataclass(frozen=True)
class Ss7:
    """The twin; `variant` is "network" or "synthetic"."""

    tuples: int
    seed: int = 0
    fields: int = 12
    variant: str = "network"
    events_a_minute: int | None = None
    """Left out: 3.2 M, or a tenth of all tuples if those are fewer than 3.2 M. The synthetic variant has one per chronon, 1 ms."""
    disordered: float | None = None
    """The share of events that are written late, by up to two seconds; left out, 0.02, or none in the synthetic variant."""
    mean: int = 100
    """The synthetic variant's mean duration in chronons; the deviation is 10."""

    def __post_init__(self) -> None:
        """Refuse what cannot be made."""
        check_twin(self.tuples, self.seed)
        check_whole("fields", self.fields, 2, MOST_FIELDS)
        check_whole("mean", self.mean, 1, 10_000_000)
        if self.variant not in ("network", "synthetic"):
            raise SpecError(f"variant: {self.variant!r} given; allowed are 'network' and 'synthetic'.")
        if self.events_a_minute is not None:
            if self.variant == "synthetic":
                raise SpecError(f"events_a_minute: {self.events_a_minute!r} given; the synthetic variant has one event per chronon.")
            check_whole("events_a_minute", self.events_a_minute, 1, MINUTE_US)
        share = self.disordered
        if share is not None and (isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1):
            raise SpecError(f"disordered: {share!r} given; allowed is a share from 0 to 1.")

    @property
    def parts(self) -> Sequence[Part]:
        """Files of a million tuples."""
        return Numbered(self.tuples, 1_000_000, "ss7-{:04d}.csv")

    def blocks(self, part: Part) -> Iterator[bytes]:
        """The header, then the file's events."""
        yield (",".join([*NAMED, *(f"field{n}" for n in range(13, MOST_FIELDS + 1))][: self.fields]) + "\n").encode("ascii")
        out = np.empty(TUPLES_A_BLOCK * (60 + 12 * self.fields), np.uint8)
        synthetic = self.variant == "synthetic"
        rate = self.events_a_minute or (EVENTS_A_MINUTE if self.tuples >= EVENTS_A_MINUTE else max(1, self.tuples // 10))
        late = self.disordered if self.disordered is not None else 0.0 if synthetic else 0.02
        for first, count in pieces(part.first, part.tuples):
            yield out[: _lines(out, self.seed, first, count, self.fields, rate, late, self.mean if synthetic else 0)].tobytes()


@numba.njit(cache=True, nogil=True)
def _put_time(out: Buffer, at: int, us: int) -> int:  # pragma: no cover - compiled
    """A time as yyyy-mm-ddThh:mm:ss.ffffffZ."""
    second = us // 1_000_000
    day = second // SECONDS_A_DAY
    at = put_date(out, at, day)
    out[at] = 84
    at = put_clock(out, at + 1, second - day * SECONDS_A_DAY)
    out[at] = 46
    at = put_padded(out, at + 1, us - second * 1_000_000, 6)
    out[at] = 90
    return at + 1


@numba.njit(cache=True, nogil=True)
def _lines(
    out: Buffer, seed: int, first: int, count: int, fields: int, rate: int, late: float, mean: int
) -> int:  # pragma: no cover - compiled
    """Events first to first + count; a mean duration of zero stands for the network's own distribution."""
    at = 0
    limits = (16_384, 16_384, 4_096, 8, 1, 1, 128, 4_000, 60_000, 32)
    for n in range(first, first + count):
        if mean > 0:
            stop = START_US + n * CHRONON_US
            duration = max(int(np.floor(mean + 10.0 * normal(seed, _DURATION, 0, n) + 0.5)), 1) * CHRONON_US
        else:
            # By whole numbers: a product of doubles would lose microseconds after some billion events.
            left = n * MINUTE_US // rate
            stop = START_US + left + int(uniform(seed, _STOP, 0, n) * ((n + 1) * MINUTE_US // rate - left))
            duration = int(quantile(uniform(seed, _DURATION, 0, n), _SHARES, _SECONDS) * 1_000_000.0)
        if uniform(seed, _LATE, 0, n) < late:
            stop -= 1 + below(seed, _DELAY, 0, n, 2_000_000)
        at = _put_time(out, at, stop - duration)
        out[at] = 44
        at = _put_time(out, at + 1, stop)
        for field in range(2, fields):
            out[at] = 44
            at += 1
            z = bits(seed, _FIELD, field, n) >> np.uint64(1)
            if field == 6 or field == 7:  # numbers of subscribers, as anonymised as they come
                at = put_padded(out, at, signed(z % np.uint64(9_000_000_000)) + 1_000_000_000, 10)
            elif field < 12:
                at = put_int(out, at, signed(z % np.uint64(limits[field - 2])))
            elif z % np.uint64(5) > 0:  # of the other fields every fifth is empty
                at = put_int(out, at, signed(z >> np.uint64(8)) % (10 ** (1 + field % 6)))
        out[at] = 10
        at += 1
    return at
