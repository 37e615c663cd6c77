"""Oracles on small cases that were worked out by hand, each drawn in order of arrival, in seconds.

What follows a drawing is the answer by definition. Generated cases are in test_oracles_against_engines.py.
"""

from __future__ import annotations

from datetime import date
from typing import Any

import polars as pl
import pytest

from engines.spec import SpecError
from quality.oracles import float_columns, identity, of_days, oracle, slicing, techniques
from quality.oracles.aggregates import SCALES
from tests.quality.drawing import SECOND, TIME, drawn, log_of, seconds


def windows(log: pl.DataFrame, window: dict[str, str], **clocks: str) -> list[tuple[Any, ...]]:
    """Start, end and sum of v of each window."""
    query = {"name": "q", "window": window, "aggregates": [{"kind": "sum", "column": "v"}]}
    rows = oracle({"technique": "slicing", **clocks, "queries": [query]}, log)["results"]
    return seconds(rows, "measure_start", "measure_end", "sum_v")


def frames(log: pl.DataFrame, where: str, **settings: Any) -> list[tuple[Any, ...]]:
    """Start, end, tuples, open and decided of each frame; `delay`, `lateness` and `key` go to the specification, the rest to the frame."""
    outer = {name: settings.pop(name) for name in ("delay", "lateness", "key") if name in settings}
    rows = oracle({"technique": "frames", **outer, "frame": {"where": where, **settings}}, log)["results"]
    return seconds(rows, "start", "end", "tuples", "open", "decided")


class TestWindows:
    def test_slides_that_do_not_divide_the_length(self) -> None:
        log = drawn("""
            ts | 0  4  9  10  12
            v  | 1  2  4   8  16
        """)
        assert windows(log, {"kind": "sliding", "length": "10s", "slide": "3s"}) == [
            (-9, 1, 1), (-6, 4, 1), (-3, 7, 3), (0, 10, 7), (3, 13, 30), (6, 16, 28), (9, 19, 28), (12, 22, 16),
        ]  # fmt: skip

    def test_a_slide_longer_than_the_window_leaves_tuples_out(self) -> None:
        #  [0 1 2)           [8 9 10)
        log = drawn("""
            ts | 0  4  8  9
            v  | 1  2  4  8
        """)
        assert windows(log, {"kind": "sliding", "length": "3s", "slide": "8s"}) == [(0, 3, 1), (8, 11, 12)]

    def test_the_grid_goes_on_before_the_epoch(self) -> None:
        #  [-13 .. -4][-3 .. 6][7 .. 16]
        log = drawn("""
            ts | -4  -3  6  7
            v  |  1   2  4  8
        """)
        assert windows(log, {"kind": "tumbling", "length": "10s", "offset": "-3s"}) == [(-13, -3, 1), (-3, 7, 6), (7, 17, 8)]

    def test_late_tuples_are_in_no_window(self) -> None:
        # After 30 the watermark is 28, the final watermark 25: 24 is late, 26 is not.
        log = drawn("""
            ts | 1  14  9  30  24  26
            v  | 1   2  4   8  16  32
        """)
        tumbling = {"kind": "tumbling", "length": "10s"}
        assert windows(log, tumbling, delay="2s", lateness="3s") == [(0, 10, 5), (10, 20, 2), (20, 30, 32), (30, 40, 8)]
        query = {"name": "q", "window": tumbling, "aggregates": [{"kind": "count"}]}
        late = oracle({"technique": "slicing", "delay": "2s", "lateness": "3s", "queries": [query]}, log)["late"]
        assert late.columns == ["arrival", "ts", "v", "watermark"]
        assert seconds(late, "arrival", "ts", "v", "watermark") == [(4, 24, 16, 28)]

    def test_a_tuple_at_the_final_watermark_is_not_late(self) -> None:
        log = drawn("""
            ts | 30  25  24.999999
            v  |  1   2          4
        """)
        assert windows(log, {"kind": "tumbling", "length": "100s"}, delay="2s", lateness="3s") == [(0, 100, 3)]

    def test_windows_hold_their_start_and_not_their_end(self) -> None:
        log = drawn("""
            ts | 9.999999  10
            v  |        1   2
        """)
        assert windows(log, {"kind": "tumbling", "length": "10s"}) == [(0, 10, 1), (10, 20, 2)]

    def test_a_few_windows_at_a_time_give_the_same_as_all_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        log = log_of(pl.DataFrame({"ts": [7 * i % 50 for i in range(50)], "v": range(50)}).with_columns(pl.col("ts").cast(TIME)))
        window = {"kind": "sliding", "length": "17us", "slide": "3us", "offset": "1us"}
        at_once = windows(log, window, delay="1s")
        monkeypatch.setattr(slicing, "MOST_ROWS", 100)
        assert windows(log, window, delay="1s") == at_once
        by_definition = [(s, s + 17, sum(7 * i % 50 in range(s, s + 17) and i for i in range(50))) for s in range(-14, 50, 3)]
        assert [(round(s * SECOND), round(e * SECOND), v) for s, e, v in at_once] == by_definition


class TestAggregates:
    #  in order of (ts, arrival): b c d a e
    LOG = """
        ts  | 4  1  2  2  4
        v   | 4  1  -  4  1
        w   | a  b  c  d  e
        key | k  k  k  k  k
    """

    def test_nulls_are_skipped_and_ties_are_settled_by_arrival(self) -> None:
        kinds = ("count", "sum", "mean", "min", "max", "first", "last")
        spec = query_of(
            [{"kind": "count"}, *({"kind": kind, "column": "v"} for kind in kinds), {"kind": "sum", "column": "v", "as": "total"}]
        )
        (row,) = oracle(spec | {"delay": "10s"}, drawn(self.LOG))["results"].to_dicts()
        assert {name: row[name] for name in row if "_v" in name or name in ("count", "total", "tuples", "key")} == {
            "key": "k", "count": 5, "tuples": 5, "count_v": 4, "sum_v": 10, "mean_v": 2.5, "min_v": 1, "max_v": 4, "first_v": 1,
            "last_v": 1, "total": 10, 
        }  # fmt: skip
        assert row[SCALES] == {"mean_v": 2.5}
        assert row["decided"].microsecond == 999_999

    def test_nothing_but_nulls_is_null_and_counts_0(self) -> None:
        kinds = ("count", "sum", "mean", "min", "first")
        log = drawn("""
            ts | 1  2
            v  | -  nan
        """)
        (row,) = oracle(query_of([{"kind": kind, "column": "v"} for kind in kinds]), log)["results"].to_dicts()
        assert [row[f"{kind}_v"] for kind in kinds] == [0, None, None, None, None]

    def test_infinities_are_values_of_windows_and_nulls_of_frames(self) -> None:
        log = log_of(pl.DataFrame({"ts": [0, 1], "v": [float("inf"), 2.0]}).with_columns(pl.col("ts").cast(TIME)))
        asked = [{"kind": kind, "column": "v"} for kind in ("count", "sum", "max", "first")]
        in_frames = {"technique": "frames", "frame": {"where": "true"}, "aggregates": asked}
        names = ["count_v", "sum_v", "max_v", "first_v"]
        assert oracle(query_of(asked), log)["results"].select(names).rows() == [(2, float("inf"), float("inf"), float("inf"))]
        assert oracle(in_frames, log)["results"].select(names).rows() == [(1, 2.0, 2.0, 2.0)]

    def test_sums_of_integers_are_exact_and_null_beyond_64_bits(self) -> None:
        log = log_of(pl.DataFrame({"ts": [0, 1, 20, 21], "v": [2**62, 2**62 - 1, 2**62, 2**62]}).with_columns(pl.col("ts").cast(TIME)))
        spec = query_of([{"kind": "sum", "column": "v"}, {"kind": "mean", "column": "v"}], length="10us")
        assert oracle(spec, log)["results"].select("sum_v", "mean_v").rows() == [(2**63 - 1, 2.0**62), (None, 2.0**62)]

    def test_aggregates_that_a_query_did_not_ask_for_are_null(self) -> None:
        log = drawn("""
            ts | 1
            v  | 3
        """)
        spec = query_of([{"kind": "max", "column": "v"}])
        spec["queries"].append({**spec["queries"][0], "name": "a", "aggregates": [{"kind": "count"}]})
        assert oracle(spec, log)["results"].select("query", "max_v", "count").rows() == [("a", None, 1), ("q", 3, None)]


class TestFrames:
    def test_the_next_tuple_closes_a_frame_of_the_least_duration(self) -> None:
        #         [60 . . . . 180]             300 is too short
        log = drawn("""
            ts   | 0    60   120  180  240  300  360
            drop | 0.1  0.4  0.5  0.4  0.2  0.6  0.1
        """)
        assert frames(log, "drop > 0.3", min_duration="120s") == [(60, 180, 3, False, 240)]
        assert frames(log, "drop > 0.3", min_duration="120.000001s") == []

    def test_a_frame_that_only_the_flush_closes_is_open(self) -> None:
        #  two tuples      two tuples     [6 . . . . . . . . 9]
        log = drawn("""
            ts | 0    1    2    3    4     5    6    7    8    9
            f  | 0.3  0.3  0.1  0.3  0.21  0.2  0.5  0.5  0.5  0.5
        """)
        assert frames(log, "f > 0.2", min_tuples=3) == [(6, 9, 4, True, None)]

    @pytest.mark.parametrize("f", ["1 1 0 1", "1 0 1 1"])
    def test_an_instant_satisfies_if_all_its_tuples_do_in_any_order(self, f: str) -> None:
        log = drawn(f"""
            ts | 1 2 2 3
            f  | {f}
        """)
        assert frames(log, "f > 0") == [(1, 1, 1, False, 2), (3, 3, 1, True, None)]

    def test_both_minima_have_to_be_reached(self) -> None:
        #  three in 20 s       two in 20 s     three in 2 s
        log = drawn("""
            ts | 0  10  20  30  40  60  70  80  81  82  90
            f  | 1   1   1   0   1   1   0   1   1   1   0
        """)
        assert frames(log, "f > 0", min_duration="20s", min_tuples=3) == [(0, 20, 3, False, 30)]

    def test_frames_of_keys_overlap_and_are_named_by_key_and_start(self) -> None:
        #  a: [0 . 2] 4         b: 1 [3 . 5
        log = drawn("""
            ts | 0  1  2  3  4  5
            k  | a  b  a  b  a  b
            f  | 1  0  1  1  0  1
        """)
        rows = oracle({"technique": "frames", "key": "k", "frame": {"where": "f > 0"}}, log)["results"]
        assert seconds(rows, "frame_id", "key", "kind", "start", "end", "tuples", "open") == [
            ("a@0", "a", "frame", 0, 2, 2, False),
            ("b@3000000", "b", "frame", 3, 5, 2, True),
        ]

    NULL_INSIDE = """
        ts    |  0  20  40  60
        speed | 30   -  30  50
    """

    @pytest.mark.parametrize("where", ["speed < 40", "not (speed >= 40)", "not not speed < 40", "speed + 0 < 40"])
    def test_unknown_breaks_a_frame(self, where: str) -> None:
        assert frames(drawn(self.NULL_INSIDE), where) == [(0, 0, 1, False, 20), (40, 40, 1, False, 60)]

    def test_unknown_is_left_out_if_told_so(self) -> None:
        assert frames(drawn(self.NULL_INSIDE), "speed < 40", unknown="skip") == [(0, 40, 2, False, 60)]

    def test_nan_is_unknown_though_polars_takes_it_for_the_largest_number(self) -> None:
        assert frames(drawn(self.NULL_INSIDE.replace("-", "nan")), "speed > 20") == [(0, 0, 1, False, 20), (40, 60, 2, True, None)]

    def test_and_binds_before_or_and_dividing_by_zero_is_unknown(self) -> None:
        log = drawn("""
            ts        |  0   1    2   3    4   5
            speed     | 40   0    0  40    -  41
            volume    |  9   9    9   9    9   9
            occupancy |  3   3    3   0    3   3
            status    | ok  ok  jam  ok  jam  ok
        """)
        found = frames(log, "0 < speed <= 40 and volume / occupancy > 2 or status == 'jam'")
        assert [row[:3] for row in found] == [(0, 0, 1), (2, 2, 1), (4, 4, 1)]

    def test_division_is_exact(self) -> None:
        # As a quotient 0.3 / 0.1 is just below 3; through the reciprocal of 0.1 it would be 3.
        assert frames(drawn("ts | 0 1\nv  | 0.3 0.3"), "v / 0.1 < 3") == [(0, 1, 2, True, None)]

    @pytest.mark.parametrize("tuples", [1, 2])
    def test_powers_are_exact_also_of_a_single_tuple(self, tuples: int) -> None:
        # Multiplied out, 0.03 ** 7 would be 2.1869999999999998e-11.
        log = drawn("ts | 0 0\nv  | 0.03 0.03").head(tuples)
        assert frames(log, "v ** 7 == 2.1869999999999995e-11") == [(0, 0, tuples, True, None)]

    @pytest.mark.parametrize(
        ("where", "satisfied"),
        [
            ("round(v) == 2", [1.5, 2.5]), ("sign(v) < 0", [-0.5]), ("min(v, w) == 1", []), ("max(v, 2) == 2", [-0.5, 1.5]),
            ("w is null", [-0.5, 1.5, 2.5]), ("1 / (v - 1.5) is null", [1.5]), ("sqrt(v) is not null", [1.5, 2.5]),
            ("(v > 2) + 1 == 2", [2.5]), ("(w > 2) is null", [-0.5, 1.5, 2.5]), ("v ** 2 < -v", [-0.5]),
            ("false or true", [-0.5, 1.5, 2.5]),
        ],
    )  # fmt: skip
    def test_functions_and_values_that_are_not_finite(self, where: str, satisfied: list[float]) -> None:
        log = drawn("""
            ts |    0    1    2
            v  | -0.5  1.5  2.5
            w  |    -    -  nan
        """).with_columns(key=pl.col("v"))  # a key for each, so that frames do not join
        rows = oracle({"technique": "frames", "frame": {"where": where}}, log)["results"]
        assert rows["key"].to_list() == satisfied

    def test_an_accepted_tuple_splits_a_run_and_a_late_one_does_nothing(self) -> None:
        #  [0 1] 2 [3] 6 [12       after 12 the final watermark is 7: 4 is late
        log = drawn("""
            ts | 0  1  3  6  2  12  4
            f  | 1  1  1  0  0   1  0
        """)
        assert frames(log, "f > 0", delay="2s", lateness="3s") == [
            (0, 1, 2, False, 2),
            (3, 3, 1, False, 6),
            (12, 12, 1, True, None),
        ]
        late = oracle({"technique": "frames", "delay": "2s", "lateness": "3s", "frame": {"where": "f > 0"}}, log)["late"]
        assert seconds(late, "arrival", "ts", "f", "watermark") == [(6, 4, 0, 10)]


class TestDays:
    FIRST, SECOND_DAY, THIRD = date(1970, 1, 1), date(1970, 1, 2), date(1970, 1, 3)
    DAYS = [FIRST, SECOND_DAY, THIRD]

    def test_a_frame_belongs_to_the_day_of_the_tuple_that_closes_it(self) -> None:
        #     midnight:             |
        log = drawn("""
            ts | 86390  86399  86400  86401
            f  |     1      0      1      0
        """)
        rows = oracle({"technique": "frames", "frame": {"where": "f > 0"}}, log)["results"]
        by_day = [of_days(rows, day, day, self.DAYS[:2]) for day in self.DAYS[:2]]
        assert [seconds(day, "start", "decided") for day in by_day] == [[(86390, 86399)], [(86400, 86401)]]

    def test_a_window_that_ends_at_midnight_belongs_to_the_day_before(self) -> None:
        log = drawn("ts | 86399  86400\nv | 1 2")
        rows = oracle(query_of([{"kind": "count"}], length="12h"), log)["results"]
        by_day = [of_days(rows, day, day, self.DAYS[:2]) for day in self.DAYS[:2]]
        assert [seconds(day, "measure_end") for day in by_day] == [[(86400,)], [(129600,)]]

    def test_what_lies_outside_the_log_belongs_to_its_first_or_last_day(self) -> None:
        decided = pl.Series([-1, 0, 86_400 * SECOND, 90 * 86_400 * SECOND, None], dtype=pl.Int64).cast(TIME)
        rows = pl.DataFrame({"name": ["before", "first", "second", "after", "flush"], "decided": decided})
        names = [of_days(rows, day, day, self.DAYS)["name"].to_list() for day in self.DAYS]
        assert names == [["before", "first"], ["second"], ["after", "flush"]]
        assert of_days(rows, self.SECOND_DAY, self.THIRD, self.DAYS)["name"].to_list() == ["second", "after", "flush"]


class TestTheFrontDoor:
    def test_every_file_with_a_spec_is_an_oracle_and_no_other(self) -> None:
        assert techniques() == ["frames", "slicing"]
        for name in ("clock", "aggregates", "nothing", None):
            with pytest.raises(SpecError, match="there are oracles for frames, slicing"):
                oracle({"technique": name}, pl.DataFrame())

    def test_a_wrong_specification_is_refused_with_a_sentence(self) -> None:
        with pytest.raises(SpecError, match=r"frame\.where"):
            oracle({"technique": "frames", "frame": {"where": "v >"}}, pl.DataFrame())

    def test_columns_are_exact_unless_they_hang_on_a_sum_of_floats(self) -> None:
        spec = query_of([{"kind": kind, "column": column} for kind in ("sum", "mean", "max") for column in ("v", "n")])
        expected = oracle(spec, drawn("ts | 0\nv | 0.5\nn | 1"))
        assert identity(spec) == {"results": ["query", "key", "measure_start", "measure_end"], "late": ["arrival"]}
        assert list(float_columns(spec)["results"]) == ["sum_v", "sum_n", "mean_v", "mean_n"]
        assert list(expected["results"][SCALES].struct.fields) == ["sum_v", "mean_v", "mean_n"]
        assert SCALES not in expected["late"].columns

    def test_a_log_may_be_lazy_and_empty(self) -> None:
        spec = query_of([{"kind": "sum", "column": "v"}])
        empty = oracle(spec, drawn("ts | 0\nv | 0.5").clear().lazy())
        full = oracle(spec, drawn("ts | 0\nv | 0.5"))
        assert {name: (frame.height, frame.schema) for name, frame in empty.items()} == {name: (0, full[name].schema) for name in full}


def query_of(aggregates: list[dict[str, str]], length: str = "10s") -> dict[str, Any]:
    query = {"name": "q", "window": {"kind": "tumbling", "length": length}, "aggregates": aggregates}
    return {"technique": "slicing", "queries": [query]}
