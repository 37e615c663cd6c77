"""The layout of a file: what its head says, checked against the declaration before anything is written.

Opens each file once, at its beginning. A file that cannot be what the declaration says (no such column, another delimiter)
is refused here, in a sentence that names the file and the setting; a record that cannot be read is not an error but a reject.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from replay.lake import Lake
from replay.streams.cnv import SEPARATOR, Cnv, Header, read_header
from replay.streams.columnar import Columnar, Group, delta_files, footer
from replay.streams.compressed import problem_of
from replay.streams.declaration import TYPES, Column, Declaration, Files
from replay.streams.delimited import Delimited, split_fields
from replay.streams.jsonlines import JsonLines, member_names
from replay.streams.lines import LONGEST_BYTES, Lines, Quotes, line_ends
from replay.streams.parsed import StreamError
from replay.streams.raw import RawFile, open_raw, readable
from replay.streams.records import file_value
from replay.streams.times import read_times
from replay.streams.values import typed

_BOM = b"\xef\xbb\xbf"
_LOOKED_AT, _ALIKE = 100, 3
"""So many records are looked at; so many of them at least must be wrong in the same way to say something of the file."""


@dataclass(frozen=True)
class Layout:
    """How a file is read."""

    reader: Delimited | Cnv | JsonLines | Columnar
    begin: int = 0
    """Where its records begin, in decompressed bytes."""
    lines: int = 0
    """How many lines come before them."""
    origin_us: int = 0
    """What its times count from."""
    groups: Sequence[Group] = ()
    """Of columnar files."""


def look(folder: Lake, file: RawFile, declaration: Declaration, before: Sequence[str] = ()) -> Layout:
    """The layout of a file; of a Delta table `before` are the files that were read of it.

    Raises:
        StreamError: it is not what the declaration says.
    """
    form = declaration.files[file.kind]
    for column in declaration.by_name.values():
        value = file_value(column, file.name) if column.from_file is not None else None
        if column.from_file is not None and value is None:
            raise StreamError(
                f"file {file.name}: the setting columns.{column.name}.from_file, {column.from_file!r}, finds nothing in its name."
            )
        if value is not None and not typed(pa.array([value]), TYPES[column.type])[1].all():
            raise StreamError(
                f"file {file.name}: the setting columns.{column.name}.from_file, {column.from_file!r}, finds {value!r} in its name; "
                f"allowed is what its type, {column.type}, says."
            )
    if form.format in ("parquet", "delta"):
        return _columnar(folder, file, declaration, form, before)
    head = _head(folder, file, form)
    begin = len(_BOM) if head.startswith(_BOM) else 0
    origin, types = declaration.time.origin or 0, _types(declaration)
    if form.format == "cnv":
        header = read_header(head, declaration.time.tz)
        if header is None or not header.names:
            raise StreamError(f"file {file.name}: no header with '# name' and '*END*' found, which files.format 'cnv' has.")
        names = header.names
        at = _positions(file, declaration, names)
        delimited = Delimited(len(names), at, {name: types[name] for name in at}, SEPARATOR, quote=None, nulls=declaration.nulls)
        return Layout(Cnv(delimited, header.bad_flag), header.size, header.lines, _start(file, declaration, header))
    lines = Lines(head[begin:], 0, 0, quotes_of(form))
    if form.format == "json":
        _check_members(file, declaration, form, lines)
        sources = {name: column.sources for name, column in declaration.by_name.items() if name in types}
        return Layout(JsonLines(sources, types, declaration.nulls), begin, 0, origin)
    if form.header:
        return _with_header(file, declaration, form, lines, begin, origin)
    at = {column.name: position for position, column in enumerate(_in_file(declaration)) if column.type != "skip"}
    delimited = _delimited(declaration, form, len(_in_file(declaration)), at)
    _check_delimiter(file, delimited, lines, form.encoding)
    return Layout(delimited, begin, 0, origin)


def _with_header(file: RawFile, declaration: Declaration, form: Files, lines: Lines, begin: int, origin: int) -> Layout:
    if not len(lines.filled):
        return Layout(_delimited(declaration, form, 1, {}), begin, 0, origin)
    header = int(lines.filled[0])
    text = lines.bytes_of(header).decode(form.encoding, "replace")
    try:
        names = next(
            csv.reader(
                [text], delimiter=form.separator, quotechar=form.quote or None, quoting=csv.QUOTE_MINIMAL if form.quote else csv.QUOTE_NONE
            )
        )
    except csv.Error:  # a field of more than 128 kB
        raise StreamError(
            f"file {file.name}: its first line {text[:80]!r} ... is no header, which the setting files.header says."
        ) from None
    names = [name.strip() for name in names]
    declared = {source for column in _in_file(declaration) for source in column.sources}
    if len(names) == 1 and len(_in_file(declaration)) > 1 and names[0] not in declared:
        raise StreamError(f"file {file.name}: its header {text[:80]!r} has no {form.separator!r}, the setting files.delimiter.")
    at = _positions(file, declaration, names)
    return Layout(_delimited(declaration, form, len(names), at), begin + int(lines.ends[header]), header + 1, origin)


def _delimited(declaration: Declaration, form: Files, fields: int, at: Mapping[str, int]) -> Delimited:
    types = {name: kind for name, kind in _types(declaration).items() if name in at}
    strings = [column.name for column in declaration.columns if column.type == "string"]
    return Delimited(fields, at, types, form.separator, form.quote, declaration.nulls, form.short_records, form.glued_after, strings)


def quotes_of(form: Files) -> Quotes | None:
    """What encloses fields whose line ends belong to their line; None: no line end does."""
    enclosed = form.line_ends_in_fields and form.format in ("csv", "tsv")
    return Quotes(ord(form.quote), ord(form.separator)) if enclosed and form.quote else None


def _positions(file: RawFile, declaration: Declaration, names: Sequence[str]) -> dict[str, int]:
    """Where each declared column is among the file's."""
    at = {}
    for column in _in_file(declaration):
        if column.type == "skip":
            continue
        places = [names.index(source) for source in column.sources if source in names]
        if not places and column.optional:
            continue
        if not places:
            wanted = " or ".join(repr(source) for source in column.sources)
            raise StreamError(
                f"file {file.name}: the column {wanted} of the setting columns is missing; found are {', '.join(names)[:1000]}."
            )
        source = names[places[0]]
        if names.count(source) > 1:
            raise StreamError(
                f"file {file.name}: the column {source!r} of the setting columns is there {names.count(source)} times; allowed is once."
            )
        at[column.name] = places[0]
    return at


def _start(file: RawFile, declaration: Declaration, header: Header) -> int:
    """What the times of a tow count from."""
    time = declaration.time
    if time.origin is not None or "number" not in time.format:
        return time.origin or 0
    if header.start_us is None:
        found = f"start_time {header.start!r}, which is not" if header.start else "no start_time"
        raise StreamError(
            f"file {file.name}: its header has {found} such as 'Jul 11 2012 02:22:32', to count times from; "
            "allowed is one, or the setting time.origin."
        )
    return header.start_us


def _check_members(file: RawFile, declaration: Declaration, form: Files, lines: Lines) -> None:
    """Refuse a file of whose first records none is an object, or none has a column that is not optional."""
    # The last line may go on behind the head.
    whole = [int(at) for at in lines.filled if lines.ends[at] < len(lines.data) or len(lines.data) < LONGEST_BYTES]
    found = [member_names(lines.bytes_of(at), form.encoding) for at in whole]
    if found and all(names is None for names in found):
        shown = lines.bytes_of(whole[0])[:80].decode("utf-8", "backslashreplace")
        raise StreamError(f"file {file.name}: its first record {shown!r} is no JSON object, nor is one behind it, as files.format says.")
    known = list(dict.fromkeys(name for names in found for name in names or ()))
    for column in _in_file(declaration):
        if known and column.type != "skip" and not column.optional and not set(column.sources) & set(known):
            wanted = " or ".join(repr(source) for source in column.sources)
            raise StreamError(
                f"file {file.name}: the column {wanted} of the setting columns is missing in its first {len(found)} records; "
                f"found are {', '.join(known)[:1000]}; one that few records have is allowed if it is optional."
            )


def _check_delimiter(file: RawFile, form: Delimited, lines: Lines, encoding: str) -> None:
    """Refuse a file none of whose first records has the delimiter at all, or all of which have it as often as no record can."""
    if form.fields < 2 or not len(lines.filled):
        return
    texts = [lines.bytes_of(int(at)).decode(encoding, "surrogateescape") for at in islice(lines.filled, _LOOKED_AT)]
    first = [text.encode("utf-8", "surrogateescape") for text in texts]  # a delimiter may be part of a character
    shown = first[0][:80].decode("utf-8", "backslashreplace")
    if not any(form.delimiter.encode() in line for line in first):
        raise StreamError(f"file {file.name}: its first record {shown!r} has no {form.delimiter!r}, the setting files.delimiter.")
    counts = {len(split_fields(form, line) or ()) for line in first}
    found = counts.pop()
    fits = found == form.fields or (found < form.fields and form.short_records) or (found > form.fields and form.glued_after)
    if len(first) >= _ALIKE and not counts and not fits:
        raise StreamError(
            f"file {file.name}: its first {len(first)} records, such as {shown!r}, have {found} fields between {form.delimiter!r}, "
            f"the setting files.delimiter; allowed are {form.fields}, as the setting columns says."
        )


def _columnar(folder: Lake, file: RawFile, declaration: Declaration, form: Files, before: Sequence[str]) -> Layout:
    if form.format == "delta":
        schema, parts = delta_files(folder, file.name, file.size, before)
    else:
        schema, parts = None, {file.name: {}}
    footers = {path: footer(folder, path) for path in parts}
    if schema is None:
        schema = footers[file.name][0]
    at = {name: schema.names[position] for name, position in _positions(file, declaration, schema.names).items()}
    times = [name for name, column in declaration.by_name.items() if column.type == "time"]
    reader = Columnar(at, _types(declaration), times, declaration.nulls)
    for name, source in at.items():
        # A file of a Delta table may have a column in another type than the table; tables have many files and few types.
        kinds = {schema.field(source).type: file.name}
        for path, (found, _) in footers.items():
            if source in found.names:
                kinds.setdefault(found.field(source).type, path)
        for kind, path in kinds.items():
            if not _takes(reader, declaration, name, kind):
                raise StreamError(
                    f"file {path}: its column {source!r} is of the type {kind}, which cannot be read as "
                    f"{declaration.by_name[name].type}, the setting columns.{name}.type."
                )
    groups = [Group(path, n, rows, size, parts[path]) for path, (_, counts) in footers.items() for n, (rows, size) in enumerate(counts)]
    return Layout(reader, origin_us=declaration.time.origin or 0, groups=groups)


def _takes(reader: Columnar, declaration: Declaration, name: str, kind: pa.DataType) -> bool:
    """Whether there is a way at all from a type to what is declared; whether a value can go it is told record by record."""
    time = declaration.time
    joined = any(name in names and len(names) > 1 for names in (time.column, time.start, time.end))
    try:
        values, _ = reader.values(name, pa.nulls(0, kind))
        if name in reader.times:
            read_times(values, time)
    except pa.ArrowException:
        return False
    return pa.types.is_string(values.type) or not joined


def _in_file(declaration: Declaration) -> list[Column]:
    return [column for column in declaration.columns if column.from_file is None]


def _types(declaration: Declaration) -> dict[str, pa.DataType]:
    return {column.name: TYPES[column.type] for column in _in_file(declaration) if column.type != "skip"}


def _head(folder: Lake, file: RawFile, form: Files) -> bytes:
    with readable(folder, file.name), open_raw(folder, file.name) as opened:
        head = bytes(opened.read(LONGEST_BYTES))
        if problem_of(opened) is None:
            return head
    # Where compressed data breaks off is told record by record: a header of which only a part is left is none.
    return head[: max(line_ends(head, last=False, quotes=quotes_of(form)), default=0)]
