"""Delimited text: CSV, TSV and their relatives, a piece of a file at a time, by Arrow's reader.

Arrow converts a whole piece at once. Only if it cannot, the piece is read as text and each column tells which values it cannot
take; lines with a wrong number of fields are repaired one by one where the declaration allows it. Either way a line is read as if
it stood alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
from numpy.typing import NDArray

from replay.streams.lines import Lines, is_text
from replay.streams.parsed import Parsed, Reject, Rules, not_a
from replay.streams.plain import read_plain
from replay.streams.values import FALSE, TRUE, typed, without_markers

_FEW = 64
_ODD = 0.1
"""With more than this share of lines that are not plain, picking them out costs more than it saves."""


@dataclass(frozen=True)
class Delimited:
    """How the fields of a line become columns."""

    fields: int
    """How many a record has."""
    at: Mapping[str, int]
    """The position of each column that is read."""
    types: Mapping[str, pa.DataType]
    delimiter: str = ","
    quote: str | None = '"'
    nulls: Sequence[str] = ("",)
    short_records: bool = False
    glued_after: int | None = None
    verbatim: Collection[str] = ()
    """Columns of text, in which a null marker between quotes is that text, and `""` an empty one. In all others it means no value."""

    def parse(self, lines: Lines) -> Parsed:
        """The records of these lines."""
        read = _read(self, lines)
        table, line, rejects = read.table, read.line, read.rejects
        text: Callable[[int], str] | None = None
        if read.wrong:
            table, line, rejects, text = self._with_repaired(lines, read)
        records = len(lines.filled) + sum(_extra(self, lines, at) for at in read.wrong)
        return Parsed(
            table, lines.first + line, text or (lambda row: lines.text_of(int(line[row]))), len(lines.ends), records,
            [Reject(lines.first + reject.line, reject.text, reject.reason) for reject in rejects],
        )  # fmt: skip

    def _with_repaired(self, lines: Lines, read: _Read) -> tuple[pa.Table, NDArray[np.int64], list[Reject], Callable[[int], str]]:
        """The rows together with those of lines that had a wrong number of fields, and the texts of these rows."""
        mended: list[bytes] = []
        origin: list[int] = []
        rejects = list(read.rejects)
        for at in read.wrong:
            texts = _repair(self, lines.bytes_of(at))
            if texts is None:
                rejects.append(Reject(at, lines.text_of(at), _why(self, lines.bytes_of(at))))
            else:
                mended += texts
                origin += [at] * len(texts)
        shown, again = _lines_of(mended), _lines_of([_filled_up(self, part) for part in mended])
        repaired = _read(self, again)
        origins = np.array(origin, np.int64)
        rejects += [Reject(origin[reject.line], shown.text_of(reject.line), reject.reason) for reject in repaired.rejects]
        rejects += [Reject(origin[at], shown.text_of(at), _why(self, shown.bytes_of(at))) for at in repaired.wrong]
        line = np.concatenate((read.line, origins[repaired.line]))
        order = np.argsort(line, kind="stable")

        def text(row: int) -> str:
            mine = int(order[row]) - len(read.line)
            return lines.text_of(int(line[order[row]])) if mine < 0 else shown.text_of(int(repaired.line[mine]))

        table = _merged(read.line, read.table, repaired.table, origins[repaired.line])
        return table, line[order], rejects, text


@dataclass(frozen=True)
class _Read:
    """Lines that were read, numbered within their piece."""

    table: pa.Table
    line: NDArray[np.int64]
    rejects: list[Reject]
    """Lines with a value that its column cannot take."""
    wrong: list[int]
    """Lines that have not as many fields as they should."""


def _read(form: Delimited, lines: Lines) -> _Read:
    """All lines: those that are plain at once, the others by Arrow; if these are many, all by Arrow."""
    found = read_plain(form, lines) if is_text(lines.data) and not lines.cut else None
    if found is None or len(found[1]) < (1 - _ODD) * len(lines.filled):
        return _read_lines(form, lines, lines.filled)
    table, line = found
    if len(line) == len(lines.filled):
        return _Read(table, line, [], [])
    odd = np.setdiff1d(lines.filled, line, assume_unique=True)
    miscounted = [at for at in odd.tolist() if _is_miscounted(form, lines.bytes_of(at))]  # for which Arrow need not be started
    rest = _read_lines(form, lines, np.setdiff1d(odd, miscounted, assume_unique=True))
    wrong = sorted([*rest.wrong, *miscounted])
    if not len(rest.line):
        return _Read(table, line, rest.rejects, wrong)
    merged = _merged(line, table, rest.table, rest.line)
    return _Read(merged, np.sort(np.concatenate((line, rest.line))), rest.rejects, wrong)


def _read_lines(form: Delimited, lines: Lines, wanted: NDArray[np.int64]) -> _Read:
    """Some of the lines: as typed columns if all of them allow it, else by way of text."""
    if not len(wanted):
        return _Read(_nothing(form.types), wanted, [], [])
    data = lines.data if len(wanted) == len(lines.filled) else lines.only(wanted)
    if lines.cut:
        return _Read(_nothing(form.types), wanted[:0], [Reject(0, lines.text_of(0), "longer than a record can be")], [])
    if odd := _not_text(form, lines, data, wanted):
        read = _read_lines(form, lines, np.setdiff1d(wanted, odd))
        return replace(read, wrong=sorted([*read.wrong, *odd]))
    try:
        # Arrow takes 0x10 for a whole number: where there may be one, each column looks for itself.
        table, wrong = (None, []) if _may_be_hexadecimal(data) else _by_arrow(form, data, form.types)
    except pa.ArrowInvalid:
        table, wrong = None, []
    if table is not None and table.num_rows + len(wrong) == len(wanted) and split_fields(form, lines.bytes_of(int(wanted[-1]))) is not None:
        table = pa.table([without_markers(column, form.nulls) for column in table.columns], names=table.column_names)
        return _Read(table, np.delete(wanted, wrong), [], wanted[wrong].tolist())
    return _read_text(form, lines, wanted)


def _not_text(form: Delimited, lines: Lines, data: bytes, wanted: NDArray[np.int64]) -> list[int]:
    """Among lines not all of which are text, those that have not as many fields as they should: Arrow fails to tell which those are."""
    if is_text(data):
        return []
    return [at for at in wanted.tolist() if len(split_fields(form, lines.bytes_of(at)) or ()) != form.fields]


def _read_text(form: Delimited, lines: Lines, wanted: NDArray[np.int64]) -> _Read:
    """Some of the lines as text, and each column's values from it."""
    data = lines.only(wanted)
    try:
        table, wrong = _by_arrow(form, data, dict.fromkeys(form.types, pa.binary()))
    except pa.ArrowInvalid:
        table, wrong = None, []
    # A quote that is not closed takes the line ends behind it along, that of the last line without a trace.
    if table is None or table.num_rows + len(wrong) != len(wanted) or split_fields(form, lines.bytes_of(int(wanted[-1]))) is None:
        if len(wanted) == 1:
            return _Read(_nothing(form.types), wanted[:0], [], wanted.tolist())
        # Lines with a quote that is not closed are no records; whatever else it is, is found by halving.
        opened = np.array([split_fields(form, lines.bytes_of(at)) is None for at in wanted.tolist()])
        if not opened.any():
            return _joined([_read_lines(form, lines, part) for part in np.array_split(wanted, 2)])
        read = _read_lines(form, lines, wanted[~opened])
        return replace(read, wrong=sorted([*read.wrong, *wanted[opened].tolist()]))
    line = np.delete(wanted, wrong)
    rules = Rules(len(line))
    columns = []
    for name, kind in form.types.items():
        values, taken = typed(table[name].combine_chunks(), kind, form.nulls)
        rules.refuse(~taken, not_a(name, kind))
        columns.append(values)
    bad = rules.broken
    rejects = [Reject(int(line[i]), lines.text_of(int(line[i])), rules.reason(int(i))) for i in np.flatnonzero(bad)]
    table = pa.table(columns, names=list(form.types)).filter(pa.array(~bad)) if bad.any() else pa.table(columns, names=list(form.types))
    return _Read(table, line[~bad], rejects, wanted[wrong].tolist())


def _by_arrow(form: Delimited, data: bytes, types: Mapping[str, pa.DataType]) -> tuple[pa.Table, list[int]]:
    """All records of the data, and the numbers of those that have not as many fields as they should."""
    wrong: list[int] = []
    if data.startswith(b"\xef\xbb\xbf"):
        data = b"\n" + data  # Arrow would leave out what is no mark of the file's beginning here

    def skip(row: csv.InvalidRow) -> str:
        wrong.append(row.number - 1)
        return "skip"

    def read(columns: Collection[str], quoted_nulls: bool) -> pa.Table:
        wrong.clear()
        place = {form.at[name]: name for name in columns}
        return csv.read_csv(
            pa.BufferReader(data),
            csv.ReadOptions(
                use_threads=False, block_size=len(data) + 1, column_names=[place.get(n, f"\0{n}") for n in range(form.fields)]
            ),
            csv.ParseOptions(delimiter=form.delimiter, quote_char=form.quote or False, invalid_row_handler=skip),
            csv.ConvertOptions(
                column_types={name: types[name] for name in columns}, include_columns=list(columns), null_values=list(form.nulls),
                strings_can_be_null=True, quoted_strings_can_be_null=quoted_nulls, true_values=list(TRUE), false_values=list(FALSE),
            ),
        )  # fmt: skip

    # Arrow has one rule of quotes for all columns, and each field is one column: they are read in as many turns as that takes.
    verbatim = [name for name in types if name in form.verbatim]
    apart = bool(verbatim) and len(verbatim) < len(types) and _has_quoted_null(form, data)
    turns: dict[tuple[bool, int], list[str]] = {}
    seen: Counter[int] = Counter()
    for name in types:
        as_texts = name in form.verbatim if apart else bool(verbatim)
        turns.setdefault((as_texts, seen[form.at[name]]), []).append(name)
        seen[form.at[name]] += 1
    tables = [read(columns, quoted_nulls=not as_texts) for (as_texts, _), columns in turns.items()] or [read((), quoted_nulls=True)]
    if len(tables) == 1:
        return tables[0], wrong
    found = {name: table[name] for table in tables for name in table.column_names}
    return pa.table([found[name] for name in types], names=list(types)), wrong


def _has_quoted_null(form: Delimited, data: bytes) -> bool:
    """Whether there may be a null marker between quotes."""
    quote = form.quote or ""
    return bool(quote) and any(f"{quote}{marker}{quote}".encode() in data for marker in form.nulls)


def _may_be_hexadecimal(data: bytes) -> bool:
    """Whether there is a 0x. An x is looked for first: that is much faster where there is none."""
    return any(letter in data and b"0" + letter in data for letter in (b"x", b"X"))


def split_fields(form: Delimited, line: bytes) -> list[bytes] | None:
    """The fields of a line as they stand there, quotes and all; None if a quote is not closed."""
    delimiter, quote = form.delimiter.encode(), (form.quote or "").encode()
    if not quote or quote not in line:
        return line.split(delimiter)
    fields, at, stop = [], 0, 0
    while stop >= 0:
        inside = at
        if line.startswith(quote, at):
            inside = line.find(quote, at + 1)
            while inside >= 0 and line.startswith(quote, inside + 1):  # two quotes are one
                inside = line.find(quote, inside + 2)
            if inside < 0:
                return None
        stop = line.find(delimiter, inside)
        fields.append(line[at : stop if stop >= 0 else None])
        at = stop + len(delimiter)
    return fields


def _why(form: Delimited, line: bytes) -> str:
    """Why a line is no record."""
    fields = split_fields(form, line)
    if fields is None or len(fields) == form.fields:
        return "cannot be taken apart into fields"
    return f"{len(fields)} field{'s' if len(fields) > 1 else ''}, {form.fields} expected"


def _repair(form: Delimited, line: bytes) -> list[bytes] | None:
    """The records that a line with a wrong number of fields really holds, or None."""
    fields = split_fields(form, line)
    if fields is None:
        return None
    if form.short_records and len(fields) < form.fields:
        return [line]
    if _is_glued(form, fields):
        return _unglued(form, fields)
    return [line] if len(fields) == form.fields and form.quote is None else None


def _unglued(form: Delimited, fields: list[bytes]) -> list[bytes]:
    """The records of a line: the last field of each but the last is also the first of the next."""
    between, length, records = form.delimiter.encode(), form.glued_after or 0, []
    head, at, more = fields[0], 1, form.fields - 1
    while len(fields) - at > more and len(fields[at + more - 1]) > length:
        seam = fields[at + more - 1]
        records.append(between.join([head, *fields[at : at + more - 1], seam[:length]]))
        head, at = seam[length:], at + more
    return [*records, between.join([head, *fields[at:]])]


def _lines_of(records: Sequence[bytes]) -> Lines:
    """Records as lines, whatever line ends they hold."""
    ends = np.cumsum([len(record) + 1 for record in records], dtype=np.int64)
    return Lines(b"".join(record + b"\n" for record in records), 0, 0, known_ends=ends)


def _filled_up(form: Delimited, line: bytes) -> bytes:
    """A line with the fields that it may lack."""
    missing = form.fields - len(split_fields(form, line) or ()) if form.short_records else 0
    return line + form.delimiter.encode() * missing


def _merged(line: NDArray[np.int64], table: pa.Table, more: pa.Table, lines: NDArray[np.int64]) -> pa.Table:
    """The rows of some lines with further ones at theirs: a few by slices, which copies nothing."""
    if len(lines) > _FEW:
        order = np.argsort(np.concatenate((line, lines)), kind="stable")
        return pa.concat_tables([table, more]).take(pa.array(order))
    places = [*np.searchsorted(line, lines).tolist(), table.num_rows]
    pieces, at = [], 0
    for row, place in enumerate(places):
        pieces += [table.slice(at, place - at), more.slice(row, 1)]
        at = place
    return pa.concat_tables(pieces)


def _is_miscounted(form: Delimited, line: bytes) -> bool:
    """Whether a line, in which nothing is quoted, has not as many fields as it should."""
    return not (form.quote and form.quote.encode() in line) and line.count(form.delimiter.encode()) + 1 != form.fields


def _is_glued(form: Delimited, fields: list[bytes]) -> bool:
    return form.glued_after is not None and len(fields) > form.fields > 1 and len(fields[form.fields - 1]) > form.glued_after


def _extra(form: Delimited, lines: Lines, at: int) -> int:
    """How many records more than one a line holds."""
    repaired = _repair(form, lines.bytes_of(at))
    return len(repaired) - 1 if repaired else 0


def _joined(reads: Sequence[_Read]) -> _Read:
    line = np.concatenate([read.line for read in reads])
    order = np.argsort(line, kind="stable")
    return _Read(
        pa.concat_tables([read.table for read in reads]).take(pa.array(order)), line[order],
        sorted((reject for read in reads for reject in read.rejects), key=lambda reject: reject.line),
        sorted(at for read in reads for at in read.wrong),
    )  # fmt: skip


def _nothing(types: Mapping[str, pa.DataType]) -> pa.Table:
    return pa.schema(list(types.items())).empty_table()
