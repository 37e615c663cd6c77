"""Writing: a stretch of tuples becomes files of the log, or is compared with what the log holds.

Runs in the tasks. Every stretch knows its first arrival and the clock before it, so no task needs another; memory is that
of a stretch, which is a file of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.file_slices import file_slices
from replay.files import Written, read_file, write_file
from replay.lake import Lake
from replay.log import OWN_COLUMNS, Log
from replay.log_writer import by_day, complete, write_day
from replay.streams.numbering import Slice, Stretch
from replay.streams.parsed import Reject
from replay.streams.records import LINE
from replay.streams.staged_files import int64
from replay.streams.staging import REJECTS

REJECTS_BYTES = 64 << 20
"""How large the rejects of one file of their table are."""


@dataclass(frozen=True)
class Writing:
    """A stretch, and where it comes from and goes to."""

    stage: Lake
    lake: Lake
    address: str
    stretch: Stretch
    ordered_by: str | None
    log_version: int | None = None
    """The version of the log that it is compared with."""


@dataclass(frozen=True)
class RejectsOf:
    """The rejects of a split, and what is known of it by now."""

    stage: Lake
    lake: Lake
    address: str
    file: str
    lines_before: int
    path: str | None
    more: list[Reject]


def write(task: Writing) -> list[Written]:
    """Write the stretch, a file for each day."""
    return [write_day(task.lake, task.address, rows) for rows in by_day(_rows(task))]


def first_difference(task: Writing) -> int | None:
    """The first arrival of the stretch at which the log holds something else, or nothing."""
    rows = _rows(task)
    first = int(rows["arrival"][0].as_py())
    log = Log.open(task.lake, task.address, task.log_version)
    end = min(first + rows.num_rows, log.end)
    if first >= log.end:
        return first
    held = []
    for part in file_slices("", log, first, end):
        held.append(read_file(task.lake.files(log.address), part.path, rows.column_names).slice(part.skip, part.take))
    old = pa.concat_tables(held)
    new = rows.slice(0, end - first)
    same = np.ones(new.num_rows, bool)
    for name in new.column_names:
        a, b = new[name].combine_chunks(), old[name].combine_chunks().cast(new[name].type)
        equal = pc.equal(a, b).fill_null(False).to_numpy(zero_copy_only=False)
        same &= equal | (pc.is_null(a).to_numpy(zero_copy_only=False) & pc.is_null(b).to_numpy(zero_copy_only=False))
    if not same.all():
        return first + int(np.argmin(same))
    return None if end == first + rows.num_rows else end


def write_rejects(task: RejectsOf) -> list[Written]:
    """The rejects of a split, with the numbers that their lines have in the file: as many files as they fill."""
    return [
        write_file(task.lake, task.address, rows.set_column(1, "line", pc.add(rows["line"], task.lines_before + 1)).sort_by("line"))
        for rows in _rejects(task)
    ]


def _rejects(task: RejectsOf) -> Iterator[pa.Table]:
    """The rejects of a split, some at a time: a compressed file is a single split, and all of it may be rejected."""
    held, size = [], 0
    if task.path is not None:
        with task.stage.files(task.stage.root).open_input_file(task.path) as opened:
            reader = pa.ipc.open_file(opened)
            for number in range(reader.num_record_batches):
                held.append(reader.get_batch(number))
                size += held[-1].nbytes
                if size >= REJECTS_BYTES:
                    yield pa.Table.from_batches(held)
                    held, size = [], 0
    if task.more:
        held.append(pa.record_batch({
            "file": [task.file] * len(task.more), "line": [r.line for r in task.more],
            "text": [r.text for r in task.more], "reason": [r.reason for r in task.more],
        }, schema=REJECTS))  # fmt: skip
    if held:
        yield pa.Table.from_batches(held)


def read_slice(stage: Lake, part: Slice) -> pa.Table:
    """Some rows of a staged file."""
    files = stage.files(stage.root)
    with pa.memory_map(f"{stage.root}/{part.path}") if stage.local else files.open_input_file(part.path) as opened:
        reader = pa.ipc.open_file(opened)
        numbers = range(part.begin // part.batch_rows, -(-part.end // part.batch_rows))
        rows = pa.Table.from_batches([reader.get_batch(number) for number in numbers], schema=reader.schema)
        return rows.slice(part.begin - numbers.start * part.batch_rows, part.end - part.begin)


def _rows(task: Writing) -> pa.Table:
    """The rows of a stretch, with the log's own columns."""
    stretch = task.stretch
    tables = [_log_rows(task, part) if part.of_log else read_slice(task.stage, part).drop_columns([LINE]) for part in stretch.slices]
    rows = pa.concat_tables(tables)
    if stretch.sort and task.ordered_by:
        rows = rows.take(pa.array(np.argsort(int64(rows, task.ordered_by), kind="stable")))
    finished, _, _ = complete(rows, stretch.first, stretch.clock, stretch.arrived)
    return finished.slice(stretch.skip, stretch.rows)


def _log_rows(task: Writing, part: Slice) -> pa.Table:
    rows = read_file(task.lake.files(task.address), part.path).slice(part.begin, part.end - part.begin)
    kept_apart = task.ordered_by == "arrived"
    return rows.drop_columns([name for name in OWN_COLUMNS if not (kept_apart and name == "arrived")])
