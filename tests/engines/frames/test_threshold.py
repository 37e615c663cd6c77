"""Threshold frames, drawn: where they begin and end, when they are due, and what becomes of them when tuples come late."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from engines import build
from engines.contract import BEGINNING, FOREVER, NOWHERE, TIMESTAMP, Interval
from engines.state import State
from tests.engines.frames.drawing import SECOND, batch, drawn, extents, frames_of, lowered, operator, replay, spec

ALONE = Interval(BEGINNING, FOREVER)


@pytest.mark.parametrize("alone", [ALONE, NOWHERE, Interval(2 * SECOND, 6 * SECOND)], ids=["alone", "nowhere", "partly alone"])
@pytest.mark.parametrize(("tuples", "frames", "frame"), [
    (["..##.#..###"],
     ["  [] |  [-]"], {}),
    (["# ## . #  #"],
     ["[--]   [--]"], {}),                                    # silence is in a frame: only tuples close it
    (["..##.#..###"],
     ["        [-]"], {"min_tuples": 3}),
    (["##.# #.##.#"],
     ["   [-]     "], {"min_duration": "2s"}),
    (["#####.# ##."],
     ["[---]      "], {"min_tuples": 4, "min_duration": "3s"}),  # both must hold
    (["##?##.##??#"],
     ["[] [] []  |"], {}),                                    # unknown does not satisfy
    (["##?##.##??#"],
     ["[---] [---]"], {"unknown": "skip"}),
    (["?.?#?.?"],
     ["   |   "], {"unknown": "skip"}),
    (["#####",
      "  .  "],
     ["[] []"], {}),                                          # an instant satisfies if all of its tuples do
    (["  .  ",
      "#####"],
     ["[] []"], {}),
    (["#####",
      "  #  "],
     ["[---]"], {"min_tuples": 6}),
    (["#####",
      "  ?  "],
     ["[---]"], {"unknown": "skip", "min_duration": "4s"}),
    (["....."],
     ["     "], {}),
    (["#####"],
     ["[---]"], {}),
])  # fmt: skip
def test_a_frame_is_a_maximal_run_that_is_long_enough(tuples: list[str], frames: list[str], frame: dict[str, Any], alone: Interval) -> None:
    assert extents(replay(drawn(*tuples), alone=alone, frame=frame)) == frames_of(*frames)


def test_a_frame_knows_its_tuples_and_what_closed_it() -> None:
    """Timeline of key a:

    ..##.#  #
      [] [--]
    """
    rows = replay(drawn("..##.#  #"), aggregates=[{"kind": "sum", "column": "v"}, {"kind": "first", "column": "v"}])
    common = {"key": "a", "kind": "frame", "first_v": 1.0, "revision": 0, "retracted": False, "tuples": 2, "sum_v": 2.0}
    assert rows == [
        {**common, "frame_id": "a@2000000", "start": 2, "end": 3, "open": False, "decided": 4},
        {**common, "frame_id": "a@5000000", "start": 5, "end": 8, "open": True, "decided": None},
    ]


def test_a_microsecond_less_than_the_minimum_is_too_short() -> None:
    tuples = [(0, "a", 1.0), (1_999_999, "a", 1.0), (3_000_000, "a", -1.0), (4_000_000, "a", 1.0), (6_000_000, "a", 1.0)]
    assert extents(replay(tuples, frame={"min_duration": "2s"})) == [(4, 6)]


def test_keys_have_frames_of_their_own_sorted_by_key_and_time() -> None:
    """Null is a key, sorted first, and has no name in ids.

    b     ## ##
    null  #. #
    a      #. #
    """
    tuples = sorted(drawn("## ##", key="b") + drawn("#. #", key=None) + drawn(" #. #", key="a"), key=lambda row: row[0])
    rows = replay(tuples)
    assert [row["frame_id"] for row in rows] == ["@0", "@3000000", "a@1000000", "a@4000000", "b@0"]
    assert [row["key"] for row in rows] == [None, None, "a", "a", "b"]


@pytest.mark.parametrize(("keys", "ids"), [
    (pa.array([7, -7, None]), ["7@0", "-7@0", "@0"]),
    (pa.array(["x", "y", None]).dictionary_encode(), ["x@0", "y@0", "@0"]),
    (pa.array([True, False, None]), ["true@0", "false@0", "@0"]),
    (pa.array([b"\xff", b"", None]), ["ff@0", '""@0', "@0"]),
    (pa.array(["", "@0", None]), ['""@0', "@0@0", "@0"]),
    (pa.array(['"', '""', ""]), ['"""@0', '""""@0', '""@0']),
    (pa.array(['"a"', "a", 'a"']), ['""a""@0', "a@0", 'a"@0']),
])  # fmt: skip
def test_any_type_of_key_makes_an_id(keys: pa.Array, ids: list[str]) -> None:
    rows = pa.record_batch({"ts": pa.array([0, 0, 0], TIMESTAMP), "k": keys, "v": [1.0, 1.0, 1.0]})
    by = build(spec(key="k")).on(rows.schema)
    state = State(by.tables)
    by.combine(state, [by.lift(rows, NOWHERE)])
    assert sorted(row["frame_id"] for row in lowered(by, state, FOREVER)) == sorted(ids)


def test_without_a_key_all_tuples_are_one_stream() -> None:
    rows = pa.record_batch({"ts": pa.array([0, 1, 2], TIMESTAMP), "v": [1.0, 1.0, -1.0]})
    by = build(spec()).on(rows.schema)
    state = State(by.tables)
    by.combine(state, [by.lift(rows, NOWHERE)])
    assert [(row["frame_id"], row["key"], row["tuples"]) for row in lowered(by, state, FOREVER)] == [("@0", None, 2)]


def test_a_frame_is_due_after_the_tuple_that_closes_it_and_open_ones_only_at_the_flush() -> None:
    """
    ##.##
    [-]      decided 2: due with 2.000001, not with 2
       []    nothing closes it
    """  # noqa: D205, D400, D415, D212
    by = operator()
    state = State(by.tables)
    by.combine(state, [by.lift(batch(drawn("##.##")), NOWHERE)])
    assert lowered(by, state, 2) == []
    assert extents(lowered(by, state, 2.000001)) == [(0, 1)]
    assert lowered(by, state, 4) == []
    assert extents(lowered(by, state, FOREVER)) == [(3, 4)]
    assert state.rows == 0


def test_a_frame_across_a_thousand_batches_is_one_frame_in_one_row_of_state() -> None:
    by = operator(aggregates=[{"kind": "mean", "column": "v"}, {"kind": "last", "column": "v"}])
    state = State(by.tables)
    for second in range(1_000):
        tuples = batch([(second * SECOND, "a", float(second + 1)), (second * SECOND, "b", -1.0)], first=2 * second)
        by.combine(state, [by.lift(tuples, Interval((second - 1) * SECOND, second * SECOND))])
        assert lowered(by, state, second) == []
        assert state.rows <= 3
    (row,) = lowered(by, state, FOREVER)
    assert (row["start"], row["end"], row["tuples"], row["mean_v"], row["last_v"], row["open"]) == (0, 999, 1000, 500.5, 1000.0, True)


def test_silent_keys_keep_their_frames_open_until_they_are_heard_of_again() -> None:
    """Ten keys begin a frame at 0; the fourth, and the one without a name, go on at 5 and end it at 6."""
    by = operator()
    state = State(by.tables)
    names = [*"abcdefghi", None]
    by.combine(state, [by.lift(batch((0, name, 1.0) for name in names), NOWHERE)])
    assert lowered(by, state, 1) == []
    by.combine(state, [by.lift(batch((second * SECOND, name, 5.5 - second) for second in (5, 6) for name in ("d", None)), NOWHERE)])
    assert [(row["key"], row["start"], row["end"], row["tuples"]) for row in lowered(by, state, 7)] == [(None, 0, 5, 2), ("d", 0, 5, 2)]
    assert [row["frame_id"] for row in lowered(by, state, FOREVER)] == [f"{name}@0" for name in "abcefghi"]


def test_an_instant_whose_tuples_come_in_different_batches_is_one() -> None:
    """The watermark stands at second 2, where more may come:

    first batch    ###
    second batch     .#
    frames         [] |
    """
    by = operator()
    state = State(by.tables)
    by.combine(state, [by.lift(batch(drawn("###")), Interval(BEGINNING, 2 * SECOND))])
    assert lowered(by, state, 2) == []
    by.combine(state, [by.lift(batch(drawn("  .#")), Interval(2 * SECOND, 3 * SECOND))])
    assert extents(lowered(by, state, 3)) == [(0, 1)]
    assert extents(lowered(by, state, FOREVER)) == [(3, 3)]


def test_a_run_that_reaches_past_the_end_of_a_day_is_kept_whole() -> None:
    """A day ends at second 3; the batch was read, and is alone, up to second 6:

    .#####.
      day |
    """
    by = operator()
    state = State(by.tables)
    by.combine(state, [by.lift(batch(drawn(".#####.")), ALONE)])
    assert lowered(by, state, 3) == []
    assert state.rows == 2
    assert extents(lowered(by, state, 7)) == [(1, 5)]
    assert state.rows == 0


@pytest.mark.parametrize(("first", "later", "given", "written_again"), [
    ("####.",
     "  .  ", "[--] ", "[] | "),
    ("## #.",
     "  #  ", "[--] ", "[--] "),
    ("## ..",
     "  #  ", "[]   ", "[-]  "),
    ("### .",
     "  .  ", "[-]  ", "[]   "),
    ("##  .",
     "  .  ", "[]   ", "[]   "),
    ("###..",
     "    #", "[-]  ", "     "),
    ("##.  ",
     "   #.", "[]   ", "   | "),
], ids=["split", "of more tuples", "prolonged", "shortened", "closed earlier", "as before", "another one"])  # fmt: skip
def test_late_tuples_revise_frames_that_were_given_early(first: str, later: str, given: str, written_again: str) -> None:
    """Everything is due and nothing final; what has changed is written again, and nothing else."""
    by = operator()
    state = State(by.tables)
    by.combine(state, [by.lift(batch(drawn(first)), NOWHERE)])
    assert extents(lowered(by, state, 10, 0)) == frames_of(given)
    assert lowered(by, state, 10, 0) == []
    by.combine(state, [by.lift(batch(drawn(later), first=100), NOWHERE)])
    found = lowered(by, state, 10, 0)
    assert extents(found) == frames_of(written_again)
    assert not any(row["retracted"] for row in found)
    assert lowered(by, state, 10, 10) == [], "all is final now, and as it was given"


def test_a_frame_that_begins_earlier_takes_back_the_id_it_had() -> None:
    """
    first    ##.
    later   #
    given    []     a@1
    then    [-]     a@0, and a@1 is retracted
    """  # noqa: D205, D400, D415, D212
    by = operator(aggregates=[{"kind": "mean", "column": "v"}])
    state = State(by.tables)
    by.combine(state, [by.lift(batch(drawn(" ##.")), NOWHERE)])
    assert extents(lowered(by, state, 4, 0)) == [(1, 2)]
    by.combine(state, [by.lift(batch(drawn("#"), first=100), NOWHERE)])
    found = lowered(by, state, 4, 0)
    written = [(row["frame_id"], row["retracted"], row["tuples"], row["mean_v"]) for row in found]
    assert written == [("a@0", False, 3, 1.0), ("a@1000000", True, 0, None)]
    assert lowered(by, state, 4, 4) == [], "final now, and unchanged"
    assert state.rows == 0


def test_a_frame_that_becomes_too_short_is_taken_back() -> None:
    """At least 3 s:

    first   ####.
    then      .       nothing is long enough
    """
    by = operator(frame={"min_duration": "3s"})
    state = State(by.tables)
    by.combine(state, [by.lift(batch(drawn("####.")), NOWHERE)])
    assert extents(lowered(by, state, 5, 0)) == [(0, 3)]
    by.combine(state, [by.lift(batch(drawn("  ."), first=100), NOWHERE)])
    assert [(row["frame_id"], row["retracted"]) for row in lowered(by, state, 5, 0)] == [("a@0", True)]
    assert lowered(by, state, FOREVER) == []


def test_early_rows_need_no_state_when_all_that_is_due_is_final() -> None:
    by = operator()
    state = State(by.tables)
    by.combine(state, [by.lift(batch(drawn("##.##.")), NOWHERE)])
    assert len(lowered(by, state, 6)) == 2
    assert "given" not in state.changed


def test_a_state_that_nothing_has_changed_is_not_written_again() -> None:
    by = operator()
    state = State(by.tables)
    by.combine(state, [by.lift(batch(drawn("##")), NOWHERE)])
    lowered(by, state, 2)
    state.changed.clear()
    by.combine(state, [by.lift(batch([]), NOWHERE)])
    lowered(by, state, 3)
    assert not state.changed
