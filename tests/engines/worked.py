"""How worked examples are replayed: every way, with the reference agreeing each time. Times are in seconds here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from engines import build
from replay import local
from tests.comparing import assert_same_rows, rows_of
from tests.reference import clock, frames, slicing
from tests.reference.frames import Predicate

SECOND = 1_000_000
MICROSECOND = 1e-6
TYPES = {"v": pa.float64(), "n": pa.int64(), "key": pa.string(), "detector": pa.int64()}


def us(seconds: float) -> int:
    return round(seconds * SECOND)


def in_seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / SECOND


def table_of(columns: str, tuples: Sequence[Sequence[Any]]) -> pa.Table:
    """Tuples of `ts` (in seconds) and these columns, in order of arrival."""
    names = columns.split()
    arrays = {"ts": pa.array([us(row[0]) for row in tuples], pa.timestamp("us", tz="UTC"))}
    return pa.table(arrays | {name: pa.array([row[i] for row in tuples], TYPES[name]) for i, name in enumerate(names, start=1)})


Tuples = Sequence[Sequence[Any]]
Rows = list[dict[str, Any]]


def worked(spec: dict[str, Any], columns: str, tuples: Tuples, *, where: Predicate | None = None, flush: bool = True) -> Rows:
    """The final rows, in seconds and in order; the same for every way of replaying them, and by the reference."""
    table, engine = table_of(columns, tuples), build(spec)
    rows = rows_of(table)
    everything = slicing.results(rows, spec) if where is None else frames.results(rows, spec, where)
    identity = slicing.IDENTITY if where is None else frames.IDENTITY
    final = clock.given(everything, rows, spec, early=False, flush=flush)
    for batch_rows in (1, 2, len(tuples) + 1):
        for early in (True, False):
            run = local.run(engine, table, batch_rows=batch_rows, early=early, flush=flush)
            assert_same_rows(run.final, final, identity)
            assert_same_rows(run.late, clock.late(rows, spec), ("arrival",), what="late")
    times = ("window_start", "window_end", "start", "end", "decided")
    return [{name: in_seconds(value) if name in times else value for name, value in row.items()} for row in rows_of(run.final)]


def revisions(spec: dict[str, Any], columns: str, batches: Sequence[Tuples], show: Sequence[str]) -> list[tuple[Any, ...]]:
    """What is given batch by batch, without a flush: the batch, whether it takes back, and these columns."""
    size = len(batches[0])
    assert all(len(batch) == size for batch in batches[:-1])
    run = local.run(build(spec), table_of(columns, [row for batch in batches for row in batch]), batch_rows=size, flush=False)
    return [(row["revision"], row["retracted"], *[row[name] for name in show]) for row in rows_of(run.results)]


def windows(window: dict[str, str], *aggregates: str, **clocks: str) -> dict[str, Any]:
    """One query; aggregates as `kind` or `kind column`."""
    asked = [dict(zip(("kind", "column"), aggregate.split(), strict=False)) for aggregate in aggregates]
    return {"technique": "slicing", **clocks, "queries": [{"name": "q", "window": window, "aggregates": asked}]}


TUMBLING = {"kind": "tumbling", "length": "10s"}


def sums(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ("window_start", "window_end", *(names or ("sum_v",)))) for row in rows]
