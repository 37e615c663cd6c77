"""Numbering: from the reports of all splits, what each tuple's arrival is and what the clock says before it.

Pure bookkeeping, in the driver, over reports: no data is read. Its result is a list of `Stretch`es, each of which a task can
write alone, cut so that the files of the log do not depend on splits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from replay.streams.parsed import Reject
from replay.streams.samples import fitting
from replay.streams.staged_files import Batch, Run
from replay.streams.staging import Edge, Split, Staged

PLACES_AT_ONCE = 1 << 16
"""So many places of ranges are numbers of Python at a time, which are some times as large."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows of a staged file, or of a file of the log."""

    path: str
    begin: int
    end: int
    batch_rows: int
    """How many rows a batch of the file has, but for the last."""
    of_log: bool = False


@dataclass(frozen=True)
class Places:
    """Where ranges of values are in a sorted file: those of which it has any, for of many files each has few."""

    ranges: NDArray[np.int64]
    """Which ranges it has, in order."""
    bounds: NDArray[np.int64]
    """Where each of them begins, and where the last ends."""
    largest: NDArray[np.int64]
    """The largest time in each of them."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive tuples that one task writes."""

    slices: list[Slice]
    first: int
    """The arrival of the first row of the slices."""
    skip: int
    """How many of the rows are only there for the clock."""
    rows: int
    """How many are written."""
    clock: int
    """The clock before the first row of the slices."""
    arrived: int
    sort: bool = False


@dataclass(frozen=True)
class Judged:
    """The staged files that count, in order, and the rows at the edges of splits that turned out to be wrong."""

    runs: list[Run]
    rejects: list[tuple[int, Reject]]
    """With the number of the split."""
    rows: list[int]
    """How many each split has stored."""


def judge(splits: Sequence[Split], staged: Sequence[Staged], max_jump_us: int | None) -> Judged:
    """Decide on the rows at the edges of splits, which only now meet their neighbours."""
    runs: list[Run] = []
    rejects: list[tuple[int, Reject]] = []
    rows: list[int] = []
    for at, report in enumerate(staged):

        def side(step: int, at: int = at) -> int | None:
            """The nearest row of the same file on one side."""
            other = at + step
            while 0 <= other < len(staged) and splits[other].file == splits[at].file:
                found = staged[other].last_us if step < 0 else staged[other].first_us
                if found is not None:
                    return found
                other += step
            return None

        inner = list(report.runs)
        for edge, neighbours in ((report.head, (side(-1), None)), (report.tail, (None, side(1)))):
            if edge is None:
                continue
            alone = edge is report.head and not report.runs and report.tail is None
            before, after = (side(-1), side(1)) if alone else neighbours
            if _wrong(edge, before, after, alone, max_jump_us):
                rejects.append((at, edge.reject))
            else:
                inner = [edge.run, *inner] if edge is report.head else [*inner, edge.run]
        runs += inner
        rows.append(sum(run.rows for run in inner))
    return Judged(runs, rejects, rows)


def _wrong(edge: Edge, before: int | None, after: int | None, alone: bool, max_jump_us: int | None) -> bool:
    """Whether a row at an edge is too far ahead of its neighbours in other splits, as it is of those in its own.

    The first and the last row of a file have one neighbour, which then decides; an only row has none and is right.
    """
    time = edge.run.batches[0].clock
    others = [other for other in (before, after) if other is not None]
    if alone and not others:
        return False
    return all(time - other > (max_jump_us or 0) for other in others)


def in_file_order(runs: Sequence[Run], *, first: int, clock: int, rows: int) -> list[Stretch]:
    """Stretches of so many rows, or of fewer if they are large, in the order of the files.

    Args:
        runs: files of tuples, in order.
        first: the arrival of the first row.
        clock: the clock before it.
        rows: how many rows a stretch has.
    """
    batches = list(_batches(runs))
    sized = [batch for _, _, batch in batches if batch.bytes]
    fit = fitting(rows, sum(batch.rows for batch in sized), sum(batch.bytes for batch in sized))
    return _stretches(batches, first, clock, fit)


def by_value(
    runs: Sequence[Run], places: Sequence[Places], parts: NDArray[np.int64], *, first: int, clock: int, arrived: int
) -> list[Stretch]:
    """A stretch for each range of values: its rows of every staged file, to be sorted; several for a value that fills more than a file.

    Args:
        runs: sorted files, in the order in which equal values stand.
        places: for each file, where its ranges are in it.
        parts: in how many parts each range is written; if in more than one, it has a single value.
        first: the arrival of the first row.
        clock: the clock before it.
        arrived: when the tuple before it arrived.
    """
    stretches: list[Stretch] = []
    for at, of_range in groupby(_by_range(places), key=itemgetter(0)):
        found = [(runs[file], begin, end, largest) for _, file, begin, end, largest in of_range]
        rows = sum(end - begin for _, begin, end, _ in found)
        if parts[at] == 1:
            slices = [Slice(run.path, begin, end, run.batch_rows) for run, begin, end, _ in found]
            stretches.append(Stretch(slices, first, 0, rows, clock, arrived, sort=True))
        else:
            batches = [batch for place in found for batch in _batches_between(*place)]
            stretches += [replace(stretch, arrived=arrived) for stretch in _stretches(batches, first, clock, -(-rows // int(parts[at])))]
        first += rows
        clock = max(clock, *(largest for *_, largest in found))
    return stretches


def _by_range(places: Sequence[Places]) -> Iterator[tuple[int, int, int, int, int]]:
    """Every range of every file, by range, then by file: which range and which file, where it begins and ends, its largest time."""
    files = np.repeat(np.arange(len(places)), [len(place.ranges) for place in places])
    columns = [
        np.concatenate([np.empty(0, np.int64), *of_files])
        for of_files in (
            [place.ranges for place in places],
            [place.bounds[:-1] for place in places],
            [place.bounds[1:] for place in places],
            [place.largest for place in places],
        )
    ]
    order = np.argsort(columns[0], kind="stable")
    for some in np.array_split(order, len(order) // PLACES_AT_ONCE + 1):
        yield from zip(*(column[some].tolist() for column in (columns[0], files, *columns[1:])), strict=True)


def from_arrival(stretches: Sequence[Stretch], arrival: int) -> list[Stretch]:
    """What of the stretches is at or behind an arrival."""
    behind = []
    for stretch in stretches:
        begin, end = stretch.first + stretch.skip, stretch.first + stretch.skip + stretch.rows
        if arrival < end:
            skip = max(arrival - begin, 0)
            behind.append(replace(stretch, skip=stretch.skip + skip, rows=stretch.rows - skip))
    return behind


def _batches(runs: Sequence[Run]) -> Iterator[tuple[Run, int, Batch]]:
    """Every batch with its file and its first row there."""
    for run in runs:
        row = 0
        for batch in run.batches:
            yield run, row, batch
            row += batch.rows


def _batches_between(run: Run, begin: int, end: int, largest: int) -> Iterator[tuple[Run, int, Batch]]:
    """What of the batches of a sorted file lies between two rows, the largest time between which is known.

    The rows of the first batch that lie before have arrived before and do not move the clock; of the last it is what it is at the end.
    """
    for _, row, batch in _batches([run]):
        low, high = max(begin, row), min(end, row + batch.rows)
        if low < high:
            yield run, low, replace(batch, rows=high - low, clock=largest if high == end else batch.clock)


def _stretches(batches: Sequence[tuple[Run, int, Batch]], first: int, clock: int, rows: int) -> list[Stretch]:
    """Stretches of so many rows of batches, each from the beginning of a batch on, before which the clock is known."""
    ends = np.cumsum([batch.rows for _, _, batch in batches], dtype=np.int64)
    clocks = np.maximum.accumulate(np.array([clock, *(batch.clock for _, _, batch in batches)], np.int64))
    stretches: list[Stretch] = []
    for at in range(0, int(ends[-1]) if len(ends) else 0, rows):
        stop = min(at + rows, int(ends[-1]))
        batch = int(np.searchsorted(ends, at, side="right"))
        begin = int(ends[batch]) - batches[batch][2].rows
        before = int(clocks[batch])
        stretches.append(Stretch(_cover(batches, ends, begin, stop), first + begin, at - begin, stop - at, before, before))
    return stretches


def _cover(batches: Sequence[tuple[Run, int, Batch]], ends: NDArray[np.int64], begin: int, stop: int) -> list[Slice]:
    """The slices that hold the rows from `begin` to before `stop`, counted through all batches."""
    slices: list[Slice] = []
    at = int(np.searchsorted(ends, begin, side="right"))
    while begin < stop:
        run, row, batch = batches[at]
        inside = begin - (int(ends[at]) - batch.rows)
        take = min(stop - begin, batch.rows - inside)
        if slices and slices[-1].path == run.path and slices[-1].end == row + inside:
            slices[-1] = replace(slices[-1], end=row + inside + take)
        else:
            slices.append(Slice(run.path, row + inside, row + inside + take, run.batch_rows, run.of_log))
        begin, at = begin + take, at + 1
    return slices
