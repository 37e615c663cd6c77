"""The messages of a failed comparison are read in a hurry: they show what differs, side by side, and nothing else."""

from __future__ import annotations

import math
from fractions import Fraction

import pyarrow as pa
import pytest

from tests.comparing import assert_same_rows, difference, equal, replayed, rows_of
from tests.reference.aggregates import About

ROW = {"query": "q", "start": 0, "sum_v": About(Fraction(1, 10), Fraction(1, 10**13)), "min_v": 0.5, "tuples": 2}
NAN = float("nan")
HALF_THE_LEAST = Fraction(5e-324) / 2
"""No float is this small: the nearest is zero."""


def test_equal_rows_in_any_order_and_whatever_their_revision_are_the_same() -> None:
    written = {**ROW, "retracted": False}
    found = [{**written, "start": 5, "sum_v": 0.1, "revision": 7}, {**written, "sum_v": 0.1 + 1e-14, "revision": 1}]
    assert difference(found, [ROW, {**ROW, "start": 5}], ["query", "start"]) == ""


def test_a_failure_shows_the_differing_rows_side_by_side() -> None:
    found = [{**ROW, "sum_v": 0.25}, {**ROW, "start": 9, "sum_v": 0.1}]
    with pytest.raises(AssertionError) as failure:
        assert_same_rows(found, [ROW, {**ROW, "start": 7}], ["query", "start"])
    assert str(failure.value).split("\nassert")[0] == (
        "results: 0 rows equal, 1 differ, 1 missing, 1 unexpected\n"
        "\n"
        "query='q', start=0\n"
        "          expected      found\n"
        "  sum_v   0.1 +- 1e-13  0.25   <--\n"
        "  min_v   0.5           0.5\n"
        "  tuples  2             2\n"
        "\n"
        "query='q', start=7\n"
        "          expected      found\n"
        "  sum_v   0.1 +- 1e-13  no row\n"
        "  min_v   0.5           no row\n"
        "  tuples  2             no row\n"
        "\n"
        "query='q', start=9\n"
        "          expected  found\n"
        "  sum_v   no row    0.1\n"
        "  min_v   no row    0.5\n"
        "  tuples  no row    2"
    )


def test_a_failure_counts_what_it_does_not_show() -> None:
    message = difference([], [{"start": start} for start in range(40)], ["start"], what="late")
    assert message.startswith("late: 0 rows equal, 0 differ, 40 missing, 0 unexpected")
    assert message.endswith("... and 35 more")


def test_columns_that_are_missing_or_too_many_differ() -> None:
    assert "tuples  2         no column  <--" in difference([{"start": 0}], [{"start": 0, "tuples": 2}], ["start"])
    assert "tuples  no column  2      <--" in difference([{"start": 0, "tuples": 2}], [{"start": 0}], ["start"])


def test_a_row_that_comes_twice_is_told() -> None:
    assert difference([ROW, ROW], [ROW], ["start"]) == "results: 1 identities are found more than once, the first is start=0"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (1, 2), (1, 1.0), (True, 1), (0.0, -0.0), (None, 0), (NAN, 0.0), ("1", 1), (0.1 + 0.2, 0.3),
        (0.1 + 1e-9, About(Fraction(1, 10), Fraction(1, 10**13))), (None, About(0.0)), (1, About(1.0)), (1e308, About(math.inf)),
        (math.inf, About(-math.inf)), (NAN, About(0.0)), (0.0, About(NAN)),
        (1e-323, About(HALF_THE_LEAST)), (math.inf, About(0.0, Fraction(10**400))),
    ],
)  # fmt: skip
def test_values_that_differ_are_not_equal(found: object, expected: object) -> None:
    assert not equal(found, expected)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (1, 1), (None, None), (NAN, NAN), (-0.0, -0.0), ("a", "a"), (-0.0, About(0.0)), (NAN, About(NAN)),
        (math.inf, About(math.inf)), (0.0, About(HALF_THE_LEAST)),
    ],
)  # fmt: skip
def test_values_that_are_the_same_are_equal(found: object, expected: object) -> None:
    assert equal(found, expected)


def test_times_become_microseconds() -> None:
    table = pa.table({"ts": pa.array([-1, None], pa.timestamp("us", tz="UTC")), "v": [1.5, 2.5]})
    assert rows_of(table) == [{"ts": -1, "v": 1.5}, {"ts": None, "v": 2.5}]


def test_the_highest_revision_wins_and_a_retraction_takes_a_row_back() -> None:
    rows = [
        {"id": "a", "n": 1, "revision": 0, "retracted": False},
        {"id": "b", "n": 1, "revision": 0, "retracted": False},
        {"id": "c", "n": 1, "revision": 1, "retracted": False},
        {"id": "a", "n": 2, "revision": 3, "retracted": False},
        {"id": "b", "n": 0, "revision": 3, "retracted": True},
        {"id": "c", "n": 0, "revision": 2, "retracted": True},
        {"id": "c", "n": 5, "revision": 9, "retracted": False},
    ]
    assert {row["id"]: row["n"] for row in replayed(rows, ["id"])} == {"a": 2, "c": 5}
