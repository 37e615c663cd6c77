"""Random numbers by number: each is a function of the seed, what it is drawn for, a key and a number, and of nothing else.

So any part of a twin can be made alone, and in any order. Only operations that IEEE 754 rounds exactly are used (no logarithm,
no sine), so every machine draws the same bits. What is drawn for which purpose belongs in the stream's own module.

Numba does not see that a function called by a cached kernel has changed: who edits this module deletes `__pycache__` here.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_OTHER = np.uint64(0xD1342543DE82EF95)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_LOW = np.uint64(0xFFFF)
_PIECE = np.uint64(16)
_MEAN_OF_EIGHT = 8 * 65535 / 2
_DEVIATION_OF_EIGHT = 53509.91992767945
"""The sum of eight whole numbers below 65,536 has this standard deviation: the root of 8 * 65536**2 / 12."""


@numba.njit(cache=True, nogil=True)
def _mix(z: np.uint64) -> np.uint64:  # pragma: no cover - compiled
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014)."""
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


@numba.njit(cache=True, nogil=True)
def bits(seed: int, what: int, key: int, number: int) -> np.uint64:  # pragma: no cover - compiled
    """64 random bits: splitmix64 of the four, one after the other."""
    z = _mix(np.uint64(seed) * _OTHER + np.uint64(what + 1) * _GOLDEN)
    z = _mix(z + np.uint64(key) * _OTHER)
    return _mix(z + np.uint64(number) * _GOLDEN)


@numba.njit(cache=True, nogil=True)
def signed(z: np.uint64) -> int:  # pragma: no cover - compiled
    """Bits as a number that kernels can reckon with: beside a signed one, an unsigned one would become a float."""
    return np.int64(z)  # type: ignore[return-value]


@numba.njit(cache=True, nogil=True)
def uniform(seed: int, what: int, key: int, number: int) -> float:  # pragma: no cover - compiled
    """A number from [0, 1)."""
    return float(bits(seed, what, key, number) >> np.uint64(11)) * 2.0**-53


@numba.njit(cache=True, nogil=True)
def below(seed: int, what: int, key: int, number: int, limit: int) -> int:  # pragma: no cover - compiled
    """A whole number from 0 to limit - 1."""
    return int(uniform(seed, what, key, number) * limit)


@numba.njit(cache=True, nogil=True)
def normal(seed: int, what: int, key: int, number: int) -> float:  # pragma: no cover - compiled
    """A number of mean 0 and deviation 1, within 4.9: the sum of eight uniform ones (Irwin and Hall)."""
    total = 0
    for half in range(2):
        z = bits(seed, what, key, 2 * number + half)
        for _ in range(4):
            total += signed(z & _LOW)
            z >>= _PIECE
    return (total - _MEAN_OF_EIGHT) / _DEVIATION_OF_EIGHT


@numba.njit(cache=True, nogil=True)
def noise(seed: int, what: int, key: int, x: float) -> float:  # pragma: no cover - compiled
    """A smooth random curve of x with values in [0, 1): a new uniform number at each whole x, an S between two of them."""
    at = np.floor(x)
    share = x - at
    here = uniform(seed, what, key, int(at))
    there = uniform(seed, what, key, int(at) + 1)
    return here + (there - here) * share * share * (3.0 - 2.0 * share)


@numba.njit(cache=True, nogil=True)
def quantile(share: float, shares: NDArray[np.float64], values: NDArray[np.float64]) -> float:  # pragma: no cover - compiled
    """The value below which this share of a distribution lies; the distribution is given by a few such pairs, 0 and 1 among them."""
    at = 1
    while shares[at] < share:
        at += 1
    within = (share - shares[at - 1]) / (shares[at] - shares[at - 1])
    return values[at - 1] + (values[at] - values[at - 1]) * within


@numba.njit(cache=True, nogil=True)
def hourly(table: NDArray[np.float64], second_of_day: int) -> float:  # pragma: no cover - compiled
    """A day's course given by a value for each full hour, straight in between."""
    hour = second_of_day // 3600
    share = (second_of_day - 3600 * hour) / 3600.0
    return table[hour] + (table[(hour + 1) % 24] - table[hour]) * share
