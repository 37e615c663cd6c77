"""Frames do not depend on batches: any cuts, any stretch known to be alone, any watermarks give what one lift of everything gives."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.contract import BEGINNING, FOREVER, NOWHERE, Interval
from engines.state import State
from tests.comparing import replayed, rows_of
from tests.engines.frames.drawing import Tuple, batch, operator

AGGREGATES = [{"kind": "count"}, *[{"kind": kind, "column": "v"} for kind in ("sum", "mean", "min", "max", "first", "last")]]


@dataclass(frozen=True)
class Stream:
    """Tuples in order of arrival, late ones included; `behind` the clock is late."""

    tuples: list[Tuple]
    behind: int

    @property
    def clocks(self) -> list[int]:
        return list(accumulate((ts for ts, _, _ in self.tuples), max))

    def accepted(self, first: int = 0, last: int | None = None) -> list[int]:
        judged = list(enumerate(zip(self.tuples, self.clocks, strict=True)))[first:last]
        return [i for i, (row, clock) in judged if row[0] >= clock - self.behind]


def stream_of(seed: int, length: int) -> Stream:
    """The clock stands still or goes on a little, so that instants are shared, and lie at the watermarks, again and again.

    In half of all streams there are keys, too, that begin a frame and then fall silent, most of them for ever.
    """
    by, clock = Random(seed), 0  # noqa: S311
    silent = [f"silent {i}" for i in range(by.choice([0, 20]))]
    tuples: list[Tuple] = [(0, key, 1.0) for key in silent]
    for _ in range(length):
        clock += by.choice([0, 0, 0, 1, 1, 5])
        # Values that add up exactly in any order.
        value = by.choice([1.0, 2.0, 4.0, 8.0, -1.0, -1.0, None])
        tuples.append((clock - by.choice([0, 0, 0, 0, 0, 1, 2]), by.choice(["a", "a", "a", None, *silent[:1]]), value))
    return Stream(tuples, by.choice([0, 0, 1, 2, 4]))


STREAMS = st.builds(stream_of, st.integers(0, 2**32), st.integers(1, 30))
CUTS = st.lists(st.integers(0, 30), max_size=4)
FRAMES = st.fixed_dictionaries({}, optional={
    "min_duration": st.sampled_from(["1us", "2us", "4us"]), "min_tuples": st.integers(1, 3), "unknown": st.sampled_from(["break", "skip"]),
})  # fmt: skip


def at_once(stream: Stream, spec: dict[str, Any]) -> list[dict[str, Any]]:
    """All tuples in one lift, alone in the world."""
    by = operator(**spec)
    state = State(by.tables)
    by.combine(state, [by.lift(part(stream, stream.accepted()), Interval(BEGINNING, FOREVER))])
    return rows_of(by.lower(state, FOREVER, FOREVER)["results"])


def part(stream: Stream, rows: list[int]) -> pa.RecordBatch:
    """Some tuples, with the arrivals they have in the whole stream."""
    tuples = batch(stream.tuples[i] for i in rows)
    return tuples.set_column(3, tuples.schema.field(3), pa.array(rows, pa.int64()))


def alone_at(stream: Stream, first: int, last: int, by: Random) -> Interval:
    """A stretch in which tuples `first` to `last - 1` are the only accepted ones, now and when the stream has grown."""
    before = stream.clocks[first - 1] if first else BEGINNING
    after = stream.clocks[last - 1] - stream.behind
    to_come = [stream.tuples[i][0] for i in stream.accepted(last)]
    widened = min([stream.clocks[-1] - stream.behind, *to_come])
    wide = Interval(before, max(after, widened) if by.random() < 0.5 else after)
    shrunk = Interval(wide.after + by.randint(0, 3) if first else by.choice([BEGINNING, 2]), wide.before - by.randint(0, 3))
    return by.choice([wide, wide, shrunk, NOWHERE])


def in_batches(stream: Stream, spec: dict[str, Any], cuts: list[int], by: Random, *, early: bool) -> list[dict[str, Any]]:
    """Batch by batch, lowered now and then, up to the watermarks or less far; every row with the number of its batch."""
    operators = operator(**spec)
    state = State(operators.tables)
    given: list[dict[str, Any]] = []

    def lower(due: int, final: int, revision: int) -> None:
        rows = rows_of(operators.lower(state, due, final)["results"])
        state.due, state.final = due, final
        given.extend({**row, "revision": revision} for row in rows)

    bounds = [0, *sorted({cut % len(stream.tuples) for cut in cuts} - {0}), len(stream.tuples)]
    for revision, (first, last) in enumerate(pairwise(bounds)):
        lifted = operators.lift(part(stream, stream.accepted(first, last)), alone_at(stream, first, last, by))
        operators.combine(state, [lifted])
        # W is anything between V and the clock; no run need lower as far as it could.
        final = max(state.final, stream.clocks[last - 1] - stream.behind - by.choice([0, 0, 0, 1, 5]))
        due = max(state.due, final + by.randint(0, stream.behind)) if early else final
        if by.random() < 0.8:
            lower(due, final, revision)
    lower(FOREVER, FOREVER, len(bounds))
    assert state.rows == 0
    return given


def assert_told_rightly(given: list[dict[str, Any]]) -> None:
    """No row is written twice as it was, and none taken back that was not there."""
    standing: dict[Any, dict[str, Any]] = {}
    for row in given:
        name = row["key"], row["start"]
        content = {column: value for column, value in row.items() if column != "revision"}
        assert content != standing.get(name), "written again though nothing changed"
        assert not row["retracted"] or name in standing
        assert not row["retracted"] or (row["tuples"], row["count"], row["sum_v"]) == (0, None, None)
        standing[name] = content
        if row["retracted"]:
            del standing[name]


def assert_same(given: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """The last revisions are the expected rows."""
    found = sorted(replayed(given, ("key", "start")), key=lambda row: (row["key"] is not None, row["key"] or "", row["start"]))
    assert [{**row, "revision": 0} for row in found] == expected


@settings(max_examples=300, deadline=None, derandomize=True)
@given(STREAMS, FRAMES, CUTS, st.integers(0, 2**32).map(Random))
def test_any_batches_give_the_same_frames(stream: Stream, frame: dict[str, Any], cuts: list[int], by: Random) -> None:
    spec = {"frame": frame, "aggregates": AGGREGATES}
    given = in_batches(stream, spec, cuts, by, early=True)
    assert_told_rightly(given)
    assert_same(given, at_once(stream, spec))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(STREAMS, FRAMES, CUTS, st.integers(0, 2**32).map(Random))
def test_without_early_rows_every_frame_is_given_once(stream: Stream, frame: dict[str, Any], cuts: list[int], by: Random) -> None:
    spec = {"frame": frame, "aggregates": AGGREGATES}
    given = in_batches(stream, spec, cuts, by, early=False)
    assert len({(row["key"], row["start"]) for row in given}) == len(given)
    assert_same(given, at_once(stream, spec))


@settings(max_examples=50, deadline=None, derandomize=True)
@given(STREAMS)
def test_batches_of_one_tuple_give_the_same_frames(stream: Stream) -> None:
    spec: dict[str, Any] = {"aggregates": AGGREGATES}
    given = in_batches(stream, spec, list(range(len(stream.tuples))), Random(0), early=True)  # noqa: S311
    assert_told_rightly(given)
    assert_same(given, at_once(stream, spec))
