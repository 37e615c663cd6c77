"""Drives the operator of slicing by hand over a few tuples, with times in seconds, so that an example fits in a drawing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from engines import build
from engines.contract import BEGINNING, FOREVER, NOWHERE, TIMESTAMP
from engines.state import State

SECOND = 1_000_000


def spec(window: Mapping[str, Any], *aggregates: str, **settings: Any) -> dict[str, Any]:
    """One query, of aggregates of v (count: of tuples)."""
    asked = [{"kind": kind, **({} if kind == "count" else {"column": "v"})} for kind in aggregates or ("sum",)]
    return {"technique": "slicing", "queries": [{"name": "q", "window": window, "aggregates": asked}], **settings}


def stream(*tuples: tuple[Any, ...], value: pa.DataType | None = None) -> pa.RecordBatch:
    """Tuples (seconds, v) or (seconds, v, key), in order of arrival."""
    columns = {
        "ts": pa.array([round(t[0] * SECOND) for t in tuples], TIMESTAMP),
        "v": pa.array([t[1] for t in tuples], value or pa.int64()),
    }
    if tuples and len(tuples[0]) == 3:
        columns["key"] = pa.array([t[2] for t in tuples])
    return pa.record_batch({**columns, "arrival": pa.array(range(len(tuples)), pa.int64())})


class Replay:
    """A replay that can be looked at after every batch."""

    def __init__(self, given: Mapping[str, Any], schema: pa.Schema) -> None:
        """An operator with empty state, at the beginning of time."""
        self.engine = build(given)
        self.operator = self.engine.on(schema)
        self.state = State(self.operator.tables)
        self.clock = BEGINNING
        self.counters: dict[str, int] = {}

    def batch(self, tuples: pa.RecordBatch) -> list[dict[str, Any]]:
        """The rows that these tuples make due; late ones are left out."""
        times, accepted = tuples.column("ts").cast(pa.int64()).to_pylist(), []
        for ts in times:
            self.clock = max(self.clock, ts)
            accepted.append(ts >= self.clock - self.engine.clock("").behind_us)
        chosen = tuples.filter(pa.array(accepted, pa.bool_())).select(list(self.operator.columns))
        self.operator.combine(self.state, [self.operator.lift(chosen, NOWHERE)])
        law = self.engine.clock("")
        return self.lower(self.clock - law.delay_us, self.clock - law.behind_us)

    def flush(self) -> list[dict[str, Any]]:
        """The rows that are left at the end."""
        return self.lower(FOREVER, FOREVER)

    def lower(self, due: int, final: int) -> list[dict[str, Any]]:
        """The rows decided before `due`."""
        rows = self.operator.lower(self.state, due, final)["results"]
        assert rows.schema.equals(self.operator.outputs["results"])
        rows.validate(full=True)
        self.state.due, self.state.final = due, final
        for name, count in self.state.scratch.pop("counters", {}).items():
            self.counters[name] = self.counters.get(name, 0) + count
        self.state.scratch.clear()
        return rows.to_pylist()


def in_batches(given: Mapping[str, Any], tuples: pa.RecordBatch, rows: int) -> Iterator[list[dict[str, Any]]]:
    """What each batch of so many tuples gives, and the flush at last."""
    replay = Replay(given, tuples.schema)
    for first in range(0, tuples.num_rows, rows):
        yield replay.batch(tuples.slice(first, rows))
    yield replay.flush()


def run(given: Mapping[str, Any], tuples: pa.RecordBatch) -> list[dict[str, Any]]:
    """All rows of a replay in one batch."""
    return [row for rows in in_batches(given, tuples, max(tuples.num_rows, 1)) for row in rows]


def windows(rows: Sequence[Mapping[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    """(start, end, value...) of each row, in seconds."""
    asked = columns or ("sum_v",)
    return [(row["measure_start"] / SECOND, row["measure_end"] / SECOND, *(row[column] for column in asked)) for row in rows]
