"""Staging: one split of a raw file becomes tuples in an Arrow file, numbered within the split, and a report about them.

Runs in the tasks, block by block, in memory that does not grow with the file. What needs the whole stream (arrival, clock,
neighbours in other splits) is left to `numbering.py`, which sees only reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from replay.lake import Lake
from replay.streams.cnv import Cnv
from replay.streams.columnar import Columnar, Group
from replay.streams.compressed import problem_of, skip
from replay.streams.declaration import Declaration
from replay.streams.jsonlines import JsonLines
from replay.streams.layout import Layout, quotes_of
from replay.streams.lines import Lines, Quotes, read_lines
from replay.streams.parsed import Parsed, Reject, StreamError
from replay.streams.raw import RawFile, open_raw, readable
from replay.streams.records import ARRIVED, complete, schema
from replay.streams.samples import Sample
from replay.streams.spikes import Spikes
from replay.streams.staged_files import Run, StageWriter

PIECE_VALUES, PIECE_LINES = 1 << 22, 1 << 18
"""How many are taken at a time: a line that lacks most of its fields becomes far larger than it is, and so does a short one as a reject."""
REJECTS = pa.schema([("file", pa.string()), ("line", pa.int64()), ("text", pa.string()), ("reason", pa.string())])


@dataclass(frozen=True)
class Split:
    """A part of a raw file that one task reads."""

    folder: Lake
    declaration: Declaration
    file: RawFile
    layout: Layout
    number: int
    """Counted through all splits of an ingestion."""
    begin: int = 0
    end: int | None = None
    groups: tuple[Group, ...] = ()
    stage: Lake = field(default_factory=lambda: Lake("."))
    """Where staged files go."""

    @property
    def bytes(self) -> int:
        """About how much there is to read."""
        return (self.file.size if self.end is None else min(self.end, self.file.size)) - self.begin


@dataclass(frozen=True)
class Edge:
    """The first or the last row of a split, if it may be wrong beside a neighbour in another."""

    run: Run
    reject: Reject


@dataclass(frozen=True)
class Staged:
    """What became of a split."""

    lines: int
    records: int
    rejected: int
    rejects: str | None
    """The file with them."""
    runs: list[Run]
    head: Edge | None
    tail: Edge | None
    first_us: int | None
    """The time of the first row, or None if there is none."""
    last_us: int | None
    sample: Sample

    @property
    def rows(self) -> int:
        """How many tuples were staged, those at doubtful edges too."""
        return sum(run.rows for run in self.runs) + sum(edge.run.rows for edge in (self.head, self.tail) if edge)


def stage(split: Split) -> Staged:
    """Read a split and write its tuples and its rejects."""
    declaration = split.declaration
    writer = StageWriter(split.stage, f"{split.number:08d}", schema(declaration), ordered_by(declaration))
    spikes = Spikes(declaration.max_jump, declaration.times[-1])
    rejects = _Rejects(split)
    lines = records = 0
    for parsed in _pieces(split):
        found = complete(declaration, parsed, split.file.name, split.layout.origin_us)
        if found.rows.num_rows + len(found.rejects) != parsed.records:
            told = f"{parsed.records} records, but {found.rows.num_rows} rows and {len(found.rejects)} rejects"
            raise StreamError(f"file {split.file.name}: {told}; nothing was stored.")
        rows, wrong = spikes.push(found.rows, found.text)
        writer.add(rows)
        rejects.add([*found.rejects, *wrong])
        lines, records = lines + parsed.lines, records + parsed.records
    last, *doubtful = spikes.finish()
    if last is not None:
        writer.add(last)
    runs = writer.finish()
    head, tail = (
        Edge(writer.alone(row, name), reject) if row and reject else None
        for name, (row, reject) in zip(("head", "tail"), doubtful, strict=True)
    )
    return Staged(lines, records, rejects.count, rejects.finish(), runs, head, tail, spikes.first_us, spikes.last_us, writer.sample)


def ordered_by(declaration: Declaration) -> str | None:
    """The staged column that tuples are sorted by; None: they stay in the order of their file."""
    return None if declaration.order == "file" else declaration.times[-1] if declaration.order == "time" else ARRIVED


def _pieces(split: Split) -> Iterator[Parsed]:
    """The split, taken apart."""
    with readable(split.folder, split.file.name):
        yield from _taken_apart(split)


def _taken_apart(split: Split) -> Iterator[Parsed]:
    reader, form = split.layout.reader, split.declaration.files[split.file.kind]
    if isinstance(reader, Columnar):
        files, first = split.folder.files(split.folder.root), 0
        for group in split.groups:
            for parsed in reader.read(files, group):
                yield Parsed(
                    parsed.table, parsed.line + first, parsed.text, parsed.lines, parsed.records,
                    [Reject(r.line + first, r.text, r.reason) for r in parsed.rejects],
                )  # fmt: skip
            first += group.rows
        return
    width = len(reader.types) if isinstance(reader, JsonLines) else reader.form.fields if isinstance(reader, Cnv) else reader.fields
    for lines in _lines(split, quotes_of(form)):
        if isinstance(lines, Parsed):
            yield lines
        else:
            most = min(max(PIECE_VALUES // max(width, 1), 1), PIECE_LINES)
            yield from (reader.parse(piece) for piece in _decoded(lines, form.encoding).pieces(most))


def _lines(split: Split, quotes: Quotes | None) -> Iterator[Lines | Parsed]:
    """The lines of a split; where compressed data cannot be read on, the line that is cut there and a reject that says so."""
    at_line = split.begin == split.layout.begin
    done = 0
    with open_raw(split.folder, split.file.name) as opened:
        skip(opened, split.begin if at_line else split.begin - 1)
        for lines in read_lines(opened, split.begin, split.end, at_line=at_line, quotes=quotes):
            done, last = lines.first + len(lines.ends), len(lines.ends) - 1
            if problem_of(opened) is None or lines.cut or lines.data.endswith((b"\n", b"\r")):
                yield lines
                continue
            # A number that lacks its last digits is a number too: this line must not be read.
            if last:
                yield Lines(lines.data[: lines.begins[last]], lines.offset, lines.first, lines.quotes, known_ends=lines.ends[:last])
            text = _decoded(lines, split.declaration.files[split.file.kind].encoding).text_of(last)
            yield _rejected(split, Reject(done - 1, text, "cut short where compressed data cannot be read on"))
        problem = problem_of(opened)
    if problem is not None:
        yield _rejected(split, Reject(done, "", f"compressed data that cannot be read ({str(problem).splitlines()[0]})"))


def _rejected(split: Split, reject: Reject) -> Parsed:
    """A line that is rejected before anyone looks into it."""
    reader = split.layout.reader
    types = dict(reader.form.types if hasattr(reader, "form") else reader.types)
    return Parsed(pa.schema(list(types.items())).empty_table(), np.empty(0, np.int64), str, 1, 1, [reject])


def _decoded(lines: Lines, encoding: str) -> Lines:
    """The lines in UTF-8, whatever they were in. What is not text in that encoding is left as it is, and rejected as such."""
    if encoding.lower() in ("utf-8", "utf8", "ascii"):
        return lines
    with suppress(UnicodeDecodeError):
        if not lines.cut:
            return Lines(lines.data.decode(encoding).encode(), lines.offset, lines.first, lines.quotes)
    pieces = [_or_as_it_is(lines.data[begin:end], encoding) for begin, end in zip(lines.begins, lines.ends, strict=True)]
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    return Lines(b"".join(pieces), lines.offset, lines.first, lines.quotes, lines.cut, ends)


def _or_as_it_is(line: bytes, encoding: str) -> bytes:
    return line.decode(encoding, "surrogateescape").encode("utf-8", "surrogateescape")


class _Rejects:
    """Rejected records become a staged file, if there are any."""

    def __init__(self, split: Split) -> None:
        self._split, self._path = split, f"{split.number:08d}-rejects.arrow"
        self._out: pa.ipc.RecordBatchFileWriter | None = None
        self.count = 0

    def add(self, rejects: list[Reject]) -> None:
        """Write rejects down, in order of their lines as far as they come at once."""
        if not rejects:
            return
        if self._out is None:
            self._sink = self._split.stage.files(self._split.stage.root).open_output_stream(self._path)
            self._out = pa.ipc.new_file(self._sink, REJECTS)
        rejects = sorted(rejects, key=lambda reject: reject.line)
        self._out.write_batch(pa.record_batch([
            pa.array([self._split.file.name] * len(rejects)), pa.array([r.line for r in rejects], pa.int64()),
            pa.array([r.text for r in rejects]), pa.array([r.reason for r in rejects]),
        ], schema=REJECTS))  # fmt: skip
        self.count += len(rejects)

    def finish(self) -> str | None:
        """The file, if there is one."""
        if self._out is None:
            return None
        self._out.close()
        self._sink.close()
        return self._path
