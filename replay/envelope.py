"""Envelopes: what travels between the tasks of a replay instead of rows.

An envelope is one row for one bucket, its payload an Arrow IPC stream. Source and processor exchange envelopes and
nothing else, so this module must not know what a payload means to a technique.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

# What an envelope on its way to a bucket may hold.
PARTIALS = "partials"
TUPLES = "tuples"
LATE = "late"
STATE = "state"
METRICS = "metrics"

SCHEMA = pa.schema([
    ("bucket", pa.int32()),
    ("seq", pa.int64()),
    ("upto", pa.int64()),
    ("stream", pa.string()),
    ("due", pa.int64()),
    ("final", pa.int64()),
    ("kind", pa.string()),
    ("payload", pa.binary()),
])  # fmt: skip
DDL = "bucket int, seq long, upto long, stream string, due long, final long, kind string, payload binary"


class Envelope(NamedTuple):
    """One row for one bucket."""

    bucket: int
    seq: int
    """The arrival of the first tuple inside: a bucket combines in this order."""
    upto: int
    """The arrival after the last tuple inside, and below the stream's watermarks once that far is read."""
    stream: str
    due: int
    final: int
    kind: str
    payload: bytes


def to_batch(envelopes: Sequence[Envelope]) -> pa.RecordBatch:
    """Envelopes as rows."""
    columns = zip(*envelopes, strict=True) if envelopes else ([] for _ in SCHEMA)
    return pa.record_batch([pa.array(list(column), field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
