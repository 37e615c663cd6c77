"""A sample of the values that a stream is ordered by, from which ranges of about equal size are cut.

The values with the smallest hashes, each with how often it occurs. Of any split of the same values the merged sample is the
same, so the cuts, and with them the files of the log, do not depend on how the work was divided.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SIZE = 4096


@dataclass(frozen=True)
class Sample:
    """Distinct values with the smallest hashes, by value, and their counts."""

    values: NDArray[np.int64]
    counts: NDArray[np.int64]
    rows: int
    """Of how many rows it is a sample."""

    @classmethod
    def empty(cls) -> Sample:
        """Of nothing."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), 0)

    @classmethod
    def of(cls, values: NDArray[np.int64]) -> Sample:
        """Of some values."""
        distinct, counts = np.unique(values, return_counts=True)
        return cls(distinct, counts.astype(np.int64), len(values))._smallest()

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
        return Sample(values, counts, self.rows + other.rows)._smallest()

    def cuts(self, rows: int) -> NDArray[np.int64]:
        """Values before which to cut, so that about so many rows lie between two of them."""
        if not len(self.values):
            return self.values
        before = (np.cumsum(self.counts) - self.counts) * (self.rows / self.counts.sum())
        return self.values[np.flatnonzero(np.diff(before // rows, prepend=0) > 0)]

    def _smallest(self) -> Sample:
        if len(self.values) <= SIZE:
            return self
        chosen = np.sort(np.argpartition(_hashes(self.values), SIZE)[:SIZE])
        return Sample(self.values[chosen], self.counts[chosen], self.rows)


def _hashes(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Splitmix64."""
    with np.errstate(over="ignore"):
        z = values.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
