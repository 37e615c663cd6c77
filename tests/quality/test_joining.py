"""The comparison of engine and oracle: one wrong row in many is found, and shown beside the right one."""

from __future__ import annotations

import polars as pl
import pytest

from quality.joining import compared, unlike, worst
from quality.oracles.aggregates import SCALES

NAN, INF = float("nan"), float("inf")
MANY = 10_000
EXPECTED = pl.DataFrame({"key": [f"k{i % 7}" for i in range(MANY)], "start": range(MANY)}).with_columns(
    pl.struct(sum_v=pl.col("start") / 10).alias(SCALES), max_v=pl.col("start") * 3, sum_v=pl.col("start") / 10
)
ENGINE = EXPECTED.drop(SCALES).sample(fraction=1.0, shuffle=True, seed=1)
NAMED = ["key", "start"]


def judge(found: list[float | None], expected: list[float | None], scale: list[float]) -> list[bool | None]:
    """Whether each float that is judged against a scale is taken for equal."""
    engine = pl.DataFrame({"key": range(len(found)), "sum_v": pl.Series(found, dtype=pl.Float64)})
    oracle = pl.DataFrame(
        {"key": range(len(found)), "sum_v": pl.Series(expected, dtype=pl.Float64), SCALES: [{"sum_v": one} for one in scale]}
    )
    return compared(engine, oracle, ["key"], ["sum_v"])["sum_v__equal"].to_list()


def test_equal_rows_in_any_order_have_no_worst() -> None:
    joined = compared(ENGINE, EXPECTED, NAMED, ["sum_v"])
    assert joined.columns == [
        "key", "start", "side", "engine_rows", "oracle_rows", "max_v__engine", "max_v__oracle", "max_v__equal",
        "sum_v__engine", "sum_v__oracle", "sum_v__equal",
    ]  # fmt: skip
    assert joined.height == MANY
    assert joined.select(pl.col("max_v__equal", "sum_v__equal").all()).row(0) == (True, True)
    assert worst(joined, 5).is_empty()


@pytest.mark.parametrize(("column", "wrong"), [("max_v", pl.col("max_v") + 1), ("sum_v", pl.col("sum_v") * (1 + 3e-9)), ("max_v", None)])
def test_one_wrong_row_in_many_is_found(column: str, wrong: pl.Expr | None) -> None:
    faulty = ENGINE.with_columns(
        pl.when(pl.col("start") == 777).then(pl.lit(None) if wrong is None else wrong).otherwise(column).alias(column)
    )
    found = worst(compared(faulty, EXPECTED, NAMED, ["sum_v"]), 5)
    assert found.select("key", "start", "side", "differ").rows() == [("k0", 777, "both", column)]


def test_a_missing_row_an_extra_row_and_a_row_that_is_there_twice_are_found() -> None:
    extra = pl.DataFrame({"key": [None], "start": [5], "max_v": [1], "sum_v": [None]}, schema=ENGINE.schema)
    faulty = pl.concat([ENGINE.filter(pl.col("start") != 3), extra, ENGINE.filter(pl.col("start") == 4)])
    joined = compared(faulty, EXPECTED, NAMED, ["sum_v"])
    assert joined.height == MANY + 1
    assert sorted(worst(joined, 9).select("start", "side", "engine_rows", "oracle_rows").rows()) == [
        (3, "oracle only", 0, 1),
        (4, "both", 2, 1),
        (5, "engine only", 1, 0),
    ]
    assert joined.filter(pl.col("side") != "both")["max_v__equal"].to_list() == [None, None]


def test_a_key_that_is_null_or_nan_is_a_key() -> None:
    rows = pl.DataFrame({"key": [None, NAN, 1.0], "max_v": [1, 2, 3]})
    joined = compared(rows, rows.reverse(), ["key"], [])
    assert joined["side"].to_list() == ["both"] * 3
    assert joined["max_v__equal"].to_list() == [True] * 3


def test_exact_values_are_equal_if_both_are_null_or_nan_and_not_if_only_one_is() -> None:
    engine = pl.DataFrame({"key": range(6), "max_v": [None, NAN, None, 1.0, 1.0, NAN]})
    oracle = pl.DataFrame({"key": range(6), "max_v": [None, NAN, 1.0, None, 1.0 + 1e-15, 1.0]})
    assert compared(engine, oracle, ["key"], [])["max_v__equal"].to_list() == [True, True, False, False, False, False]


def test_cancellation_is_no_failure() -> None:
    # 1e16 + 1 - 1e16 may be 0, 1 or 2: what was added has a size of 2e16.
    assert judge([0.0, 1e-8], [1.0, 0.0], [2e16, 1.0]) == [True, False]


def test_a_float_is_near_within_a_billionth_of_its_scale() -> None:
    assert judge([1 + 0.9e-9, 1 + 1.1e-9, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 0.0]) == [True, False, True]


def test_infinities_nan_and_null_are_near_to_themselves_alone() -> None:
    found = [INF, -INF, NAN, None, 1.0, INF, NAN, None, 1.0]
    expected = [INF, INF, NAN, None, INF, 1.0, 1.0, 1.0, None]
    assert judge(found, expected, [INF] * 5 + [1.0] * 4) == [True, False, True, True, *[False] * 5]


def test_without_a_scale_a_judged_column_is_exact() -> None:
    integers = pl.DataFrame({"key": [1], "sum_v": [2**60]})
    assert compared(integers.with_columns(pl.col("sum_v") + 1), integers, ["key"], ["sum_v"])["sum_v__equal"].to_list() == [False]


def test_the_most_different_rows_come_first() -> None:
    oracle = pl.DataFrame({"key": range(5), "a": [100] * 5, "b": [1.0] * 5})
    engine = pl.DataFrame({"key": [0, 1, 2, 3, 9], "a": [100, 101, 900, 101, 100], "b": [1.0, 1.0, 1.0, 2.0, 1.0]})
    found = worst(compared(engine, oracle, ["key"], []), 4)
    assert found.select("key", "differ").rows() == [(4, ""), (9, ""), (3, "a, b"), (2, "a")]
    assert worst(compared(engine, oracle, ["key"], []), 1).height == 1


def test_other_columns_or_types_cannot_be_compared() -> None:
    oracle = pl.DataFrame({"key": [1], "a": [1]})
    assert unlike(oracle.with_columns(revision=0, retracted=False), oracle) == []
    with pytest.raises(
        ValueError, match="column 'a': the engine has none, the oracle Int64; column 'b': the engine has Int64, the oracle none"
    ):
        compared(pl.DataFrame({"key": [1], "b": [1]}), oracle, ["key"], [])
