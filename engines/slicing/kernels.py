"""Kernels of slicing: tuples to slices and cells, slices into order, slices to windows.

Plain arrays in and out; what they mean is said by the callers in `windows.py` and `engine.py`.
"""

from __future__ import annotations

import numba
import numpy as np

from engines.aggregates.kernels import Array

_MOVES_PER_ROW = 8


@numba.njit(cache=True, nogil=True)
def place(ts: Array, edges: Array, labels: Array, shift: int, first: Array, width: int, cells: Array) -> None:
    """Add the slice to the cell of each tuple: a page of time narrows the last edge before it to a few, a binary search finds it.

    In place, as a second array of a batch's length would cost more time in page faults than all that is done here.
    """
    for i in range(len(ts)):
        page = (ts[i] - edges[0]) >> shift
        low, high = first[page], first[page + 1]
        while low < high:
            middle = (low + high + 1) >> 1
            if edges[middle] <= ts[i]:
                low = middle
            else:
                high = middle - 1
        label = labels[low]
        cells[i] = cells[i] * width + label if label >= 0 else -1


@numba.njit(cache=True, nogil=True)
def number_cells(codes: Array, slices: Array, keys: int, count: int, cells: Array, cell_code: Array, cell_slice: Array) -> int:
    """Number the pairs of key and slice that occur: slice by slice, the slice last seen of each key tells whether a pair is new."""
    ends = np.zeros(count + 1, np.int64)
    for i in range(len(slices)):
        ends[slices[i] + 1] += 1
    for s in range(count):
        ends[s + 1] += ends[s]
    outside = ends[0]
    rows = np.empty(len(slices), np.int32)
    for i in range(len(slices)):
        s = slices[i]
        if s < 0:
            cells[i] = -1
        else:
            rows[ends[s]] = i
            ends[s] += 1
    last = np.full((keys, 2), -1, np.int32)
    cell = 0
    for place in range(outside, len(slices)):
        i = rows[place]
        code, s = codes[i], slices[i]
        if last[code, 0] != s:
            last[code, 0], last[code, 1] = s, cell
            cell_code[cell], cell_slice[cell] = code, s
            cell += 1
        cells[i] = last[code, 1]
    return cell


@numba.njit(cache=True, nogil=True)
def arrange(codes: Array, starts: Array, keys: int, order: Array) -> bool:
    """Order rows by (code, start): counting sort by code, insertion sort inside; gives up (False) where too much is out of place."""
    ends = np.zeros(keys + 1, np.int64)
    for i in range(len(codes)):
        ends[codes[i] + 1] += 1
    for code in range(keys):
        ends[code + 1] += ends[code]
    for i in range(len(codes)):
        order[ends[codes[i]]] = i
        ends[codes[i]] += 1
    moves = _MOVES_PER_ROW * len(codes)
    for place in range(1, len(codes)):
        row, at = order[place], place
        while at > 0 and codes[order[at - 1]] == codes[row] and starts[order[at - 1]] > starts[row]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = row
        moves -= place - at
        if moves < 0:
            return False
    return True


@numba.njit(cache=True, nogil=True)
def windows(
    codes: Array, starts: Array, touched: Array, length: int, slide: int, offset: int, again: int, new: int, end: int, out: Array
) -> int:
    """The windows k of one shape that hold a row: `new <= k < end`, and `again <= k < new` if they hold a touched one.

    Rows are sorted by (code, start), and `touched[r]` counts the touched ones before r. A window is found at its first row;
    its last is followed along. Writes (first row, row after the last, k) while there is room; returns how many there are.
    """
    found, after, known = 0, 0, again
    begin, stop = offset + again * slide, offset + (end - 1) * slide + length
    for r in range(len(starts)):
        if r == 0 or codes[r] != codes[r - 1]:
            known = again
        if starts[r] < begin or starts[r] >= stop:
            continue
        k = max((starts[r] - offset - length) // slide + 1, known)
        known = max((starts[r] - offset) // slide + 1, known)
        after = max(after, r)
        while k < min(known, end):
            while after < len(starts) and codes[after] == codes[r] and starts[after] < offset + k * slide + length:
                after += 1
            if k >= new or touched[after] > touched[r]:
                if found < len(out):
                    out[found, 0], out[found, 1], out[found, 2] = r, after, k
                found += 1
            k += 1
    return found
