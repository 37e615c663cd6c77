"""Ranges of the values that a stream is ordered by: cut so that each fills about a file of the log, and found in every sorted file.

The first cuts are those of a sample. A range that turns out to hold far more than a file, for it has a value that is more frequent
than the sample can know, is sampled again by itself and cut inside, until every range fits or has one value only. Nothing of this
depends on how the work was divided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from replay.lake import Lake
from replay.streams import samples
from replay.streams.numbering import Places, Slice
from replay.streams.samples import Cuts, Sample, fitting
from replay.streams.staged_files import Run, int64
from replay.streams.tasks import Tasks
from replay.streams.writing import read_slice

MOST_FILES = 2
"""So many files' rows a range may have before it is cut again: a task that writes one has them in memory."""
AT_ONCE = 64
"""So many ranges are sampled again at a time, the fullest first."""


@dataclass(frozen=True)
class _Locating:
    """A sorted file in which the beginnings of ranges are looked for."""

    stage: Lake
    run: Run
    cuts: Cuts
    ordered_by: str
    moves: str


@dataclass(frozen=True)
class _Sampling:
    """Rows of a sorted file that lie in some ranges."""

    stage: Lake
    run: Run
    bounds: list[tuple[int, int]]
    most: int
    ordered_by: str


def located(
    stage: Lake, runs: Sequence[Run], sample: Sample, ordered_by: str, moves: str, file_rows: int, tasks: Tasks
) -> tuple[list[Places], NDArray[np.int64]]:
    """Where the ranges are in each sorted file, and in how many parts each range is written.

    Args:
        stage: where the files are.
        runs: sorted files.
        sample: of the values that they are ordered by.
        ordered_by: the column with these values.
        moves: the column that moves the clock.
        file_rows: about how many tuples a range is to have.
        tasks: where the files are looked at.
    """
    rows = fitting(file_rows, sample.rows, sample.bytes)
    cuts = sample.cuts(rows)
    while True:
        found = tasks(_locate, [_Locating(stage, run, cuts, ordered_by, moves) for run in runs])
        parts = np.concatenate(([1], cuts.parts))
        held = np.zeros(len(parts), np.int64)
        for places in found:
            held[places.ranges] += np.diff(places.bounds)
        full = np.flatnonzero((held > MOST_FILES * rows) & (parts == 1))
        full = full[np.argsort(-held[full], kind="stable")[:AT_ONCE]]
        if not len(full):
            return found, parts
        bounds = [_bounds(places, full) for places in found]
        most = max(samples.SIZE // len(full), 2)
        within = tasks(_sample, [_Sampling(stage, run, of_run, most, ordered_by) for run, of_run in zip(runs, bounds, strict=True)])
        for of_range in zip(*within, strict=True):
            cuts = cuts.and_those_of(_inside(reduce(Sample.merged, of_range), rows))


def _inside(sample: Sample, rows: int) -> Cuts:
    """Where a range that is too large is cut: in the middle of its values at least."""
    cuts = sample.cuts(rows)
    return cuts if len(cuts.values) else Cuts(sample.values[len(sample.values) // 2 :][:1], np.ones(1, np.int64))


def _locate(task: _Locating) -> Places:
    rows = read_slice(task.stage, Slice(task.run.path, 0, task.run.rows, task.run.batch_rows))
    values, times = int64(rows, task.ordered_by), int64(rows, task.moves)
    begins = np.concatenate(([0], np.searchsorted(values, task.cuts.values, side="left"), [len(values)])).astype(np.int64)
    ranges = np.flatnonzero(np.diff(begins))
    return Places(ranges, np.append(begins[ranges], len(values)), np.maximum.reduceat(times, begins[ranges]))


def _bounds(places: Places, ranges: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Where ranges are in a file; nowhere, if it has none of them."""
    at = np.searchsorted(places.ranges, ranges)
    there = np.append(places.ranges, -1)[at] == ranges
    ends = np.append(places.bounds, 0)
    return list(zip((ends[at] * there).tolist(), (ends[at + 1] * there).tolist(), strict=True))


def _sample(task: _Sampling) -> list[Sample]:
    rows = read_slice(task.stage, Slice(task.run.path, 0, task.run.rows, task.run.batch_rows))
    values = int64(rows, task.ordered_by)
    return [Sample.of(values[begin:end], most=task.most) for begin, end in task.bounds]
