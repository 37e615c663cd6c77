"""Ingestion: raw files become the log, on Spark or in this process, by the same tasks.

Parse, number, write: splits are staged, their reports numbered, stretches written and committed at once. Only what is new is
read, unless a file has changed: then the log is written again from the first arrival that differs, and not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from engines.contract import BEGINNING
from replay.files import FILE_ROWS, Written
from replay.lake import Lake
from replay.log import FIRST_CHANGED, Log
from replay.log_writer import commit
from replay.streams import writing
from replay.streams.declaration import Declaration
from replay.streams.manifest import INGESTION, Entry, Manifest, forget_older, in_order, read_manifest
from replay.streams.numbering import Stretch, by_value, from_arrival, in_file_order
from replay.streams.parsed import StreamError
from replay.streams.ranges import located
from replay.streams.raw import list_files
from replay.streams.records import ARRIVED, LINE, schema
from replay.streams.rejects import rejects_are_of, replace_rejects
from replay.streams.splitting import Outcome, checksums, read_files, sizes, stage_of
from replay.streams.staged_files import Batch, Run
from replay.streams.staging import ordered_by
from replay.streams.tasks import Tasks

SPLIT_BYTES = 32 << 20


@dataclass(frozen=True)
class Ingested:
    """What an ingestion did."""

    manifest: Manifest
    changed: int | None
    """The first arrival that is new or different, or None if there is none."""
    version: int
    read: list[str]
    """The files that were read."""
    records: int
    rejected: int

    def document(self) -> dict[str, Any]:
        """As a plain mapping."""
        return {
            "stream": self.manifest.stream, "origin": self.manifest.origin, "version": self.version, "changed_from": self.changed,
            "files": len(self.manifest.files), "files_read": len(self.read), "records_read": self.records,
            "rejected": self.rejected, "tuples": self.manifest.rows, "rejected_in_all": self.manifest.rejected,
        }  # fmt: skip


def ingest(
    lake: Lake, declaration: Declaration, folder: Lake, tasks: Tasks, *, origin: dict[str, Any] | None = None,
    split_bytes: int = SPLIT_BYTES, file_rows: int = FILE_ROWS,
) -> Ingested:  # fmt: skip
    """Bring a stream's log up to date with its raw files.

    Args:
        lake: where the log is.
        declaration: what the files look like.
        folder: where they are.
        tasks: where the work is done.
        origin: what the manifest says about where they come from.
        split_bytes: how much of a file a task reads.
        file_rows: the most tuples that a file of the log holds.

    Raises:
        StreamError: the files are not what the declaration says; nothing was written.
        LakeError: another process is at it, or the lake cannot be written.
    """
    try:
        with stage_of(lake, declaration.name) as stage:
            ingestion = _Ingestion(stage.root.rpartition("/")[2], lake, declaration, folder, tasks, stage, split_bytes, file_rows)
            return ingestion.run(origin or {"kind": "original"})
    except (DeltaError, OSError) as problem:  # of the lake: what is wrong with raw files has been told
        told = str(problem).splitlines()[0]
        raise StreamError(
            f"stream {declaration.name}: its tables in {lake.root} cannot be read or written ({told}); nothing of this ingestion is stored."
        ) from problem


@dataclass(frozen=True)
class _Ingestion:
    """One ingestion, and what its steps share."""

    name: str
    lake: Lake
    declaration: Declaration
    folder: Lake
    tasks: Tasks
    stage: Lake
    split_bytes: int
    file_rows: int

    @property
    def address(self) -> str:
        return self.lake.address("streams", self.declaration.name)

    @property
    def by(self) -> str | None:
        return ordered_by(self.declaration)

    def run(self, origin: dict[str, Any]) -> Ingested:
        known = read_manifest(self.lake, self.declaration.name)
        log = Log.open(self.lake, self.address) if self.lake.table(self.address) is not None else None
        if log is not None and (known is None or known.rows != log.end):
            raise StreamError(
                f"stream {self.declaration.name}: the log {self.address} was not made from raw files; allowed is a name without one."
            )
        files = in_order(known.files if known else [], list_files(self.folder, self.declaration))
        sums = checksums(self.folder, self.declaration, files, self.tasks)
        stands = 0
        if known and known.declaration == self.declaration.fingerprint() and rejects_are_of(self.lake, known.stream, known.ingestion):
            stands = _stands(known, files, sums)
        before = known.files if known else []
        if known and log and stands == len(files) == len(before) and known.origin == origin:
            return Ingested(known, None, log.version, [], 0, 0)
        if self.by and stands < len(before):
            stands = 0  # in a sorted log a file has no place of its own
        outcome = self._read(files[stands:], before)
        if self.by and stands and log is not None and outcome.rows and self._least(outcome) < int(self._greatest(log)):
            stands, outcome = 0, self._read(files, before)  # what is new reaches back
        entries = [*before[:stands], *outcome.entries(sizes(self.folder, self.declaration, outcome.files), sums)]
        manifest = Manifest(self.name, self.declaration.name, self.declaration.fingerprint(), origin, entries)

        first = sum(entry.rows for entry in before[:stands])
        stretches = self._stretches(outcome, log, first)
        changed = self._changed(stretches, log, first, manifest.rows)
        written, days = self._write(stretches, outcome, log, first, changed)
        kept = log.end if log and days is None else self._first_of_day(log, changed) if log else 0
        if kept + sum(file.rows for file in written) != manifest.rows:
            raise StreamError(f"stream {self.declaration.name}: {manifest.rows} rows read, but not as many written; nothing was stored.")
        gone = [entry.name for entry in before[stands:]]
        replace_rejects(self.lake, self.stage, self.declaration.name, self.name, outcome, self.tasks, kept=stands > 0, gone=gone)
        manifest.write(self.lake)
        told = {FIRST_CHANGED: str(changed), INGESTION: self.name}
        commit(self.lake, self.address, self._schema(), [file.action() for file in written], told, onto=log, replacing=days)
        forget_older(self.lake, self.declaration.name, self.name)
        new = None if log and changed == log.end == manifest.rows else changed
        return Ingested(
            manifest, new, Log.open(self.lake, self.address).version, [f.name for f in outcome.files], outcome.records, outcome.rejected
        )

    def _read(self, files: Sequence[Any], known: Sequence[Entry]) -> Outcome:
        return read_files(self.folder, self.declaration, files, known, self.stage, self.split_bytes, self.tasks)

    def _schema(self) -> pa.Schema:
        """The log's columns."""
        own = [(name, pa.int64()) for name in ("arrival", "arrived", "clock")]
        return pa.schema([*own, *((f.name, f.type) for f in schema(self.declaration) if f.name not in (LINE, ARRIVED))])

    def _stretches(self, outcome: Outcome, log: Log | None, first: int) -> list[Stretch]:
        """What was read, as it is to be written from this arrival on."""
        clock = self._clock_before(log, first) if log else BEGINNING
        if self.by is None:
            return in_file_order(outcome.runs, first=first, clock=clock, rows=self.file_rows)
        moves = self.declaration.times[-1]
        places, parts = located(self.stage, outcome.runs, outcome.sample, self.by, moves, self.file_rows, self.tasks)
        arrived = int(self._greatest(log)) if log and first == log.end and log.end else BEGINNING
        return by_value(outcome.runs, places, parts, first=first, clock=clock, arrived=arrived)

    def _changed(self, stretches: Sequence[Stretch], log: Log | None, first: int, end: int) -> int:
        """The first arrival at which the log is to hold something else than it does, or more, or no more."""
        if log is None or log.schema != self._schema():
            return 0
        if first == log.end:
            return first
        tasks = [writing.Writing(self.stage, self.lake, self.address, stretch, self.by, log.version) for stretch in stretches]
        differences = [at for at in self.tasks(writing.first_difference, tasks) if at is not None]
        return min([*differences, end])

    def _write(
        self, stretches: Sequence[Stretch], outcome: Outcome, log: Log | None, first: int, changed: int
    ) -> tuple[list[Written], list[str] | None]:
        """Write what differs: behind the log's end, or in the place of whole days, which are then named."""
        days = None
        if log is not None and changed < log.end:
            begin = self._first_of_day(log, changed)
            day = _day(log.paths[log.file_of(begin)])
            days = sorted({d for d in map(_day, log.paths) if d >= day})
            if begin < first:
                kept = [self._run_of_log(log, file, min(first, log.end)) for file in range(log.file_of(begin), log.file_of(first - 1) + 1)]
                stretches = in_file_order(
                    [*kept, *outcome.runs], first=begin, clock=log.clock_before(log.file_of(begin)), rows=self.file_rows
                )
            stretches = from_arrival(stretches, begin)
        else:
            if log is not None and log.schema != self._schema():
                days = []  # a log without tuples has no days to replace, and gets its new columns by replacing them all the same
            stretches = from_arrival(stretches, changed)
        tasks = [writing.Writing(self.stage, self.lake, self.address, stretch, self.by) for stretch in stretches]
        begin = stretches[0].first + stretches[0].skip if stretches else 0
        rows, rest = sum(stretch.rows for stretch in stretches), outcome.bytes - outcome.told

        def weigh(task: writing.Writing) -> int:
            """The share of the bytes that reading has not told: together they are all of them, however they are cut."""
            done = task.stretch.first + task.stretch.skip - begin
            return rest * (done + task.stretch.rows) // rows - rest * done // rows

        written = self.tasks(writing.write, tasks, weigh)
        return [file for files in written for file in files], days

    def _run_of_log(self, log: Log, file: int, end: int) -> Run:
        """A file of the log, up to an arrival, as tuples that are written again."""
        first, rows = int(log.first[file]), int(log.rows[file])
        take = min(end - first, rows)
        clock = int(log.clock[file]) if take == rows else self._clock_before(log, end)
        return Run(log.paths[file], [Batch(take, clock, 0)], of_log=True)

    def _first_of_day(self, log: Log, arrival: int) -> int:
        """The first arrival of the day to which an arrival of the log belongs."""
        if arrival >= log.end:
            return log.end
        day = _day(log.paths[log.file_of(arrival)])
        return int(log.first[next(file for file, path in enumerate(log.paths) if _day(path) == day)])

    def _clock_before(self, log: Log, arrival: int) -> int:
        """The clock before an arrival, which may be inside a file."""
        if arrival == 0:
            return BEGINNING
        file = log.file_of(arrival - 1)
        if arrival == log.first[file] + log.rows[file]:
            return int(log.clock[file])
        with pq.ParquetFile(self.lake.files(log.address).open_input_file(log.paths[file])) as parquet:
            return int(parquet.read(columns=["clock"])["clock"][arrival - 1 - int(log.first[file])].as_py())

    def _least(self, outcome: Outcome) -> int:
        """The smallest value that new tuples are ordered by."""
        return min(run.batches[0].first for run in outcome.runs)

    def _greatest(self, log: Log) -> int:
        """The largest value that the log's tuples are ordered by."""
        if not log.end or self.by != ARRIVED:
            return log.clock_end
        with pq.ParquetFile(self.lake.files(log.address).open_input_file(log.paths[-1])) as parquet:
            return int(parquet.read(columns=["arrived"])["arrived"][-1].as_py())


def _stands(known: Manifest, files: Sequence[Any], sums: dict[str, str]) -> int:
    """How many of the first files are in the log as they are."""
    same = 0
    for entry, file in zip(known.files, files, strict=False):
        if not entry.same_as(file, sums[file.name]):
            break
        same += 1
    return same


def _day(path: str) -> str:
    """The day of a file of the log."""
    return path.partition("day=")[2].partition("/")[0]
