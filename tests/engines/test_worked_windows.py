"""What results of windows mean, case by case, small enough to check by hand. Time runs to the right, in seconds.

Every example is replayed with several batch sizes, early and not, and its reference has to agree: the drawings are
the documentation of the semantics, and they keep references and engines honest. Generated cases are elsewhere.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from engines import build
from replay import local
from tests.comparing import rows_of
from tests.engines.worked import MICROSECOND, TUMBLING, revisions, sums, table_of, us, windows, worked


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
