"""Kernels of partial aggregates: tuples into cells (`lift_*`), ranges of partials into one (`reduce_*`).

Every lift kernel gets `cells`: tuple i belongs to cell `cells[i]`, or to none if that is negative (late in no window, or
without a value), so that no kernel needs to know of nulls. Plain arrays in and out; what they mean is said in `parts.py`.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_LOW = np.int64(0xFFFFFFFF)


def fixed(array: Array, dtype: type | None = None) -> Array:
    """The array contiguous and read-only: for numba these are types, and every other type would be compiled again."""
    view = np.ascontiguousarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view


@numba.njit(cache=True, nogil=True)
def lift_count(cells: Array, count: Array) -> None:
    """Tuples per cell."""
    for i in range(len(cells)):
        if cells[i] >= 0:
            count[cells[i]] += 1


@numba.njit(cache=True, nogil=True)
def lift_float_sum(cells: Array, values: Array, total: Array, error: Array) -> None:
    """Compensated sums: Knuth's TwoSum, which is Neumaier's without the branch."""
    for i in range(len(cells)):
        cell = cells[i]
        if cell >= 0:
            x, before = values[i], total[cell]
            after = before + x
            added = after - before
            total[cell] = after
            error[cell] += (before - (after - added)) + (x - added)


@numba.njit(cache=True, nogil=True)
def lift_int_sum(cells: Array, values: Array, high: Array, low: Array) -> None:
    """Exact sums: upper and lower halves apart, which no batch is long enough to overflow."""
    for i in range(len(cells)):
        cell = cells[i]
        if cell >= 0:
            high[cell] += values[i] >> 32
            low[cell] += values[i] & _LOW
    for cell in range(len(high)):
        high[cell] += low[cell] >> 32
        low[cell] &= _LOW


@numba.njit(cache=True, nogil=True)
def lift_extreme(cells: Array, values: Array, largest: bool, extreme: Array) -> None:
    """Least or largest value per cell."""
    for i in range(len(cells)):
        cell = cells[i]
        if cell >= 0:
            x = values[i]
            if (largest and x > extreme[cell]) or (not largest and x < extreme[cell]):
                extreme[cell] = x


@numba.njit(cache=True, nogil=True)
def lift_edge(cells: Array, ts: Array, arrival: Array, last: bool, row: Array) -> None:
    """The row of the first or last tuple of each cell, by (ts, arrival); `row` comes in as -1."""
    for i in range(len(cells)):
        cell = cells[i]
        if cell >= 0:
            j = row[cell]
            if j < 0 or ((ts[i] > ts[j]) == last if ts[i] != ts[j] else (arrival[i] > arrival[j]) == last):
                row[cell] = i


@numba.njit(cache=True, nogil=True)
def reduce_count(lo: Array, hi: Array, count: Array, out: Array) -> None:
    """Plain sums over ranges."""
    for r in range(len(lo)):
        for i in range(lo[r], hi[r]):
            out[r] += count[i]


@numba.njit(cache=True, nogil=True)
def reduce_float_sum(lo: Array, hi: Array, total: Array, error: Array, out_total: Array, out_error: Array) -> None:
    """Compensated sums over ranges: totals by TwoSum, errors added up."""
    for r in range(len(lo)):
        before, carried = 0.0, 0.0
        for i in range(lo[r], hi[r]):
            after = before + total[i]
            added = after - before
            carried += error[i] + ((before - (after - added)) + (total[i] - added))
            before = after
        out_total[r], out_error[r] = before, carried


@numba.njit(cache=True, nogil=True)
def reduce_int_sum(lo: Array, hi: Array, high: Array, low: Array, out_high: Array, out_low: Array) -> None:
    """Exact sums over ranges, carry normalised."""
    for r in range(len(lo)):
        upper, lower = np.int64(0), np.int64(0)
        for i in range(lo[r], hi[r]):
            upper += high[i]
            lower += low[i]
        out_high[r], out_low[r] = upper + (lower >> 32), lower & _LOW


@numba.njit(cache=True, nogil=True)
def reduce_extreme(lo: Array, hi: Array, extreme: Array, largest: bool, out: Array) -> None:
    """Least or largest over ranges; `out` comes in as the neutral value."""
    for r in range(len(lo)):
        best = out[r]
        for i in range(lo[r], hi[r]):
            x = extreme[i]
            if (largest and x > best) or (not largest and x < best):
                best = x
        out[r] = best


@numba.njit(cache=True, nogil=True)
def reduce_edge(lo: Array, hi: Array, ts: Array, arrival: Array, last: bool, row: Array) -> None:
    """The row of the first or last partial of each range, by (ts, arrival); -1 for an empty one."""
    for r in range(len(lo)):
        j = -1
        for i in range(lo[r], hi[r]):
            if j < 0 or ((ts[i] > ts[j]) == last if ts[i] != ts[j] else (arrival[i] > arrival[j]) == last):
                j = i
        row[r] = j
