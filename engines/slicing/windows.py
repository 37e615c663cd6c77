"""Windows and slices on a time axis: where they begin and end, by floor division and never by walking through time.

A `Shape` is all windows `[offset + k * slide, offset + k * slide + length)`. Their starts and ends are grids; `Slicing`
cuts time at the edges of all shapes together, so that every window is a run of whole slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from engines.aggregates.kernels import Array, fixed
from engines.contract import BEGINNING
from engines.slicing import kernels
from engines.slicing.spec import Sliding, Tumbling

_FEW_EDGES = 1024


class Shape(NamedTuple):
    """Equally long windows at equal distances; `0 <= offset < slide`."""

    length: int
    slide: int
    offset: int

    def first_decided_from(self, instant: int) -> int:
        """The number k of the first window that is decided at `instant` or later; decided is the last microsecond inside."""
        return -((self.length + self.offset - 1 - instant) // self.slide)

    def needed(self, starts: Array, instant: int) -> Array:
        """Which slices are in a window that is decided at `instant` or later."""
        end = starts - (starts - self.offset) % self.slide + self.length
        needed: Array = (end > starts) & (end > instant)
        return needed


def shape_of(window: Tumbling | Sliding) -> Shape:
    """The shape of a query's windows; equal for windows that are the same ones.

    >>> shape_of(Tumbling("10s", offset="-3s"))
    Shape(length=10000000, slide=10000000, offset=7000000)
    """
    return Shape(window.length, window.slide, window.offset % window.slide)


class Slicing:
    """The slices that some shapes share."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        """Find the grids of edges, leaving out those that lie on a finer one."""
        self._shapes = tuple(shapes)
        grids: list[tuple[int, int]] = []
        for period, phase in sorted({(s.slide, edge % s.slide) for s in shapes for edge in (s.offset, s.offset + s.length)}):
            if not any(period % finer == 0 and (phase - start) % finer == 0 for finer, start in grids):
                grids.append((period, phase))
        self._periods, self._phases = (np.array(column, np.int64) for column in zip(*grids, strict=True))
        # A shape whose windows touch or overlap leaves no gap, and then nothing does.
        self._gaps = all(shape.slide > shape.length for shape in shapes)

    def cut(self, ts: Array) -> Cut:
        """The slices of some tuples."""
        if not len(ts):
            return Cut(ts, ts, np.empty(0, np.int32))
        least, greatest = int(ts.min()), int(ts.max())
        if int(((greatest - least) // self._periods + 2).sum()) <= len(ts) + _FEW_EDGES:
            edges = self._edges(least, greatest)
        else:
            # Edges are more than tuples, so only those are made that have tuples: memory never follows the range of time.
            edges = _distinct(self._floor(ts))
        inside = np.ones(len(edges), np.bool_)
        if self._gaps:
            inside = np.logical_or.reduce([shape.needed(edges, BEGINNING) for shape in self._shapes])
        return Cut(edges, edges[inside], np.where(inside, np.cumsum(inside) - 1, -1).astype(np.int32), greatest)

    def _edges(self, least: int, greatest: int) -> Array:
        """All edges from the last that is not after `least` to the last that is not after `greatest`, in order."""
        first = (least - self._phases) // self._periods
        counts = (greatest - self._phases) // self._periods - first + 1
        grid = np.repeat(np.arange(len(counts)), counts)
        k = np.arange(len(grid)) - np.repeat(np.cumsum(counts) - counts, counts) + first[grid]
        edges: Array = _distinct(k * self._periods[grid] + self._phases[grid])
        return edges[np.searchsorted(edges, least, "right") - 1 :]

    def _floor(self, ts: Array) -> Array:
        """The last edge that is not after each tuple."""
        latest: Array = ts - (ts - self._phases[0]) % self._periods[0]
        for period, phase in zip(self._periods[1:], self._phases[1:], strict=True):
            np.maximum(latest, ts - (ts - phase) % period, out=latest)
        return latest


class Cut:
    """The slices of a batch of tuples.

    >>> ts = np.array([0, 1, 2, 3, 4])
    >>> cut = Slicing([Shape(10, 3, 0)]).cut(ts)
    >>> slices = np.zeros(5, np.int32)
    >>> cut.place(ts, slices, 0)
    >>> cut.starts[slices].tolist()
    [0, 1, 1, 3, 4]
    """

    def __init__(self, edges: Array, starts: Array, labels: Array, greatest: int = 0) -> None:
        """`edges` in order, up to the greatest time; `labels`: the place of each in `starts`, -1 where no window is."""
        self.starts = starts
        """The starts of the slices, in order."""
        self._edges, self._labels = edges, labels
        reach = greatest - int(edges[0]) if len(edges) else 0
        self._shift = max(0, (reach // (2 * len(edges) + 1)).bit_length() - 1)
        pages = np.arange((reach >> self._shift) + 1) << self._shift
        # The last edge that is not after the start of each page; one entry more, for the end of the last page.
        self._first = np.append(np.searchsorted(edges - edges[:1], pages, "right"), len(edges)).astype(np.int32) - np.int32(1)

    def place(self, ts: Array, cells: Array, width: int) -> None:
        """Turn the codes in `cells` into cells, `code * width + place of the tuple's slice in starts`; -1 for a tuple in no window."""
        kernels.place(fixed(ts), fixed(self._edges), fixed(self._labels), self._shift, fixed(self._first), width, cells)


def _distinct(values: Array) -> Array:
    """Values in order, each once; by a sort that is fast where they are nearly sorted, as time is (np.unique hashes)."""
    ordered = np.sort(values, kind="stable")
    distinct: Array = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]
    return distinct
