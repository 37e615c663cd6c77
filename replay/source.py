"""The Spark source: logs as streams of envelopes, batch by batch.

Batches are planned from statistics. Offsets are arrivals, and whether the flush was sent. What tasks do is in `task.py`, and
imported there alone: Spark starts a process that only plans for every query, and waits until it has imported this module.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from replay.envelope import DDL
from replay.file_slices import FileSlice, file_slices
from replay.log import Log
from replay.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa

Offset = dict[str, Any]


@dataclass
class Pieces(InputPartition):
    """Files for one task."""

    files: Sequence[FileSlice]


@dataclass
class Ended(InputPartition):
    """Streams of which nothing more will come."""

    streams: Sequence[str]
    upto: Sequence[int]


class Begun(InputPartition):
    """The state that the run begins with."""


class LogReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches on the driver and reads them in tasks."""

    def __init__(self, plan: Plan) -> None:
        """A reader for a plan."""
        self.plan = plan
        self._pace: tuple[float, int] | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        """Where the span begins."""
        return {"read": dict(self.plan.span.begin), "flushed": False}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The tuples of a batch."""
        return ReadMaxRows(self.plan.batch_tuples)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Nothing to note: the logs are pinned to a version."""

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """The end of the next batch; the same as its start if there is nothing more to do."""
        read = self._advance(dict(start["read"]))
        if read != start["read"]:
            return {"read": read, "flushed": False}
        done = all(read[name] >= end for name, end in self.plan.span.end.items())
        return {"read": read, "flushed": start["flushed"] or (done and self.plan.span.flush)}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The tasks of a batch: contiguous files for each, and what else the buckets have to be told."""
        plan, alone = self.plan, len(self.plan.streams) == 1
        tasks: list[InputPartition] = []
        for name, log in plan.logs.items():
            slices = file_slices(name, log, start["read"][name], end["read"][name], among=list(plan.streams))
            tasks += [Pieces(part) for part in _shares(slices, plan.tasks)]
        if start == self.initialOffset() and plan.span.start is not None:
            tasks.append(Begun(None))
        if end["flushed"]:
            ended = list(plan.streams)
        else:
            # A stream that is read to its end must not hold the others up, if the run says that nothing more will come.
            ended = [n for n in plan.streams if plan.span.flush and not alone and end["read"][n] >= plan.span.end[n]]
        if ended:
            tasks.append(Ended(ended, [plan.span.end[name] for name in ended]))
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The envelopes of a task."""
        from replay.task import begun, ended, lifted

        if isinstance(partition, Pieces):
            return lifted(self.plan, partition.files)
        return ended(self.plan, partition.streams, partition.upto) if isinstance(partition, Ended) else begun(self.plan)

    def commit(self, end: Offset) -> None:
        """Nothing to release: the log is not consumed."""

    def _advance(self, read: dict[str, int]) -> dict[str, int]:
        """Read on, the stream whose next file arrived first before the others, until the batch is full."""
        plan, tuples, files = self.plan, 0, 0
        ends = self._paced_ends(read)
        while tuples < plan.batch_tuples and (plan.batch_files is None or files < plan.batch_files):
            waiting = {n: plan.logs[n].file_of(read[n]) for n in plan.streams if read[n] < ends[n]}
            if not waiting:
                break
            name = min(waiting, key=lambda n: (plan.logs[n].arrived[waiting[n]], n))
            log, file = plan.logs[name], waiting[name]
            rest = min(int(log.first[file] + log.rows[file]), ends[name]) - read[name]
            # A file is cut only if it alone is more than a batch: one that is cut has to be read twice.
            if tuples and tuples + rest > plan.batch_tuples:
                break
            taken = min(rest, plan.batch_tuples)
            read[name] += taken
            tuples, files = tuples + taken, files + 1
        return read

    def _paced_ends(self, read: dict[str, int]) -> dict[str, int]:
        """How far each stream may be read by now: to its end, or as far as it had arrived at the given speed."""
        plan = self.plan
        if plan.speed is None:
            return dict(plan.span.end)
        if self._pace is None:
            # Of this process: a run that is resumed does not wait for what it had done before.
            self._pace = time.monotonic(), min((_arrived_at(log, read[name]) for name, log in plan.logs.items() if log.end), default=0)
        begun, first = self._pace
        now = first + (time.monotonic() - begun) * 1e6 * plan.speed
        ends = {}
        for name, log in plan.logs.items():
            # Within a file arrivals are taken to be even: a batch may end anywhere, so this changes no result.
            ends[name] = min(int(np.interp(now, _arrived(log), np.append(log.first, log.end))), plan.span.end[name])
        return ends


class LogSource(DataSource):
    """`spark.readStream.format("reprise_log").option("plan", ...)`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "reprise_log"

    def schema(self) -> str:
        """Envelopes."""
        return DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A reader for the plan in the options."""
        return LogReader(Plan.from_json(self.options["plan"]))


def _arrived(log: Log) -> NDArray[np.int64]:
    """`arrived` at the start of each file, and at the end of the log."""
    return np.append(log.arrived, max([log.arrived_end, *(log.arrived[-1:] + 1).tolist()]))


def _arrived_at(log: Log, arrival: int) -> int:
    return int(np.interp(arrival, np.append(log.first, log.end), _arrived(log)))


def _shares(slices: Sequence[FileSlice], tasks: int) -> list[Sequence[FileSlice]]:
    """Files in at most so many contiguous shares of about the same number of rows."""
    if not slices:
        return []
    ends = np.cumsum([part.take for part in slices])
    share = np.minimum((ends - 1) * tasks // ends[-1], tasks - 1)
    cuts = np.flatnonzero(np.diff(share)) + 1
    return [list(slices[a:b]) for a, b in zip([0, *cuts], [*cuts, len(slices)], strict=True)]
