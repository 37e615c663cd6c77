"""Oracles and engines, written by people who did not read each other's code, agree on generated streams.

What is compared is what every check of a run compares: final rows and late rows, joined on their identity. A disagreement is settled by the
definitions, not here. Cases with an answer by hand are in test_oracles_worked.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines import build
from quality.joining import compared, worst
from quality.oracles import float_columns, identity, of_days, oracle
from replay import local
from tests.quality.drawing import log_of
from tests.strategies import Case, Stream, frames_cases, slicing_cases, streams

CASES = settings(max_examples=150, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))

DAY_US = 86_400_000_000
SIGNS = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])


def assert_agree(spec: Mapping[str, Any], table: pa.Table, batch_rows: int) -> dict[str, pl.DataFrame]:
    """Fail with the most different rows, unless engine and oracle give the same; returns what the oracle gives."""
    run = local.run(build(spec), table, batch_rows=batch_rows, flush=True)
    expected = oracle(spec, log_of(table))
    for output, found in (("results", run.final), ("late", run.late)):
        engine = pl.DataFrame(pl.from_arrow(found))
        differences = worst(compared(engine, expected[output], identity(spec)[output], float_columns(spec)[output]), 5)
        assert differences.is_empty(), f"{output}: {differences.to_dicts()}"
    return expected


@CASES
@given(slicing_cases(), st.integers(1, 50))
def test_windows(case: Case, batch_rows: int) -> None:
    assert_agree(case.spec, case.stream.table, batch_rows)


@CASES
@given(frames_cases(), st.integers(1, 50))
def test_frames(case: Case, batch_rows: int) -> None:
    assert_agree(case.spec, case.stream.table, batch_rows)


def _numbers(conditions: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Every function and operator; what is not finite comes up often."""
    leaves = st.sampled_from(["v", "w", "n", "ok", "0", "1", "2", "0.5", "0.1", "-1", "7", "1e300"])
    counted = conditions.map(lambda condition: f"({condition})")
    functions = st.sampled_from(["abs", "ceil", "exp", "floor", "log", "round", "sign", "sqrt", "-"])
    deeper = st.recursive(
        leaves | leaves | counted,
        lambda inner: (
            st.builds("{}({})".format, functions, inner)
            | st.builds("{}({}, {}, {})".format, st.sampled_from(["min", "max"]), inner, inner, inner)
            | st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "/", "/", "**"]), inner)
        ),
        max_leaves=4,
    )
    return leaves | deeper


def _conditions() -> st.SearchStrategy[str]:
    leaves = st.sampled_from(["ok", "true", "s == 'a'", "'a' < s <= 'b'", "s is null", "v is null", "w > 0"])
    numbers = _numbers(leaves)
    compare = st.builds("{} {} {}".format, numbers, SIGNS, numbers) | st.builds(
        "{} {} {} {} {}".format, numbers, SIGNS, numbers, SIGNS, numbers
    )
    asked = st.builds("({}) is {}null".format, numbers | compare, st.sampled_from(["", "not "]))
    return st.recursive(
        compare | compare | asked,
        lambda inner: st.builds("({}) {} ({})".format, inner, st.sampled_from(["and", "or"]), inner) | inner.map("not ({})".format),
        max_leaves=3,
    )


@CASES
@given(_conditions(), st.sampled_from(["break", "skip"]), streams(unit=1_000, behind=10_000, columns=("v", "w", "n", "ok", "s")))
def test_predicates(where: str, unknown: str, stream: Stream) -> None:
    assert_agree({"technique": "frames", "delay": "10ms", "frame": {"where": where, "unknown": unknown}}, stream.table, 50)


TABLE = pa.table({
    "ts": pa.array([0, 4, 2, 2, 9, 1, 7, 30, 12, 31], pa.timestamp("us", tz="UTC")),
    "v": [1.0, 0.5, None, 2.0, 0.1, 3.0, 0.0, 1.0, 5.0, 1.0],
})  # fmt: skip


KEYS = [
    pa.array([1.0, 0.1, 1e20, None, float("nan")] * 2),
    pa.array([0.0, -0.0, 1.5, float("nan"), -0.0] * 2, pa.float32()),
    pa.array([True, False, None, True, False] * 2),
    pa.array([1, 2, 3, 1, 2] * 2, pa.uint8()),
    pa.array([1, 2, None, 1, 2] * 2, pa.timestamp("us")),
    pa.array([1, 2, 3, 1, 2] * 2, pa.date32()),
    pa.array([b"a", b"\xff", b"", b"a", None] * 2),
    pa.array(["a", "b", None, "", "a"] * 2).dictionary_encode(),
    pa.nulls(10, pa.string()),
]
WINDOWS = {"name": "q", "window": {"kind": "sliding", "length": "5us", "slide": "2us"}, "aggregates": [{"kind": "sum", "column": "v"}]}
FRAMES = {"technique": "frames", "frame": {"where": "v > 0.2"}, "aggregates": [{"kind": "sum", "column": "v"}]}


@pytest.mark.parametrize("keys", KEYS, ids=lambda keys: str(keys.type))
@pytest.mark.parametrize("spec", [{"technique": "slicing", "queries": [WINDOWS]}, FRAMES], ids=lambda spec: str(spec["technique"]))
def test_keys_of_any_type(spec: dict[str, Any], keys: pa.Array) -> None:
    assert_agree(spec | {"delay": "9us"}, TABLE.append_column("key", keys), 3)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([True, False, None, True, False] * 2), pa.array([1, 2, None, 1, 2] * 2, pa.timestamp("us", tz="UTC")),
        pa.array([1, 5, 3, None, 2] * 2, pa.date32()), pa.array([1, 255, 3, None, 2] * 2, pa.uint8()),
        pa.array([0.1, float("nan"), 0.3, None, 0.7] * 2, pa.float32()),
    ],
    ids=lambda values: str(values.type),
)  # fmt: skip
def test_values_of_any_type(values: pa.Array) -> None:
    numeric = not pa.types.is_boolean(values.type) and not pa.types.is_temporal(values.type)
    kinds = ["count", "min", "max", "first", "last", *(["sum", "mean"] if numeric else [])]
    asked = [{"kind": kind, "column": column} for kind in kinds for column in ("x", "ts") if column == "x" or kind not in ("sum", "mean")]
    query = {"name": "q", "window": {"kind": "tumbling", "length": "5us"}, "aggregates": asked}
    for spec in ({"technique": "slicing", "queries": [query]}, {"technique": "frames", "frame": {"where": "v > 0.2"}, "aggregates": asked}):
        assert_agree(spec | {"delay": "9us"}, TABLE.append_column("x", values), 3)


def test_the_longest_delays_make_nothing_late() -> None:
    spec = {"technique": "frames", "delay": f"{2**61}us", "lateness": f"{2**61}us", "frame": {"where": "v > 0.2"}}
    long_ago = pa.array([-(2**60), -(2**60) - 5], pa.timestamp("us", tz="UTC"))
    assert oracle(spec, log_of(pa.table({"ts": long_ago, "v": [1.0, 1.0]})))["late"].is_empty()


@CASES
@given(st.lists(st.none() | st.integers(-3 * DAY_US, 6 * DAY_US)), st.integers(0, 3), st.integers(-1, 4), st.integers(-1, 4))
def test_every_row_belongs_to_one_day_of_the_log(decided: list[int | None], last_day: int, first: int, last: int) -> None:
    rows = pl.DataFrame({"decided": pl.Series(decided, dtype=pl.Int64).cast(pl.Datetime("us", "UTC"))})
    days = [date(1970, 1, 1) + timedelta(days=day) for day in range(-1, 5)]
    log_days = days[1 : last_day + 2]
    found = of_days(rows, days[first + 1], days[last + 1], log_days)
    day_of = [last_day if us is None else min(max(us // DAY_US, 0), last_day) for us in decided]
    expected = [us for us, day in zip(decided, day_of, strict=True) if first <= day <= last]
    assert found["decided"].dt.timestamp("us").to_list() == expected
    assert sum(of_days(rows, day, day, log_days).height for day in log_days) == len(decided)
