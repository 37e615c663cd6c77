"""Verification can fail: one wrong row among many is found, whatever is wrong with it, and shown as evidence.

Where an engine is right the same streams pass every check. Faults in engines are in `test_faults.py`.
"""

from __future__ import annotations

from datetime import date

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from engines.contract import TIMESTAMP
from quality.expectations import Expected, judge, true
from quality.report import Report, page
from tests.quality.replayed import SECOND, SPECS, START, Change, red, stream, verified, worst


@pytest.mark.parametrize("technique", SPECS)
def test_an_engine_that_is_right_passes_every_check(technique: str) -> None:
    found = verified(SPECS[technique])
    assert red(found) == []
    assert not any(outcome.worst for outcome in found.outcomes if outcome.passed)
    assert list(found.red) == ["late_rows_are_few"]
    assert found.joined.height > 40
    assert all(outcome.rows > 0 for outcome in found.outcomes)


def test_one_wrong_row_in_a_million_is_found_and_the_report_shows_it() -> None:
    """Tumbling windows of a second over a million seconds: one sum is off by a millionth of itself."""
    ts = pa.array(START + np.arange(1_000_000) * SECOND).view(TIMESTAMP)
    table = pa.table({"ts": ts, "v": np.arange(1_000_000) % 1000 + 0.5})
    window = {"kind": "tumbling", "length": "1s"}
    spec = {"technique": "slicing", "queries": [{"name": "q", "window": window, "aggregates": [{"kind": "sum", "column": "v"}]}]}

    def spoil(rows: pl.DataFrame) -> pl.DataFrame:
        here = pl.int_range(pl.len()) == 654_321
        return rows.with_columns(sum_v=pl.when(here).then(pl.col("sum_v") * (1 + 1e-6)).otherwise("sum_v"))

    assert red(verified(spec, table)) == []
    found = verified(spec, table, spoil)
    assert [(outcome.name, outcome.wrong) for outcome in found.outcomes if not outcome.passed] == [("sums_agree", 1)]
    (row,) = worst(found, "sums_agree")
    assert row["sum_v__engine"] == pytest.approx(row["sum_v__oracle"] * (1 + 1e-6), rel=1e-12)
    assert row["differ"] == "sum_v"
    content = page(Report("windows", "windows", "now", {}, {}, "", found.outcomes, worst=[row]))
    assert 'badge failed">failed</span></h1>' in content
    assert "1,000,000 rows compared, 1 wrong" in content
    for value in (row["measure_start"], row["sum_v__engine"], row["sum_v__oracle"]):
        assert f">{value}</td>" in content


def test_rows_that_are_missing_too_many_or_twice_are_told_apart() -> None:
    spec = SPECS["slicing"]
    for change, name in [
        (lambda rows: rows.slice(1), "every_expected_row_is_there"),
        (lambda rows: pl.concat([rows, rows.slice(7, 1)]), "identities_are_unique"),
        (
            lambda rows: pl.concat([rows, rows.slice(7, 1).with_columns(key=pl.lit("nobody", pl.String))]),
            "no_row_is_there_that_should_not_be",
        ),
    ]:
        assert red(verified(spec, change=change)) == [name]


@pytest.mark.parametrize("column", ["ts", "key", "v", "watermark", "day"])
def test_a_late_row_is_held_against_the_oracle_in_every_column(column: str) -> None:
    """Nothing but the late table is wrong: the results do not hang on it."""
    other = {
        "ts": pl.col("ts") - pl.duration(microseconds=1), "key": pl.lit("nobody"), "v": pl.col("v") + 1,
        "watermark": pl.col("watermark") + pl.duration(microseconds=1), "day": pl.col("day") + pl.duration(days=1),
    }  # fmt: skip
    here = pl.int_range(pl.len()) == 3
    found = verified(
        SPECS["slicing"], change_late=lambda late: late.with_columns(pl.when(here).then(other[column]).otherwise(column).alias(column))
    )
    assert red(found) == (["late_rows_are_equal"] if column != "day" else ["late_rows_are_equal", "counts_add_up"])
    (row,) = worst(found, "late_rows_are_equal")
    assert row["differ"] == column
    assert row[f"{column}__engine"] != row[f"{column}__oracle"]


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (lambda late: late.slice(1), ("oracle only", 0)),
        (lambda late: pl.concat([late, late.head(1)]), ("both", 2)),
        (lambda late: pl.concat([late, late.head(1).with_columns(arrival=pl.lit(10**6, pl.Int64))]), ("engine only", 1)),
    ],
)
def test_late_rows_that_are_missing_twice_or_too_many_do_not_add_up_and_are_shown(change: Change, shown: tuple[str, int]) -> None:
    found = verified(SPECS["slicing"], change_late=change)
    assert red(found) == ["late_rows_are_equal", "counts_add_up"]
    assert [(row["side"], row["engine_rows"]) for row in worst(found, "late_rows_are_equal")] == [shown]
    (day,) = worst(found, "counts_add_up")
    assert day["tuples"] == 3000 != day["accepted"] + day["late"]


def test_what_was_recorded_of_a_day_is_what_is_there() -> None:
    right = verified(SPECS["slicing"])
    recorded = right.days.select("day", "late", "results")
    assert red(verified(SPECS["slicing"], recorded=recorded)) == []
    for name in ("late", "results"):
        found = verified(SPECS["slicing"], recorded=recorded.with_columns(pl.col(name) + 1))
        assert red(found) == ["counts_add_up"]
        (day,) = worst(found, "counts_add_up")
        assert day[f"{name}_recorded"] == day[name] + 1


def test_an_invariant_that_is_broken_shows_the_rows_that_break_it() -> None:
    """The end of one frame lies before its start; rows that only differ from the oracle's are none of its business."""
    here = pl.int_range(pl.len()) == 4

    def spoil(rows: pl.DataFrame) -> pl.DataFrame:
        end = pl.when(here).then(pl.col("start") - pl.duration(seconds=1)).otherwise("end")
        return rows.with_columns(end=end, count=pl.col("count") + 1)

    found = verified(SPECS["frames"], change=spoil)
    (row,) = worst(found, "times_are_ordered")
    assert row["end"] < row["start"]
    assert len(worst(found, "exact_values_are_equal")) == 10
    assert f">{row['end'].replace(tzinfo=None)}</td>" in page(Report("frames", "frames", "now", {}, {}, "", found.outcomes))


HOSTILE = ("rows", "v__scale", "sum_v__scale", "__key", "__text", "__run", "__holds", "side", "differ", "engine_rows", "v__engine", "near")


@pytest.mark.parametrize("technique", SPECS)
def test_aggregates_may_have_any_name_that_their_technique_allows(technique: str) -> None:
    """Names that the comparison itself has, and such as end like them, beside a float sum that is judged by its scale."""
    asked = [{"kind": "sum", "column": "v"}, *({"kind": "sum", "column": "v", "as": name} for name in HOSTILE)]
    spec = {**SPECS[technique], "aggregates": asked}
    if technique == "slicing":
        spec = {**SPECS[technique], "queries": [{**SPECS[technique]["queries"][0], "aggregates": asked}]}
    found = verified(spec)
    assert (red(found), [outcome.error for outcome in found.outcomes if outcome.error]) == ([], [])
    for name in HOSTILE:
        wrong = pl.when(pl.int_range(pl.len()) == 3).then(pl.col(name) + 1).otherwise(name)
        found = verified(spec, change=lambda rows: rows.with_columns(wrong.alias(name)))  # noqa: B023
        assert red(found) == ["sums_agree"]
        (row,) = worst(found, "sums_agree")
        assert (row["differ"], row[f"{name}__engine"]) == (name, pytest.approx(row[f"{name}__oracle"] + 1))
    broken = verified(spec, change=lambda rows: rows.with_columns(tuples=pl.lit(0, pl.Int64)))
    (own,) = [outcome for outcome in broken.outcomes if outcome.name in ("windows_hold_tuples", "frames_are_long_enough")]
    assert "Rows that break" in page(Report("own", "own", "now", {}, {}, "", [own]))


def test_columns_of_late_tuples_may_have_any_name() -> None:
    table = stream()
    for name in HOSTILE:
        table = table.append_column(name, pa.array(np.arange(table.num_rows)))
    assert red(verified(SPECS["slicing"], table)) == []
    for name in HOSTILE:
        wrong = pl.when(pl.int_range(pl.len()) == 3).then(pl.col(name) + 1).otherwise(name)
        found = verified(SPECS["slicing"], table, change_late=lambda late: late.with_columns(wrong.alias(name)))  # noqa: B023
        assert red(found) == ["late_rows_are_equal"]
        (row,) = worst(found, "late_rows_are_equal")
        assert row["differ"] == name


def test_the_days_of_wrong_rows_are_told_those_of_right_ones_are_not() -> None:
    """Three days of a tuple every two hours; one window of the second day is wrong, and one of the first is published under the third.

    | day 1 | day 2 | day 3 |
       >------x-------->
    """
    ts = START + np.arange(36) * 2 * 3600 * SECOND
    table = pa.table({"ts": pa.array(ts).view(TIMESTAMP), "v": np.ones(36)})
    window = {"kind": "tumbling", "length": "2h"}
    spec = {"technique": "slicing", "queries": [{"name": "q", "window": window, "aggregates": [{"kind": "count"}]}]}
    first, second, third = (date(2024, 1, day) for day in (1, 2, 3))
    wrong = pl.when(pl.int_range(pl.len()) == 15).then(7).otherwise("count")
    assert verified(spec, table, lambda rows: rows.with_columns(count=wrong)).red == {"exact_values_are_equal": [second]}
    moved = pl.when(pl.int_range(pl.len()) == 2).then(pl.lit(third)).otherwise("day")
    found = verified(spec, table, lambda rows: rows.with_columns(day=moved))
    assert found.red == {"exact_values_are_equal": [first, third]}


def test_where_there_are_no_floats_that_are_summed_there_is_nothing_to_compare() -> None:
    """A sum of integers is exact, and judged so."""
    table = stream().set_column(2, "v", pa.array(np.arange(3000)))
    query = {"name": "q", "window": {"kind": "tumbling", "length": "10s"}, "aggregates": [{"kind": "sum", "column": "v"}]}
    spec = {"technique": "slicing", "delay": "2s", "queries": [query]}
    found = verified(spec, table)
    told = {outcome.name: outcome.told() for outcome in found.outcomes}
    assert told["sums_agree"] == "there was nothing to compare"
    assert told["late_rows_are_equal"].endswith(" late rows compared, 0 wrong")
    assert told["counts_add_up"] == "1 day compared, 0 wrong"
    assert red(verified(spec, table, lambda rows: rows.with_columns(pl.col("sum_v") + 1))) == ["exact_values_are_equal"]


def test_a_column_that_the_oracle_does_not_know_is_no_result() -> None:
    with pytest.raises(ValueError, match="column 'extra': the engine has Int32, the oracle none"):
        verified(SPECS["slicing"], change=lambda rows: rows.with_columns(extra=pl.lit(1)))


def test_a_day_with_more_than_one_late_tuple_in_a_hundred_is_a_warning() -> None:
    """Two days of a thousand tuples: ten of the first are late, eleven of the second.

    ts, s    0  86  172  ...           a tuple behind by an hour, where a delay of 2 s is allowed for
    late          x
    """
    step = 86_400 * SECOND // 1000
    ts = START + np.arange(2000) * step
    ts[[*range(100, 110), *range(1500, 1511)]] -= 3600 * SECOND
    found = verified(SPECS["slicing"], pa.table({"ts": pa.array(ts).view(TIMESTAMP), "v": np.ones(2000)}))
    assert found.days["late_share"].to_list() == [0.010, 0.011]
    (warning,) = [outcome for outcome in found.outcomes if not outcome.passed]
    assert (warning.name, warning.severity, warning.rows, warning.wrong) == ("late_rows_are_few", "warning", 2, 1)


def test_an_expectation_that_cannot_be_judged_is_red() -> None:
    frame = pl.DataFrame({"text": ["a"], "right": [True]})
    suite = [
        true("fine", "", "right"),
        true("gone", "", "left"),
        Expected("absurd", "", "ExpectColumnMeanToBeBetween", "text", {"min_value": 0, "max_value": 1}),
    ]
    fine, gone, absurd = judge(frame, suite)
    assert fine.passed
    assert not gone.passed
    assert gone.error == "there is no column 'left'"
    assert not absurd.passed
