"""The first half of an ingestion: files are looked at, cut into splits and staged; what came of it, file by file.

Knows nothing of the log. Splits are numbered in the order of files and of their places there, which is the order of their
tuples where a stream arrives in the order of its files.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from replay.claims import claimed
from replay.lake import Lake, LakeError
from replay.streams.columnar import Columnar, Group, table_at
from replay.streams.declaration import Declaration
from replay.streams.layout import Layout, look
from replay.streams.manifest import Entry
from replay.streams.numbering import Judged, judge
from replay.streams.parsed import Reject, StreamError
from replay.streams.raw import CHECKSUM_BYTES, RawFile, checksum, digest, is_compressed
from replay.streams.samples import Sample
from replay.streams.staged_files import Run
from replay.streams.staging import Split, Staged, stage
from replay.streams.tasks import Tasks


@contextmanager
def stage_of(lake: Lake, stream: str) -> Iterator[Lake]:
    """A folder for what a stream's log is to be made of, which no other process has meanwhile; what a killed one left is removed."""
    place = lake.address("staging", stream)
    with ExitStack() as held:
        try:
            held.enter_context(claimed(lake, place))
        except OSError as problem:
            raise LakeError(
                f"lake: {lake.root!r} given; it cannot be written ({problem.strerror}); allowed is a folder that can."
            ) from None
        if lake.local:  # nothing but a claim tells that nobody works on them
            for left in Path(place).iterdir():
                if left.is_dir():
                    lake.remove_folder(str(left))
        stage_at = Lake(f"{place}/{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}", lake.storage_options)
        try:
            yield stage_at
        finally:
            lake.remove_folder(stage_at.root)


@dataclass(frozen=True)
class Outcome:
    """Files that were read and staged."""

    files: Sequence[RawFile]
    splits: Sequence[Split]
    staged: Sequence[Staged]
    judged: Judged

    @property
    def runs(self) -> list[Run]:
        """The staged files that count, in order."""
        return self.judged.runs

    @property
    def rows(self) -> int:
        """How many tuples they hold."""
        return sum(self.judged.rows)

    @property
    def bytes(self) -> int:
        """About how much was read."""
        return sum(map(_bytes, self.splits))

    @property
    def told(self) -> int:
        """How much of that was told as progress while it was read."""
        return sum(map(_half, self.splits))

    @property
    def records(self) -> int:
        """How many records were read."""
        return sum(report.records for report in self.staged)

    @property
    def rejected(self) -> int:
        """How many of them are not stored."""
        return self.records - self.rows

    @cached_property
    def sample(self) -> Sample:
        """Of what the tuples are ordered by."""
        whole = Sample.empty()
        stored = {run.path for run in self.runs}
        for report in self.staged:
            whole = whole.merged(report.sample)
            for edge in (report.head, report.tail):
                if edge and edge.run.path in stored:
                    whole = whole.merged(Sample.of(np.array([edge.run.batches[0].first])))
        return whole

    def entries(self, sizes: Mapping[str, int], sums: Mapping[str, str]) -> list[Entry]:
        """What the manifest says of each file: rows in = rows stored + rows rejected."""
        late: dict[int, int] = {}
        for split, _ in self.judged.rejects:
            late[split] = late.get(split, 0) + 1
        of_file: dict[str, list[int]] = {file.name: [] for file in self.files}
        for at, read in enumerate(self.splits):
            of_file[read.file.name].append(at)
        entries = []
        for file in self.files:
            of = of_file[file.name]
            records, rows = sum(self.staged[at].records for at in of), sum(self.judged.rows[at] for at in of)
            rejected = sum(self.staged[at].rejected + late.get(at, 0) for at in of)
            if records != rows + rejected:
                raise StreamError(f"file {file.name}: {records} records, but {rows} rows and {rejected} rejects; nothing was stored.")
            lines = sum(self.staged[at].lines for at in of) + (self.splits[of[0]].layout.lines if of else 0)
            parts = [path for path in dict.fromkeys(group.path for at in of for group in self.splits[at].groups) if path != file.name]
            entries.append(Entry(file.name, sizes[file.name], sums[file.name], lines, records, rows, rejected, parts))
        return entries

    def rejects(self) -> Iterator[tuple[str, int, str | None, list[Reject]]]:
        """For each split with rejects: its file, how many lines come before it, where they are staged, and further ones."""
        more: dict[int, list[Reject]] = {}
        for at, reject in self.judged.rejects:
            more.setdefault(at, []).append(reject)
        lines: dict[str, int] = {}
        for at, (split, report) in enumerate(zip(self.splits, self.staged, strict=True)):
            before = lines.setdefault(split.file.name, split.layout.lines)
            if report.rejects or at in more:
                yield split.file.name, before, report.rejects, more.get(at, [])
            lines[split.file.name] = before + report.lines


def checksums(folder: Lake, declaration: Declaration, files: Sequence[RawFile], tasks: Tasks) -> dict[str, str]:
    """The checksum of each file; a Delta table is told by its name and its version, which never change."""
    blocks = [
        (folder, file, block) for file in files if declaration.files[file.kind].format != "delta"
        for block in range(max(-(-file.size // CHECKSUM_BYTES), 1))
    ]  # fmt: skip
    found: dict[str, list[str]] = {file.name: [] for file in files}
    for (_, file, _), text in zip(blocks, tasks(_digest, blocks), strict=True):
        found[file.name].append(text)
    for file in files:
        if declaration.files[file.kind].format == "delta":
            # One that was removed and written anew has another name, though its versions count from 0 again.
            found[file.name].append(str(table_at(folder, file.name, file.size).metadata().id))
    return {file.name: checksum([str(file.size), *found[file.name]]) for file in files}


def sizes(folder: Lake, declaration: Declaration, files: Sequence[RawFile]) -> dict[str, int]:
    """How many bytes each file has; a Delta table, whose `size` is its version, has those of the files that are in it."""
    found = {file.name: file.size for file in files}
    for file in files:
        if declaration.files[file.kind].format == "delta":
            found[file.name] = sum(pa.table(table_at(folder, file.name, file.size).get_add_actions())["size_bytes"].to_pylist())
    return found


def read_files(
    folder: Lake, declaration: Declaration, files: Sequence[RawFile], known: Sequence[Entry], stage_at: Lake, split_bytes: int, tasks: Tasks
) -> Outcome:
    """Stage files, some of which may be known. All of them are looked at before the first is read."""
    before = {entry.name: entry.parts for entry in known}
    layouts = tasks(_look, [(folder, file, declaration, before.get(file.name, [])) for file in files])
    splits: list[Split] = []
    for file, layout in zip(files, layouts, strict=True):
        for begin, end, groups in _cut(declaration, file, layout, split_bytes):
            own = replace(layout, groups=())  # a table of many files would be sent along with each of them
            splits.append(Split(folder, declaration, file, own, len(splits), begin, end, groups, stage_at))
    stage_at.make_folder(stage_at.root)
    staged = tasks(stage, splits, _half)
    return Outcome(files, splits, staged, judge(splits, staged, declaration.max_jump))


def _cut(declaration: Declaration, file: RawFile, layout: Layout, split_bytes: int) -> Iterator[tuple[int, int | None, tuple[Group, ...]]]:
    if isinstance(layout.reader, Columnar):
        yield from ((0, 0, (group,)) for group in layout.groups)
    elif is_compressed(file.name) or declaration.files[file.kind].line_ends_in_fields:
        yield layout.begin, None, ()
    else:
        for begin in range(layout.begin, max(file.size, layout.begin + 1), split_bytes):
            yield begin, begin + split_bytes, ()


def _bytes(split: Split) -> int:
    """About how much there is to read."""
    return sum(group.bytes for group in split.groups) or split.bytes


def _half(split: Split) -> int:
    """What reading is of the progress; the other half is writing."""
    return _bytes(split) // 2


def _look(task: tuple[Lake, RawFile, Declaration, Sequence[str]]) -> Layout:
    return look(*task)


def _digest(task: tuple[Lake, RawFile, int]) -> str:
    return digest(*task)
