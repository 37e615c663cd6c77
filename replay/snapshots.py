"""The state that a day leaves behind, so that the next one need not begin with the log.

A snapshot has a row per bucket and table, of large tables several; the tables' own rows are by key, so any number of buckets
can take them over. When snapshots are taken is decided by the bucket, which of them still hold by `backfill.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from engines.contract import TIMESTAMP, Engine, Operator
from engines.state import State
from replay.lake import Lake, LakeError
from replay.log import day_of

SNAPSHOT = pa.schema([("day_end", TIMESTAMP), ("read", pa.string()), ("table", pa.string()), ("payload", pa.binary())])
"""The state of the end of a day: `read` tells, as JSON, the arrival up to which each stream was read."""


def read_snapshot(lake: Lake, address: str, version: int, day_end: int, engine: Engine, operator: Operator) -> Iterator[pa.RecordBatch]:
    """The tables of the state that a day left, each with its name in the metadata; refused if another engine made them."""
    table = lake.table(address, version)
    if table is None:
        raise LakeError(f"state {address}: there is none; replay from the beginning.")
    rows = table.to_pyarrow_table(filters=[("day", "=", day_of(day_end - 1))])
    for name, payload in zip(rows["table"].to_pylist(), rows["payload"].to_pylist(), strict=True):
        state = State(operator.tables)
        state.load(name, payload, fingerprint=engine.spec.fingerprint(), version=engine.version)
        yield state[name].replace_schema_metadata({"table": name})
