"""The log of a stream: its tuples in order of arrival, as a Delta table of contiguous files.

A `Log` is pinned to one version of the table and knows its files by the statistics that Delta keeps, so that planning a
batch opens no data file. Writing one is in `log_writer.py`; which part of it a run reads is decided in `span.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engines.contract import BEGINNING, FOREVER
from replay.lake import Lake, LakeError

FORMAT = "Reprise log, format 1"
"""Written as the table's description: other tables, and logs of other formats, are refused."""
FIRST_CHANGED = "reprise.first_changed_arrival"
_ANEW = "remove the log, and write or ingest the stream anew"
OWN_COLUMNS = ("arrival", "arrived", "clock")
DAY_US = 86_400_000_000
FIRST_US = -62_135_596_800_000_000
LAST_US = 253_402_300_799_999_999
"""The years 1 to 9999: the log is kept by day, and there are no other days."""
PLAIN = {pa.large_string(): pa.string(), pa.string_view(): pa.string(), pa.large_binary(): pa.binary(), pa.binary_view(): pa.binary()}
"""The string types that Parquet files hold, for those that Arrow has besides."""


@dataclass(frozen=True)
class Log:
    """A stream's log at one version of its table."""

    lake: Lake
    address: str
    id: str
    """Delta's name of the table: one that was removed and written anew has another, though its versions count from 0 again."""
    version: int
    schema: pa.Schema
    paths: list[str]
    first: NDArray[np.int64]
    """The first arrival of each file; files are in this order."""
    rows: NDArray[np.int64]
    clock: NDArray[np.int64]
    """The clock at the end of each file."""
    clock_first: int
    """The clock of the log's first tuple."""
    arrived: NDArray[np.int64]
    """`arrived` of the first tuple of each file."""
    arrived_end: int
    """`arrived` of the last tuple."""
    least_ts: NDArray[np.int64]
    """A time that no tuple of the file is before, as Delta knows it: cut to milliseconds."""

    @classmethod
    def open(cls, lake: Lake, address: str, version: int | None = None) -> Log:
        """The log at an address, pinned to a version (default: the newest)."""
        try:
            table = lake.table(address, version)
        except Exception as problem:
            wanted = "it" if version is None else f"version {version}"
            raise LakeError(f"log {address}: {wanted} cannot be read ({_first_line(problem)}).") from None
        if table is None:
            raise LakeError(f"log {address}: there is no such log; write or ingest the stream first.")
        found = table.metadata().description
        if found != FORMAT:
            raise LakeError(f"log {address}: a Delta table with the description {found!r} found; allowed is {FORMAT!r}.")
        schema = pa.schema([field for field in normalised(pa.schema(table.schema().to_arrow())) if field.name != "day"])
        times = times_of(schema.names)
        for name in (*OWN_COLUMNS, *times):
            kind = pa.timestamp("us", tz="UTC") if name in times else pa.int64()
            if name not in schema.names or schema.field(name).type != kind:
                raise LakeError(f"log {address}: the column '{name}' should be {kind}; found are {', '.join(schema.names)}.")
        actions = pa.table(table.get_add_actions(flatten=True)).sort_by("min.arrival")
        least = f"min.{times[-1]}"
        for name in ("min.arrival", "num_records", "min.clock", "max.clock", "min.arrived", "max.arrived", least):
            if actions[name].null_count:
                raise LakeError(f"log {address}: the statistic {name} of a file cannot be read; {_ANEW}.")
        first, rows = _int64(actions, "min.arrival"), _int64(actions, "num_records")
        paths = actions["path"].to_pylist()
        if foreign := [path for path, arrival in zip(paths, first, strict=True) if not _named_for(path, arrival)]:
            raise LakeError(
                f"log {address}: the file {foreign[0]} was written by something else (compact, OPTIMIZE, z_order or the like), which does "
                f"not keep the order of arrival; restore the table's version before that, or {_ANEW}."
            )
        if len(gaps := np.flatnonzero(first != np.cumsum(rows) - rows)):
            given, expected = first[gaps[0]], (np.cumsum(rows) - rows)[gaps[0]]
            raise LakeError(
                f"log {address}: a file begins with arrival {given} where {expected} should follow, so tuples are missing or there twice; "
                f"{_ANEW}."
            )
        return cls(
            lake, address, str(table.metadata().id), table.version(), schema,
            paths=paths,
            first=first,
            rows=rows,
            clock=_int64(actions, "max.clock"),
            clock_first=int(_int64(actions, "min.clock")[0]) if actions.num_rows else BEGINNING,
            arrived=_int64(actions, "min.arrived"),
            arrived_end=int(_int64(actions, "max.arrived")[-1]) if actions.num_rows else BEGINNING,
            least_ts=_int64(actions, least),
        )  # fmt: skip

    @property
    def end(self) -> int:
        """The arrival after the last tuple."""
        return int(self.first[-1] + self.rows[-1]) if len(self.paths) else 0

    @property
    def clock_end(self) -> int:
        """The clock at the end of the log."""
        return int(self.clock[-1]) if len(self.paths) else BEGINNING

    def clock_before(self, file: int) -> int:
        """The clock before the first tuple of a file."""
        return int(self.clock[file - 1]) if file else BEGINNING

    @cached_property
    def least_ts_after(self) -> NDArray[np.int64]:
        """For each file, a time that no tuple of a later file is before."""
        least = np.minimum.accumulate(np.append(self.least_ts, FOREVER)[::-1])[::-1]
        return least[1:]

    def file_of(self, arrival: int) -> int:
        """The file that holds an arrival."""
        return int(np.searchsorted(self.first, arrival, side="right")) - 1

    def days(self) -> list[date]:
        """Every day from the log's first clock to its last, silent ones too."""
        if not self.paths:
            return []
        first, last = day_of(self.clock_first), day_of(self.clock_end)
        return [first + timedelta(days=n) for n in range((last - first).days + 1)]

    def first_changed_since(self, version: int) -> int:
        """The first arrival that any commit after this version wrote, up to the pinned one: what was read up to it stands."""
        return min((self._first_changed_by(later) for later in range(version + 1, self.version + 1)), default=self.end)

    def _first_changed_by(self, version: int) -> int:
        """The first arrival that a commit wrote: none if it names no file, any if it does not say so or is no longer known."""
        if version not in self._commits:
            # Not by deltalake's history: of a log that has grown since it gives later commits under the numbers of earlier ones.
            try:
                with self.lake.files(self.address).open_input_stream(f"_delta_log/{version:020d}.json") as commit:
                    lines = commit.read().splitlines()
            except FileNotFoundError:
                lines = []
            told = (json.loads(line).get("commitInfo", {}) for line in lines if b"commitInfo" in line)
            unsaid = self.end if lines and not _names_files(lines) else 0
            self._commits[version] = max((int(info[FIRST_CHANGED]) for info in told if FIRST_CHANGED in info), default=unsaid)
        return self._commits[version]

    @cached_property
    def _commits(self) -> dict[int, int]:
        """What was found out about commits: a schedule asks of every day, and most of them ask about the same ones."""
        return {}


def file_name(arrival: int) -> str:
    """How the name of a file begins whose first arrival this is: who rewrites a table gives its files other names."""
    return f"{arrival:016d}"


def normalised(schema: pa.Schema) -> pa.Schema:
    """The schema with the string types that Parquet files hold, whatever reader it came through."""
    return pa.schema([pa.field(f.name, PLAIN.get(f.type, f.type)) for f in schema])


def times_of(names: Sequence[str]) -> tuple[str, ...]:
    """The columns with a stream's event time; the last of them moves the clock. Beside `ts`, `start` and `end` are values.

    >>> times_of(["ts", "end"]), times_of(["start", "end"])
    (('ts',), ('start', 'end'))
    """
    return ("start", "end") if "start" in names and "ts" not in names else ("ts",)


def day_of(event_time: int) -> date:
    """The (UTC) day of an event time.

    >>> day_of(0), day_of(-1)
    (datetime.date(1970, 1, 1), datetime.date(1969, 12, 31))
    """
    return date(1970, 1, 1) + timedelta(days=event_time // DAY_US)


def day_start(day: date) -> int:
    """The event time at which a day begins."""
    return (day - date(1970, 1, 1)).days * DAY_US


def day_end(day: date) -> int:
    """The event time at which the next day begins."""
    return day_start(day) + DAY_US


def instant(event_time: int) -> str:
    """An event time as people read it."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=event_time)).isoformat(sep=" ", timespec="milliseconds")


def _named_for(path: str, arrival: int) -> bool:
    """Whether a file's name tells that this is its first arrival, and so that its rows are as the log wrote them."""
    return path.rpartition("/")[2].startswith(f"{file_name(arrival)}-")


def _names_files(commit: Sequence[bytes]) -> bool:
    """Whether a commit adds files or removes some: that of a vacuum does not, nor does one of another property of the table."""
    return any(json.loads(line).keys() & {"add", "remove"} for line in commit)


def _int64(actions: pa.Table, name: str) -> NDArray[np.int64]:
    column = actions[name].combine_chunks()
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz)).view(pa.int64())
    values: NDArray[np.int64] = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return values


def _first_line(problem: Exception) -> str:
    return str(problem).splitlines()[0]
