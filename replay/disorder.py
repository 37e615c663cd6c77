"""Disorder: an ordered stream becomes one whose tuples come late, reproducibly, and how disordered a stream is.

Each tuple's delay is drawn by a generator seeded with its arrival, so any part of a stream can be delayed alone and the
whole does not depend on how it was cut. What lateness means to results is the clock's business, not this module's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numba
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engines.contract import TIMESTAMP
from engines.spec import SpecError
from replay.lifting import check_tuples
from replay.log import times_of

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Delays:
    """Which tuples are delayed, and by how much."""

    fraction: float = 0.2
    """The share of tuples that are delayed."""
    kind: Literal["uniform", "gaussian", "exponential"] = "uniform"
    scale_us: int = 2_000_000
    """The longest delay (uniform), the standard deviation (gaussian, of either sign) or the mean (exponential)."""
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        if not 0 <= self.fraction <= 1:
            raise SpecError(f"fraction: {self.fraction} given; allowed is a share from 0 to 1.")
        if self.kind not in ("uniform", "gaussian", "exponential"):
            raise SpecError(f"kind: '{self.kind}' given; allowed are uniform, gaussian and exponential.")
        if self.scale_us < 0:
            raise SpecError(f"scale_us: {self.scale_us} given; allowed is zero or more microseconds.")
        if not 0 <= self.seed < 2**64:
            raise SpecError(f"seed: {self.seed} given; allowed is a whole number from 0 to {2**64 - 1}.")

    def draw(self, arrivals: NDArray[np.int64]) -> NDArray[np.int64]:
        """The delay of each tuple in microseconds.

        >>> bool((Delays().draw(np.arange(1000))[500:] == Delays().draw(np.arange(500, 1000))).all())
        True
        """
        chosen, first, second = (_uniform(arrivals, self.seed, part) for part in range(3))
        if self.kind == "uniform":
            drawn = first * self.scale_us
        elif self.kind == "exponential":
            drawn = -np.log1p(-first) * self.scale_us
        else:
            drawn = np.sqrt(-2 * np.log1p(-first)) * np.cos(2 * np.pi * second) * self.scale_us
        return np.where(chosen < self.fraction, drawn, 0.0).astype(np.int64)


@dataclass(frozen=True)
class Measured:
    """How disordered a stream is."""

    tuples: int
    out_of_order: float
    """The share of tuples whose ts is before the clock."""
    largest_delay_us: int
    inversion_rate: float
    """The share of all pairs of tuples that stand in the wrong order (threshold paper, 6.2)."""


def disordered(tuples: pa.Table, delays: Delays, *, first: int = 0) -> pa.Table:
    """The tuples as they would have arrived with these delays, with `arrived` = ts (or end) + delay in microseconds.

    Args:
        tuples: `ts` (or `start` and `end`) and values, in order of arrival.
        delays: which tuples arrive how much later.
        first: the arrival of the first tuple, if these are not the first of their stream.

    >>> late = disordered(pa.table({"ts": pa.array([0, 10, 20, 30], TIMESTAMP)}), Delays(fraction=0.5, scale_us=50, seed=2))
    >>> late["ts"].cast(pa.int64()).to_pylist(), late["arrived"].to_pylist()
    ([0, 20, 10, 30], [0, 20, 21, 40])
    """
    ts = _times(tuples)
    came = ts + delays.draw(np.arange(first, first + tuples.num_rows))
    order = np.argsort(came, kind="stable")
    rest = tuples.drop_columns(["arrived"]) if "arrived" in tuples.schema.names else tuples
    return rest.append_column("arrived", pa.array(came)).take(pa.array(order))


def measure(tuples: pa.Table) -> Measured:
    """How disordered tuples are, in order of their arrival.

    >>> measure(pa.table({"ts": pa.array([1, 3, 2], TIMESTAMP)}))
    Measured(tuples=3, out_of_order=0.3333333333333333, largest_delay_us=1, inversion_rate=0.3333333333333333)
    """
    ts = _times(tuples)
    n = len(ts)
    if n < 2:
        return Measured(n, 0.0, 0, 0.0)
    behind = np.maximum.accumulate(ts) - ts
    pairs = n * (n - 1) // 2
    return Measured(n, float(np.mean(behind > 0)), int(behind.max()), _inversions(ts.copy(), np.empty_like(ts)) / pairs)


def _times(tuples: pa.Table) -> NDArray[np.int64]:
    check_tuples(tuples)
    moves = tuples[times_of(tuples.schema.names)[-1]]
    times: NDArray[np.int64] = moves.combine_chunks().cast(TIMESTAMP).view(pa.int64()).to_numpy()
    return times


def _uniform(arrivals: NDArray[np.int64], seed: int, part: int) -> NDArray[np.float64]:
    """A number from [0, 1) for each arrival: splitmix64 of arrival, seed and part."""
    with np.errstate(over="ignore"):
        z = arrivals.astype(np.uint64) * np.uint64(3) + np.uint64(part) + np.uint64(seed) * _GOLDEN
        for _ in range(2):
            z = z + _GOLDEN
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


@numba.njit(cache=True, nogil=True)
def _inversions(values: NDArray[np.int64], spare: NDArray[np.int64]) -> int:  # pragma: no cover - compiled
    """Pairs i < j with values[i] > values[j], counted by a bottom-up merge sort: n log n."""
    n, count, width = len(values), 0, 1
    while width < n:
        for start in range(0, n, 2 * width):
            middle, end = min(start + width, n), min(start + 2 * width, n)
            left, right = start, middle
            for at in range(start, end):
                if left < middle and (right >= end or values[left] <= values[right]):
                    spare[at] = values[left]
                    left += 1
                else:
                    spare[at] = values[right]
                    right += 1
                    count += middle - left
        values, spare = spare, values
        width *= 2
    return count
