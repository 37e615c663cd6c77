"""Generated streams, specifications and ways to replay them, and how many cases each kind of test runs.

Small numbers on purpose: a few keys, a few instants, windows of a few ticks, so that edges, ties and the border between
accepted and late are hit again and again. What the results must be is not known here (tests/reference).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from engines.spec import format_duration
from tests.predicates import predicates
from tests.reference.clock import delays
from tests.reference.frames import Predicate

CASES = {"replay": 100, "many batches": 60, "every prefix": 60, "long stream": 6}
"""Generated cases per test, by what a case costs."""


def cases(cost: str) -> settings:
    """How many cases a test runs: the same ones on every run, or, with REPRISE_CASES=n, n times as many new ones."""
    times = float(os.environ.get("REPRISE_CASES", "0"))
    return settings(
        max_examples=max(1, round(CASES[cost] * (times or 1))),
        derandomize=not times,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@dataclass(frozen=True)
class Stream:
    """Tuples in order of arrival, with times as whole microseconds."""

    schema: pa.Schema
    rows: tuple[Mapping[str, Any], ...]

    @property
    def table(self) -> pa.Table:
        """The stream as an engine gets it."""
        return pa.Table.from_pylist(list(self.rows), schema=self.schema)

    def first(self, rows: int) -> Stream:
        """The stream as far as it has arrived after so many tuples."""
        return Stream(self.schema, self.rows[:rows])


@dataclass(frozen=True)
class Case:
    """A specification and a stream for it; where the specification holds a predicate, also that as a function."""

    spec: Mapping[str, Any]
    stream: Stream
    predicate: Predicate = lambda row: None


KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["a", "b", "", "a@1", "ü", "longer than a few bytes", None]),
    "whole numbers": (pa.int64(), [0, 1, -1, 2**62, None]),
    "hundreds": (pa.int16(), [*range(-150, 150), None]),
    "only null": (pa.string(), [None]),
}

NULLS_AND_ENDLESS = [None, None, float("nan"), float("inf"), float("-inf")]
FLOATS = [0.0, -0.0, 1.0, -1.0, 2.0, 0.1, 0.2, 0.3, -2.5, 40.0, 5e-324, 1e16, -1e16, 1e300, -1e300]
EXTREMES = [2**31 - 1, 2**53 + 1, 2**62, -(2**62), 2**63 - 1, -(2**63)]

COLUMNS: dict[str, tuple[pa.DataType, Callable[[Random], Any]]] = {
    "v": (pa.float64(), lambda by: by.choice([by.choice(FLOATS), by.choice(NULLS_AND_ENDLESS), by.uniform(-3, 3), 1.0])),
    "w": (pa.float64(), lambda by: by.choice([0.0, 1.0, 1.0, 2.0, 3.0, -1.0, None])),
    "n": (pa.int64(), lambda by: by.choice([by.randint(-5, 5), by.randint(-5, 5), by.choice(EXTREMES), None])),
    "i": (pa.int32(), lambda by: by.choice([0, 1, 2, 3, -1, 127, -(2**31), None])),
    "f": (pa.float32(), lambda by: by.choice([0.5, 1.0, -0.25, 3.0, 0.5, float("nan"), float("inf"), None])),
    "s": (pa.string(), lambda by: by.choice(["a", "b", "it's", None])),
    "ok": (pa.bool_(), lambda by: by.choice([True, True, False, None])),
}
NUMBERS = ("v", "w", "n", "i", "f")

SHRINKABLE = 40
"""Tuples of a stream of which each can be left out; longer streams are drawn as a whole."""

UNITS_US = [1, 1_000, 1_000_000, 60_000_000, 7_777_777]
BEGINNINGS_US = [0, -1, -3_000_000, 1_600_000_000_000_000, -86_400_000_000 * 365 * 40]


@st.composite
def streams(draw: st.DrawFn, *, unit: int, behind: int, columns: tuple[str, ...], max_size: int = SHRINKABLE) -> Stream:
    """A stream that mostly goes on by a few units, stands still, jumps, or falls back to about `behind` the clock, where late begins.

    Its tuples come from a seed, which makes long streams cheap; that each may be left out lets failures shrink to a few tuples.
    """
    by = Random(draw(st.integers(0, 2**32)))  # noqa: S311
    keys = by.choice([None, *KEYS])
    alphabet = by.sample(KEYS[keys][1], k=min(by.choice([1, 2, 3, 300]), len(KEYS[keys][1]))) if keys else [None]
    clock = by.choice(BEGINNINGS_US) // unit * unit
    rows: list[dict[str, Any]] = []
    shrinkable = st.lists(st.sampled_from([False, *[True] * 9]), min_size=max_size, max_size=max_size)
    for present in draw(shrinkable) if max_size <= SHRINKABLE else [True] * max_size:
        ticks, microseconds = by.randint(0, 8), by.randint(-1, 1)
        ts = {
            "on": clock + ticks * unit // 2,
            "same": rows[-1]["ts"] if rows else clock,
            "back": clock - ticks * unit // 2,
            "border": clock - behind + microseconds,
            "jump": clock + ticks * ticks * unit + microseconds,
        }[by.choice(["on", "on", "on", "on", "same", "same", "back", "back", "border", "jump"])]
        row = {"ts": ts, **({"key": by.choice(alphabet)} if keys else {}), **{column: COLUMNS[column][1](by) for column in columns}}
        if present:
            rows.append(row)
            clock = max(clock, ts)
    key_field = [("key", KEYS[keys][0])] if keys else []
    schema = pa.schema([("ts", pa.timestamp("us", tz="UTC")), *key_field, *[(column, COLUMNS[column][0]) for column in columns]])
    return Stream(schema, tuple(rows))


@st.composite
def durations(draw: st.DrawFn, unit: int, least: int, most: int) -> str:
    """Durations of so many half units, now and then a microsecond more."""
    microseconds = draw(st.integers(least, most)) * unit // 2 + draw(st.sampled_from([0, 0, 0, 1]))
    return format_duration(max(least, microseconds))


@st.composite
def clocks(draw: st.DrawFn, unit: int) -> dict[str, str]:
    """A delay and a lateness; either may be left out, which is zero."""
    chosen = {name: draw(st.just("0s") | durations(unit, 0, 8)) for name in ("delay", "lateness")}
    return {name: duration for name, duration in chosen.items() if duration != "0s" or draw(st.booleans())}


@st.composite
def aggregate_lists(draw: st.DrawFn, columns: tuple[str, ...], *, min_size: int = 1) -> list[dict[str, str]]:
    """A few aggregates of these columns, each once; some are renamed."""
    numbers = [column for column in columns if column in NUMBERS]
    plain = st.just({"kind": "count"})
    counted = st.builds(lambda column: {"kind": "count", "column": column}, st.sampled_from(columns))
    others = st.builds(
        lambda kind, column: {"kind": kind, "column": column},
        st.sampled_from(["sum", "mean", "min", "max", "first", "last"]),
        st.sampled_from(numbers),
    )
    chosen = draw(st.lists(plain | counted | others | others, min_size=min_size, max_size=7, unique_by=lambda a: tuple(a.items())))
    renamed = draw(st.sampled_from([None, None, None, 0]))
    if renamed is not None and chosen:
        chosen[renamed] = {**chosen[renamed], "as": "renamed"}
    return chosen


@st.composite
def windows(draw: st.DrawFn, unit: int) -> dict[str, str]:
    """A tumbling or sliding window: slides that do not divide the length or are longer than it; offsets of either sign."""
    window = {"kind": draw(st.sampled_from(["tumbling", "sliding"])), "length": draw(durations(unit, 1, 20))}
    if window["kind"] == "sliding":
        window["slide"] = draw(durations(unit, 1, 25))
    if draw(st.booleans()):
        ticks, microseconds = draw(st.integers(-50, 50)), draw(st.sampled_from([0, 0, 1, -1]))
        window["offset"] = format_duration(ticks * unit // 2 + microseconds)
    return window


def _columns(draw: st.DrawFn) -> tuple[str, ...]:
    return tuple(draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=3, unique=True)))


@st.composite
def slicing_cases(draw: st.DrawFn, *, max_size: int = SHRINKABLE) -> Case:
    """One to three queries that share windows and aggregates or disagree on both, over a stream."""
    unit = draw(st.sampled_from(UNITS_US))
    columns = tuple(dict.fromkeys([draw(st.sampled_from(NUMBERS)), *_columns(draw)]))
    common_window, common_aggregates = draw(windows(unit)), draw(aggregate_lists(columns))
    queries = [
        {
            "name": name,
            "window": draw(st.just(common_window) | windows(unit)),
            "aggregates": draw(st.just(common_aggregates) | aggregate_lists(columns)),
        }
        for name in draw(st.sampled_from([["q"], ["q"], ["q", "r"], ["z", "a", "m"]]))
    ]
    spec = {"technique": "slicing", **draw(clocks(unit)), "queries": _without_disagreeing_names(queries)}
    return Case(spec, draw(streams(unit=unit, behind=behind_us(spec), columns=columns, max_size=max_size)))


def _without_disagreeing_names(queries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Queries share their result columns, so one name cannot mean two things: only the first query keeps its renamed aggregate."""
    for query in queries[1:]:
        query["aggregates"] = [{name: value for name, value in aggregate.items() if name != "as"} for aggregate in query["aggregates"]]
    return queries


@st.composite
def frames_cases(draw: st.DrawFn, *, max_size: int = SHRINKABLE) -> Case:
    """A threshold frame with any of its settings, over a stream."""
    unit = draw(st.sampled_from(UNITS_US))
    columns = tuple(dict.fromkeys(["w", draw(st.sampled_from(NUMBERS)), *_columns(draw)]))
    text, where = draw(predicates(columns, often="w"))
    frame: dict[str, Any] = {"kind": "threshold", "where": text}
    if draw(st.sampled_from([False, False, True])):
        frame["min_duration"] = draw(durations(unit, 1, 5))
    if draw(st.sampled_from([False, False, True])):
        frame["min_tuples"] = draw(st.integers(1, 3))
    if draw(st.booleans()):
        frame["unknown"] = draw(st.sampled_from(["break", "skip"]))
    spec: dict[str, Any] = {"technique": "frames", **draw(clocks(unit)), "frame": frame, "aggregates": draw(aggregate_lists(columns))}
    return Case(spec, draw(streams(unit=unit, behind=behind_us(spec), columns=columns, max_size=max_size)), where)


def behind_us(spec: Mapping[str, Any]) -> int:
    """How far behind the clock a tuple may be and still be accepted."""
    return sum(delays(spec))
