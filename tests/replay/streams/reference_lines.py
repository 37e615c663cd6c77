"""The lines, fields and values of the slow, obvious reader: how text becomes what a column holds, in plain Python."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from replay.streams.declaration import Column, Files
from tests.replay.streams.reference_times import NUMBER, Rejected

LONGEST_LINE_BYTES = 2**20
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
TRUTH = {"0": False, "false": False, "False": False, "FALSE": False, "1": True, "true": True, "True": True, "TRUE": True}


# ---- lines ---------------------------------------------------------------------------------------------------------------


class Line(bytes):
    """A line without its end."""

    size = 0
    """How long it is with its end."""


def lines_of(content: bytes, files: Files) -> list[Line]:
    """The lines, which end with LF, CRLF or CR; where the declaration says so, not within a quoted field."""
    enclosed = files.line_ends_in_fields and files.format in ("csv", "tsv")
    lines, start, at, new_field = [], 0, 0, True

    def end(behind: int) -> int:
        line = Line(content[start:at])
        line.size = behind - start
        lines.append(line)
        return behind

    while at < len(content):
        if enclosed and new_field and content[at : at + 1] == (files.quote or "").encode():
            at = closed(content, at, (files.quote or "").encode())
            new_field = False
        elif content[at : at + 1] in (b"\n", b"\r"):
            start = at = end(at + (2 if content[at : at + 2] == b"\r\n" else 1))
            new_field = True
        else:
            new_field = content[at : at + 1] == files.separator.encode()
            at += 1
    if start < len(content):
        end(at)
    return lines


def closed(content: bytes, opening: int, quote: bytes) -> int:
    """Where a field that a quote opens goes on behind the one that closes it; the end of the file if none does."""
    at = opening + 1
    while (at := content.find(quote, at)) >= 0:
        if content[at : at + 2] != quote * 2:
            return at + 1
        at += 2
    return len(content)


def fields_of(line: bytes, files: Files) -> list[tuple[bytes, bool]] | None:
    """The fields and whether each stood in quotes; None where a quote is not closed."""
    delimiter, quote = files.separator.encode(), (files.quote or "").encode()
    fields, at = [], 0
    while True:
        text, quoted = b"", False
        if quote and line[at : at + 1] == quote:
            quoted = True
            at += 1
            while True:
                if at >= len(line):
                    return None
                if line[at : at + 2] == quote * 2:
                    text += quote
                    at += 2
                elif line[at : at + 1] == quote:
                    at += 1
                    break
                else:
                    text += line[at : at + 1]
                    at += 1
        while at < len(line) and line[at : at + 1] != delimiter:
            text += line[at : at + 1]
            at += 1
        fields.append((text, quoted))
        if at >= len(line):
            return fields
        at += 1


# ---- values --------------------------------------------------------------------------------------------------------------


def whole(text: str, kind: str, name: str) -> int:
    stripped = text.strip(" \t")
    if not re.fullmatch(r"[+-]?[0-9]+", stripped) or not -(2 ** (BITS[kind] - 1)) <= int(stripped) < 2 ** (BITS[kind] - 1):
        raise Rejected(f"not a whole number: {name}")
    return int(stripped)


def real(text: str, kind: str, name: str) -> float:
    stripped = text.strip(" \t")
    if re.fullmatch(r"[+-]?(nan|inf|infinity)", stripped, re.IGNORECASE | re.ASCII):
        return float(stripped)
    if not NUMBER.fullmatch(stripped):
        raise Rejected(f"not a number: {name}")
    return single(float(stripped), kind)


def single(value: float, kind: str) -> float:
    """A float of the column's size."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0] if kind == "float32" else value
    except OverflowError:
        return math.inf


def text_of(content: bytes, encoding: str, name: str) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        raise Rejected(f"not text in the declared encoding: {name}") from None


def is_none(content: bytes, quoted: bool, column: Column, files: Files, nulls: Sequence[str]) -> bool:
    """Whether a field stands for no value: by its letters, or as a number that one of `nulls` is too."""
    markers = {marker.encode(files.encoding) for marker in nulls}
    if column.type == "string":
        return content in markers and not quoted
    try:
        return content.strip(b" \t") in markers or is_named(value_of(content, column, files.encoding), column, nulls)
    except Rejected:
        return False


def is_named(value: Any, column: Column, nulls: Sequence[str]) -> bool:
    """Whether a value is a number that a text of `nulls` is too, however that is written."""
    if column.type not in (*BITS, "float32", "float64"):
        return False
    for marker in nulls:
        try:
            number = real(marker, column.type, "")
        except Rejected:
            continue
        if math.isfinite(number) and column.type in BITS:
            number = Decimal(marker.strip(" \t"))
        if value == number or (value != value and number != number):
            return True
    return False


def value_of(content: bytes, column: Column, encoding: str) -> Any:
    if column.type in ("string", "time"):
        return text_of(content, encoding, column.name)
    text = content.decode("latin-1")
    if column.type == "bool":
        if text not in TRUTH:
            raise Rejected(f"not a truth value: {column.name}")
        return TRUTH[text]
    if column.type in BITS:
        return whole(text, column.type, column.name)
    return real(text, column.type, column.name)
