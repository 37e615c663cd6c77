"""Frames as a technique: lift cuts tuples into pieces, combine gathers them, lower stitches them into frames.

When rows are due, final or taken back is decided here; how pieces are cut, stitched and forgotten in `kernels.py` and
`pieces.py`. What aggregates are is known to `engines.aggregates` only.

References:
    Maier, Grossniklaus, Moorthy, Tufte, Capturing Episodes: May the Frame Be with You, DEBS 2012, sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.aggregates.kernels import fixed
from engines.aggregates.layout import Layout
from engines.contract import BEGINNING, FOREVER, TIMESTAMP, Clock, Interval
from engines.expressions.evaluate import Predicate
from engines.expressions.tree import parse
from engines.frames.kernels import Array, cut, in_time
from engines.frames.pieces import Pieces, Runs, schema
from engines.frames.spec import Spec
from engines.keys import encode, key_type, rank
from engines.revisions import remembered, revise
from engines.spec import SpecError, format_duration
from engines.state import State, empty

_AS_THEY_ARE = np.empty(0, np.int32)
_FEW = 4
"""Silent keys are left aside where at most one piece in so many is new: elsewhere telling them apart costs more than it saves."""


class Engine:
    """Frames with their settings."""

    version: ClassVar[int] = 1

    def __init__(self, spec: Spec) -> None:
        """Take a valid specification."""
        self.spec = spec

    def clock(self, stream: str) -> Clock:
        """The delay and the lateness of the stream."""
        return Clock(self.spec.delay, self.spec.lateness)

    def lookback(self) -> int | None:
        """No bound: a frame may have begun at any time before the tuple that closes it."""
        return None

    def explain(self) -> str:
        """What it will do and why, in words."""
        frame = self.spec.frame
        key = "the column 'key', if there is one" if self.spec.key is None else f"the column '{self.spec.key}'"
        minima = (f" of at least {format_duration(frame.min_duration)}" if frame.min_duration else "") + (
            f" with at least {frame.min_tuples} tuples" if frame.min_tuples > 1 else ""
        )
        unknown = "is left out" if frame.unknown == "skip" else "ends a frame"
        return (
            f"Frames are the longest runs of tuples, by {key},{minima} that all satisfy `{frame.where}`. "
            f"Tuples of one time satisfy it together or not at all; one for which it is unknown {unknown}. "
            "A frame is decided by the tuple that closes it; of a run that still lasts one piece per key is kept, however long it is."
        )

    def on(self, schema: pa.Schema) -> Operator:
        """The operator for a stream with these columns; raises `SpecError` where they do not fit."""
        return Operator(self.spec, schema)


class Operator:
    """Threshold frames of a stream."""

    one_bucket: ClassVar[bool] = False

    def __init__(self, spec: Spec, stream: pa.Schema) -> None:
        """Bind the settings to the columns of a stream.

        Raises:
            SpecError: if a column is missing, or of a type that does not fit.
        """
        self._frame = spec.frame
        self.key = _key(spec.key, stream)
        self._where = Predicate(parse(spec.frame.where), stream, setting="frame.where")
        self._layout = Layout(spec.aggregates, stream, finite=True)
        self.columns = tuple(dict.fromkeys(["ts", *filter(None, [self.key]), *self._where.columns, *self._layout.columns]))
        key = key_type(pa.schema([("key", stream.field(self.key).type)] if self.key else []))
        results = pa.schema([
            ("frame_id", pa.string()), ("key", key), ("kind", pa.string()), ("start", TIMESTAMP), ("end", TIMESTAMP),
            ("tuples", pa.int64()), *self._layout.outputs, ("open", pa.bool_()), ("decided", TIMESTAMP),
            ("revision", pa.int64()), ("retracted", pa.bool_()),
        ])  # fmt: skip
        self.outputs: Mapping[str, pa.Schema] = {"results": results}
        self.identity: Mapping[str, Sequence[str]] = {"results": ("key", "start")}
        self.partials = schema(key, self._layout)
        self.tables: Mapping[str, pa.Schema] = {"pieces": self.partials, "given": remembered(results)}

    def lift(self, tuples: pa.RecordBatch, alone: Interval) -> pa.RecordBatch:
        """Pieces of these tuples: inside `alone` runs of the predicate, elsewhere instants, for more of them may come."""
        codes, keys = self._codes(tuples)
        ts = fixed(tuples.column("ts").view(pa.int64()).to_numpy())
        stretch = (codes, ts, fixed(self._where(tuples)), len(keys), self._frame.unknown == "skip", alone.after, alone.before)
        cells, *pieces = cut(_AS_THEY_ARE, *stretch)
        if not len(pieces[0]):
            cells, *pieces = cut(in_time(ts), *stretch)
        key, start, end, satisfied = pieces
        fields = self._layout.lift(cells, len(key), tuples)
        return Pieces(keys, key, start, end, satisfied, fields).write(self.partials, self._layout)

    def combine(self, state: State, partials: Sequence[pa.RecordBatch]) -> None:
        """Add pieces to those there are; whenever they came, lower puts them in order, once."""
        fresh = [pieces for pieces in partials if pieces.num_rows]
        if fresh:
            state["pieces"] = pa.concat_batches([state["pieces"], *fresh])

    def lower(self, state: State, due: int, final: int) -> Mapping[str, pa.Table]:
        """Frames decided before `due` that were not given yet or have changed; of the past before `final` only open runs are kept."""
        idle, live = _parted(state["pieces"], state.final if final < FOREVER else BEGINNING)
        if not live.num_rows:
            return {name: columns.empty_table() for name, columns in self.outputs.items()}
        pieces = Pieces.read(live, self._layout).merged(self._layout)
        runs = pieces.runs()
        rows, state["given"] = revise(
            state["given"],
            self._frames(pieces, runs if due >= FOREVER else runs.where(runs.decided < due)),
            final=final,
            results=self.outputs["results"],
            identity=self.identity["results"],
            aggregates=[output.name for output in self._layout.outputs],
        )
        if final >= FOREVER:
            state["pieces"] = empty(self.partials)
        else:
            kept = pieces.kept(runs, final, self._layout)
            if len(kept.codes) < live.num_rows:
                state["pieces"] = pa.concat_batches([idle, kept.write(self.partials, self._layout)])
        return {"results": pa.Table.from_batches([_in_order(rows)])}

    def _codes(self, tuples: pa.RecordBatch) -> tuple[Array, pa.Array]:
        if self.key is None:
            return fixed(np.zeros(tuples.num_rows, np.int32)), pa.nulls(1, self.partials.field("key").type)
        codes, keys = encode(tuples.column(self.key))
        return fixed(codes), keys

    def _frames(self, pieces: Pieces, runs: Runs) -> pa.RecordBatch:
        """The rows of those runs that are long enough."""
        runs = runs.where(pieces.end[runs.hi - 1] - pieces.start[runs.lo] >= self._frame.min_duration)
        fields = self._layout.reduce(pieces.fields, runs.lo, runs.hi)
        enough = fields[0] >= self._frame.min_tuples
        runs, fields = runs.where(enough), [field[enough] for field in fields]
        key, start, n = pieces.keys.take(pa.array(pieces.codes[runs.lo])), pa.array(pieces.start[runs.lo]), len(runs.lo)
        is_open = runs.decided == FOREVER
        columns = [
            pc.binary_join_element_wise(_text(key), start.cast(pa.string()), "@"), key, pa.repeat("frame", n),
            start.cast(TIMESTAMP), pa.array(pieces.end[runs.hi - 1]).cast(TIMESTAMP), pa.array(fields[0]),
            *self._layout.lower(fields), pa.array(is_open), pa.array(runs.decided, mask=is_open).cast(TIMESTAMP),
        ]  # fmt: skip
        return pa.RecordBatch.from_arrays(columns, schema=self.tables["given"])


def _key(setting: str | None, stream: pa.Schema) -> str | None:
    """The column of keys, if there is one."""
    if stream.names.count("ts") != 1 or stream.field("ts").type != TIMESTAMP:
        raise SpecError(f"ts: the stream's columns are {', '.join(stream.names)}; needed is a column 'ts' of type {TIMESTAMP}.")
    if setting is not None and setting not in stream.names:
        raise SpecError(f"key: there is no column {setting!r}; there are {', '.join(stream.names)}.")
    return setting or ("key" if "key" in stream.names else None)


def _parted(pieces: pa.RecordBatch, final: int) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Lasting runs of keys of which nothing has come since all before `final` was known, and all other pieces.

    Nothing can have changed in the former, so that a million keys that are silent cost next to nothing.
    """
    new = pc.greater_equal(pieces.column("start"), final)
    if new.true_count > pieces.num_rows // _FEW:
        return pieces.slice(0, 0), pieces
    live = pc.or_(new, pc.is_in(pieces.column("key"), value_set=pieces.column("key").filter(new)))
    return pieces.filter(pc.invert(live)), pieces.filter(live)


def _text(key: pa.Array) -> pa.Array:
    """Keys as they stand in the id of a frame, no two of them alike.

    Null is nothing, and bytes, which need not be text, are written in hexadecimal. What would then look like null, or like
    what is in quotes, is put in quotes. A key may hold `@`, for behind the last one there are only digits.
    """
    if pa.types.is_binary(key.type) or pa.types.is_large_binary(key.type) or pa.types.is_fixed_size_binary(key.type):
        codes, values = encode(key)
        key = pa.array([None if value is None else value.hex() for value in values.to_pylist()], pa.string()).take(pa.array(codes))
    text = key.cast(pa.string())
    quoted = pc.binary_join_element_wise('"', text, '"', "")
    return pc.fill_null(pc.if_else(pc.or_(pc.equal(text, ""), pc.starts_with(text, '"')), quoted, text), "")


def _in_order(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows sorted by key and start."""
    codes, keys = encode(rows.column("key"))
    order = np.lexsort((rows.column("start").view(pa.int64()).to_numpy(), rank(keys)[codes]))
    return rows.take(pa.array(order))
