"""Windows from slices, in worked examples: each draws its tuples on a time axis and its windows below."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engines import build
from engines.contract import BEGINNING, FOREVER, NOWHERE, TIMESTAMP
from engines.slicing import kernels
from engines.state import State
from tests.engines.slicing.driving import SECOND, Replay, in_batches, run, spec, stream, windows

YEAR = 365 * 86_400


def sliding(length: str, slide: str, **settings: Any) -> dict[str, Any]:
    """A sliding window."""
    return {"kind": "sliding", "length": length, "slide": slide, **settings}


def tumbling(length: str, **settings: Any) -> dict[str, Any]:
    """A tumbling window."""
    return {"kind": "tumbling", "length": length, **settings}


# Windows


def test_tumbling_windows_take_their_start_and_leave_their_end() -> None:
    #  ts  0         10        20
    #  v   1        2 4  8     16
    #      [--- 3 ---)[-- 12 --)[...
    tuples = stream((0, 1), (9.999999, 2), (10, 4), (15, 8), (20, 16))
    assert windows(run(spec(tumbling("10s")), tuples)) == [(0, 10, 3), (10, 20, 12), (20, 30, 16)]


def test_sliding_windows_overlap() -> None:
    #  ts  0    5    10   15
    #  v   1      2     4
    #  [--- 1 ---)                -5
    #       [--- 3 ---)            0
    #            [--- 6 ---)       5
    #                 [--- 4 ---) 10
    tuples = stream((0, 1), (7, 2), (13, 4))
    assert windows(run(spec(sliding("10s", "5s")), tuples)) == [(-5, 5, 1), (0, 10, 3), (5, 15, 6), (10, 20, 4)]


def test_a_slide_that_does_not_divide_the_length_cuts_at_starts_and_ends() -> None:
    #  ts      0 1 2 3 4 5 6 7 8
    #  v       1   2 4   8
    #  [---1---)                    -3    slices are cut at 0 1 3 4 6 7 9 ...
    #        [---7---)               0
    #              [--12---)         3    (4 is at 3, 8 at 5)
    tuples = stream((0, 1), (2, 2), (3, 4), (5, 8))
    replay = Replay(spec(sliding("4s", "3s")), tuples.schema)
    rows = replay.batch(tuples) + replay.flush()
    assert windows(rows) == [(-3, 1, 1), (0, 4, 7), (3, 7, 12)]
    assert replay.counters["slices_made"] == 4, "[0, 1) [1, 3) [3, 4) [4, 6)"


def test_tuples_between_windows_go_nowhere() -> None:
    #  ts  0  1  2  3  4  5  6  7  8  9
    #  v   1     2  4     8        16
    #      [-- 3 ---)              [-- 16 --)
    tuples = stream((0, 1), (2, 2), (3, 4), (5, 8), (8, 16))
    replay = Replay(spec(sliding("3s", "8s")), tuples.schema)
    rows = replay.batch(tuples) + replay.flush()
    assert windows(rows) == [(0, 3, 3), (8, 11, 16)]
    assert replay.counters["insertions"] == 3


def test_windows_before_the_epoch_with_an_offset() -> None:
    #  ts  -12       -2   0    8
    #  v        1  2 4    8   16 32
    #      [-- 3 ----)[-- 28 ---)[-- 32
    tuples = stream((-12, 1), (-2.000001, 2), (-2, 4), (0, 8), (7.999999, 16), (8, 32))
    assert windows(run(spec(tumbling("10s", offset="-2s")), tuples)) == [(-12, -2, 3), (-2, 8, 28), (8, 18, 32)]


def test_windows_are_per_key_and_null_is_one() -> None:
    #  ts  0       10
    #  b   1  4
    #  a     2      16
    #  -       8
    tuples = stream((0, 1, "b"), (1, 2, "a"), (2, 4, "b"), (3, 8, None), (10, 16, "a"))
    rows = run(spec(tumbling("10s"), delay="1m"), tuples)
    found = [(row["key"], row["measure_end"] // SECOND, row["sum_v"]) for row in rows]
    assert found == [(None, 10, 8), ("a", 10, 2), ("a", 20, 16), ("b", 10, 5)]


def test_all_columns_of_a_row() -> None:
    tuples = stream((1, 5, "a"), (2, None, "a"))
    row = run(spec(tumbling("10s"), "count", "mean", "first"), tuples)[0]
    start, end, decided = (pa.scalar(us, TIMESTAMP).as_py() for us in (0, 10 * SECOND, 10 * SECOND - 1))
    assert row == {
        "query": "q", "key": "a", "window_start": start, "window_end": end, "measure_start": 0, "measure_end": 10 * SECOND,
        "count": 2, "mean_v": 5.0, "first_v": 5, "tuples": 2, "decided": decided, "revision": 0, "retracted": False,
    }  # fmt: skip
    assert list(row) == build(spec(tumbling("10s"), "count", "mean", "first")).on(tuples.schema).outputs["results"].names


def test_a_silence_of_ten_years_has_no_windows() -> None:
    #  ts  0 ........ 10 years
    #  v   1          2
    tuples = stream((0, 1), (10 * YEAR, 2))
    replay = Replay(spec(sliding("2us", "1us")), tuples.schema)
    rows = replay.batch(tuples) + replay.flush()
    assert [row["measure_start"] for row in rows] == [-1, 0, 10 * YEAR * SECOND - 1, 10 * YEAR * SECOND]
    assert replay.counters["slices_made"] == 2


def test_one_window_over_ten_years() -> None:
    tuples = stream((0, 1), (5 * YEAR, 2), (9 * YEAR, 4))
    assert windows(run(spec(tumbling(f"{3650}d")), tuples)) == [(0, 10 * YEAR, 7)]


def test_a_window_of_many_slices_is_reduced_by_blocks() -> None:
    #  one tuple a second for an hour; windows of 1000 s every second
    n, length = 3600, 1000
    tuples = stream(*((i, 2**i % 1009) for i in range(n)))
    rows = run(spec(sliding(f"{length}s", "1s"), "sum", "max", "last"), tuples)
    values = [2**i % 1009 for i in range(n)]
    starts = [row["measure_start"] // SECOND for row in rows]
    assert starts == list(range(1 - length, n))
    for row, start in zip(rows[::50], starts[::50], strict=True):
        inside = values[max(start, 0) : start + length]
        assert (row["sum_v"], row["max_v"], row["last_v"], row["tuples"]) == (sum(inside), max(inside), inside[-1], len(inside))


def test_no_tuples_make_no_rows() -> None:
    tuples = stream()
    assert run(spec(tumbling("10s")), tuples) == []
    assert run(spec(tumbling("10s")), stream((0, 1, "a")).slice(0, 0)) == []


# When


def test_a_window_is_due_when_the_watermark_passes_its_last_microsecond() -> None:
    #  ts     0    5    10   12
    #  clock       .    .    .        delay 2 s: W = clock - 2 s
    tuples = stream((5, 1), (11.999999, 2), (12, 4))
    batches = list(in_batches(spec(tumbling("10s"), delay="2s"), tuples, 1))
    assert [windows(rows) for rows in batches] == [[], [], [(0, 10, 1)], [(10, 20, 6)]]


def test_disorder_within_the_delay_is_waited_for() -> None:
    #  ts       0    5    10   15       delay 5 s
    #  arrival  1st       2nd           (3rd at 7)
    #                7 = 3rd
    tuples = stream((1, 1), (12, 2), (7, 4), (15, 8))
    assert windows(run(spec(tumbling("10s"), delay="5s"), tuples)) == [(0, 10, 5), (10, 20, 10)]


def test_a_late_enough_tuple_revises_every_window_it_is_in_and_no_other() -> None:
    #  ts  0    5    10   15   20        lateness 20 s
    #  v   1         2    4              batch 1: clock 15
    #           8                        batch 2
    #  [-- 1/9 -)                   -5
    #       [-- 1/9 -)               0
    #            [-- 2/10 -)         5
    tuples = stream((0, 1), (10, 2), (15, 4), (5, 8))
    given = spec(sliding("10s", "5s"), lateness="20s")
    first, second, last = (windows(rows) for rows in in_batches(given, tuples, 3))
    assert first == [(-5, 5, 1), (0, 10, 1), (5, 15, 2)]
    assert second == [(0, 10, 9), (5, 15, 10)], "8 lies at the edge of the window that ends at 5"
    assert last == [(10, 20, 6), (15, 25, 4)]


def test_a_tuple_of_another_key_revises_nothing() -> None:
    tuples = stream((0, 1, "a"), (0, 1, "b"), (20, 1, "a"), (5, 1, "a"))
    rows = list(in_batches(spec(tumbling("10s"), lateness="1m"), tuples, 3))
    assert [(row["key"], row["sum_v"]) for row in rows[0]] == [("a", 1), ("b", 1)]
    assert [(row["key"], row["sum_v"]) for row in rows[1]] == [("a", 2)]


def test_a_window_first_filled_when_it_was_due_long_ago_is_new() -> None:
    #  ts  0    10   20   30       lateness 1 m
    #  v   1              2        batch 1
    #           4                  batch 2
    tuples = stream((0, 1), (30, 2), (10, 4))
    batches = [windows(rows) for rows in in_batches(spec(tumbling("10s"), lateness="1m"), tuples, 2)]
    assert batches == [[(0, 10, 1)], [(10, 20, 4)], [(30, 40, 2)]]


def test_batches_in_between_may_be_empty() -> None:
    replay = Replay(spec(tumbling("10s")), stream((0, 1)).schema)
    assert replay.batch(stream((5, 1))) == []
    assert replay.lower(10 * SECOND - 1, 10 * SECOND - 1) == []
    assert windows(replay.lower(10 * SECOND, 10 * SECOND)) == [(0, 10, 1)]
    assert replay.flush() == []


def test_several_combines_before_a_lower_are_one() -> None:
    given, tuples = spec(tumbling("10s"), lateness="1m"), stream((0, 1), (20, 2), (3, 4), (4, 8))
    replay = Replay(given, tuples.schema)
    assert windows(replay.batch(tuples.slice(0, 2))) == [(0, 10, 1)]
    operator, state = replay.operator, replay.state
    for i in (2, 3):
        operator.combine(state, [operator.lift(tuples.slice(i, 1).select(list(operator.columns)), NOWHERE)])
    assert windows(replay.lower(20 * SECOND, 0)) == [(0, 10, 13)]


# State


def test_slices_go_when_their_last_window_is_final() -> None:
    #  ts  0    5    10   15   20        sliding 10 s / 5 s, lateness 5 s
    #  slices [0, 5) [5, 10) ...; [0, 5) is needed until V > 9.999999
    tuples = stream((0, 1), (14.999999, 2), (15, 4))
    replay = Replay(spec(sliding("10s", "5s"), lateness="5s"), tuples.schema)
    kept = []
    for i in range(3):
        replay.batch(tuples.slice(i, 1))
        kept.append([start // SECOND for start in replay.state["slices"]["start"].to_pylist()])
    assert kept == [[0], [0, 10], [10, 15]]
    replay.flush()
    assert replay.state.rows == 0


def test_state_does_not_grow_with_tuples() -> None:
    tuples = stream(*((i / 100, 1, str(i % 3)) for i in range(2000)))
    replay = Replay(spec(sliding("5s", "1s")), tuples.schema)
    sizes = [replay.batch(tuples.slice(i, 100)) and replay.state.rows for i in range(0, 2000, 100)]
    assert max(size for size in sizes if size) <= 3 * 6
    assert replay.counters["slices_made"] == 3 * 20


def test_untouched_state_is_not_written_again() -> None:
    replay = Replay(spec(tumbling("10s"), delay="1m"), stream((0, 1)).schema)
    replay.batch(stream((0, 1)))
    replay.state.changed.clear()
    replay.lower(BEGINNING + 1, BEGINNING + 1)
    assert not replay.state.changed


def test_rows_of_several_buckets_can_be_brought_together_in_any_order() -> None:
    tuples = stream(*((i % 30, i, f"k{i % 4}") for i in range(100)))
    given = spec(sliding("10s", "3s"), "sum", "count", delay="1m")
    whole = Replay(given, tuples.schema)
    expected = whole.batch(tuples) + whole.flush()
    parts = Replay(given, tuples.schema)
    parts.batch(tuples)
    rows = parts.state["slices"]
    parts.state["slices"] = rows.take(pa.array(np.random.default_rng(0).permutation(rows.num_rows)))
    assert parts.flush() == expected


def test_much_disorder_gives_up_insertion_and_sorts() -> None:
    n = 2000
    codes, starts = np.zeros(n, np.int32), np.arange(n)[::-1].copy()
    for array in (codes, starts):
        array.flags.writeable = False
    assert not kernels.arrange(codes, starts, 1, np.empty(n, np.int64))
    replay = Replay(spec(tumbling("1s"), "last", delay="10000s"), stream((0, 1)).schema)
    for first in range(n - 100, -1, -100):
        replay.batch(stream(*((i, i) for i in range(first, first + 100))))
    assert [row["last_v"] for row in replay.flush()] == list(range(n))


# Keys and values


@pytest.mark.parametrize("keys", [1, 3, 5000], ids=["one key", "few keys", "more keys and slices than tuples"])
def test_many_keys_are_aggregated_like_few(keys: int) -> None:
    rng = np.random.default_rng(keys)
    n = 20_000
    key, ts, v = rng.integers(0, keys, n), rng.integers(-50, 50, n), rng.integers(-1000, 1000, n)
    batch = pa.record_batch({"ts": pa.array(ts * SECOND, TIMESTAMP), "key": pa.array(key), "v": pa.array(v)})
    rows = run(spec(tumbling("7s"), "sum", "count", delay="1h"), batch)
    expected: dict[tuple[int, int], list[int]] = {}
    for k, t, x in zip(key.tolist(), ts.tolist(), v.tolist(), strict=True):
        total = expected.setdefault((k, t // 7 * 7), [0, 0])
        total[0] += x
        total[1] += 1
    found = [((row["key"], row["measure_start"] // SECOND), [row["sum_v"], row["count"]]) for row in rows]
    assert found == sorted(expected.items())


def test_dictionary_keys_are_decoded() -> None:
    tuples = stream((0, 1, "b"), (1, 2, "a"), (2, 4, "b"))
    encoded = tuples.set_column(2, "key", tuples.column("key").dictionary_encode())
    operator = build(spec(tumbling("10s"))).on(encoded.schema)
    assert operator.partials.field("key").type == operator.outputs["results"].field("key").type == pa.string()
    assert run(spec(tumbling("10s")), encoded) == run(spec(tumbling("10s")), tuples)


def test_only_the_columns_that_are_needed_are_read() -> None:
    schema = stream((0, 1, "a")).schema
    assert build(spec(tumbling("10s"), "count")).on(schema).columns == ("ts", "key")
    assert build(spec(tumbling("10s"), "sum")).on(schema).columns == ("ts", "key", "v")
    assert build(spec(tumbling("10s"), "last")).on(schema).columns == ("ts", "key", "v", "arrival")
    assert build(spec(tumbling("10s"), "sum")).on(stream((0, 1)).schema).columns == ("ts", "v")


def test_an_integer_sum_beyond_int64_is_null_and_counted() -> None:
    replay = Replay(spec(tumbling("10s")), stream((0, 1)).schema)
    rows = replay.batch(stream((0, 2**63 - 1), (1, 1), (10, 3))) + replay.flush()
    assert windows(rows) == [(0, 10, None), (10, 20, 3)]
    assert replay.counters["overflows"] == 1


def test_lift_tells_nothing_of_the_state() -> None:
    operator = build(spec(tumbling("10s"))).on(stream((0, 1)).schema)
    batch = stream((0, 1), (15, 2), (3, 4)).select(list(operator.columns))
    partials = operator.lift(batch, NOWHERE)
    assert partials.equals(operator.lift(batch, NOWHERE))
    assert partials.select(["start", "tuples", "low:v"]).to_pylist() == [
        {"start": 0, "tuples": 2, "low:v": 5},
        {"start": 10 * SECOND, "tuples": 1, "low:v": 2},
    ]
    state = State(operator.tables)
    operator.combine(state, [])
    assert operator.lower(state, FOREVER, FOREVER)["results"].num_rows == 0


# Engine


def test_the_lookback_is_the_longest_window() -> None:
    queries = [*spec(tumbling("10s"))["queries"], {**spec(sliding("1m", "7s"))["queries"][0], "name": "r"}]
    assert build({"technique": "slicing", "queries": queries}).lookback() == 60 * SECOND
