"""What results of frames mean, case by case, small enough to check by hand. Time runs to the right, in seconds.

Every example is replayed with several batch sizes, early and not, and its reference has to agree: the drawings are
the documentation of the semantics, and they keep references and engines honest. Generated cases are elsewhere.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.engines.worked import MICROSECOND, Tuples, revisions, us, worked


def episodes(columns: str = "v", *aggregates: str, clocks: dict[str, str] | None = None, **settings: Any) -> dict[str, Any]:
    asked = [dict(zip(("kind", "column"), aggregate.split(), strict=False)) for aggregate in aggregates]
    return {"technique": "frames", **(clocks or {}), "frame": {"kind": "threshold", "where": "v > 0", **settings}, "aggregates": asked}


def positive(row: Any) -> bool | None:
    return None if row["v"] is None or not math.isfinite(row["v"]) else row["v"] > 0


def extents(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ("start", "end", "tuples", "open", "decided")) for row in rows]


def test_a_frame_goes_from_its_first_tuple_to_its_last_and_is_decided_by_the_one_that_closes_it() -> None:
    #  v     0   1   2   1   0       3   0
    #  ts    0   1   2   5   9      11  12
    #            [-------]  '        .  '
    rows = worked(episodes("v", "sum v", "count"), "v", [(0, 0), (1, 1), (2, 2), (5, 1), (9, 0), (11, 3), (12, 0)], where=positive)
    assert extents(rows) == [(1, 5, 3, False, 9), (11, 11, 1, False, 12)]
    shown = [(row["frame_id"], row["kind"], row["sum_v"], row["count"]) for row in rows]
    assert shown == [("@1000000", "frame", 4.0, 3), ("@11000000", "frame", 3.0, 1)]


def test_a_frame_that_nothing_closes_is_open_and_comes_with_the_flush_alone() -> None:
    #  v     1   0   1   1
    #  ts    0   1   2   3
    #        .       [-----
    tuples = [(0, 1), (1, 0), (2, 1), (3, 1)]
    assert extents(worked(episodes(), "v", tuples, where=positive)) == [(0, 0, 1, False, 1), (2, 3, 2, True, None)]
    assert extents(worked(episodes(), "v", [*tuples, (4, 1)], where=positive, flush=False)) == [(0, 0, 1, False, 1)]


@pytest.mark.parametrize(("last", "given"), [(4, []), (4 + MICROSECOND, [(0, 1, 2, False, 2)])])
def test_a_frame_is_due_when_the_watermark_has_passed_what_decides_it(last: float, given: list[tuple[Any, ...]]) -> None:
    #  v     1   1   0        0
    #  ts    0   1   2        4      delay 2: at watermark 2 another tuple may still come at 2, though it changes nothing
    #        [---]  '
    spec = episodes(clocks={"delay": "2s"})
    assert extents(worked(spec, "v", [(0, 1), (1, 1), (2, 0), (last, 0)], where=positive, flush=False)) == given


@pytest.mark.parametrize("simultaneous", [[1, 0], [0, 1]], ids=["the one that satisfies first", "last"])
def test_tuples_of_one_time_are_one_instant_and_it_satisfies_if_all_do(simultaneous: list[float]) -> None:
    #  v     1   1   1       both orders of arrival
    #                0
    #  ts    0   1   2   3
    #        [---]  '    [--
    tuples = [(0, 1), (1, 1), *[(2, v) for v in simultaneous], (3, 1)]
    assert extents(worked(episodes(), "v", tuples, where=positive)) == [(0, 1, 2, False, 2), (3, 3, 1, True, None)]


def test_simultaneous_tuples_that_all_satisfy_count_each() -> None:
    (row,) = worked(episodes("v", "first v", "last v", min_tuples=3), "v", [(1, 5), (1, 6), (1, 7), (2, 0)], where=positive)
    assert (row["start"], row["end"], row["tuples"], row["first_v"], row["last_v"]) == (1, 1, 3, 5, 7)


def test_a_minimum_is_reached_with_exactly_that_much() -> None:
    #  v     1   1   0       1       1   0   1               1   0
    #  ts    0   2   3       4     6.9   8   9              12  13
    #        [too short]     [too short]     [--- 3 s ---------]
    tuples = [(0, 1), (2, 1), (3, 0), (4, 1), (7 - MICROSECOND, 1), (8, 0), (9, 1), (12, 1), (13, 0)]
    assert extents(worked(episodes(min_duration="3s"), "v", tuples, where=positive)) == [(9, 12, 2, False, 13)]
    assert len(worked(episodes(min_tuples=2), "v", tuples, where=positive)) == 3
    assert worked(episodes(min_tuples=3), "v", tuples, where=positive) == []
    assert worked(episodes(min_tuples=3, min_duration="3s"), "v", tuples, where=positive) == [], "both have to hold"


def test_an_unknown_tuple_breaks_a_frame_or_is_left_out() -> None:
    #  v     1  null   1   0
    #  ts    0   1     2   3
    #        .  '      .  '         unknown: break
    #        [---------]  '         unknown: skip; it closes nothing and counts nowhere
    tuples = [(0, 1), (1, None), (2, 1), (3, 0)]
    broken = [(0, 0, 1, False, 1), (2, 2, 1, False, 3)]
    assert extents(worked(episodes(), "v", tuples, where=positive)) == broken
    assert extents(worked(episodes(unknown="break"), "v", tuples, where=positive)) == broken
    assert extents(worked(episodes(unknown="skip"), "v", tuples, where=positive)) == [(0, 2, 2, False, 3)]


def test_numbers_that_are_not_finite_are_nulls_here() -> None:
    spec = {**episodes("v", "sum v", "count v", "max v"), "frame": {"kind": "threshold", "where": "v is null or v > 0"}}
    tuples = [(0, 1), (1, math.inf), (2, math.nan), (3, None), (4, 2), (5, -1)]
    (row,) = worked(spec, "v", tuples, where=lambda row: positive(row) is not False)
    assert [row[name] for name in ("tuples", "sum_v", "count_v", "max_v")] == [5, 3.0, 2, 2.0]
    assert extents(worked(episodes(unknown="skip"), "v", tuples, where=positive)) == [(0, 4, 2, False, 5)]


def test_frames_of_keys_overlap_and_only_a_tuple_of_the_key_closes_its_frame() -> None:
    #  a     1       1       0
    #  b         1       0        1
    #  ts    0   1   2   3   4    9
    #        [-------]      '
    #            .      '         [-
    tuples = [(0, 1, "a"), (1, 1, "b"), (2, 1, "a"), (3, 0, "b"), (4, 0, "a"), (9, 1, "b")]
    rows = worked({**episodes(), "key": "key"}, "v key", tuples, where=positive)
    assert [(row["frame_id"], row["key"], row["start"], row["end"], row["decided"]) for row in rows] == [
        ("a@0", "a", 0, 2, 4),
        ("b@1000000", "b", 1, 1, 3),
        ("b@9000000", "b", 9, 9, None),
    ]


def test_the_key_may_be_any_column() -> None:
    tuples = [(0, 1, 7), (1, 0, 9), (2, 1, 7), (3, 0, 7)]
    (row,) = worked({**episodes(), "key": "detector"}, "v detector", tuples, where=positive)
    assert (row["frame_id"], row["key"], row["tuples"]) == ("7@0", 7, 2)


LATENESS = {"lateness": "10s"}
SHOWN = ["frame_id", "start", "end", "tuples"]


def test_a_tuple_that_comes_later_splits_a_frame_that_was_given() -> None:
    #  batch 0     1   1   1   0   0      [1 --- 3] decided at 4, due after it
    #  batch 1           0                at 2.5: [1 - 2] is the same frame, shorter; [3] is new
    #  ts          1   2   3   4   5
    batches: list[Tuples] = [[(1, 1), (2, 1), (3, 1), (4, 0), (5, 0)], [(2.5, 0)]]
    assert revisions(episodes(clocks=LATENESS), "v", batches, SHOWN) == [
        (0, False, "@1000000", us(1), us(3), 3),
        (1, False, "@1000000", us(1), us(2), 2),
        (1, False, "@3000000", us(3), us(3), 1),
    ]


def test_a_frame_whose_start_moves_is_taken_back_and_may_come_again() -> None:
    #  batch 0         1   1   0   0      [3 - 4]
    #  batch 1     1                      at 2: [2 --- 4], the frame of 3 is taken back
    #  batch 2     0                      at 2, too: that instant does not satisfy, so [3 - 4] is back and the frame of 2 is not
    #  ts          2   3   4   5   6
    spec = episodes(clocks=LATENESS)
    batches = [[(3, 1), (4, 1), (5, 0), (6, 0)], [(2, 1), (6, 0), (6, 0), (6, 0)], [(2, 0)]]
    given = revisions(spec, "v", batches, ["frame_id", "tuples"])
    assert [row for row in given if row[1]] == [(1, True, "@3000000", 0), (2, True, "@2000000", 0)]
    assert [row for row in given if not row[1]] == [(0, False, "@3000000", 2), (1, False, "@2000000", 3), (2, False, "@3000000", 2)]
    assert extents(worked(spec, "v", [row for batch in batches for row in batch], where=positive)) == [(3, 4, 2, False, 5)]


def test_a_frame_that_no_longer_reaches_its_minimum_is_taken_back() -> None:
    batches = [[(1, 1), (2, 1), (3, 1), (4, 0), (5, 0)], [(2, 0)]]
    given = revisions(episodes(clocks=LATENESS, min_tuples=2), "v", batches, ["frame_id", "tuples"])
    assert given == [(0, False, "@1000000", 3), (1, True, "@1000000", 0)]


def test_a_frame_that_was_given_grows_with_a_tuple_before_the_one_that_closed_it() -> None:
    #  batch 0     1       0   0     [1] closed at 4
    #  batch 1         1             at 3: [1 --- 3], the same frame, longer
    #  ts          1   3   4   5
    given = revisions(episodes(clocks=LATENESS), "v", [[(1, 1), (4, 0), (5, 0)], [(3, 1)]], SHOWN)
    assert given == [(0, False, "@1000000", us(1), us(1), 1), (1, False, "@1000000", us(1), us(3), 2)]


def test_a_late_tuple_splits_nothing() -> None:
    #  v     1   1   1   0       0
    #  ts    0   1   2   3       9       late at 1.5: delay 2, lateness 3
    tuples = [(0, 1), (1, 1), (2, 1), (3, 0), (9, 0), (1.5, 0)]
    assert extents(worked(episodes(clocks={"delay": "2s", "lateness": "3s"}), "v", tuples, where=positive)) == [(0, 2, 3, False, 3)]
