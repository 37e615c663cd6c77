"""Keys: every scalar type as dense numbers and back, and the order in which keys are sorted."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engines.keys import encode, encode_column, key_type, rank
from engines.spec import SpecError

NAN = float("nan")
KEYS: dict[pa.DataType, list[Any]] = {
    pa.int8(): [3, -128, 127],
    pa.uint8(): [255, 0],
    pa.int16(): [-5, 6],
    pa.uint16(): [65535, 1],
    pa.int32(): [2**31 - 1, -(2**31), 0],
    pa.uint32(): [2**32 - 1, 5],
    pa.int64(): [2**63 - 1, -(2**63), 0, 1],
    pa.uint64(): [2**64 - 1, 0, 2**63],
    pa.float16(): [np.float16(1.5), np.float16(-2)],
    pa.float32(): [1.5, NAN, -1.0],
    pa.float64(): [1.5, NAN, math.inf, -math.inf],
    pa.bool_(): [True, False],
    pa.string(): ["b", "a", "", "ü"],
    pa.large_string(): ["b", "a"],
    pa.string_view(): ["b", "a", "longer than twelve bytes"],
    pa.binary(): [b"b", b"a", b""],
    pa.binary(2): [b"bb", b"aa"],
    pa.large_binary(): [b"b", b"a"],
    pa.binary_view(): [b"b", b"a"],
    pa.date32(): [date(2020, 1, 1), date(1950, 1, 1)],
    pa.date64(): [date(2020, 1, 1), date(1950, 1, 1)],
    pa.time32("s"): [time(2), time(1)],
    pa.time64("us"): [time(2), time(1)],
    pa.timestamp("us", "UTC"): [datetime(2020, 1, 1, tzinfo=UTC), datetime(1950, 1, 1, tzinfo=UTC)],
    pa.timestamp("s"): [datetime(2020, 1, 1), datetime(1950, 1, 1)],
    pa.duration("us"): [timedelta(1), timedelta(-1)],
    pa.decimal32(5, 1): [Decimal("1.2"), Decimal("-1.2")],
    pa.decimal64(12, 1): [Decimal("1.2"), Decimal("-1.2")],
    pa.decimal128(10, 2): [Decimal("1.20"), Decimal("-3.00")],
    pa.decimal256(50, 2): [Decimal("1.20"), Decimal("-3.00")],
}
every_type = pytest.mark.parametrize("type_", KEYS, ids=str)


def plain(value: Any) -> Any:
    """A key that equals itself."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def assert_encodes(array: pa.Array) -> None:
    """Codes are dense, distinct keys have distinct codes, and the keys come back."""
    codes, values = encode(array)
    assert codes.dtype == np.int32
    assert sorted(set(codes.tolist())) == list(range(len(values)))
    assert values.type == key_type(pa.schema([("key", array.type)]))
    keys = [plain(value) for value in values.to_pylist()]
    assert len(set(keys)) == len(keys)
    assert [keys[code] for code in codes] == [plain(value.as_py()) for value in array]


@every_type
def test_keys_of_every_type_come_back(type_: pa.DataType) -> None:
    some = KEYS[type_]
    for keys in ([], some, some + some[::-1], [None], [*some, None, *some, None], [None, None, *some]):
        array = pa.array(keys, type_)
        assert_encodes(array)
        assert_encodes(array[1:])


@every_type
def test_dictionaries_may_hold_a_key_twice_or_for_nothing_and_null_in_two_ways(type_: pa.DataType) -> None:
    a, b = KEYS[type_][:2]
    dictionary = pa.array([a, b, a, None, b], type_)
    for indices in ([], [0], [0, 2], [1, 3, None, 4, 2, 0], [4, 4], [None]):
        array = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), dictionary)
        assert_encodes(array)
        assert_encodes(array[1:])


@pytest.mark.parametrize("index", [pa.int8(), pa.uint16(), pa.int32(), pa.int64()], ids=str)
def test_dictionaries_may_have_any_index(index: pa.DataType) -> None:
    assert_encodes(pa.DictionaryArray.from_arrays(pa.array([1, 0, 1, None], index), pa.array(["a", "b"])))


@pytest.mark.parametrize("spread", [1, 3, 10**6, 2**53])
def test_integers_near_and_far_apart_are_told_apart(spread: int) -> None:
    keys = np.random.default_rng(0).integers(-500, 500, 5000) * spread
    codes, values = encode(pa.array(keys))
    assert len(values) == len(np.unique(keys))
    assert (values.to_numpy()[codes] == keys).all()


def test_floats_have_one_zero_and_one_nan() -> None:
    strange = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    codes, values = encode(pa.array([0.0, -0.0, NAN, strange, None]))
    assert codes.tolist() == [0, 0, 1, 1, 2]
    assert math.copysign(1, values[0].as_py()) == 1


def test_a_stream_without_a_key_column_has_one_key() -> None:
    codes, values = encode_column(pa.record_batch({"v": [1, 2]}))
    assert (codes.tolist(), values.to_pylist(), values.type) == ([0, 0], [None], pa.string())
    assert key_type(pa.schema([("v", pa.int64())])) == pa.string()
    codes, values = encode_column(pa.record_batch({"v": pa.array([], pa.int64())}))
    assert (len(codes), len(values)) == (0, 0)


@every_type
def test_null_is_first_and_others_ascend(type_: pa.DataType) -> None:
    _, values = encode(pa.array([*KEYS[type_], None], type_))
    ordered = [value for _, value in sorted(zip(rank(values).tolist(), values.to_pylist(), strict=True))]
    assert ordered[0] is None
    numbers = [value for value in ordered[1:] if plain(value) != "NaN"]
    assert numbers == sorted(numbers)
    assert len(numbers) == len(ordered) - 1 or plain(ordered[1]) == "NaN"


def test_text_is_ordered_by_its_bytes() -> None:
    assert rank(pa.array(["a", "Z", "ü", "z", ""])).tolist() == [2, 1, 4, 3, 0]


def test_keys_that_cannot_be_numbered_or_sorted_are_refused_in_a_sentence() -> None:
    for type_ in (
        pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.null(), pa.dictionary(pa.int32(), pa.list_(pa.int64())),
        pa.list_view(pa.int64()), pa.map_(pa.int64(), pa.int64()), pa.run_end_encoded(pa.int32(), pa.int64()), pa.uuid(),
        pa.month_day_nano_interval(), pa.dictionary(pa.int32(), pa.month_day_nano_interval()),
    ):  # fmt: skip
        with pytest.raises(SpecError, match=r"^key: the column is of type .*; allowed are numbers, .*\.$"):
            key_type(pa.schema([("key", type_)]))
