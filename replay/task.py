"""What a task of the source does: files, the end of a stream or the state to begin with become envelopes.

Late tuples are split off and the rest is lifted where a file is read, in parallel. Which task does what is planned in `source.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from engines.contract import FOREVER
from engines.state import pack
from replay.envelope import PARTIALS, STATE, Envelope, to_batch
from replay.file_slices import FileSlice
from replay.hashing import split
from replay.lifting import lift_piece
from replay.placement import labels
from replay.plan import Plan
from replay.reading import read_piece
from replay.snapshots import read_snapshot


def lifted(plan: Plan, files: Sequence[FileSlice]) -> Iterator[pa.RecordBatch]:
    """The envelopes of some files."""
    places = labels(plan.buckets)
    for part in files:
        clock = plan.engine.clock(part.stream)
        piece = read_piece(plan.lake, part, plan.operator, plan.schema, clock)
        envelopes = lift_piece(plan.operator, clock, piece, len(places))
        yield to_batch([envelope._replace(bucket=places[envelope.bucket]) for envelope in envelopes])


def ended(plan: Plan, streams: Sequence[str], upto: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """To every bucket: of these streams nothing more will come."""
    yield to_batch([
        Envelope(place, end, end, stream, FOREVER, FOREVER, PARTIALS, b"")
        for stream, end in zip(streams, upto, strict=True)
        for place in labels(plan.buckets)
    ])  # fmt: skip


def begun(plan: Plan) -> Iterator[pa.RecordBatch]:
    """The state of an earlier day for every bucket; with it, how far it had come."""
    start, places = plan.span.start, labels(plan.buckets)
    if start is None:
        return
    reached = [
        Envelope(place, -1, upto, stream, start.day_end, start.day_end, STATE, b"")
        for stream, upto in start.read.items()
        for place in places
    ]
    yield to_batch(reached)
    stream = next(iter(start.read))
    # A batch for each piece: all of them together may be more than Arrow can hold in one.
    for rows in read_snapshot(plan.lake, start.address, start.version, start.day_end, plan.engine, plan.operator):
        yield to_batch([
            Envelope(places[bucket], -1, 0, stream, start.day_end, start.day_end, STATE, pack(mine))
            for bucket, mine in split(rows, len(places))
        ])  # fmt: skip
