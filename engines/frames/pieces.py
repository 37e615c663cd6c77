"""Pieces: what lift ships of a stream and the state keeps of it; how they are stitched into runs, and when they are forgotten.

A piece is an instant of a key (or what one batch has of it), or a run of instants of equal predicate that nothing can come
between any more. Of a piece that does not satisfy only the start counts: there a frame before it is closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from engines.aggregates.kernels import fixed
from engines.aggregates.layout import Layout
from engines.contract import FOREVER
from engines.frames.kernels import Array, refined
from engines.keys import encode


def schema(key: pa.DataType, layout: Layout) -> pa.Schema:
    """The columns of pieces, in partials and in the state."""
    return pa.schema([("key", key), ("start", pa.int64()), ("end", pa.int64()), ("satisfied", pa.bool_()), *layout.fields])


@dataclass(frozen=True)
class Pieces:
    """Pieces as arrays; `codes` are the places of their keys in `keys`."""

    keys: pa.Array
    codes: Array
    start: Array
    end: Array
    satisfied: Array
    fields: Sequence[Array]

    @classmethod
    def read(cls, batch: pa.RecordBatch, layout: Layout) -> Pieces:
        """The pieces of a batch."""
        codes, keys = encode(batch.column("key"))
        start, end, satisfied = (batch.column(name).to_numpy(zero_copy_only=False) for name in ("start", "end", "satisfied"))
        return cls(keys, codes.astype(np.int64), start, end, satisfied, layout.from_arrow(batch))

    def write(self, schema: pa.Schema, layout: Layout) -> pa.RecordBatch:
        """The pieces as a batch of partials, or a table of the state."""
        own = [self.keys.take(pa.array(self.codes)), pa.array(self.start), pa.array(self.end), pa.array(self.satisfied)]
        return pa.RecordBatch.from_arrays([*own, *layout.to_arrow(self.fields)], schema=schema)

    def merged(self, layout: Layout) -> Pieces:
        """In order of key and start, with one piece per instant, which satisfies if all of its parts do."""
        order = refined(refined(np.arange(len(self.codes), dtype=np.int32), fixed(self.start)), fixed(self.codes))
        fields = [field[order] for field in self.fields]
        pieces = Pieces(self.keys, self.codes[order], self.start[order], self.end[order], self.satisfied[order], fields)
        new = (np.diff(pieces.codes, prepend=-1) != 0) | (np.diff(pieces.start, prepend=0) != 0)
        if new.all():
            return pieces
        lo = np.flatnonzero(new)
        return replace(pieces.joined(lo, np.append(lo, len(new))[1:], layout), satisfied=np.logical_and.reduceat(pieces.satisfied, lo))

    def joined(self, lo: Array, hi: Array, layout: Layout) -> Pieces:
        """One piece for pieces `lo` to `hi - 1`, which are of one key and satisfy alike."""
        fields = layout.reduce(self.fields, lo, hi)
        return Pieces(self.keys, self.codes[lo], self.start[lo], self.end[hi - 1], self.satisfied[lo], fields)

    def runs(self) -> Runs:
        """The maximal runs of merged pieces that satisfy."""
        same_key = self.codes[1:] == self.codes[:-1]
        goes_on = self.satisfied[1:] & self.satisfied[:-1] & same_key
        lo = np.flatnonzero(self.satisfied & ~np.append(False, goes_on))
        hi = np.flatnonzero(self.satisfied & ~np.append(goes_on, False)) + 1
        closed = np.append(same_key, False)[hi - 1]
        return Runs(lo, hi, np.where(closed, np.append(self.start, FOREVER)[hi], FOREVER))

    def kept(self, runs: Runs, final: int, layout: Layout) -> Pieces:
        """What is needed when no tuple before `final` is to come: of the past, the run at the end of each key, as one piece."""
        past = self.start < final
        first = np.zeros(len(past), np.bool_)
        first[runs.lo] = True
        lasting = np.append(runs.decided >= final, False)[np.cumsum(first) - 1]
        rows = np.flatnonzero(~past | (self.satisfied & lasting))
        # Of a run that has begun in the past only that part is one piece: what comes may still part the rest.
        lo = np.flatnonzero((~past | first)[rows])
        if len(lo) == len(past):
            return self
        counts = np.diff(np.append(lo, len(rows)))
        return self.joined(rows[lo], rows[lo] + counts, layout)


@dataclass(frozen=True)
class Runs:
    """Runs of pieces `lo` to `hi - 1`, and the instant that closes each; `FOREVER` where nothing does."""

    lo: Array
    hi: Array
    decided: Array

    def where(self, condition: Array) -> Runs:
        """Some of the runs."""
        return Runs(self.lo[condition], self.hi[condition], self.decided[condition])
