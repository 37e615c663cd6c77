"""The profile of a stream: how fast its tuples came, what is missing, where it was silent, and how late tuples were.

Read off the log, a file at a time and in parallel; the parts are small and add up, so a profile costs one pass over two
columns and memory that does not grow. Drawing it is left to whoever shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engines.contract import TIMESTAMP
from replay.disorder import Measured, measure
from replay.lake import Lake
from replay.log import LAST_US, OWN_COLUMNS, Log, instant
from replay.streams.parsed import StreamError
from replay.streams.tasks import Tasks

BINS = 240
LONGEST = 10
POWERS = 64
"""Gaps and delays are counted by powers of two of microseconds: place 0 is none at all, place p is below 2**p."""
ORDER_ROWS = 20_000_000
"""Up to so many tuples the inversion rate is measured, for which all of their times are held in memory."""
MOST_KEYS = 100_000
MOST_EDGES = 10_000_000
"""So many times of keys' first and last tuples are held in memory, of all files together."""

_Edges = tuple[pa.Array, NDArray[np.int64], NDArray[np.int64]]
"""The keys of a file, and the first and the last time of each."""


@dataclass(frozen=True)
class Profile:
    """What a stream is like."""

    stream: str
    version: int
    tuples: int
    begin_us: int
    """The first bin begins here."""
    bin_us: int
    counts: list[int]
    """Tuples by event time, in bins; those outside are counted in the first or the last."""
    keys: int | None
    """How many there are; None: more than can be counted."""
    missing: dict[str, float]
    """The share of tuples that have no value, by column."""
    gaps: list[int]
    """How often the clock advanced by how much, by powers of two of microseconds."""
    intervals: list[int]
    """The same between two tuples of a key that follow one another in event time; across files of the log as far as they are in order."""
    longest: list[tuple[int, int]]
    """The longest silences: when they began and how long they were, in microseconds."""
    delays: list[int]
    """How many tuples were how far behind the clock, by powers of two of microseconds."""
    out_of_order: float
    largest_delay_us: int
    inversion_rate: float | None
    """None: too many tuples to tell."""

    def document(self) -> dict[str, Any]:
        """As a plain mapping."""
        end_us = min(self.begin_us + self.bin_us * len(self.counts), LAST_US)
        return asdict(self) | {"begin": instant(self.begin_us), "end": instant(end_us)}


@dataclass(frozen=True)
class _Task:
    lake: Lake
    address: str
    path: str
    moves: str
    clock_before: int | None
    begin_us: int
    bin_us: int
    with_times: bool
    most_keys: int


@dataclass(frozen=True)
class _Part:
    """What one file of the log adds."""

    counts: NDArray[np.int64]
    gaps: NDArray[np.int64]
    intervals: NDArray[np.int64]
    delays: NDArray[np.int64]
    longest: list[tuple[int, int]]
    largest_delay: int
    edges: _Edges | None
    """None: more keys than can be counted."""
    times: NDArray[np.int64]


def profile(lake: Lake, stream: str, tasks: Tasks) -> Profile:
    """The profile of a stream's log as it is now."""
    log = Log.open(lake, lake.address("streams", stream))
    if not log.end:
        raise StreamError(f"stream {stream}: its log has no tuples; ingest it first.")
    moves = "ts" if "ts" in log.schema.names else "end"
    begin, end = log.clock_first, log.clock_end + 1
    bin_us = max(-(-(end - begin) // BINS), 1)
    with_times, most_keys = log.end <= ORDER_ROWS, min(MOST_KEYS, MOST_EDGES // len(log.paths))
    parts = tasks(
        _part,
        [
            _Task(lake, log.address, path, moves, log.clock_before(file) if file else None, begin, bin_us, with_times, most_keys)
            for file, path in enumerate(log.paths)
        ],
        lambda task: 1,
    )
    whole = {name: np.sum([getattr(part, name) for part in parts], axis=0) for name in ("counts", "gaps", "intervals", "delays")}
    keys, between = _across(parts)
    order = _order(np.concatenate([part.times for part in parts])) if with_times else None
    return Profile(
        stream,
        log.version,
        log.end,
        begin,
        bin_us,
        whole["counts"].tolist(),
        keys,
        _missing(lake, log),
        whole["gaps"].tolist(),
        (whole["intervals"] + between).tolist(),
        sorted((gap for part in parts for gap in part.longest), key=lambda gap: -gap[1])[:LONGEST],
        whole["delays"].tolist(),
        1 - int(whole["delays"][0]) / log.end,
        max(part.largest_delay for part in parts),
        order.inversion_rate if order else None,
    )


def _order(times: NDArray[np.int64]) -> Measured:
    return measure(pa.table({"ts": pa.array(times).view(TIMESTAMP)}))


def _part(task: _Task) -> _Part:
    with pq.ParquetFile(task.lake.files(task.address).open_input_file(task.path)) as parquet:
        names = [task.moves, "clock", *(["key"] if "key" in parquet.schema_arrow.names else [])]
        rows = parquet.read(columns=names, use_threads=False)
    times = rows[task.moves].combine_chunks().view(pa.int64()).to_numpy()
    clocks = rows["clock"].combine_chunks().to_numpy()
    steps = np.diff(clocks, prepend=clocks[0] if task.clock_before is None else task.clock_before)
    places = np.argsort(-steps, kind="stable")[:LONGEST]
    delays = clocks - times
    intervals, edges = _intervals(times, rows, int(clocks[0] - steps[0]), task.most_keys)
    return _Part(
        np.bincount(np.clip((times - task.begin_us) // task.bin_us, 0, BINS - 1), minlength=BINS),
        _powers(steps),
        _powers(intervals),
        _powers(delays),
        [(int(clocks[i] - steps[i]), int(steps[i])) for i in places if steps[i] > 0],
        int(delays.max()),
        edges,
        times if task.with_times else times[:0],
    )


def _intervals(times: NDArray[np.int64], rows: pa.Table, clock_before: int, most_keys: int) -> tuple[NDArray[np.int64], _Edges | None]:
    """The time between two tuples of a key, and the first and the last time of each key.

    From tuples behind the clock at which the file begins nothing is told: those that follow them are in the files before.
    """
    keys = (rows["key"].combine_chunks() if "key" in rows.column_names else pa.nulls(len(times))).dictionary_encode("encode")
    codes = keys.indices.to_numpy()
    order = np.lexsort((times, codes))
    times, codes = times[order], codes[order]
    same = codes[1:] == codes[:-1]
    intervals = (times[1:] - times[:-1])[same & (times[:-1] >= clock_before)]
    if len(keys.dictionary) > most_keys:
        return intervals, None
    return intervals, (keys.dictionary, times[np.append(True, ~same)], times[np.append(~same, True)])


def _across(parts: Sequence[_Part]) -> tuple[int | None, NDArray[np.int64]]:
    """How many keys there are, and how long they were silent from file to file, by powers of two of microseconds."""
    last: dict[Any, int] = {}
    silent = np.zeros(POWERS, np.int64)
    for part in parts:
        if part.edges is None or len(last) > MOST_KEYS:
            return None, silent
        keys, begins, ends = part.edges
        between = []
        for key, begin, end in zip(keys.to_pylist(), begins.tolist(), ends.tolist(), strict=True):
            before = last.get(key)
            if before is not None:
                between.append(max(begin - before, 0))
            last[key] = end if before is None else max(before, end)
        silent += _powers(np.array(between, np.int64))
    return len(last) if len(last) <= MOST_KEYS else None, silent


def _powers(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many values are zero, 1, 2 to 3, 4 to 7, ..."""
    place = np.where(values > 0, np.frexp(values.astype(np.float64))[1], 0)
    return np.bincount(place, minlength=POWERS)


def _missing(lake: Lake, log: Log) -> dict[str, float]:
    """From the statistics of the log's files."""
    table = lake.table(log.address, log.version)
    assert table is not None  # noqa: S101 - it was opened before
    actions = pa.table(table.get_add_actions(flatten=True))
    names = [f.name for f in log.schema if f.name not in OWN_COLUMNS and f"null_count.{f.name}" in actions.column_names]
    return {name: int(pc.sum(actions[f"null_count.{name}"]).as_py() or 0) / log.end for name in names}
