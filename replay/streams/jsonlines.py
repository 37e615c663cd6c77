"""JSON lines: one object a line, by Arrow's reader; lines that it cannot take are found by halving.

Members that are not declared are ignored, declared ones that are missing are null, and so are texts that mean that there is no
value, whatever the type. Numbers stay numbers: a time may be a number or a text, as the declaration's type says.
"""

from __future__ import annotations

import json as json_format
import math
import re
from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True)
class JsonLines:
    """How the members of an object become columns."""

    sources: Mapping[str, Sequence[str]]
    """The names that a column's member may have."""
    types: Mapping[str, pa.DataType]
    nulls: Sequence[str] = ("",)

    def parse(self, lines: Lines) -> Parsed:
        """The records of these lines."""
        tables: list[pa.Table] = []
        rejects: list[Reject] = []
        if lines.cut:
            rejects = [Reject(lines.first, lines.text_of(0), "longer than a record can be")]
        else:
            self._read(lines, lines.filled, tables, rejects, {})
        refused = {reject.line for reject in rejects}
        line = np.array([at for at in lines.filled.tolist() if at not in refused], np.int64) if rejects else lines.filled
        table = pa.concat_tables([pa.schema(list(self.types.items())).empty_table(), *tables])
        return Parsed(
            table, lines.first + line, lambda row: lines.text_of(int(line[row])), len(lines.ends), len(lines.filled),
            [Reject(lines.first + r.line, r.text, r.reason) for r in rejects],
        )  # fmt: skip

    def _read(
        self, lines: Lines, wanted: NDArray[np.int64], tables: list[pa.Table], rejects: list[Reject], cleared: dict[int, bytes]
    ) -> None:
        """`cleared`: lines in which markers were found, without them; they are looked for when a piece was not taken as it is."""
        if not len(wanted):
            return
        data = b"\n".join(cleared.get(int(at)) or lines.bytes_of(int(at)).strip(b" \t") for at in wanted)
        try:
            table = self._by_arrow(data) if _objects(data, len(wanted)) and is_text(data) else None
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
            table = None
        if table is not None and table.num_rows == len(wanted):
            tables.append(table)
        elif not cleared and len(wanted) == len(lines.filled) and (found := self._cleared(lines)):
            self._read(lines, wanted, tables, rejects, found)
        elif len(wanted) == 1:
            at = int(wanted[0])
            rejects.append(Reject(at, lines.text_of(at), self._reason(cleared.get(at) or lines.bytes_of(at))))
        else:
            half = len(wanted) // 2
            self._read(lines, wanted[:half], tables, rejects, cleared)
            self._read(lines, wanted[half:], tables, rejects, cleared)

    def _cleared(self, lines: Lines) -> dict[int, bytes]:
        """The lines with a text or an infinity for no value where a number or a truth value is declared, with null in its place."""
        found = {}
        texts = "|".join(re.escape(json_format.dumps(marker, ensure_ascii=False)[1:-1]) for marker in self.nulls)
        suspicious = re.compile(rf'"(?: |\\t)*(?:{texts})(?: |\\t)*"|Infinity|NaN'.encode())
        known = {source for sources in self.sources.values() for source in sources}
        others = {source for name, sources in self.sources.items() if not pa.types.is_string(self.types[name]) for source in sources}
        for at in lines.filled.tolist():
            line = lines.bytes_of(at)
            content = _object(line) if suspicious.search(line) else None
            if content and len({name for name, _ in content}) == len(content):
                declared = {name: value for name, value in content if name in known}
                marked = [name for name, value in declared.items() if name in others and self._is_marker(value)]
                if marked:
                    found[at] = json_format.dumps(declared | dict.fromkeys(marked)).encode()
        return found

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
