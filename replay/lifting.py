"""From tuples to envelopes: the late rule, tuple by tuple, then the operator's lift.

The same few steps run where a file is read, in a user's own DataFrame and in this process, so that none of the three can
judge a tuple differently. Reading files and planning belong to the source.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import numba
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engines.contract import BEGINNING, NOWHERE, TIMESTAMP, Clock, Interval, Operator
from engines.spec import SpecError
from engines.state import pack
from replay.envelope import LATE, METRICS, PARTIALS, Envelope
from replay.hashing import split
from replay.log import FIRST_US, LAST_US, OWN_COLUMNS, times_of

_OF_A_LOG = (*OWN_COLUMNS, "day")
_WATERMARK = pa.field("watermark", TIMESTAMP)
_US = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(frozen=True)
class Piece:
    """Tuples of one stream that arrived one after the other, and what the log knows of their surroundings."""

    stream: str
    first: int
    """The arrival of its first tuple."""
    tuples: pa.RecordBatch
    """`ts` and the operator's columns, in order of arrival."""
    clock_before: int
    """The largest ts of everything that arrived before; `BEGINNING`: nothing did."""
    late_rows: Callable[[NDArray[np.bool_]], pa.RecordBatch]
    """What late tuples have (`late_columns`), for the rows of the piece that are marked: only these are read in full."""
    alone: bool = True
    """Whether the tuples of this stream meet no others."""
    alone_before: int = BEGINNING
    """Event time up to which nothing accepted later lies, where the log knows more than the clock does."""


def check_tuples(table: pa.Table) -> None:
    """Refuse tuples that cannot be replayed, with a sentence: two columns of one name, times that are missing or out of all bounds.

    A log has days of the years 1 to 9999 only, and near the ends of int64 windows never end: tuples there would be lost without a word.
    """
    names = table.schema.names
    if twice := [name for name in names if names.count(name) > 1]:
        raise SpecError(f"columns: {twice[0]!r} given {names.count(twice[0])} times; allowed is a name for each.")
    for name in times_of(names):
        if name not in names:
            raise SpecError(f"{name}: the stream has no such column; there are {', '.join(names)}.")
        kind = table.schema.field(name).type
        if not pa.types.is_timestamp(kind):
            raise SpecError(f"{name}: the column is {kind}; allowed is {TIMESTAMP}.")
        if table[name].null_count:
            raise SpecError(f"{name}: row {table[name].is_null().index(True).as_py()} is null; every tuple needs a time.")
        if kind.unit in _US:  # nanoseconds cannot be that far away
            bounds = pc.min_max(table[name].cast(pa.int64())).as_py().values()
            for us in (bound * _US[kind.unit] for bound in bounds if bound is not None):
                if not FIRST_US <= us <= LAST_US:
                    raise SpecError(f"{name}: a time of {us} microseconds since 1970 given; allowed are times in the years 1 to 9999.")
        try:
            table[name].cast(TIMESTAMP)
        except pa.ArrowInvalid:
            raise SpecError(f"{name}: the column is {kind}, with times that no whole microseconds are; allowed is {TIMESTAMP}.") from None


def late_columns(schema: pa.Schema) -> pa.Schema:
    """The columns of a tuple that is late: the stream's own, behind the tuple's arrival. What tells the order is not its own.

    Raises:
        SpecError: if a column of the stream's own would be taken for one that late tuples have besides.

    >>> late_columns(pa.schema([(name, pa.int64()) for name in ("arrival", "arrived", "clock", "ts", "v")])).names  # of a log
    ['arrival', 'ts', 'v']
    >>> late_columns(pa.schema([(name, pa.int64()) for name in ("ts", "arrived", "day")])).names
    ['arrival', 'ts', 'arrived', 'day']
    """
    order = next(found for found in (_OF_A_LOG, ("arrival", "clock"), ()) if {*found} - {"day"} <= {*schema.names})
    own = [field for field in schema if field.name not in (*order, "arrival")]
    if taken := [field.name for field in own if field.name.lower() in ("arrival", "watermark")]:
        raise SpecError(
            f"{taken[0]}: a column of the stream has this name, under which late tuples have another; allowed is any other name."
        )
    return pa.schema([pa.field("arrival", pa.int64()), *own])


def late_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of late tuples: a tuple's, and the watermark before it."""
    return late_columns(schema).append(_WATERMARK)


def lift_piece(operator: Operator, clock: Clock, piece: Piece, count: int) -> list[Envelope]:
    """The envelopes of a piece for `count` buckets: one with partials for every bucket, perhaps empty, late tuples and numbers."""
    begun = time.perf_counter()
    tuples = piece.tuples
    ts = tuples["ts"].cast(TIMESTAMP).view(pa.int64()).to_numpy()
    late = np.zeros(len(ts), np.bool_)
    reached, late_count = judge(ts, piece.clock_before, clock.behind_us, late)
    due, final = (reached - clock.delay_us, reached - clock.behind_us) if reached > BEGINNING else (BEGINNING, BEGINNING)

    def envelope(bucket: int, kind: str, payload: bytes) -> Envelope:
        return Envelope(bucket, piece.first, piece.first + len(ts), piece.stream, due, final, kind, payload)

    envelopes = []
    home = piece.first % count
    if late_count:
        rows = with_watermark(piece.late_rows(late), ts, piece.clock_before, late, clock)
        envelopes.append(envelope(home, LATE, pack(rows)))
        tuples = tuples.filter(pa.array(~late))
    alone = Interval(piece.clock_before, max(final, piece.alone_before)) if piece.alone else NOWHERE
    partials = operator.lift(tuples, alone)
    filled = {bucket: pack(rows) for bucket, rows in split(partials, count)}
    envelopes += [envelope(b, PARTIALS, filled.get(b, b"")) for b in range(count)]
    numbers = {
        "tuples": len(ts),
        "late": late_count,
        "partials": partials.num_rows,
        "lift_seconds": time.perf_counter() - begun,
    }
    return [*envelopes, envelope(home, METRICS, json.dumps(numbers).encode())]


def with_watermark(rows: pa.RecordBatch, ts: NDArray[np.int64], clock_before: int, late: NDArray[np.bool_], clock: Clock) -> pa.RecordBatch:
    """Late tuples with the watermark before each: `rows` are those that are marked among tuples with the times `ts`."""
    watermark = np.maximum.accumulate(np.maximum(ts, clock_before))[late] - clock.delay_us
    return pa.record_batch([*rows.columns, pa.array(watermark).view(TIMESTAMP)], schema=rows.schema.append(_WATERMARK))


@numba.njit(cache=True, nogil=True)
def judge(ts: NDArray[np.int64], clock: int, behind: int, late: NDArray[np.bool_]) -> tuple[int, int]:  # pragma: no cover - compiled
    """Mark the tuples that are late, ts < C - behind with C the running maximum; returns the clock at the end and how many."""
    count = 0
    for i in range(len(ts)):
        if ts[i] >= clock:
            clock = ts[i]
        elif ts[i] < clock - behind:
            late[i] = True
            count += 1
    return clock, count
