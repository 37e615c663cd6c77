"""Kernels of frames: orders of time that sort no more than they must, and the runs of a predicate.

Plain arrays in and out, the same types in every call, so that each is compiled once. What a piece is for is said in `pieces.py`.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_DIGIT = 11
_LAST = np.iinfo(np.int64).max
_FIRST = np.iinfo(np.int64).min


@numba.njit(cache=True, nogil=True)
def refined(order: Array, values: Array) -> Array:
    """Rows in ascending order of their values, equal ones as they were: radix sort from the lowest digit, as many as there are."""
    n, lowest, highest = len(order), _LAST, _FIRST
    for r in range(n):
        lowest, highest = min(lowest, values[order[r]]), max(highest, values[order[r]])
    here, there = order.copy(), np.empty_like(order)
    places = np.empty((1 << _DIGIT) + 1, np.int64)
    digit, shift = np.uint64((1 << _DIGIT) - 1), np.uint64(0)
    # Unsigned, for the span of two signed numbers may be beyond the largest of them.
    base = np.uint64(lowest)
    while n > 0 and shift < np.uint64(64) and (np.uint64(highest) - base) >> shift > np.uint64(0):
        places[:] = 0
        for r in range(n):
            places[np.int64((np.uint64(values[here[r]]) - base) >> shift & digit) + 1] += 1
        for d in range(len(places) - 1):
            places[d + 1] += places[d]
        for r in range(n):
            own = np.int64((np.uint64(values[here[r]]) - base) >> shift & digit)
            there[places[own]] = here[r]
            places[own] += 1
        here, there = there, here
        shift += np.uint64(_DIGIT)
    return here


@numba.njit(cache=True, nogil=True)
def in_time(ts: Array) -> Array:
    """Tuples in order of (ts, arrival): those that move the clock are in order already, so only the others are sorted, then merged in."""
    n, clock = len(ts), _FIRST
    movers, stragglers = np.empty(n, np.int32), np.empty(n, np.int32)
    m = s = 0
    for i in range(n):
        if ts[i] >= clock:
            clock = ts[i]
            movers[m] = i
            m += 1
        else:
            stragglers[s] = i
            s += 1
    behind = refined(stragglers[:s], ts)
    order = np.empty(n, np.int32)
    m = 0
    for r in range(s):
        # A straggler arrived after a mover of the same time. No mover is passed by: the last of them is later than any straggler.
        while ts[movers[m]] <= ts[behind[r]]:
            order[m + r] = movers[m]
            m += 1
        order[m + r] = behind[r]
    order[m + s :] = movers[m : n - s]
    return order


@numba.njit(cache=True, nogil=True)
def cut(
    order: Array, codes: Array, ts: Array, truth: Array, keys: int, skip: bool, after: int, before: int
) -> tuple[Array, Array, Array, Array, Array]:
    """Cut each key's tuples into pieces (paper, 4.1.1): strictly between `after` and `before` runs of equal predicate, elsewhere instants.

    Tuples are taken as told by `order`, or as they are if it is empty. Returns the piece of each tuple that satisfies (else -1), and of
    each piece the key, start, end, and whether it satisfies. No pieces, though there are tuples: they are not in order of time.
    """
    n, count = len(ts), 0
    cells = np.full(n, -1, np.int32)
    key, start, end, satisfied = np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.bool_)
    # Of each key: the latest instant and its piece, where that ended before the instant, and the instant's first and last tuple.
    clock, piece, ended = np.full(keys, _FIRST), np.full(keys, -1, np.int32), np.empty(keys, np.int64)
    first, last, previous = np.empty(keys, np.int32), np.empty(keys, np.int32), np.empty(n, np.int32)
    ordered = len(order) > 0
    for r in range(n):
        i = order[r] if ordered else r
        if skip and truth[i] < 0:
            continue
        k, t, holds = codes[i], ts[i], truth[i] == 1
        p = piece[k]
        if t < clock[k]:
            return cells, key[:0], start[:0], end[:0], satisfied[:0]
        if t > clock[k]:
            if p >= 0 and satisfied[p] == holds and clock[k] > after and t < before:
                ended[k], end[p] = end[p], t
            else:
                p = count
                count += 1
                key[p], start[p], end[p], satisfied[p] = k, t, t, holds
                piece[k] = p
            clock[k] = t
            if holds:
                cells[i], first[k], last[k] = p, i, i
        elif satisfied[p] and holds:
            cells[i], previous[i], last[k] = p, last[k], i
        elif satisfied[p]:
            # One tuple that does not satisfy undoes the instant: its tuples leave the run, which ends before it.
            j = last[k]
            while j != first[k]:
                cells[j] = -1
                j = previous[j]
            cells[j] = -1
            if start[p] == t:
                satisfied[p] = False
            else:
                end[p] = ended[k]
                key[count], start[count], end[count], satisfied[count] = k, t, t, False
                piece[k] = count
                count += 1
    return cells, key[:count].copy(), start[:count].copy(), end[:count].copy(), satisfied[:count].copy()
