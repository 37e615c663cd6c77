"""Which rows of which files hold some arrivals of a log, and what the log knows of their surroundings.

Planned from statistics alone. Spark starts a process for every query that plans its batches: what only tasks need, Numba above
all, must not be imported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replay.log import Log


@dataclass(frozen=True)
class FileSlice:
    """Some rows of one file of a log."""

    stream: str
    address: str
    path: str
    first: int
    """The arrival of the file's first row."""
    skip: int
    take: int
    whole: bool
    """Whether these are all rows of the file."""
    clock_before: int
    """The clock before the file's first row."""
    least_after: int | None
    """A time that no tuple of a later file is before; None: rows of this file follow."""
    clock_end: int
    """The clock at the end of the log."""
    turn: int
    streams: int
    """The number of its stream among those of the run, and how many these are."""

    @property
    def alone(self) -> bool:
        """Whether the tuples of this stream meet no others."""
        return self.streams == 1


def file_slices(stream: str, log: Log, begin: int, end: int, *, among: Sequence[str] = ()) -> list[FileSlice]:
    """The pieces of files that hold the arrivals from `begin` to before `end`; `among`: the streams that are read together."""
    if begin >= end:
        return []
    slices, together = [], sorted(among) or [stream]
    for file in range(log.file_of(begin), log.file_of(end - 1) + 1):
        first, rows = int(log.first[file]), int(log.rows[file])
        skip, stop = max(begin - first, 0), min(end - first, rows)
        slices.append(
            FileSlice(
                stream, log.address, log.paths[file], first, skip, stop - skip, whole=stop - skip == rows,
                turn=together.index(stream), streams=len(together),
                clock_before=log.clock_before(file), clock_end=log.clock_end,
                least_after=int(log.least_ts_after[file]) if stop == rows else None,
            )
        )  # fmt: skip
    return slices
