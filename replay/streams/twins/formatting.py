"""Text by kernels: digits written straight into a buffer of bytes, for twins of millions of lines a second.

Every function writes at a place and returns the place behind what it wrote. Numbers come as integers, with their decimals
(`scaled` 12345 with 2 decimals is 123.45), so no text depends on how a machine prints a float.

Numba does not see that a function called by a cached kernel has changed: who edits this module deletes `__pycache__` here.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

SPACE, MINUS, POINT, ZERO = 32, 45, 46, 48
SECONDS_A_DAY = 86_400

Buffer = NDArray[np.uint8]


def text(characters: str) -> Buffer:
    """Characters as a kernel reads them.

    >>> text("1,2")
    array([49, 44, 50], dtype=uint8)
    """
    return np.frombuffer(characters.encode("ascii"), np.uint8).copy()


@numba.njit(cache=True, nogil=True)
def put_text(out: Buffer, at: int, characters: Buffer) -> int:  # pragma: no cover - compiled
    """Characters as they are."""
    for i in range(len(characters)):
        out[at + i] = characters[i]
    return at + len(characters)


@numba.njit(cache=True, nogil=True)
def put_padded(out: Buffer, at: int, value: int, width: int) -> int:  # pragma: no cover - compiled
    """A number of zero or more, with leading zeros."""
    rest = np.uint64(value)
    for i in range(at + width - 1, at - 1, -1):
        more = rest // np.uint64(10)
        out[i] = ZERO + np.uint8(rest - more * np.uint64(10))
        rest = more
    return at + width


@numba.njit(cache=True, nogil=True)
def put_int(out: Buffer, at: int, value: int) -> int:  # pragma: no cover - compiled
    """A whole number of either sign."""
    if value < 0:
        out[at] = MINUS
        at += 1
        value = -value
    width, limit = 1, 10
    while width < 19 and value >= limit:
        width += 1
        limit *= 10
    return put_padded(out, at, value, width)


@numba.njit(cache=True, nogil=True)
def put_scaled(out: Buffer, at: int, scaled: int, decimals: int, trimmed: bool) -> int:  # pragma: no cover - compiled
    """A number with decimals; trimmed, it ends with its last digit that is not zero, as C's %g has it."""
    if scaled < 0:
        out[at] = MINUS
        at += 1
        scaled = -scaled
    while trimmed and decimals > 0 and scaled % 10 == 0:
        scaled //= 10
        decimals -= 1
    unit = 1
    for _ in range(decimals):
        unit *= 10
    at = put_int(out, at, scaled // unit)
    if decimals > 0:
        out[at] = POINT
        at = put_padded(out, at + 1, scaled % unit, decimals)
    return at


@numba.njit(cache=True, nogil=True)
def put_right(out: Buffer, at: int, width: int, scaled: int, decimals: int) -> int:  # pragma: no cover - compiled
    """A number with decimals at the right end of a column."""
    rest, i = np.uint64(abs(scaled)), at + width - 1
    for place in range(width):
        if place == decimals and decimals > 0:
            out[i] = POINT
            i -= 1
        more = rest // np.uint64(10)
        out[i] = ZERO + np.uint8(rest - more * np.uint64(10))
        rest = more
        i -= 1
        if rest == 0 and place >= decimals:
            break
    if scaled < 0:
        out[i] = MINUS
        i -= 1
    while i >= at:
        out[i] = SPACE
        i -= 1
    return at + width


@numba.njit(cache=True, nogil=True)
def date(days: int) -> tuple[int, int, int]:  # pragma: no cover - compiled
    """Year, month and day of a day since 1970 in the Gregorian calendar, by whole numbers: years begin in March."""
    shifted = days + 719_468
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return year + era * 400 + (1 if month <= 2 else 0), month, day


@numba.njit(cache=True, nogil=True)
def put_date(out: Buffer, at: int, days: int) -> int:  # pragma: no cover - compiled
    """A day since 1970 as yyyy-mm-dd."""
    year, month, day = date(days)
    at = put_padded(out, at, year, 4)
    out[at] = MINUS
    at = put_padded(out, at + 1, month, 2)
    out[at] = MINUS
    return put_padded(out, at + 1, day, 2)


@numba.njit(cache=True, nogil=True)
def put_clock(out: Buffer, at: int, second_of_day: int) -> int:  # pragma: no cover - compiled
    """A second of a day as hh:mm:ss."""
    at = put_padded(out, at, second_of_day // 3600, 2)
    out[at] = 58
    at = put_padded(out, at + 1, second_of_day // 60 % 60, 2)
    out[at] = 58
    return put_padded(out, at + 1, second_of_day % 60, 2)
