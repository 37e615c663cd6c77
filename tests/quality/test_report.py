"""The page of a run as evidence: why a row is listed, what differs in it and what does not, and names as they are."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from quality.expectations import Outcome, at_most, judge, true
from quality.joining import compared, worst
from quality.oracles.aggregates import SCALES
from quality.report import Report, page
from tests.assets.test_reporting import Text

WRONG = Outcome("identities_are_unique", "No result is there twice.", "critical", False, 3, 1)


def rows(outcome: Outcome, *differing: dict[str, object]) -> list[list[str]]:
    """The rows of all tables of a page."""
    return Text(page(Report("t", "n", "now", {}, {}, "", [outcome], worst=differing))).rows


def test_a_row_that_is_there_twice_says_so_and_names_are_told_as_they_are() -> None:
    """A key is no number, and neither is a time in microseconds."""
    expected = pl.DataFrame({"key": [1346], "measure_start": [1_704_067_200_000_000], "count": [12_345]})
    twice = worst(compared(pl.concat([expected, expected]), expected, ["key", "measure_start"], []), 3)
    assert rows(WRONG, *twice.to_dicts())[-2:] == [["1346", "1704067200000000", "engine: 2 rows", "12,345"], ["oracle", "12,345"]]


def test_only_what_differs_is_red_and_a_sum_that_is_near_enough_does_not() -> None:
    expected = pl.DataFrame({"key": ["a"], "count": [7], "sum_v": [0.3], SCALES: [{"sum_v": 0.3}]})
    engine = pl.DataFrame({"key": ["a"], "count": [8], "sum_v": [0.1 + 0.2]})
    found = worst(compared(engine, expected, ["key"], ["sum_v"]), 3).to_dicts()
    content = page(Report("t", "n", "now", {}, {}, "", [WRONG], worst=found))
    assert [part.partition("<")[0] for part in content.split('<td class="number differs">')[1:]] == ["8", "7"]


def test_rows_that_break_an_expectation_of_their_own_stand_under_its_name_to_the_last_digit() -> None:
    own = replace(WRONG, worst=({"key": 1346, "tuples": 12_345, "v": 0.1 + 0.2},))
    content = page(Report("t", "n", "now", {}, {}, "", [own]))
    assert "Rows that break: identities are unique</h2>" in content
    assert rows(own)[-2:] == [["key", "tuples", "v"], ["1346", "12345", "0.30000000000000004"]]
    # What stands among the rows that differ is not shown twice.
    joined = {"key": "a", "side": "both", "engine_rows": 2, "oracle_rows": 1, "differ": "", "n__engine": float("nan"), "n__oracle": 1.0}
    content = page(Report("t", "n", "now", {}, {}, "", [replace(WRONG, worst=({**joined},))], worst=[joined]))
    assert "Rows that differ, engine beside oracle</h2>" in content
    assert "Rows that break" not in content


def test_keys_in_tables_are_names_and_counts_are_numbers() -> None:
    content = page(Report("t", "n", "now", {}, {}, "", [WRONG], tables={"Late tuples": [{"key": 1346, "volume": 1346}]}))
    assert Text(content).rows[-1] == ["1346", "1,346"]


def test_a_long_error_is_broken_into_lines_and_not_pushed_to_the_right() -> None:
    error = "engine and oracle cannot be compared: " + "; ".join(f"column {n!r}: the engine has none" for n in range(30))
    content = page(Report("t", "n", "now", {}, {}, "", [replace(WRONG, error=error)]))
    assert '<td class="error">it could not be judged: engine and oracle' in content
    assert ".error { overflow-wrap: anywhere;" in content


def test_truth_values_are_no_examples_and_numbers_are() -> None:
    frame = pl.DataFrame({"right": [False, False, True], "share": [0.5, 0.1, 0.2]})
    truth, share = judge(frame, [true("truth", "", "right"), at_most("share", "", "share", 0.3, unit="day")])
    assert (truth.wrong, truth.examples) == (2, ())
    assert (share.wrong, share.examples) == (1, ("0.5",))
    assert (truth.told(), share.told()) == ("3 rows compared, 2 wrong", "3 days compared, 1 wrong")


@pytest.mark.parametrize(("name", "unit"), [("records_add_up", "raw file"), ("silences_are_usual", "day"), ("units_stand", "daily column")])
def test_checks_of_streams_name_what_they_compare(name: str, unit: str) -> None:
    from quality.suites.streams import suite

    (judged,) = [one for one in suite() if one.expected.name == name]
    assert judged.expected.unit == unit
