"""Kernels of frames: orders of time, and pieces by the definition."""

from __future__ import annotations

from itertools import groupby
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.aggregates.kernels import fixed
from engines.contract import BEGINNING, FOREVER
from engines.frames.kernels import cut, in_time, refined

NONE = np.empty(0, np.int32)
Tuple = tuple[int, int, int]
TIMES = st.lists(st.integers(-3, 3) | st.sampled_from([BEGINNING, FOREVER, -(2**63), 2**63 - 1, 10**12, 2**40]), max_size=30)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(TIMES, st.randoms(use_true_random=False))
def test_refining_an_order_sorts_and_keeps_equals_as_they_were(times: list[int], by: Random) -> None:
    values = fixed(np.array(times, np.int64))
    order = by.sample(range(len(values)), len(values))
    assert refined(np.array(order, np.int32), values).tolist() == sorted(order, key=lambda i: times[i])


def test_refining_handles_spans_of_many_digits() -> None:
    values = fixed(np.random.default_rng(1).integers(-(2**62), 2**62, 10_000))
    assert refined(np.arange(10_000, dtype=np.int32), values).tolist() == np.argsort(values, kind="stable").tolist()


@settings(max_examples=300, deadline=None, derandomize=True)
@given(TIMES)
def test_stragglers_are_merged_in_by_time_then_arrival(times: list[int]) -> None:
    values = fixed(np.array(times, np.int64))
    assert in_time(values).tolist() == np.argsort(values, kind="stable").tolist()


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 8), st.sampled_from([-1, 0, 1, 1])), min_size=1, max_size=30),
    st.booleans(), st.integers(-1, 9), st.integers(-1, 9),
)  # fmt: skip
def test_pieces_are_instants_joined_to_runs_where_they_are_alone(tuples: list[Tuple], skip: bool, after: int, before: int) -> None:
    codes, ts, truth = (fixed(np.array([row[i] for row in tuples]), dtype) for i, dtype in enumerate((np.int32, np.int64, np.int8)))
    cells, keys, starts, ends, satisfied = cut(in_time(ts), codes, ts, truth, 3, skip, after, before)

    covered: list[tuple[int, int, bool, list[int]]] = []
    for key in range(3):
        own = [i for i in in_time(ts) if codes[i] == key and not (skip and truth[i] < 0)]
        for t, instant in groupby(own, key=lambda i: int(ts[i])):
            members = list(instant)
            holds = all(truth[i] == 1 for i in members)
            covered.append((key, t, holds, sorted(members) if holds else []))

    def instants(p: int) -> list[tuple[int, int, bool, list[int]]]:
        return [found for found in covered if found[0] == keys[p] and starts[p] <= found[1] <= ends[p]]

    assert sorted(found for p in range(len(keys)) for found in instants(p)) == sorted(covered), "every instant is in one piece"
    for p in range(len(keys)):
        assert {holds for _, _, holds, _ in instants(p)} == {satisfied[p]}, "a piece satisfies alike throughout"
        assert np.flatnonzero(cells == p).tolist() == sorted(i for found in instants(p) for i in found[3])
        assert len(instants(p)) == 1 or after < starts[p] <= ends[p] < before, "only what is alone is joined"
    # What need not be joined is a piece that does not satisfy after another: the second closes nothing.
    for key in range(3):
        own_pieces = sorted((starts[p], p) for p in range(len(keys)) if keys[p] == key)
        for (_, p), (_, q) in zip(own_pieces, own_pieces[1:], strict=False):
            alone = after < ends[p] and starts[q] < before
            assert not (alone and satisfied[p] and satisfied[q]), "runs that satisfy are maximal"


def test_tuples_out_of_order_are_noticed() -> None:
    codes, truth = fixed(np.zeros(3, np.int32)), fixed(np.ones(3, np.int8))
    assert len(cut(NONE, codes, fixed(np.array([1, 3, 2])), truth, 1, False, BEGINNING, FOREVER)[1]) == 0
    assert len(cut(NONE, codes, fixed(np.array([1, 3, 3])), truth, 1, False, BEGINNING, FOREVER)[1]) == 1


def test_keys_need_not_be_in_order_with_each_other() -> None:
    codes = fixed(np.array([0, 1, 0, 1], np.int32))
    _, keys, starts, ends, _ = cut(NONE, codes, fixed(np.array([5, 1, 6, 2])), fixed(np.ones(4, np.int8)), 2, False, BEGINNING, FOREVER)
    assert (keys.tolist(), starts.tolist(), ends.tolist()) == ([0, 1], [5, 1], [6, 2])
