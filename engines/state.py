"""What an operator remembers between batches: named Arrow tables, and nothing else.

State is written as Arrow IPC, stamped with the specification and the version of its layout; anything else is refused.
Where state is kept (RocksDB, a Delta table, memory) is not decided here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa

_STAMP = b"reprise.state"
_COMPRESS_FROM_BYTES = 1 << 14


class StateError(ValueError):
    """State that this engine cannot go on from."""


class State:
    """Named tables, which of them changed, and how far the operator has lowered.

    >>> schema = pa.schema([("key", pa.string()), ("n", pa.int64())])
    >>> state = State({"counts": schema})
    >>> state["counts"] = pa.record_batch([["a"], [1]], schema=schema)
    >>> state.rows, sorted(state.changed)
    (1, ['counts'])
    """

    def __init__(self, tables: Mapping[str, pa.Schema]) -> None:
        """Empty tables with these schemas."""
        self._schemas = dict(tables)
        self._tables = {name: empty(schema) for name, schema in self._schemas.items()}
        self.changed: set[str] = set()
        self.due = self.final = -(2**62)
        self.scratch: dict[str, Any] = {}
        """What combine leaves for the lower of the same batch; never written."""

    def __getitem__(self, table: str) -> pa.RecordBatch:
        """The rows of a table."""
        return self._tables[table]

    def __setitem__(self, table: str, rows: pa.RecordBatch) -> None:
        """Replace the rows of a table."""
        if not rows.schema.equals(self._schemas[table]):
            raise StateError(f"state table '{table}': {rows.schema} given; declared is {self._schemas[table]}.")
        if rows.num_rows or self._tables[table].num_rows:
            self._tables[table] = rows
            self.changed.add(table)

    def __iter__(self) -> Iterator[str]:
        """The names of the tables."""
        return iter(self._tables)

    @property
    def rows(self) -> int:
        """Rows in all tables."""
        return sum(table.num_rows for table in self._tables.values())

    @property
    def nbytes(self) -> int:
        """Bytes of all tables in memory."""
        return sum(table.nbytes for table in self._tables.values())

    def dump(self, table: str, *, fingerprint: str, version: int) -> bytes:
        """A table as stamped Arrow IPC."""
        return pack(self._tables[table], stamp={"table": table, "fingerprint": fingerprint, "version": version})

    def load(self, table: str, payload: bytes, *, fingerprint: str, version: int) -> None:
        """Take the rows of a dump; refuses that of another specification or version. Not counted as a change."""
        try:
            rows = unpack(payload)
        except (pa.ArrowException, OSError):
            raise StateError(f"state table '{table}': {len(payload)} bytes found that are no Arrow stream; replay anew.") from None
        stamp = json.loads((rows.schema.metadata or {}).get(_STAMP, b"{}"))
        if stamp.get("version") != version:
            raise StateError(f"state: layout version {stamp.get('version')} found; this engine reads version {version}. Replay anew.")
        if stamp.get("fingerprint") != fingerprint:
            raise StateError(
                f"state: specification {stamp.get('fingerprint')} found; this run has {fingerprint}. "
                "Go on with the specification that made it, or begin a new run."
            )
        rows = rows.replace_schema_metadata(None)
        if stamp.get("table") != table or table not in self._schemas or not rows.schema.equals(self._schemas[table]):
            raise StateError(
                f"state table '{table}': columns {rows.schema.names} found; expected are {list(self._tables)} with the stream's columns."
            )
        self._tables[table] = rows


def empty(schema: pa.Schema) -> pa.RecordBatch:
    """No rows of a schema."""
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def pack(rows: pa.RecordBatch, *, stamp: Mapping[str, Any] | None = None) -> bytes:
    """Rows as an Arrow IPC stream, compressed where it pays."""
    if stamp is not None:
        rows = rows.replace_schema_metadata({_STAMP: json.dumps(stamp)})
    options = pa.ipc.IpcWriteOptions(compression="lz4" if rows.nbytes >= _COMPRESS_FROM_BYTES else None)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_batch(rows)
    payload: bytes = sink.getvalue().to_pybytes()
    return payload


def unpack(payload: bytes) -> pa.RecordBatch:
    """The rows of an Arrow IPC stream, without a copy where it was not compressed."""
    with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
        batches = list(reader)
    return batches[0] if len(batches) == 1 else one_batch(pa.Table.from_batches(batches, reader.schema))


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as a single batch.

    Raises:
        StateError: if a column has more text, bytes or elements of lists than a batch can hold: Arrow leaves several, or fails.
    """
    with suppress(pa.ArrowInvalid):
        batches = table.combine_chunks().to_batches()
        if len(batches) <= 1:
            return batches[0] if batches else empty(table.schema)
    raise StateError(
        f"{table.num_rows} rows with the columns {', '.join(table.column_names)}: a column has more than 2 GiB of text or bytes, or 2**31 "
        "elements of lists; allowed is less in what is worked on at once, so make batches, or files of the log, shorter."
    )
