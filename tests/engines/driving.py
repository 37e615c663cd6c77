"""Operators driven by hand through lift, combine and lower, for tests that lean on nothing in replay/."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from importlib import import_module
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from engines import Engine, build, techniques
from engines.contract import BEGINNING, FOREVER, NOWHERE, TIMESTAMP, Interval, Operator
from engines.state import State
from tests.comparing import assert_same_rows, replayed, rows_of
from tests.reference.aggregates import About

EXAMPLES = [(name, example) for name in techniques() for example in import_module(f"engines.{name}.spec").EXAMPLES]
every_example = pytest.mark.parametrize("spec", [spec for _, spec in EXAMPLES], ids=[f"{name}{i}" for i, (name, _) in enumerate(EXAMPLES)])

Rows = dict[str, list[dict[str, Any]]]


FLOAT = pa.float64()


def stream(rows: int = 150, *, value: pa.DataType = FLOAT, key: bool = True) -> pa.Table:
    """A disordered stream of a few keys, one of them null; it moves some seconds at a time and now and then a day."""
    by = Random(rows)  # noqa: S311
    clock, times = -50_000_000, []
    for _ in range(rows):
        clock += by.choice([0, 1, 500_000, 1_000_000, 2_000_000, 7_000_000, 60_000_000, 86_400_000_000])
        times.append(clock - by.choice([0, 0, 0, 1, 1_000_000, 2_500_000, 10_000_000]))
    values = [by.choice([None, 0, 1, 2, 3, 39, 40, 41, -7, 100]) for _ in times]
    keys = {"key": pa.array([by.choice(["a", "b", "c", None]) for _ in times], pa.string())} if key else {}
    return pa.table({"ts": pa.array(times, TIMESTAMP), **keys, "v": pa.array(values, value)})


def accepted_batches(
    engine: Engine, operator: Operator, table: pa.Table, batch_rows: int
) -> Iterator[tuple[pa.RecordBatch, Interval, int, int]]:
    """Batches as lift wants them, without late tuples; the stretch in which each is alone; W and V at its end."""
    clock, law = BEGINNING, engine.clock("")
    behind = law.delay_us + law.lateness_us
    numbered = table.append_column("arrival", pa.array(range(table.num_rows), pa.int64()))
    for first in range(0, table.num_rows, batch_rows):
        before, chosen = clock, []
        for i, ts in enumerate(table["ts"].cast(pa.int64()).to_pylist()[first : first + batch_rows]):
            clock = max(clock, ts)
            if ts >= clock - behind:
                chosen.append(first + i)
        tuples = batch_of(numbered.take(pa.array(chosen, pa.int64())), operator)
        yield tuples, Interval(before, clock - behind), clock - law.delay_us, clock - behind


def batch_of(table: pa.Table, operator: Operator) -> pa.RecordBatch:
    """The columns that lift reads, as one batch."""
    columns = dict.fromkeys(["ts", *operator.columns])
    return pa.record_batch({name: table[name].combine_chunks() for name in columns})


def parts_of(partials: pa.RecordBatch, buckets: int) -> list[pa.RecordBatch]:
    """Partials by bucket: rows of a key stay together, in their order."""
    homes = [sum(repr(key).encode()) % buckets for key in partials["key"].to_pylist()]
    return [partials.filter(pa.array([home == bucket for home in homes], pa.bool_())) for bucket in range(buckets)]


def stamp_of(engine: Engine) -> dict[str, Any]:
    """What state is stamped with."""
    return {"fingerprint": engine.spec.fingerprint(), "version": engine.version}


def again(engine: Engine, operator: Operator, state: State) -> State:
    """The state after it was written and read."""
    loaded, stamp = State(operator.tables), stamp_of(engine)
    for table in state:
        loaded.load(table, state.dump(table, **stamp), **stamp)
    loaded.due, loaded.final = state.due, state.final
    return loaded


def drive(
    spec: Mapping[str, Any],
    table: pa.Table,
    *,
    batch_rows: int = 10,
    buckets: int = 1,
    early: bool = True,
    nowhere: bool = False,
    between: Callable[[Engine, Operator, State], State] = lambda engine, operator, state: state,
) -> Rows:
    """All rows of each output over a whole stream and its flush, batch by batch, `revision` filled in."""
    engine = build(spec)
    operator = engine.on(table.schema)
    states = [State(operator.tables) for _ in range(1 if operator.one_bucket else buckets)]
    given: Rows = {name: [] for name in operator.outputs}

    def lower(bucket: int, due: int, final: int, batch: int) -> None:
        state = states[bucket]
        for output, rows in operator.lower(state, due if early else final, final).items():
            assert rows.schema.equals(operator.outputs[output]), f"{output}: columns are not those that were announced"
            rows.validate(full=True)
            given[output] += [{**row, "revision": batch} if "revision" in row else row for row in rows_of(rows)]
        state.due, state.final = due if early else final, final
        state.scratch.clear()
        states[bucket] = between(engine, operator, state)

    batch = 0
    for batch, (tuples, alone, due, final) in enumerate(accepted_batches(engine, operator, table, batch_rows), start=1):  # noqa: B007
        partials = operator.lift(tuples, NOWHERE if nowhere else alone)
        for bucket, part in enumerate(parts_of(partials, len(states))):
            if part.num_rows:
                operator.combine(states[bucket], [part])
            lower(bucket, due, final, batch)
    for bucket in range(len(states)):
        lower(bucket, FOREVER, FOREVER, batch + 1)
    return given


def finals(spec: Mapping[str, Any], given: Rows) -> Rows:
    """Of each output the rows that count: the last revisions, or simply all where nothing is revised."""
    identity = build(spec).on(stream(1).schema).identity
    return {name: replayed(rows, identity[name]) if rows and "revision" in rows[0] else rows for name, rows in given.items()}


def assert_same_outputs(spec: Mapping[str, Any], found: Rows, expected: Rows) -> None:
    """The same rows in every output; floats may differ as far as the order of additions makes them."""
    identity = build(spec).on(stream(1).schema).identity
    for name, rows in finals(spec, expected).items():
        tolerant = [{column: about(value) for column, value in row.items()} for row in rows]
        assert_same_rows(finals(spec, found)[name], tolerant, identity[name], what=name)


def about(value: Any) -> Any:
    """Floats give or take what the order of additions may change."""
    return About(value, abs(Fraction(value)) / 10**9) if isinstance(value, float) and math.isfinite(value) else value
