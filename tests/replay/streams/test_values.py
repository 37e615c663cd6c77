"""Texts become values: a value is taken if, and only if, it would be taken alone, and finding out which does not take ages."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from replay.streams.declaration import UNITS_PER_SECOND, Time
from replay.streams.times import FURTHEST_US, read_times, to_us
from replay.streams.values import WHOLE, convert, typed
from tests.replay.streams.fuzz_values import REAL as REALS
from tests.replay.streams.fuzz_values import TIMES
from tests.replay.streams.fuzz_values import WHOLE as WHOLES


def test_texts_that_are_no_numbers_are_set_aside_at_once_and_not_found_one_by_one() -> None:
    calls = 0

    def conversion(texts: pa.Array) -> pa.Array:
        nonlocal calls
        calls += 1
        return texts.cast(pa.int64())

    texts = pa.array([f"{n}.5" if n % 4 else str(n) for n in range(10_000)])
    values, taken = convert(texts, conversion, WHOLE)
    assert calls <= 2
    assert values.to_pylist() == [None if n % 4 else n for n in range(10_000)]
    assert taken.tolist() == [n % 4 == 0 for n in range(10_000)]


@pytest.mark.parametrize(("kind", "pool"), [(pa.int8(), WHOLES), (pa.int64(), WHOLES), (pa.float64(), REALS), (pa.float32(), REALS)])
def test_a_number_is_taken_if_and_only_if_it_is_taken_alone(kind: pa.DataType, pool: list[str]) -> None:
    alone = {text: typed(pa.array([text]), kind) for text in pool}
    random_ = random.Random(3)
    for _ in range(50):
        texts = [random_.choice([*pool, None]) for _ in range(random_.randrange(1, 30))]
        values, taken = typed(pa.array(texts, pa.string()), kind)
        assert taken.tolist() == [text is None or bool(alone[text][1][0]) for text in texts]
        assert repr(values.to_pylist()) == repr([None if text is None else alone[text][0][0].as_py() for text in texts])


@pytest.mark.parametrize("form", [["iso"], ["number", "iso"], ["iso", "%m/%d/%Y %H:%M:%S"], ["%m/%d/%Y %H:%M:%S", "number", "iso"]])
def test_a_time_is_read_as_it_is_read_alone(form: list[str]) -> None:
    time = Time(column="t", format=form, zone="America/Los_Angeles")
    alone = {text: read_times(pa.array([text]), time) for text in TIMES}
    random_ = random.Random(4)
    for _ in range(50):
        texts = [random_.choice(TIMES) for _ in range(random_.randrange(1, 30))]
        found = read_times(pa.array(texts), time)
        assert found.known.tolist() == [bool(alone[text].known[0]) for text in texts]
        assert found.us.tolist() == [int(alone[text].us[0]) for text in texts]
        assert found.original.tolist() == [int(alone[text].original[0]) for text in texts]


@pytest.mark.parametrize("unit", UNITS_PER_SECOND)
def test_the_largest_and_the_smallest_numbers_are_no_times(unit: str) -> None:
    extremes = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 1]
    us, near = to_us(np.array(extremes), unit)
    wanted = [number * 10**6 // UNITS_PER_SECOND[unit] for number in extremes]
    assert near.tolist() == [abs(number) < FURTHEST_US for number in wanted]
    assert us[near].tolist() == [number for number in wanted if abs(number) < FURTHEST_US]
