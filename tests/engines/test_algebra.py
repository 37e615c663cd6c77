"""The algebra that each aggregate declares is true of it.

Every property stands for a law, which is tried on all small streams; the property is declared if and only if the law holds. A new
aggregate is under these tests without a line here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations, product
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest

from engines.aggregates.layout import Layout
from engines.aggregates.recipes import RECIPES
from engines.aggregates.spec import Aggregate, Count, Level, Sum
from engines.contract import TIMESTAMP

KINDS = {kind("v").kind: kind("v") for kind in get_args(get_args(Aggregate)[0])}
every_kind = pytest.mark.parametrize("aggregate", KINDS.values(), ids=KINDS)
SCHEMA = pa.schema([("ts", TIMESTAMP), ("arrival", pa.int64()), ("v", pa.int64())])

Stream = list[tuple[int, int]]
"""The time and the value of each tuple."""


def lifted(aggregate: Aggregate, cells: list[int], stream: Stream) -> list[np.ndarray]:
    """The partials of a stream's tuples, by cell."""
    times, values = zip(*stream, strict=True)
    arrays = [pa.array(times, TIMESTAMP), pa.array(range(len(stream)), pa.int64()), pa.array(values, pa.int64())]
    batch = pa.record_batch(arrays, schema=SCHEMA)
    return Layout([aggregate], SCHEMA).lift(np.array(cells), max(cells) + 1, batch)


def lowered(aggregate: Aggregate, partials: list[np.ndarray]) -> list[Any]:
    """The result of each partial."""
    return Layout([aggregate], SCHEMA).lower(partials)[0].to_pylist()


def of(aggregate: Aggregate, stream: Stream) -> Any:
    """The result of a whole stream."""
    return lowered(aggregate, lifted(aggregate, [0] * len(stream), stream))[0]


def streams() -> Iterator[Stream]:
    """All streams of two or three tuples, in order of time, with values of -1 to 2."""
    for length in (2, 3):
        for values in product(range(-1, 3), repeat=length):
            yield list(enumerate(values))


def parted() -> Iterator[tuple[Stream, Stream, Stream]]:
    """Each of these streams in two parts, in every way: a part need not be a stretch of time."""
    for stream in streams():
        for size in range(1, len(stream)):
            for part in combinations(stream, size):
                yield stream, list(part), [one for one in stream if one not in part]


def test_every_kind_has_a_recipe_and_an_algebra() -> None:
    assert set(RECIPES) == set(KINDS)
    assert {kind for kind, aggregate in KINDS.items() if aggregate.ALGEBRA.level is Level.HOLISTIC} == set()


@every_kind
def test_distributive_is_what_can_be_made_of_the_results_of_parts(aggregate: Aggregate) -> None:
    again = Sum("v") if isinstance(aggregate, Count) else aggregate
    holds = all(of(aggregate, whole) == of(again, list(enumerate([of(aggregate, a), of(aggregate, b)]))) for whole, a, b in parted())
    assert holds == (aggregate.ALGEBRA.level is Level.DISTRIBUTIVE)


@every_kind
def test_partials_of_a_fixed_size_make_up_the_whole(aggregate: Aggregate) -> None:
    layout = Layout([aggregate], SCHEMA)
    for whole, one, _ in parted():
        partials = lifted(aggregate, [int(t in one) for t in whole], whole)
        assert [len(column) for column in partials] == [2] * len(layout.fields)
        assert lowered(aggregate, layout.reduce(partials, np.array([0]), np.array([2]))) == [of(aggregate, whole)]


@every_kind
def test_invertible_is_where_the_partials_of_the_whole_and_of_a_part_leave_one_answer_for_the_rest(aggregate: Aggregate) -> None:
    answers: dict[str, set[Any]] = {}
    for whole, one, rest in parted():
        known = [np.concatenate(lifted(aggregate, [0] * len(part), part)).tolist() for part in (whole, one)]
        answers.setdefault(repr(known), set()).add(of(aggregate, rest))
    assert all(len(possible) == 1 for possible in answers.values()) == aggregate.ALGEBRA.invertible


@every_kind
def test_selective_is_what_is_always_one_of_the_values(aggregate: Aggregate) -> None:
    holds = all(of(aggregate, stream) in [value for _, value in stream] for stream in streams())
    assert holds == aggregate.ALGEBRA.selective


@every_kind
def test_commutative_is_what_can_be_merged_in_any_order(aggregate: Aggregate) -> None:
    layout = Layout([aggregate], SCHEMA)
    holds = True
    for stream in streams():
        partials = lifted(aggregate, list(range(len(stream))), stream)
        for order in permutations(range(len(stream))):
            merged = layout.reduce([column[list(order)] for column in partials], np.array([0]), np.array([len(order)]))
            holds &= lowered(aggregate, merged) == [of(aggregate, stream)]
    assert holds == aggregate.ALGEBRA.commutative
