"""JSON lines: one object a line, by Arrow's reader; lines that it cannot take are found by halving.

Members that are not declared are ignored, declared ones that are missing are null. Numbers stay numbers: a time may be a
number or a text, as the declaration's type says.
"""

from __future__ import annotations

import json as json_format
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as json
from numpy.typing import NDArray

from replay.streams.lines import Lines, is_text
from replay.streams.parsed import Parsed, Reject, not_a


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
            self._read(lines, lines.filled, tables, rejects)
        refused = {reject.line for reject in rejects}
        line = np.array([at for at in lines.filled.tolist() if at not in refused], np.int64) if rejects else lines.filled
        table = pa.concat_tables([pa.schema(list(self.types.items())).empty_table(), *tables])
        return Parsed(
            table, lines.first + line, lambda row: lines.text_of(int(line[row])), len(lines.ends), len(lines.filled),
            [Reject(lines.first + r.line, r.text, r.reason) for r in rejects],
        )  # fmt: skip

    def _read(self, lines: Lines, wanted: NDArray[np.int64], tables: list[pa.Table], rejects: list[Reject]) -> None:
        if not len(wanted):
            return
        data = b"\n".join(lines.bytes_of(int(at)).strip(b" \t") for at in wanted)
        try:
            table = self._by_arrow(data) if _objects(data, len(wanted)) and is_text(data) else None
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
            table = None
        if table is not None and table.num_rows == len(wanted):
            tables.append(table)
        elif len(wanted) == 1:
            at = int(wanted[0])
            rejects.append(Reject(at, lines.text_of(at), self._reason(lines.bytes_of(at))))
        else:
            half = len(wanted) // 2
            self._read(lines, wanted[:half], tables, rejects)
            self._read(lines, wanted[half:], tables, rejects)

    def _by_arrow(self, data: bytes) -> pa.Table:
        members = {source: self.types[name] for name, sources in self.sources.items() for source in sources}
        table = json.read_json(
            pa.BufferReader(data),
            json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            json.ParseOptions(explicit_schema=pa.schema(list(members.items())), unexpected_field_behavior="ignore"),
        )
        columns = []
        for sources in self.sources.values():
            values = pc.coalesce(*(table[source] for source in sources))
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
                    self._by_arrow(json_format.dumps(one).encode())
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
                    return not_a(name, self.types[name])
        return f"not a finite number: {infinite[0]}" if infinite else "cannot be taken apart into members"


def _objects(data: bytes, count: int) -> bool:
    """Whether every line is enclosed in braces: Arrow would read an object over several lines, or several in one."""
    return data[:1] == b"{" and data[-1:] == b"}" and data.count(b"\n") == data.count(b"}\n{") == count - 1
