"""The manifest of a log: which raw files are in it, and what became of each.

Written before the commit that puts the tuples into the log, and named by that commit, so that log and manifest cannot
disagree: a crash in between leaves a manifest that nothing names.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow.fs as pafs
from deltalake import DeltaTable

from replay.lake import Lake
from replay.streams.raw import RawFile

INGESTION = "reprise.ingestion"
"""The commit's metadata that names the manifest."""
KEPT = 10
"""So many manifests stay, though only the last one counts."""


@dataclass(frozen=True)
class Entry:
    """A raw file that is in the log."""

    name: str
    size: int
    """In bytes; of a Delta table, of the files that are in it."""
    checksum: str
    lines: int = 0
    records: int = 0
    rows: int = 0
    rejected: int = 0
    parts: list[str] = field(default_factory=list)
    """Of a Delta table, the files that are in it, in the order in which they were read."""

    def same_as(self, file: RawFile, checksum: str) -> bool:
        """Whether it is the file that it was."""
        return (self.name, self.checksum) == (file.name, checksum)  # in which the size is, too


@dataclass(frozen=True)
class Manifest:
    """What a log was made of."""

    ingestion: str
    stream: str
    declaration: str
    """The fingerprint of the declaration."""
    origin: dict[str, Any]
    """`kind`: original or twin; of a twin, what it was made with."""
    files: list[Entry] = field(default_factory=list)
    """In order."""

    @property
    def rows(self) -> int:
        """How many tuples there are."""
        return sum(entry.rows for entry in self.files)

    @property
    def rejected(self) -> int:
        """How many records were rejected."""
        return sum(entry.rejected for entry in self.files)

    def write(self, lake: Lake) -> None:
        """Keep it, for the commit that is to name it."""
        lake.write_json(_folder(lake, self.stream), f"{self.ingestion}.json", asdict(self))


def read_manifest(lake: Lake, stream: str) -> Manifest | None:
    """The manifest of a stream's log as it is, or None if it was not ingested."""
    table = lake.table(lake.address("streams", stream))
    if table is None:
        return None
    named = ingestion_of(table)
    content = lake.read_json(_folder(lake, stream), f"{named}.json") if named else None
    if content is None:
        return None
    return Manifest(**{**content, "files": [Entry(**entry) for entry in content["files"]]})


def ingestion_of(table: DeltaTable) -> str | None:
    """The ingestion that the newest of a table's commits names that names any: those of others, such as of a vacuum, name none."""
    for limit in (1, None):  # they are rare
        for entry in table.history(limit):
            if INGESTION in entry:
                return str(entry[INGESTION])
    return None


def forget_older(lake: Lake, stream: str, ingestion: str) -> None:
    """Remove what earlier ingestions left, but for a few that someone may be reading: with every file each would be larger."""
    files = lake.files(_folder(lake, stream))
    there = sorted(info.path for info in files.get_file_info(pafs.FileSelector("")) if info.path.endswith(".json"))
    for name in there[:-KEPT]:
        if name != f"{ingestion}.json":
            with suppress(OSError):  # the log is written: nothing may go wrong any more
                files.delete_file(name)


def in_order(known: Sequence[Entry], found: Sequence[RawFile]) -> list[RawFile]:
    """The files in the order of their arrival: those that were there before stay in front."""
    places = {entry.name: place for place, entry in enumerate(known)}
    return sorted(found, key=lambda file: places.get(file.name, len(places)))


def _folder(lake: Lake, stream: str) -> str:
    return lake.address("streams", f"{stream}__files")
