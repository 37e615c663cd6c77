"""Revisions: what is written again, what is taken back, and what is remembered."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from engines.contract import FOREVER, TIMESTAMP
from engines.revisions import remembered, revise
from engines.state import empty

RESULTS = pa.schema([
    ("key", pa.string()), ("start", TIMESTAMP), ("tuples", pa.int64()), ("mean_v", pa.float64()), ("last_s", pa.string()),
    ("decided", TIMESTAMP), ("revision", pa.int64()), ("retracted", pa.bool_()),
])  # fmt: skip
GIVEN = remembered(RESULTS)
NAN, OTHER_NAN = pa.array([0x7FF8000000000000, 0x7FF8000000000001], pa.int64()).view(pa.float64())


def row(key: str | None, start: int, *, tuples: int = 1, mean: Any = 0.5, last: Any = "x", decided: int | None = 10) -> dict[str, Any]:
    return {"key": key, "start": start, "tuples": tuples, "mean_v": mean, "last_s": last, "decided": decided}


def batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in GIVEN]
    return pa.RecordBatch.from_arrays(columns, schema=GIVEN)


def revised(given: pa.RecordBatch, due: pa.RecordBatch, final: int) -> tuple[list[dict[str, Any]], pa.RecordBatch]:
    written, keep = revise(given, due, final=final, results=RESULTS, identity=("key", "start"), aggregates=("mean_v", "last_s"))
    assert written.schema.equals(RESULTS)
    assert keep.schema.equals(GIVEN)
    times = {name: written[name].view(pa.int64()) for name in ("start", "decided")}
    return pa.record_batch({name: times.get(name, written[name]) for name in RESULTS.names}).to_pylist(), keep


def test_a_new_row_is_written_and_remembered_until_it_is_final() -> None:
    due = [row("a", 1, decided=10), row("b", 1, decided=9), row("c", 1, decided=None)]
    written, keep = revised(empty(GIVEN), batch(*due), final=10)
    assert written == [{**new, "revision": 0, "retracted": False} for new in due]
    assert keep.equals(batch(row("a", 1, decided=10)))


def test_a_row_that_stands_is_not_written_again() -> None:
    stands = batch(row("a", 1), row(None, 1), row("a", 2, mean=None, last=None))
    assert revised(stands, stands, final=5) == ([], stands)
    assert revised(stands, stands, final=11) == ([], empty(GIVEN))


@pytest.mark.parametrize("change", [{"tuples": 2}, {"mean": 0.25}, {"mean": None}, {"last": "y"}, {"last": None}, {"decided": 11}], ids=str)
def test_a_row_that_changed_in_any_column_is_written_again(change: dict[str, Any]) -> None:
    now = row("a", 1, **change)
    written, keep = revised(batch(row("a", 1), row("b", 1)), batch(row("b", 1), now), final=5)
    assert written == [{**now, "revision": 0, "retracted": False}]
    assert keep.equals(batch(row("b", 1), now))


@pytest.mark.parametrize(("before", "now", "changed"), [(0.0, -0.0, True), (NAN, NAN, False), (NAN, OTHER_NAN, True), (None, None, False)])
def test_floats_are_compared_by_their_bits(before: Any, now: Any, changed: bool) -> None:
    as_batch = [batch(row("a", 1, mean=0.0)).set_column(3, "mean_v", pa.array([mean], pa.float64())) for mean in (before, now)]
    assert len(revised(*as_batch, final=5)[0]) == changed


def test_a_row_that_holds_no_more_is_taken_back() -> None:
    """a@1 was given; now the frame begins at 0: another identity."""
    written, keep = revised(batch(row("a", 1, tuples=7)), batch(row("a", 0, tuples=8)), final=5)
    assert written == [
        {**row("a", 0, tuples=8), "revision": 0, "retracted": False},
        {**row("a", 1, tuples=0, mean=None, last=None), "revision": 0, "retracted": True},
    ]
    assert keep.equals(batch(row("a", 0, tuples=8)))


def test_a_row_that_was_taken_back_and_comes_again_is_written_again() -> None:
    first = batch(row("a", 1))
    _, keep = revised(first, empty(GIVEN), final=5)
    assert keep.num_rows == 0
    written, _ = revised(keep, first, final=5)
    assert [(found["key"], found["retracted"]) for found in written] == [("a", False)]


def test_the_flush_remembers_nothing() -> None:
    written, keep = revised(batch(row("a", 1)), batch(row("a", 1), row("b", 3, decided=None)), final=FOREVER)
    assert [found["key"] for found in written] == ["b"]
    assert keep.num_rows == 0


def test_identities_are_told_apart_by_all_of_their_columns() -> None:
    """Null is a key of its own, not the empty text."""
    given = batch(row(None, 1), row("", 1), row("", 2))
    written, _ = revised(given, batch(row("", 1), row(None, 2)), final=5)
    assert {(found["key"], found["start"], found["retracted"]) for found in written} == {(None, 2, False), (None, 1, True), ("", 2, True)}
