"""A slow, obvious reader of raw files: what an ingestion must give, record by record, in plain Python.

It knows delimited text, `.cnv` and JSON lines, and nothing of splits, tasks or Arrow. Written from the spec and from
`declaration.py` alone; whatever differs from it is a bug in one of the two.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from engines.spec import format_duration
from replay.streams.declaration import UNITS_PER_SECOND, Column, Declaration, Files
from tests.replay.streams.reference_lines import (
    BITS,
    LONGEST_LINE_BYTES,
    Line,
    fields_of,
    is_named,
    is_none,
    lines_of,
    single,
    value_of,
    whole,
)
from tests.replay.streams.reference_times import EPOCH, LAST_US, NUMBER, Rejected, time_of


@dataclass
class Record:
    line: int
    text: str
    values: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None

    @property
    def ts(self) -> int:
        """When it happened; an event with a start and an end has happened when it ends."""
        return self.values["ts"] if "ts" in self.values else self.values["end"]


@dataclass
class Expected:
    rows: list[dict[str, Any]]
    rejects: list[tuple[str, int, str, str]]
    """File, line, text, reason: in order of file and line."""
    counts: dict[str, tuple[int, int, int, int]]
    """By file: lines, records, rows, rejected."""


# ---- records -------------------------------------------------------------------------------------------------------------


def checked(taken: dict[str, Any], declaration: Declaration, origin_us: int) -> dict[str, Any]:
    """What the log keeps of a record: of what was taken from it, by the names of its columns."""
    time, by_name = declaration.time, declaration.by_name
    must = [*declaration.key, *([declaration.order] if declaration.order in by_name else [])]
    for name, column in by_name.items():
        if taken[name] is None and column.required and column.type != "time":
            raise Rejected(f"missing: {name}")
        if isinstance(taken[name], float) and not math.isfinite(taken[name]):
            raise Rejected(f"not a finite number: {name}")
        if column.range and taken[name] is not None:
            low, high = column.range
            if (low is not None and taken[name] < low) or (high is not None and taken[name] > high):
                raise Rejected(f"out of range: {name}")
    for name in must:
        if taken[name] is None and by_name[name].type != "time":
            raise Rejected(f"missing: {name}")
    for name in declaration.key:
        if len(declaration.key) > 1 and isinstance(taken[name], str) and "|" in taken[name]:
            raise Rejected(f"'|' in a part of the key: {name}")
    kept: dict[str, Any] = {}
    if time.column:
        kept["ts"], original = time_of(time.column, taken, declaration, origin_us)
        if time.keep:
            kept[time.keep] = as_it_was(taken, declaration, original)
    else:
        kept["start"], _ = time_of(time.start, taken, declaration, origin_us)
        if time.end:
            kept["end"], _ = time_of(time.end, taken, declaration, origin_us)
        else:
            if taken[time.duration] is None:
                raise Rejected(f"missing: {time.duration}")
            kept["end"] = kept["start"] + math.floor(Decimal(str(taken[time.duration])) * 10**6 / UNITS_PER_SECOND[time.unit])
        if kept["end"] < kept["start"]:
            raise Rejected("event ends before it starts")
        if kept["end"] > LAST_US:
            raise Rejected(f"not a time: {time.duration}")
    for name in declaration.times:
        if declaration.range and not declaration.range[0] <= kept[name] < declaration.range[1]:
            raise Rejected("outside the stream's range of time")
    if declaration.order in by_name:
        column = by_name[declaration.order]
        kept["(order)"] = time_of([column.name], taken, declaration, origin_us)[0] if column.type == "time" else taken[column.name]
    if len(declaration.key) == 1:
        kept["key"] = taken[declaration.key[0]]
    elif declaration.key:
        kept["key"] = "|".join({True: "true", False: "false"}.get(v, str(v)) if isinstance(v, bool) else str(v)
                               for v in (taken[name] for name in declaration.key))  # fmt: skip
    for name, column in by_name.items():
        if column.type != "time" and declaration.key != (name,):
            kept[name] = taken[name]
    return kept


def as_it_was(taken: dict[str, Any], declaration: Declaration, nanoseconds: int) -> Any:
    """A time to its last digit: a number that is a column as it is, one in a text as that text, a date as nanoseconds."""
    columns = [declaration.by_name[name] for name in declaration.time.column]
    if columns[0].type in (*BITS, "float32", "float64"):
        return taken[columns[0].name]
    return " ".join(taken[column.name] for column in columns) if "number" in declaration.time.format else nanoseconds


def delimited(lines: list[Line], files: Files, declaration: Declaration, name: str) -> list[Record]:
    names: list[str] | None = None if files.header else [column.name for column in declaration.columns if column.from_file is None]
    records = []
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        if names is None:
            header = [text.decode(files.encoding).strip() for text, _ in fields_of(line, files) or []]
            named = {source: column.name for column in declaration.by_name.values() for source in column.sources}
            names = [named.get(text, "") for text in header]
            continue
        if line.size > LONGEST_LINE_BYTES:
            records.append(Record(number, line.decode(files.encoding, errors="backslashreplace"), reason="longer than a record can be"))
            continue
        for part in glued(line, len(names), files):
            record = Record(number, part.decode(files.encoding, errors="backslashreplace"))
            records.append(record)
            fields = fields_of(part, files)
            if fields is None:
                record.reason = "cannot be taken apart into fields"
            elif len(fields) > len(names) or (len(fields) < len(names) and not files.short_records):
                record.reason = f"{len(fields)} field{'' if len(fields) == 1 else 's'}, {len(names)} expected"
            else:
                taken = dict.fromkeys(declaration.by_name)
                found = dict(zip(names, fields, strict=False))
                _fill(record, taken, declaration, name, files, 0, lambda column, found=found: found.get(column.name))
    return records


def glued(line: bytes, width: int, files: Files) -> list[bytes]:
    """The records of a line: one that has more fields than a record goes on behind some characters of its last."""
    delimiter, parts = files.separator.encode(), []
    while files.glued_after is not None:
        cells = line.split(delimiter)
        if len(cells) <= width or len(cells[width - 1]) <= files.glued_after:
            break
        end = len(delimiter.join(cells[: width - 1]) + delimiter) + files.glued_after
        parts.append(line[:end])
        line = line[end:]
    return [*parts, line]


def cnv(lines: list[bytes], files: Files, declaration: Declaration, name: str) -> list[Record]:
    named = {source: column.name for column in declaration.by_name.values() for source in column.sources}
    names: dict[int, str] = {}
    bad_flag, origin_us, width, ended, records = math.nan, 0, 0, False, []
    for number, line in enumerate(lines, start=1):
        text = line.decode(files.encoding, errors="backslashreplace")
        if not ended:
            if found := re.match(r"# name (\d+) = ([^:]*):", text):
                names[int(found[1])] = named.get(found[2].strip(), "")
                width = max(width, int(found[1]) + 1)
            elif found := re.match(r"# start_time = (\w+ \d+ \d+ \d+:\d+:\d+)", text):
                start = datetime.strptime(found[1], "%b %d %Y %H:%M:%S").replace(tzinfo=UTC)
                origin_us = (start - EPOCH) // timedelta(microseconds=1)
            elif found := re.match(r"# bad_flag = (\S+)", text):
                bad_flag = float(found[1])
            ended = text.startswith("*END*")
            continue
        if not line:
            continue
        record = Record(number, text)
        records.append(record)
        if len(line) != 11 * width:
            record.reason = f"{len(line)} characters, {11 * width} expected"
            continue
        cells = {names[n]: line[11 * n : 11 * n + 11] for n in names}
        cells = {
            column: cell for column, cell in cells.items()
            if not (NUMBER.fullmatch(cell.decode("latin-1").strip(" \t")) and float(cell) == bad_flag)
            or column not in declaration.by_name or declaration.by_name[column].type in BITS
        }  # fmt: skip
        taken = dict.fromkeys(declaration.by_name)
        _fill(
            record, taken, declaration, name, files, origin_us,
            lambda column, cells=cells: (cells[column.name], False) if column.name in cells else None,
        )  # fmt: skip
    return records


def _fill(
    record: Record, taken: dict[str, Any], declaration: Declaration, name: str, files: Files, origin_us: int, cell: Any
) -> None:  # fmt: skip
    """A record's values, from its fields by column."""
    origin_us = declaration.time.origin if declaration.time.origin is not None else origin_us
    try:
        for column in declaration.by_name.values():
            if column.from_file is not None:
                content: tuple[bytes, bool] | None = (re.search(column.from_file, name)[1].encode(), False)  # type: ignore[index]
            else:
                content = cell(column)
            if content is not None and not is_none(*content, column, files, declaration.nulls):
                taken[column.name] = value_of(content[0], column, files.encoding)
        record.values = checked(taken, declaration, origin_us)
    except Rejected as problem:
        record.reason = str(problem)


def json_lines(lines: list[bytes], files: Files, declaration: Declaration, name: str) -> list[Record]:
    records = []
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        record = Record(number, line.decode(files.encoding, errors="backslashreplace"))
        records.append(record)
        try:
            # Numbers stay as they are written: a double holds neither picoseconds nor tenths.
            found = json.loads(line.decode(files.encoding), parse_float=Decimal, parse_constant=Decimal)
        except (ValueError, RecursionError):
            record.reason = "not JSON"
            continue
        if not isinstance(found, dict):
            record.reason = "not a JSON object"
            continue
        try:
            taken = {
                column.name: member_of(next((found[s] for s in column.sources if s in found), None), column, declaration)
                for column in declaration.by_name.values()
            }
            named = [name for name, column in declaration.by_name.items() if is_named(taken[name], column, declaration.nulls)]
            taken |= dict.fromkeys(named)
            record.values = checked(taken, declaration, declaration.time.origin or 0)
        except Rejected as problem:
            record.reason = str(problem)
    return records


def member_of(value: Any, column: Column, declaration: Declaration) -> Any:
    if value is None or (isinstance(value, str) and (value if column.type == "string" else value.strip(" \t")) in declaration.nulls):
        return None
    if isinstance(value, Decimal) and not value.is_finite() and column.type in BITS and is_named(float(value), column, declaration.nulls):
        return None
    number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if column.type == "bool":
        if not isinstance(value, bool):
            raise Rejected(f"not a truth value: {column.name}")
        return value
    if column.type in BITS:
        if not number or isinstance(value, Decimal):
            raise Rejected(f"not a whole number: {column.name}")
        return whole(str(value), column.type, column.name)
    if column.type in ("float32", "float64"):
        if not number:
            raise Rejected(f"not a number: {column.name}")
        return single(float(value), column.type)
    if not isinstance(value, str):
        raise Rejected(f"not text: {column.name}")
    if any(0xD800 <= ord(c) < 0xE000 for c in value):
        raise Rejected(f"not text in the declared encoding: {column.name}")
    return value


# ---- files ---------------------------------------------------------------------------------------------------------------


def natural(name: str) -> list[Any]:
    """Names in order, numbers in them by value."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]


def read(content: bytes, declaration: Declaration, files: Files, name: str = "a.csv") -> tuple[int, list[Record]]:
    """How many lines a file has, and its records, the spikes among them marked."""
    lines = lines_of(content.removeprefix(b"\xef\xbb\xbf"), files)
    reader = {"cnv": cnv, "json": json_lines}.get(files.format, delimited)
    records = reader(lines, files, declaration, name)
    if declaration.max_jump is not None:
        passed = [record for record in records if record.reason is None]
        spikes = []
        for n, record in enumerate(passed):
            neighbours = [*passed[max(n - 1, 0) : n], *passed[n + 1 : n + 2]]
            if neighbours and all(record.ts - other.ts > declaration.max_jump for other in neighbours):
                spikes.append(record)
        for record in spikes:
            record.reason = f"more than {format_duration(declaration.max_jump)} ahead of its neighbours"
    return len(lines), records


def expected(
    declaration: Declaration, contents: Mapping[str, bytes], files: Files | None = None, order: Sequence[str] | None = None
) -> Expected:
    """The log and the rejects of these files, in this order (default: by name, numbers by value)."""
    order = sorted(contents, key=natural) if order is None else order
    kept: list[tuple[Any, int, Record]] = []
    rejects, counts = [], {}
    for place, name in enumerate(order):
        lines, records = read(contents[name], declaration, files or declaration.files[0], name)
        good = [record for record in records if record.reason is None]
        counts[name] = (lines, len(records), len(good), len(records) - len(good))
        rejects += [(name, r.line, r.text, r.reason) for r in records if r.reason is not None]
        for record in good:
            by = {"file": 0, "time": record.ts if record.reason is None else 0}.get(declaration.order, record.values.get("(order)"))
            kept.append((by, place, record))
    kept.sort(key=lambda entry: entry[:2])  # stable: lines stay in their order
    rows: list[dict[str, Any]] = []
    for arrival, (by, _, record) in enumerate(kept):
        clock = max(record.ts, rows[-1]["clock"]) if rows else record.ts
        arrived = clock if declaration.order in ("file", "time") else by
        values = {key: value for key, value in record.values.items() if key != "(order)"}
        rows.append({"arrival": arrival, "arrived": arrived, "clock": clock, **values})
    return Expected(rows, sorted(rejects, key=lambda reject: reject[:2]), counts)
