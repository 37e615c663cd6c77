"""Every technique against its reference: whatever the stream, wherever batches are cut, however keys are divided.

The streams and specifications are generated (tests/strategies.py), the answers come from definitions (tests/reference).
What a result means is told by example in test_worked_examples.py; promises that are no technique's own in test_contract.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import combinations
from random import Random
from time import perf_counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engines import build
from replay import local
from tests.comparing import DEPENDS_ON_BATCHES, assert_same_rows, replayed, rows_of
from tests.reference import clock, frames, slicing
from tests.strategies import COLUMNS, Case, Stream, cases, frames_cases, slicing_cases

ALL = 10**9


@dataclass(frozen=True)
class Technique:
    """A technique, cases for it, and what its results must be."""

    name: str
    cases: Callable[..., st.SearchStrategy[Case]]
    reference: Callable[[Case], list[dict[str, Any]]]
    identity: tuple[str, ...]

    def __repr__(self) -> str:
        return self.name


TECHNIQUES = [
    Technique("slicing", slicing_cases, lambda case: slicing.results(case.stream.rows, case.spec), slicing.IDENTITY),
    Technique("frames", frames_cases, lambda case: frames.results(case.stream.rows, case.spec, case.predicate), frames.IDENTITY),
]
technique_by_technique = pytest.mark.parametrize("technique", TECHNIQUES, ids=repr)


def check(technique: Technique, case: Case, *, batch_rows: int, buckets: int, early: bool, flush: bool) -> None:
    """Replay a case and compare all that came of it with what must come of it."""
    run = local.run(build(case.spec), case.stream.table, batch_rows=batch_rows, buckets=buckets, early=early, flush=flush)
    everything, rows = technique.reference(case), case.stream.rows

    final = clock.given(everything, rows, case.spec, early=False, flush=flush)
    assert_same_rows(run.final, final, technique.identity, what="final")

    emitted, emitted_now = rows_of(run.results), clock.given(everything, rows, case.spec, early=early, flush=flush)
    if early:
        assert_revisions_change_something(emitted, technique.identity)
        emitted = replayed(emitted, technique.identity)
    assert_same_rows(emitted, emitted_now, technique.identity)

    late = clock.late(rows, case.spec)
    assert_same_rows(run.late, late, ("arrival",), what="late")
    totals = {name: sum(run.metrics[name].to_pylist()) for name in ("tuples", "late", "results")}
    assert totals == {"tuples": len(rows), "late": len(late), "results": run.results.num_rows}


def assert_revisions_change_something(emitted: list[dict[str, Any]], identity: tuple[str, ...]) -> None:
    """A row comes again only with another content, and never twice in a batch; what was not given is not taken back."""
    before: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in emitted:
        name = tuple(row[column] for column in identity)
        if name in before:
            assert row["revision"] > before[name]["revision"], f"{name} comes twice in batch {row['revision']}"
            content = [{c: repr(v) for c, v in some.items() if c != "revision"} for some in (row, before[name])]
            assert content[0] != content[1], f"{name} comes again in batch {row['revision']}, unchanged"
        else:
            assert not row["retracted"], f"{name} is taken back in batch {row['revision']} but was never given"
        before[name] = row


@technique_by_technique
@pytest.mark.parametrize("batch_rows", [1, 7, 1000, ALL])
@pytest.mark.parametrize("buckets", [1, 2, 5])
def test_a_replay_gives_what_the_definitions_say(technique: Technique, batch_rows: int, buckets: int) -> None:
    @cases("many batches" if batch_rows == 1 else "replay")
    @given(case=technique.cases(), early=st.booleans(), flush=st.booleans())
    def holds(case: Case, early: bool, flush: bool) -> None:
        check(technique, case, batch_rows=batch_rows, buckets=buckets, early=early, flush=flush)

    holds()


@technique_by_technique
@pytest.mark.parametrize(("batch_rows", "buckets"), [(40, 2), (1000, 1), (1000, 5)])
def test_a_long_replay_too(technique: Technique, batch_rows: int, buckets: int) -> None:
    @cases("long stream")
    @given(case=technique.cases(max_size=2500), early=st.booleans(), flush=st.booleans())
    def holds(case: Case, early: bool, flush: bool) -> None:
        check(technique, case, batch_rows=batch_rows, buckets=buckets, early=early, flush=flush)

    holds()


@technique_by_technique
def test_after_every_batch_the_early_rows_say_what_is_known_by_then(technique: Technique) -> None:
    @cases("every prefix")
    @given(case=technique.cases(max_size=25), batch_rows=st.integers(1, 6), early=st.booleans())
    def holds(case: Case, batch_rows: int, early: bool) -> None:
        run = local.run(build(case.spec), case.stream.table, batch_rows=batch_rows, early=early, flush=False)
        emitted = rows_of(run.results)
        for batch in range(-(-len(case.stream.rows) // batch_rows)):
            so_far = Case(case.spec, case.stream.first((batch + 1) * batch_rows), case.predicate)
            known = clock.given(technique.reference(so_far), so_far.stream.rows, case.spec, early=early, flush=False)
            by_then = replayed([row for row in emitted if row["revision"] <= batch], technique.identity)
            assert_same_rows(by_then, known, technique.identity, what=f"batches 0 to {batch}")

    holds()


@pytest.mark.parametrize("batch_rows", [50, ALL])
@pytest.mark.parametrize("early", [True, False])
def test_windows_of_hundreds_of_slices_too(batch_rows: int, early: bool) -> None:
    by = Random(batch_rows)  # noqa: S311
    columns = ("v", "n")
    schema = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("key", pa.string()), *[(name, COLUMNS[name][0]) for name in columns]])
    rows = [
        {"ts": i - by.choice([0, 0, 0, 3, 60]), "key": by.choice(["a", "a", None]), **{name: COLUMNS[name][1](by) for name in columns}}
        for i in range(500)
    ]
    aggregates = [{"kind": kind, "column": name} for kind in ("count", "sum", "mean", "min", "max", "first", "last") for name in columns]
    window = {"kind": "sliding", "length": "300us", "slide": "1us"}
    queries = [{"name": "q", "window": window, "aggregates": aggregates}]
    spec = {"technique": "slicing", "delay": "20us", "lateness": "30us", "queries": queries}
    check(TECHNIQUES[0], Case(spec, Stream(schema, tuple(rows))), batch_rows=batch_rows, buckets=2, early=early, flush=True)


def test_slices_are_cut_at_the_edges_of_all_queries_and_nowhere_else() -> None:
    @cases("replay")
    @given(case=slicing_cases(), batch_rows=st.sampled_from([1, 3, 10, ALL]), buckets=st.sampled_from([1, 3]))
    def holds(case: Case, batch_rows: int, buckets: int) -> None:
        assume(all(slicing.in_some_window(row, case.spec) for row in case.stream.rows))
        run = local.run(build(case.spec), case.stream.table, batch_rows=batch_rows, buckets=buckets)
        counters = [json.loads(counters) for counters in run.metrics["counters"].to_pylist()]
        made, inserted = (sum(batch.get(name, 0) for batch in counters) for name in ("slices_made", "insertions"))
        assert made == len(slicing.slices(case.stream.rows, case.spec))
        assert inserted == len(case.stream.rows) - run.late.num_rows, "one insertion per tuple, whatever the number of windows"

    holds()


def test_frames_are_the_maximal_candidates_and_cover_all_of_them() -> None:
    @cases("replay")
    @given(case=frames_cases())
    def holds(case: Case) -> None:
        frames_found: dict[Any, set[tuple[int, int]]] = {}
        for row in rows_of(local.run(build(case.spec), case.stream.table).final):
            frames_found.setdefault(row["key"], set()).add((row["start"], row["end"]))
        for key in {row.get("key") for row in case.stream.rows}:
            candidates, found = frames.candidates(case.stream.rows, case.spec, case.predicate, key), frames_found.get(key, set())
            assert found <= candidates
            assert found == {one for one in candidates if not any(inside(one, other) for other in candidates - {one})}, "maximal"
            assert all(any(inside(one, frame) for frame in found) for one in candidates), "covering"
            assert not any((min(a[0], b[0]), max(a[1], b[1])) in candidates for a, b in combinations(found, 2)), "drained"

    holds()


def inside(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return other[0] <= one[0] and one[1] <= other[1]


@technique_by_technique
def test_chunks_and_further_columns_of_the_table_change_nothing(technique: Technique) -> None:
    @cases("replay")
    @given(case=technique.cases(), at=st.integers(0, 40))
    def holds(case: Case, at: int) -> None:
        table, engine = case.stream.table, build(case.spec)
        unread = pa.array(["x"] * table.num_rows, pa.string())
        chunked = pa.concat_tables([table.slice(0, at), table.slice(at)]).add_column(0, "unread", unread)
        whole, parts = local.run(engine, table), local.run(engine, chunked, batch_rows=7)
        assert_same_rows(parts.final, [without_batches(row) for row in rows_of(whole.final)], technique.identity)

    holds()


def without_batches(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in DEPENDS_ON_BATCHES}


SECOND = 1_000_000
AGGREGATES = [{"kind": "count"}, {"kind": "last", "column": "v"}]
SLIDING = {"kind": "sliding", "length": "10s", "slide": "3s"}
WINDOWS = {"technique": "slicing", "queries": [{"name": "q", "window": SLIDING, "aggregates": AGGREGATES}]}
EPISODES = {"technique": "frames", "frame": {"kind": "threshold", "where": "v > 0"}, "aggregates": AGGREGATES}
PLAIN = [(TECHNIQUES[0], WINDOWS), (TECHNIQUES[1], EPISODES)]
plain_specs = pytest.mark.parametrize(("technique", "spec"), PLAIN, ids=[str(technique) for technique, _ in PLAIN])


def plain(spec: dict[str, Any], tuples: list[tuple[int, float]]) -> Case:
    schema = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("v", pa.float64())])
    return Case(spec, Stream(schema, tuple({"ts": ts, "v": v} for ts, v in tuples)), lambda row: row["v"] > 0)


@plain_specs
@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("flush", [True, False])
@pytest.mark.parametrize("tuples", [[], [(0, 1.0)], [(-1, -1.0)]], ids=["none", "one", "one that does not satisfy"])
def test_no_tuple_or_one_is_a_stream_too(
    technique: Technique, spec: dict[str, Any], tuples: list[tuple[int, float]], early: bool, flush: bool
) -> None:
    for buckets in (1, 3):
        check(technique, plain(spec, tuples), batch_rows=10, buckets=buckets, early=early, flush=flush)


def test_a_frame_across_a_thousand_batches_is_one_frame() -> None:
    case = plain(EPISODES, [(0, -1.0), *[(second * SECOND, 1.0) for second in range(1, 1001)], (1001 * SECOND, -1.0)])
    run = local.run(build(EPISODES), case.stream.table, batch_rows=1)
    assert run.metrics.num_rows == 1003  # a batch per tuple, and the flush
    assert [(row["start"], row["end"], row["tuples"]) for row in rows_of(run.results)] == [(1 * SECOND, 1000 * SECOND, 1000)]
    assert max(run.metrics["state_rows"].to_pylist()) <= 4, "an open frame is kept as a run, not as its tuples"


@plain_specs
def test_ten_years_of_silence_cost_nothing(technique: Technique, spec: dict[str, Any]) -> None:
    ten_years = 10 * 365 * 86_400 * SECOND
    case = plain(spec, [(0, 1.0), (1, 2.0), (ten_years, 3.0), (2 * ten_years, -1.0), (2 * ten_years + 1, 4.0)])
    check(technique, case, batch_rows=1, buckets=1, early=True, flush=True)
    began = perf_counter()
    run = local.run(build(spec), case.stream.table, batch_rows=1)
    assert perf_counter() - began < 1, "a hundred million empty windows were walked through"
    assert max(run.metrics["state_rows"].to_pylist()) < 20


@plain_specs
def test_state_does_not_grow_with_the_tuples(technique: Technique, spec: dict[str, Any]) -> None:
    peaks = []
    for tuples_per_second in (10, 100):
        ticks = [(i * SECOND // tuples_per_second, 1.0 if i // tuples_per_second % 7 else -1.0) for i in range(60 * tuples_per_second)]
        run = local.run(build(spec), plain(spec, ticks).stream.table, batch_rows=50)
        peaks.append(max(run.metrics["state_rows"].to_pylist()))
    assert peaks[1] <= peaks[0] + 2


KEYS: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    pa.int8(): [-128, 127],
    pa.uint64(): [2**64 - 1, 2**63],
    pa.float64(): [0.5, -1e300],
    pa.large_string(): ["x", ""],
    pa.binary(): [b"x", b"\xff"],
    pa.date32(): [date(1969, 12, 31), date(2024, 2, 29)],
    pa.timestamp("ms"): [datetime(1969, 1, 1), datetime(2024, 1, 1)],
    pa.decimal128(9, 2): [Decimal("1.50"), Decimal("-0.01")],
    pa.dictionary(pa.int8(), pa.string()): ["x", "y"],
}


@plain_specs
@pytest.mark.parametrize("type_of_key", KEYS, ids=str)
def test_keys_of_any_type_are_told_apart(technique: Technique, spec: dict[str, Any], type_of_key: pa.DataType) -> None:
    table = plain(spec, [(i * SECOND, 1.0 if i % 5 else -1.0) for i in range(30)]).stream.table
    names = [*KEYS[type_of_key], None]
    places = [i * i % 7 % 3 for i in range(30)]

    def final(keys: pa.Array) -> list[dict[str, Any]]:
        found = local.run(build(spec), table.append_column("key", keys), batch_rows=3, buckets=2).final
        keys_found = found["key"].to_pylist()
        return [{**without_batches(row), "key": key, "frame_id": None} for row, key in zip(rows_of(found), keys_found, strict=True)]

    numbered = final(pa.array(places))
    typed = final(pa.array([names[place] for place in places], type_of_key))
    assert {type(row["key"]) for row in typed} == {type(name) for name in names}
    assert_same_rows([{**row, "key": names.index(row["key"])} for row in typed], numbered, technique.identity)
