"""Several queries: windows shared and computed once, aggregates side by side, rows in their order."""

from __future__ import annotations

from typing import Any

from tests.engines.slicing.driving import SECOND, Replay, run, spec, stream


def query(name: str, window: dict[str, Any], *aggregates: dict[str, Any]) -> dict[str, Any]:
    """A query as a mapping."""
    return {"name": name, "window": window, "aggregates": list(aggregates)}


SUM, COUNT, MEAN = {"kind": "sum", "column": "v"}, {"kind": "count"}, {"kind": "mean", "column": "v"}
FIVE, TEN = {"kind": "tumbling", "length": "5s"}, {"kind": "tumbling", "length": "10s"}


def test_queries_share_slices() -> None:
    #  ts    0    5    10   15   20
    #  v     1    2    4    8
    #  five  [-1-)[-2-)[-4-)[-8-)
    #  ten   [-- 3 ---)[-- 12 --)
    tuples = stream((0, 1), (5, 2), (10, 4), (15, 8))
    replay = Replay({"technique": "slicing", "queries": [query("ten", TEN, SUM), query("five", FIVE, SUM)]}, tuples.schema)
    rows = replay.batch(tuples) + replay.flush()
    sums = sorted((row["query"], row["measure_end"] // SECOND, row["sum_v"]) for row in rows)
    assert sums == [("five", 5, 1), ("five", 10, 2), ("five", 15, 4), ("five", 20, 8), ("ten", 10, 3), ("ten", 20, 12)]
    assert replay.counters["slices_made"] == 4, "the windows of ten are made of the slices of five"
    assert replay.counters["insertions"] == 4


def test_what_a_query_did_not_ask_for_is_null() -> None:
    queries = [query("a", TEN, SUM, COUNT), query("b", TEN, {**SUM, "as": "total"}), query("c", FIVE, MEAN, COUNT)]
    rows = run({"technique": "slicing", "delay": "1m", "queries": queries}, stream((0, 1), (6, 3)))
    assert [(row["query"], row["sum_v"], row["count"], row["total"], row["mean_v"], row["tuples"]) for row in rows] == [
        ("a", 4, 2, None, None, 2),
        ("b", None, None, 4, None, 2),
        ("c", None, 1, None, 1.0, 1),
        ("c", None, 1, None, 3.0, 1),
    ]


def test_two_queries_may_use_one_name_for_different_aggregates() -> None:
    queries = [query("a", TEN, {**SUM, "as": "x"}), query("b", TEN, {"kind": "max", "column": "v", "as": "x"})]
    rows = run({"technique": "slicing", "queries": queries}, stream((0, 1), (6, 3)))
    assert [(row["query"], row["x"]) for row in rows] == [("a", 4), ("b", 3)]


def test_rows_are_sorted_by_query_key_and_window() -> None:
    queries = [query(name, window, SUM) for name, window in (("z", TEN), ("B", FIVE), ("a", TEN), ("ä", FIVE), ("a2", FIVE))]
    tuples = stream((0, 1, "y"), (6, 2, None), (7, 3, "x"), (1, 4, "x"), (11, 5, "y"), (0, 6, ""))
    given = {"technique": "slicing", "delay": "1m", "queries": queries}
    rows = run(given, tuples)
    order = [(row["query"].encode(), (row["key"] is not None, row["key"] or ""), row["measure_end"], row["measure_start"]) for row in rows]
    assert order == sorted(order)
    assert len(set(order)) == len(order) == 2 * 5 + 3 * 6
    assert [row["key"] for row in rows if row["query"] == "a"] == [None, "", "x", "y", "y"]


def test_a_thousand_queries_are_like_each_alone() -> None:
    #  tumbling windows of 1 to 10 s, a hundred queries of each; all edges lie on whole seconds
    tuples = stream(*((i / 7, i % 13) for i in range(300)))
    names = {f"q{i:03}": {"kind": "tumbling", "length": f"{i % 10 + 1}s"} for i in range(1000)}
    replay = Replay({"technique": "slicing", "queries": [query(name, window, SUM) for name, window in names.items()]}, tuples.schema)
    rows = replay.batch(tuples) + replay.flush()
    assert replay.counters["slices_made"] == 43
    by_query: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        by_query.setdefault(row["query"], []).append((row["measure_start"], row["sum_v"]))
    assert list(names) == sorted(by_query)
    for length in range(1, 11):
        alone = [(row["measure_start"], row["sum_v"]) for row in run(spec({"kind": "tumbling", "length": f"{length}s"}), tuples)]
        for name, window in names.items():
            assert window["length"] != f"{length}s" or by_query[name] == alone
