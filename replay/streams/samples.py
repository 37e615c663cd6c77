"""A sample of the values that a stream is ordered by, from which ranges of about equal size are cut.

The values with the smallest hashes, each with how often it occurs. Of any split of the same values the merged sample is the
same, so the cuts, and with them the files of the log, do not depend on how the work was divided. A value that fills more than a
file is a range of its own, which is written in parts; those that are not in a sample are found in `ranges.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SIZE = 4096
FILE_BYTES = 512 << 20
"""About how large the values in a file of the log may be: a task that writes one has them in memory."""


def fitting(rows: int, of_rows: int, of_bytes: int) -> int:
    """How many rows a file has: so many, or fewer where they are large, by what some of them take.

    A power of two then: which rows a split cannot judge alone makes them differ a little in size, and must not move files.

    >>> fitting(1000, 50, 50 * 80), fitting(1 << 20, 50, 50 * 20_000)
    (1000, 16384)
    """
    fit = FILE_BYTES * of_rows // of_bytes if of_bytes else rows
    return rows if fit >= rows else 1 << (max(fit, 1).bit_length() - 1)


@dataclass(frozen=True)
class Cuts:
    """Values before which a sorted stream is cut into ranges."""

    values: NDArray[np.int64]
    parts: NDArray[np.int64]
    """In how many parts the range that begins there is written; if in more than one, it has no other value."""

    def and_those_of(self, other: Cuts) -> Cuts:
        """The cuts of both."""
        values = np.unique(np.concatenate((self.values, other.values)))
        parts = np.ones(len(values), np.int64)
        for cuts in (self, other):
            at = np.searchsorted(values, cuts.values)
            parts[at] = np.maximum(parts[at], cuts.parts)
        return Cuts(values, parts)


@dataclass(frozen=True)
class Sample:
    """Distinct values with the smallest hashes, by value, and their counts."""

    values: NDArray[np.int64]
    counts: NDArray[np.int64]
    rows: int
    """Of how many rows it is a sample."""
    bytes: int = 0
    """How large these are, as far as that is known."""
    most: int | None = None
    """How many values it has at most; None: as many as is usual. Samples that are merged have the same."""

    @classmethod
    def empty(cls) -> Sample:
        """Of nothing."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), 0)

    @classmethod
    def of(cls, values: NDArray[np.int64], size_bytes: int = 0, most: int | None = None) -> Sample:
        """Of the values of some rows, which are so large."""
        distinct, counts = np.unique(values, return_counts=True)
        return cls(distinct, counts.astype(np.int64), len(values), size_bytes, most)._smallest()

    def merged(self, other: Sample) -> Sample:
        """The sample of both.

        >>> a, b = np.arange(5000), np.arange(2500, 9000)
        >>> whole = Sample.of(np.concatenate((a, b)))
        >>> bool((Sample.of(a).merged(Sample.of(b)).counts == whole.counts).all())
        True
        """
        values, at = np.unique(np.concatenate((self.values, other.values)), return_inverse=True)
        counts = np.zeros(len(values), np.int64)
        np.add.at(counts, at, np.concatenate((self.counts, other.counts)))
        return Sample(values, counts, self.rows + other.rows, self.bytes + other.bytes, self.most)._smallest()

    def cuts(self, rows: int) -> Cuts:
        """Where to cut, so that about so many rows lie between two cuts, or fewer if they are large.

        >>> cuts = Sample.of(np.repeat([1, 5, 7], [2, 9, 2])).cuts(4)
        >>> cuts.values.tolist(), cuts.parts.tolist()
        ([5, 6], [3, 1])
        """
        rows = fitting(rows, self.rows, self.bytes)
        counts = self.counts * (self.rows / max(self.counts.sum(), 1))  # each stands for those around it that are not in the sample
        heavy = self.counts > rows
        behind_heavy = np.concatenate(([False], heavy))[: len(heavy)]
        usual = np.diff((np.cumsum(counts) - counts) // rows, prepend=0) > 0
        ends = self.values[heavy & (self.values < np.iinfo(np.int64).max)] + 1
        values = np.unique(np.concatenate((self.values[(usual & ~behind_heavy) | heavy], ends)))
        parts = np.ones(len(values), np.int64)
        parts[np.searchsorted(values, self.values[heavy])] = np.ceil(self.counts[heavy] / rows)
        return Cuts(values, parts)

    def _smallest(self) -> Sample:
        most = self.most or SIZE
        if len(self.values) <= most:
            return self
        chosen = np.sort(np.argpartition(_hashes(self.values), most)[:most])
        return Sample(self.values[chosen], self.counts[chosen], self.rows, self.bytes, self.most)


def _hashes(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Splitmix64."""
    with np.errstate(over="ignore"):
        z = values.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
