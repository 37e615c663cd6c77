"""What the tests of ingestion share: a folder of raw files, an ingestion of it, and what then lies in the lake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from engines.spec import validate
from replay.lake import Lake
from replay.log import Log
from replay.streams.declaration import Declaration
from replay.streams.ingest import Ingested, ingest
from replay.streams.rejects import read_rejects
from replay.streams.tasks import InProcess
from tests.replay.streams.reference import Expected

Rows = list[dict[str, Any]]
Reject = tuple[str, int, str, str]


def stream(**settings: Any) -> Declaration:
    """A declaration from its settings; a stream has a name only because it must."""
    return validate(Declaration, {"name": "s", **settings})


@dataclass
class Place:
    """A folder of raw files and a lake beside it."""

    root: Path

    @property
    def raw(self) -> Path:
        return self.root / "raw"

    @property
    def lake(self) -> Lake:
        return Lake(str(self.root / "lake"))

    def write(self, contents: Mapping[str, bytes | str]) -> None:
        self.raw.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (self.raw / name).parent.mkdir(parents=True, exist_ok=True)
            (self.raw / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    def ingest(
        self, declaration: Declaration, contents: Mapping[str, bytes | str] | None = None, tasks: Any = None, **how: Any
    ) -> Ingested:
        """Bring the log up to date, after these files were written."""
        self.write(contents or {})
        return ingest(self.lake, declaration, Lake(str(self.raw)), tasks or InProcess(), **how)

    def log(self, name: str = "s", version: int | None = None) -> Log:
        return Log.open(self.lake, self.lake.address("streams", name), version)

    def rows(self, name: str = "s", version: int | None = None) -> Rows:
        """The log in order of arrival; times are microseconds since 1970."""
        frame = pl.read_delta(self.lake.address("streams", name), version=version).drop("day").sort("arrival")
        return frame.with_columns(pl.col(pl.Datetime).cast(pl.Int64)).to_dicts()

    def rejects(self, name: str = "s") -> list[Reject]:
        return [(r["file"], r["line"], r["text"], r["reason"]) for r in read_rejects(self.lake, name).to_pylist()]

    def is_untouched(self, name: str = "s") -> bool:
        """Whether nothing was written of a stream, and nothing is left of what was staged; a claim may lie there."""
        return not list((self.root / "lake" / "streams").glob(f"{name}*")) and not self.staged()

    def staged(self) -> list[str]:
        """What is left of ingestions that did not clear up behind them."""
        return [path.name for path in (self.root / "lake" / "staging").glob("*/*") if path.is_dir()]


def counts(ingested: Ingested) -> dict[str, tuple[int, int, int, int]]:
    """By file: lines, records, rows, rejected."""
    return {entry.name: (entry.lines, entry.records, entry.rows, entry.rejected) for entry in ingested.manifest.files}


def assert_equals(place: Place, ingested: Ingested, wanted: Expected, name: str = "s") -> None:
    """The log, the rejects and the counts are those of the reference: every value, and a zero's sign too."""
    assert counts(ingested) == wanted.counts
    assert sorted(place.rejects(name)) == sorted(wanted.rejects)  # those of a line stand in any order
    rows = place.rows(name)
    assert [sorted(row) for row in rows] == [sorted(row) for row in wanted.rows]
    for row, want in zip(rows, wanted.rows, strict=True):
        assert {column: repr(value) for column, value in row.items()} == {column: repr(want[column]) for column in row}


def us(text: str) -> int:
    """Microseconds since 1970 of a UTC time."""
    return pa.scalar(text).cast(pa.timestamp("us")).value


def nothing_but(rows: Rows, *columns: str) -> list[tuple[Any, ...]]:
    """These columns of rows."""
    return [tuple(row[column] for column in columns) for row in rows]
