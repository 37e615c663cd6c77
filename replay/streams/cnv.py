"""Sea-Bird's `.cnv`: a header that names columns of a fixed width, then numbers that may touch.

Cut by width into delimited text, which Arrow reads; nothing else of the reader is special. The header also tells when the
recording began and which number stands for none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from replay.streams.declaration import first_instant
from replay.streams.delimited import Delimited
from replay.streams.lines import Lines
from replay.streams.parsed import Parsed, Reject
from replay.streams.values import REAL, convert, trimmed

WIDTH = 11
_END = b"*END*"
SEPARATOR = "\x1f"
_NAME = re.compile(r"# name (\d{1,4}) = ([^:]*)(?::.*)?")
_SETTING = re.compile(r"# (start_time|bad_flag) = (.*)")
_START = re.compile(r"(\w{3} \d{1,2} \d{4} \d{2}:\d{2}:\d{2})(?:\.(\d+))?(?!\S)")


@dataclass(frozen=True)
class Header:
    """What the header of a file says."""

    names: list[str]
    start: str
    """When the recording began, as it is told; empty if it is not."""
    start_us: int | None
    """None: not told so that it can be read."""
    bad_flag: float | None
    size: int
    """In bytes."""
    lines: int


@dataclass(frozen=True)
class Cnv:
    """How lines of fixed width become columns."""

    form: Delimited
    bad_flag: float | None

    def parse(self, lines: Lines) -> Parsed:
        """The records of these lines."""
        expected = self.form.fields * WIDTH
        texts, kept, rejects = [], [], []
        if len(lines.filled) and not lines.cut:
            matrix = _even(lines, expected)
            if matrix is not None:
                texts, kept = [_separated(matrix, self.form.fields)], lines.filled.tolist()
            else:
                for at in lines.filled.tolist():
                    raw = lines.bytes_of(at)
                    if len(raw) == expected:
                        texts.append(_separated(np.frombuffer(raw, np.uint8)[None, :], self.form.fields))
                        kept.append(at)
                    else:
                        rejects.append(Reject(lines.first + at, lines.text_of(at), f"{len(raw)} characters, {expected} expected"))
        elif lines.cut:
            rejects.append(Reject(lines.first, lines.text_of(0), "longer than a record can be"))
        inner = self.form.parse(Lines(b"".join(texts), 0, 0))
        origin = np.array(kept, np.int64)
        line = lines.first + origin[inner.line]
        rejects += [Reject(lines.first + kept[r.line], lines.text_of(kept[r.line]), r.reason) for r in inner.rejects]
        return Parsed(
            self._without_flags(inner.table), line, lambda row: lines.text_of(int(line[row]) - lines.first), len(lines.ends),
            len(lines.filled), rejects,
        )  # fmt: skip

    def _without_flags(self, table: pa.Table) -> pa.Table:
        """The number that stands for none becomes none."""
        if self.bad_flag is None:
            return table
        columns = []
        for column in table.columns:
            numbers = column.combine_chunks()
            if pa.types.is_string(column.type):  # a time
                numbers, _ = convert(numbers, lambda texts: trimmed(texts).cast(pa.float64()), REAL)
            if pa.types.is_floating(numbers.type):
                flagged = pc.fill_null(pc.equal(numbers, self.bad_flag), False)
                column = pc.if_else(flagged, pa.scalar(None, column.type), column)
            columns.append(column)
        return pa.table(columns, names=table.column_names)


def read_header(head: bytes, tz: tzinfo = UTC) -> Header | None:
    r"""The header at the beginning of a file, or None if there is none; `tz`: the zone of its start.

    >>> read_header(b"# name 0 = timeS: Time [s]\r\n# start_time = Jul 11 2012 02:22:32\r\n*END*\r\n 1\r\n").names
    ['timeS']
    """
    lines = Lines(head, 0, 0)
    count = next((number for number, begin in enumerate(lines.begins.tolist(), 1) if head.startswith(_END, begin)), 0)
    if not count:
        return None
    names: dict[int, str] = {}
    settings: dict[str, str] = {}
    for number in range(count):
        line = lines.bytes_of(number).decode("latin-1")
        if match := _NAME.fullmatch(line.rstrip()):
            names[int(match[1])] = match[2].strip()
        elif match := _SETTING.match(line):
            settings.setdefault(match[1], match[2].strip())
    return Header(
        [names.get(position, "") for position in range(max(names, default=-1) + 1)],
        settings.get("start_time", ""),
        _start(settings.get("start_time", ""), tz),
        _number(settings.get("bad_flag", "").partition(" ")[0]),
        int(lines.ends[count - 1]),
        count,
    )


def _start(text: str, tz: tzinfo) -> int | None:
    found = _START.match(text)
    try:
        wall = datetime.strptime(found[1] if found else "", "%b %d %Y %H:%M:%S")  # noqa: DTZ007 - a local time
    except ValueError:
        return None
    moment = first_instant(wall, tz)
    fraction = (found[2] or "" if found else "")[:6].ljust(6, "0")
    return None if moment is None else int(moment.timestamp()) * 10**6 + int(fraction)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _even(lines: Lines, expected: int) -> NDArray[np.uint8] | None:
    """The characters of all lines as one matrix, if all are as long as they should be and none is blank."""
    stride = int(lines.ends[0])
    data = np.frombuffer(lines.data, np.uint8)
    if stride < expected or len(data) != stride * len(lines.ends) or len(lines.filled) != len(lines.ends):
        return None
    matrix = data.reshape(-1, stride)
    tail = matrix[:, expected:]
    even = bool((np.diff(lines.ends) == stride).all()) and bool(np.isin(tail, (10, 13)).all())
    return matrix[:, :expected] if even and not np.isin(matrix[:, expected - 1], (10, 13)).any() else None


def _separated(matrix: NDArray[np.uint8], fields: int) -> bytes:
    """The same characters with a separator, which then stands nowhere else, behind each field and a line end behind each line."""
    out = np.empty((len(matrix), fields, WIDTH + 1), np.uint8)
    out[:, :, :WIDTH] = np.where(matrix == ord(SEPARATOR), ord("?"), matrix).reshape(len(matrix), fields, WIDTH)
    out[:, :, WIDTH] = ord(SEPARATOR)
    out[:, -1, WIDTH] = ord("\n")
    return out.tobytes()
