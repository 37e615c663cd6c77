"""JSON lines: one object a line, by Arrow's reader; lines that it cannot take are found in small groups.

Members that are not declared are ignored, declared ones that are missing are null, and so are texts that mean that there is no
value, whatever the type. Numbers stay numbers: a time may be a number or a text, as the declaration's type says.
"""

from __future__ import annotations

import json as json_format
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as json
from numpy.typing import NDArray

from replay.streams.lines import Lines, is_text
from replay.streams.parsed import Parsed, Reject, not_a
from replay.streams.values import numbers_of, without_markers

_GROUP = 512
"""So many lines at a time are read where not all of them can be."""


@dataclass(frozen=True)
class JsonLines:
    """How the members of an object become columns."""

    sources: Mapping[str, Sequence[str]]
    """The names that a column's member may have."""
    types: Mapping[str, pa.DataType]
    nulls: Sequence[str] = ("",)

    def parse(self, lines: Lines) -> Parsed:
        """The records of these lines."""
        texts = [] if lines.cut else [lines.bytes_of(at).strip(b" \t") for at in lines.filled.tolist()]
        read: list[tuple[NDArray[np.int64], pa.Table]] = []
        if (table := self._together(texts)) is not None:
            read.append((np.arange(len(texts)), table))
        else:
            texts = self._cleared(texts)
            self._read(texts, np.arange(len(texts)), read)
        table = pa.concat_tables([pa.schema(list(self.types.items())).empty_table(), *(table for _, table in read)])
        good = np.concatenate([np.empty(0, np.int64), *(these for these, _ in read)])
        if len(read) > 1:
            order = np.argsort(good)
            table, good = table.take(pa.array(order)), good[order]
        bad = np.delete(np.arange(len(texts)), good).tolist()
        refused = [(0, "longer than a record can be")] if lines.cut else [(int(lines.filled[at]), self._reason(texts[at])) for at in bad]
        line = lines.filled[good]
        return Parsed(
            table, lines.first + line, lambda row: lines.text_of(int(line[row])), len(lines.ends), len(lines.filled),
            [Reject(lines.first + at, lines.text_of(at), reason) for at, reason in refused],
        )  # fmt: skip

    def _read(self, texts: Sequence[bytes], these: NDArray[np.int64], read: list[tuple[NDArray[np.int64], pa.Table]]) -> None:
        """Read all of these lines that can be, as each would be read alone."""
        table = self._together([texts[at] for at in these.tolist()]) if len(these) else None
        if table is not None:
            read.append((these, table))
        elif len(these) > _GROUP:
            for part in np.array_split(these, -(-len(these) // _GROUP)):
                self._read(texts, part, read)
        elif len(these) > 1:
            # Few lines are wrong, and Python mostly tells which: to be read alone is what takes time. If it does not, halving does.
            odd = np.array([self._is_odd(texts[at]) for at in these.tolist()])
            for part in [these[~odd], *np.split(these[odd], odd.sum())] if odd.any() else np.array_split(these, 2):
                self._read(texts, part, read)

    def _together(self, texts: Sequence[bytes]) -> pa.Table | None:
        """The records of lines; None: not all of them can be read."""
        data = b"\n".join(texts)
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
            table = self._by_arrow(data) if _objects(data, len(texts)) and is_text(data) else None
            return table if table is not None and table.num_rows == len(texts) else None
        return None

    def _is_odd(self, text: bytes) -> bool:
        """Whether a line is probably none that can be read."""
        try:
            content = json_format.loads(text)
        except (ValueError, RecursionError):
            return True
        return not isinstance(content, dict) or any(
            (value := content.get(source)) is not None and not _may_be(value, self.types[name])
            for name, sources in self.sources.items()
            for source in sources
        )

    def _cleared(self, texts: Sequence[bytes]) -> list[bytes]:
        """The lines, with null in place of a text or NaN for no value where a number or a truth value is declared."""
        cleared = list(texts)
        markers = "|".join(re.escape(json_format.dumps(marker, ensure_ascii=False)[1:-1]) for marker in self.nulls)
        suspicious = re.compile(rf'"(?: |\\t)*(?:{markers})(?: |\\t)*"|Infinity|NaN'.encode())
        known = {source for sources in self.sources.values() for source in sources}
        others = {source for name, sources in self.sources.items() if not pa.types.is_string(self.types[name]) for source in sources}
        for at, text in enumerate(texts):
            content = _object(text) if suspicious.search(text) else None
            if content and len({name for name, _ in content}) == len(content):
                declared = {name: value for name, value in content if name in known}
                marked = [name for name, value in declared.items() if name in others and self._is_marker(value)]
                if marked:
                    cleared[at] = json_format.dumps(declared | dict.fromkeys(marked)).encode()
        return cleared

    def _is_marker(self, value: Any) -> bool:
        if isinstance(value, str):
            return value in self.nulls or value.strip(" \t") in self.nulls
        named = {str(marker.as_py()) for marker in numbers_of(tuple(self.nulls), pa.float64())}
        return isinstance(value, float) and not math.isfinite(value) and str(value) in named

    def _by_arrow(self, data: bytes) -> pa.Table:
        # A member may be two columns, and is read once for each type.
        turns: list[dict[str, pa.DataType]] = []
        turn_of: dict[str, int] = {}
        for name, sources in self.sources.items():
            members = dict.fromkeys(sources, self.types[name])
            turn_of[name] = at = next((n for n, turn in enumerate(turns) if turn | members == members | turn), len(turns))
            if at == len(turns):
                turns.append({})
            turns[at] |= members
        tables = [_read_json(data, turn) for turn in turns]
        columns = []
        for name, sources in self.sources.items():
            values = without_markers(pc.coalesce(*(tables[turn_of[name]][source] for source in sources)), self.nulls)
            if pa.types.is_string(values.type):
                values = pc.if_else(pc.is_in(values, pa.array(self.nulls, pa.string())), pa.scalar(None, pa.string()), values)
            columns.append(values)
        return pa.table(columns, names=list(self.sources)).cast(pa.schema(list(self.types.items())))

    def _reason(self, line: bytes) -> str:
        """Why a single line cannot be read."""
        try:
            content = json_format.loads(line)
        except (ValueError, RecursionError):
            return "not JSON"
        if not isinstance(content, dict):
            return "not a JSON object"
        infinite: list[str] = []
        for name, sources in self.sources.items():
            for source in sources:
                if content.get(source) is None:
                    continue
                one = {source: content[source]}
                if pa.types.is_string(self.types[name]) and not isinstance(content[source], str):
                    return f"not text: {name}"
                if pa.types.is_floating(self.types[name]) and content[source] in (float("inf"), float("-inf")):
                    infinite.append(name)
                    continue
                try:
                    _read_json(json_format.dumps(one).encode(), {source: self.types[name]})
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
                    return not_a(name, self.types[name])
        return f"not a finite number: {infinite[0]}" if infinite else "cannot be taken apart into members"


def _may_be(value: Any, kind: pa.DataType) -> bool:
    """Whether Arrow probably takes a member's value for one of a type."""
    if pa.types.is_floating(kind):
        return type(value) in (int, float) and not math.isinf(value)
    if pa.types.is_integer(kind):
        return type(value) is int and value.bit_length() < kind.bit_width
    return type(value) is (bool if pa.types.is_boolean(kind) else str)


def _read_json(data: bytes, members: Mapping[str, pa.DataType]) -> pa.Table:
    return json.read_json(
        pa.BufferReader(data),
        json.ReadOptions(use_threads=False, block_size=len(data) + 1),
        json.ParseOptions(explicit_schema=pa.schema(list(members.items())), unexpected_field_behavior="ignore"),
    )


def member_names(line: bytes, encoding: str) -> list[str] | None:
    """The names of an object's members; None: the line is no object.

    >>> member_names(b'{"t": 1, "v": {"w": 2}}', "utf-8"), member_names(b"t,v", "utf-8")
    (['t', 'v'], None)
    """
    content = _object(line, encoding)
    return None if content is None else [name for name, _ in content]


def _object(line: bytes, encoding: str = "utf-8") -> list[tuple[str, Any]] | None:
    """The members of an object, those too that are there twice; None: it is none."""
    try:
        content = json_format.loads(line.decode(encoding), object_pairs_hook=_Members)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, _Members) else None


class _Members(list[tuple[str, Any]]):
    """Members in their order, which an array of pairs is not mistaken for."""


def _objects(data: bytes, count: int) -> bool:
    """Whether every line is enclosed in braces: Arrow would read an object over several lines, or several in one."""
    return data[:1] == b"{" and data[-1:] == b"}" and data.count(b"\n") == data.count(b"}\n{") == count - 1
