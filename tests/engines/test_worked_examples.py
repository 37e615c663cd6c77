"""What results mean, case by case, small enough to check by hand. Time runs to the right, in seconds.

Every example is replayed with several batch sizes, early and not, and its reference has to agree: the drawings are
the documentation of the semantics, and they keep references and engines honest. Generated cases are elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from engines import build
from replay import local
from tests.comparing import assert_same_rows, rows_of
from tests.reference import clock, frames, slicing
from tests.reference.frames import Predicate

SECOND = 1_000_000
MICROSECOND = 1e-6
TYPES = {"v": pa.float64(), "n": pa.int64(), "key": pa.string(), "detector": pa.int64()}


def us(seconds: float) -> int:
    return round(seconds * SECOND)


def in_seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / SECOND


def table_of(columns: str, tuples: Sequence[Sequence[Any]]) -> pa.Table:
    """Tuples of `ts` (in seconds) and these columns, in order of arrival."""
    names = columns.split()
    arrays = {"ts": pa.array([us(row[0]) for row in tuples], pa.timestamp("us", tz="UTC"))}
    return pa.table(arrays | {name: pa.array([row[i] for row in tuples], TYPES[name]) for i, name in enumerate(names, start=1)})


Tuples = Sequence[Sequence[Any]]
Rows = list[dict[str, Any]]


def worked(spec: dict[str, Any], columns: str, tuples: Tuples, *, where: Predicate | None = None, flush: bool = True) -> Rows:
    """The final rows, in seconds and in order; the same for every way of replaying them, and by the reference."""
    table, engine = table_of(columns, tuples), build(spec)
    rows = rows_of(table)
    everything = slicing.results(rows, spec) if where is None else frames.results(rows, spec, where)
    identity = slicing.IDENTITY if where is None else frames.IDENTITY
    final = clock.given(everything, rows, spec, early=False, flush=flush)
    for batch_rows in (1, 2, len(tuples) + 1):
        for early in (True, False):
            run = local.run(engine, table, batch_rows=batch_rows, early=early, flush=flush)
            assert_same_rows(run.final, final, identity)
            assert_same_rows(run.late, clock.late(rows, spec), ("arrival",), what="late")
    times = ("window_start", "window_end", "start", "end", "decided")
    return [{name: in_seconds(value) if name in times else value for name, value in row.items()} for row in rows_of(run.final)]


def revisions(spec: dict[str, Any], columns: str, batches: Sequence[Tuples], show: Sequence[str]) -> list[tuple[Any, ...]]:
    """What is given batch by batch, without a flush: the batch, whether it takes back, and these columns."""
    size = len(batches[0])
    assert all(len(batch) == size for batch in batches[:-1])
    run = local.run(build(spec), table_of(columns, [row for batch in batches for row in batch]), batch_rows=size, flush=False)
    return [(row["revision"], row["retracted"], *[row[name] for name in show]) for row in rows_of(run.results)]


def windows(window: dict[str, str], *aggregates: str, **clocks: str) -> dict[str, Any]:
    """One query; aggregates as `kind` or `kind column`."""
    asked = [dict(zip(("kind", "column"), aggregate.split(), strict=False)) for aggregate in aggregates]
    return {"technique": "slicing", **clocks, "queries": [{"name": "q", "window": window, "aggregates": asked}]}


TUMBLING = {"kind": "tumbling", "length": "10s"}


def sums(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ("window_start", "window_end", *(names or ("sum_v",)))) for row in rows]


# Windows


def test_a_window_holds_its_start_and_not_its_end() -> None:
    #  v           1         2 4        8
    #  ts          0      9.99 10       20
    #      |-------[---------)[---------)[---------)
    rows = worked(windows(TUMBLING, "sum v"), "v", [(0, 1), (10 - MICROSECOND, 2), (10, 4), (20, 8)])
    assert sums(rows) == [(0, 10, 3), (10, 20, 4), (20, 30, 8)]


def test_windows_without_tuples_are_not_given() -> None:
    #  v     1                              2
    #  ts    3                              35
    #      [---------)         )         )[---------)
    assert sums(worked(windows(TUMBLING, "sum v"), "v", [(3, 1), (35, 2)])) == [(0, 10, 1), (30, 40, 2)]


def test_a_tuple_is_in_every_sliding_window_over_it() -> None:
    #  v                   1        2
    #  ts                  4        6
    #          [-3 -------- 4)
    #             [0 ----------- 7)          length 7, slide 3: not a divisor
    #                      [3 ----------- 10)
    #                               [6 ----------- 13)
    rows = worked(windows({"kind": "sliding", "length": "7s", "slide": "3s"}, "sum v"), "v", [(4, 1), (6, 2)])
    assert sums(rows) == [(0, 7, 3), (3, 10, 3), (6, 13, 2)]


def test_between_windows_that_slide_further_than_they_are_long_tuples_are_in_none() -> None:
    #  v      1     2   4       8        16
    #  ts     0     1   2       4.999    5
    #      [0 ----- 2)                [5 ----- 7)
    tuples = [(0, 1), (1, 2), (2, 4), (5 - MICROSECOND, 8), (5, 16)]
    rows = worked(windows({"kind": "sliding", "length": "2s", "slide": "5s"}, "sum v"), "v", tuples)
    assert sums(rows) == [(0, 2, 3), (5, 7, 16)]


def test_the_grid_goes_through_the_epoch_moved_by_the_offset_before_1970_too() -> None:
    #  v          1  2          4  8
    #  ts        -9 -8          2  1.99
    #      [-18 ----)[-8 -------)[2 ------- 12)
    rows = worked(windows({**TUMBLING, "offset": "-8s"}, "sum v", delay="1s"), "v", [(-9, 1), (-8, 2), (2, 4), (2 - MICROSECOND, 8)])
    assert sums(rows) == [(-18, -8, 1), (-8, 2, 10), (2, 12, 4)]
    assert sums(worked(windows({**TUMBLING, "offset": "22s"}, "sum v"), "v", [(-9, 1)])) == [(-18, -8, 1)]


def test_bounds_in_the_measure_are_microseconds_and_a_window_is_decided_with_its_last_one() -> None:
    (row,) = worked(windows(TUMBLING, "count"), "v", [(12, None)])
    assert row["measure_start"], row["measure_end"] == (us(10), us(20))
    assert row["decided"] == 20 - MICROSECOND
    assert (row["query"], row["key"], row["count"], row["tuples"]) == ("q", None, 1, 1)


@pytest.mark.parametrize(("last", "given"), [(12 - MICROSECOND, []), (12, [(0, 10, 1)])])
def test_a_window_is_due_when_the_watermark_reaches_its_end(last: float, given: list[tuple[Any, ...]]) -> None:
    #  v       1                     2
    #  ts      3                     12        delay 2: the watermark is 10, all before it is here
    #      [0 ------------- 10)
    assert sums(worked(windows(TUMBLING, "sum v", delay="2s"), "v", [(3, 1), (last, 2)], flush=False)) == given


def test_a_tuple_is_late_behind_the_border_and_not_on_it() -> None:
    #  v             4  8                    1 2 (arrival 0, 1)
    #  ts           14  15                  20 20        delay 2, lateness 3: the border is at 15
    #               late|accepted
    spec = windows(TUMBLING, "sum v", delay="2s", lateness="3s")
    tuples = [(20, 1), (20, 2), (15 - MICROSECOND, 4), (15, 8)]
    assert sums(worked(spec, "v", tuples)) == [(10, 20, 8), (20, 30, 3)]
    (late,) = rows_of(local.run(build(spec), table_of("v", tuples)).late)
    assert late == {"ts": us(15) - 1, "v": 4.0, "arrival": 2, "watermark": us(18)}


def test_a_late_tuple_moves_no_clock_and_is_in_no_window() -> None:
    spec = windows(TUMBLING, "count")
    assert sums(worked(spec, "v", [(30, 1), (5, 2), (5, 3), (30, 4)]), "count") == [(30, 40, 2)]


def test_a_window_that_was_due_is_revised_until_it_is_final() -> None:
    #  batch 0: 3 (v 1), 11 (v 2)   W 11, V 1:  [0, 10) is due
    #  batch 1: 4 (v 4), 12 (v 8)   W 12, V 2:  [0, 10) has changed
    #  batch 2: 13, 14              W 14, V 4:  nothing has changed
    #  batch 3: 9 (v 16), 19        W 19, V 9:  [0, 10) has changed
    spec = windows(TUMBLING, "sum v", lateness="10s")
    batches = [[(3, 1), (11, 2)], [(4, 4), (12, 8)], [(13, 0), (14, 0)], [(9, 16), (19, 0)]]
    assert revisions(spec, "v", batches, ["sum_v", "tuples"]) == [(0, False, 1.0, 1), (1, False, 5.0, 2), (3, False, 21.0, 3)]


def test_the_clock_is_the_stream_s_and_windows_are_the_key_s() -> None:
    #  a     1
    #  b                         2         the clock of b makes the window of a due
    #  ts    3                   12
    #      [0 ---------- 10)
    spec = windows(TUMBLING, "sum v")
    tuples = [(3, 1, "a"), (12, 2, "b")]
    assert [(row["key"], row["sum_v"]) for row in worked(spec, "v key", tuples, flush=False)] == [("a", 1)]
    assert [(row["key"], row["sum_v"]) for row in worked(spec, "v key", tuples)] == [("a", 1), ("b", 2)]


def test_null_is_a_key() -> None:
    rows = worked(windows(TUMBLING, "sum v"), "v key", [(1, 1, None), (2, 2, "a"), (3, 4, None)])
    assert {row["key"]: row["sum_v"] for row in rows} == {None: 5, "a": 2}


def test_queries_share_columns_and_what_a_query_did_not_ask_for_is_null() -> None:
    spec = {
        "technique": "slicing",
        "queries": [
            {"name": "long", "window": {"kind": "tumbling", "length": "20s"}, "aggregates": [{"kind": "max", "column": "v"}]},
            {"name": "short", "window": TUMBLING, "aggregates": [{"kind": "count"}, {"kind": "max", "column": "v", "as": "top"}]},
        ],
    }
    rows = worked(spec, "v", [(1, 5), (12, 3)])
    assert [(row["query"], row["window_start"], row["max_v"], row["count"], row["top"]) for row in rows] == [
        ("long", 0, 5, None, None),
        ("short", 0, None, 1, 5),
        ("short", 10, None, 1, 3),
    ]


def test_rows_are_sorted_by_query_key_end_and_start() -> None:
    spec = {
        "technique": "slicing",
        "queries": [
            {"name": name, "window": {"kind": "sliding", "length": length, "slide": "5s"}, "aggregates": [{"kind": "count"}]}
            for name, length in (("b", "5s"), ("a", "10s"))
        ],
    }
    rows = worked(spec, "v key", [(6, 0, "y"), (7, 0, "x")])
    assert [(row["query"], row["key"], row["window_start"]) for row in rows] == [
        ("a", "x", 0), ("a", "x", 5), ("a", "y", 0), ("a", "y", 5), ("b", "x", 5), ("b", "y", 5),
    ]  # fmt: skip


ALL = ("count", "count v", "sum v", "mean v", "min v", "max v", "first v", "last v")


def test_null_and_nan_are_skipped_and_nothing_left_is_null() -> None:
    rows = worked(windows(TUMBLING, *ALL), "v", [(1, None), (2, 3.0), (3, math.nan), (4, 5.0), (11, math.nan), (12, None)])
    first, second = ([row["_".join(name.split())] for name in ALL] for row in rows)
    assert first == [4, 2, 8.0, 4.0, 3.0, 5.0, 3.0, 5.0]
    assert second == [2, 0, None, None, None, None, None, None]


def test_infinities_are_values() -> None:
    (row,) = worked(windows(TUMBLING, *ALL), "v", [(1, 1.0), (2, math.inf), (3, 2.0)])
    assert [row["_".join(name.split())] for name in ALL] == [3, 3, math.inf, math.inf, 1.0, math.inf, 1.0, 2.0]
    (row,) = worked(windows(TUMBLING, "sum v", "mean v", "min v"), "v", [(1, -math.inf), (2, math.inf)])
    assert math.isnan(row["sum_v"])
    assert math.isnan(row["mean_v"])
    assert row["min_v"] == -math.inf


def test_sums_of_whole_numbers_are_exact_and_null_beyond_64_bits() -> None:
    most = 2**63 - 1
    rows = worked(windows(TUMBLING, "sum n", "mean n"), "n", [(1, most), (2, 5), (3, -5), (11, most), (12, 1), (21, -most), (22, -1)])
    assert sums(rows, "sum_n") == [(0, 10, most), (10, 20, None), (20, 30, -most - 1)]
    assert rows[1]["mean_n"] == 2.0**62, "the sum is kept in 128 bits, so the mean is still right"


def test_sums_of_floats_forget_nothing() -> None:
    rows = worked(windows(TUMBLING, "sum v"), "v", [(1, 1e16), (2, 1.0), (3, -1e16), (4, 1.0)])
    assert sums(rows) == [(0, 10, 2.0)]


def test_first_and_last_go_by_time_and_then_by_arrival() -> None:
    #  arrival    0  1  2  3  4
    #  ts         5  2  5  2  3
    #  v          1  2  3  4  5         order: 2 (v 2), 2 (v 4), 3, 5 (v 1), 5 (v 3)
    tuples = [(5, 1), (2, 2), (5, 3), (2, 4), (3, 5)]
    (row,) = worked(windows(TUMBLING, "first v", "last v", delay="9s"), "v", tuples)
    assert (row["first_v"], row["last_v"]) == (2, 3)


# Frames


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
