"""Keys: any scalar Arrow type as dense numbers, and the one order in which keys are sorted.

Null is a key like any other, and so is the single key of a stream without a key column. NaN equals NaN, and -0.0 is 0.0.
Which bucket a key belongs to is not decided here.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engines.spec import SpecError

_SCALARS = (
    pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_temporal,
    pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view,
    pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary,
)  # fmt: skip
"""What a key may be; intervals of months, days and nanoseconds count as temporal, but have no order."""
_TABLE_PER_ROW = 8
"""Integers are numbered by a table of their range if that has at most so many entries per row; else by hashing."""


def key_type(schema: pa.Schema) -> pa.DataType:
    """The type of a stream's keys: that of the column `key`, decoded; without one, text.

    >>> key_type(pa.schema([("key", pa.dictionary(pa.int32(), pa.string()))])), key_type(pa.schema([("v", pa.int64())]))
    (DataType(string), DataType(string))
    """
    if "key" not in schema.names:
        return pa.string()
    type_ = schema.field("key").type
    value = type_.value_type if pa.types.is_dictionary(type_) else type_
    if not any(test(value) for test in _SCALARS) or pa.types.is_interval(value):
        raise SpecError(f"key: the column is of type {type_}; allowed are numbers, booleans, text, bytes, dates, times and decimals.")
    return _plain(value)


def encode_column(tuples: pa.RecordBatch) -> tuple[NDArray[np.int32], pa.Array]:
    """The keys of tuples as `encode` gives them; without a column `key` all have the null key."""
    if "key" in tuples.schema.names:
        return encode(tuples.column("key"))
    return np.zeros(tuples.num_rows, np.int32), pa.nulls(min(tuples.num_rows, 1), pa.string())


def encode(array: pa.Array) -> tuple[NDArray[np.int32], pa.Array]:
    """Number the keys 0, 1, ... without gaps; also returns them by number.

    >>> codes, values = encode(pa.array(["b", None, "a", "b"]).dictionary_encode())
    >>> codes.tolist(), values.to_pylist()
    ([0, 2, 1, 0], ['b', 'a', None])
    """
    if isinstance(array, pa.DictionaryArray):
        codes, used = encode(array.indices)
        return _merged(codes, _canonical(array.dictionary).take(used))
    array = _canonical(array)
    if array.null_count:
        return _with_nulls(array)
    if not len(array):
        return np.empty(0, np.int32), array
    integers = _integers(array)
    if integers is not None:
        least = int(integers.min())
        span = int(integers.max()) - least + 1
        if span <= _TABLE_PER_ROW * len(array) + 1024:
            codes, first = np.empty(len(array), np.int32), np.empty(min(span, len(array)), np.int64)
            count = _number(integers, least, np.full(span, -1, np.int32), codes, first)
            return codes, array.take(pa.array(first[:count]))
    encoded = array.dictionary_encode()
    return encoded.indices.to_numpy(), encoded.dictionary


def rank(values: pa.Array) -> NDArray[np.int64]:
    """The place of each of some distinct keys in their order: null, NaN, then ascending (text by its bytes).

    >>> rank(pa.array([3, None, 1])).tolist()
    [2, 0, 1]
    """
    ranks = np.empty(len(values), np.int64)
    ranks[pc.sort_indices(values, sort_keys=[("", "ascending", "at_start")]).to_numpy()] = np.arange(len(values))
    return ranks


def _merged(codes: NDArray[np.int32], values: pa.Array) -> tuple[NDArray[np.int32], pa.Array]:
    """Give equal values one number: dictionaries may hold a value twice, and null both as an index and as a value."""
    encoded = values.dictionary_encode(null_encoding="encode")
    if len(encoded.dictionary) == len(values):
        return codes, values
    return encoded.indices.to_numpy()[codes], encoded.dictionary


def _with_nulls(array: pa.Array) -> tuple[NDArray[np.int32], pa.Array]:
    """Number the others first, so that their ways need to know nothing of nulls; null comes last."""
    some, values = encode(array.drop_null())
    codes = np.full(len(array), len(values), np.int32)
    codes[array.is_valid().to_numpy(zero_copy_only=False)] = some
    return codes, pa.concat_arrays([values, pa.nulls(1, values.type)])


def _plain(type_: pa.DataType) -> pa.DataType:
    """The type itself, or for those that Arrow stores but cannot number or sort the next that holds the same keys."""
    if pa.types.is_decimal32(type_) or pa.types.is_decimal64(type_):
        return pa.decimal128(type_.precision, type_.scale)
    return {pa.string_view(): pa.string(), pa.binary_view(): pa.binary(), pa.float16(): pa.float32()}.get(type_, type_)


def _canonical(array: pa.Array) -> pa.Array:
    """The same keys, each stored in one way only: floats have two zeros and many NaNs."""
    array = array.cast(_plain(array.type))
    if not pa.types.is_floating(array.type):
        return array
    numbers = array.to_numpy(zero_copy_only=False) + array.type.to_pandas_dtype()(0)
    return pa.array(np.where(np.isnan(numbers), np.nan, numbers), array.type, mask=array.is_null().to_numpy(zero_copy_only=False))


def _integers(array: pa.Array) -> NDArray[Any] | None:
    """The values as int32 or int64 (which compile to one kernel each), if they are integers underneath."""
    type_ = array.type
    if pa.types.is_boolean(type_) or pa.types.is_integer(type_):
        narrow = type_ not in (pa.uint32(), pa.int64(), pa.uint64())
        array = array.view(pa.int64()) if type_ == pa.uint64() else array.cast(pa.int32() if narrow else pa.int64())
    elif pa.types.is_temporal(type_) and not pa.types.is_interval(type_):
        array = array.view(pa.int32() if type_.bit_width == 32 else pa.int64())
    else:
        return None
    integers: NDArray[Any] = array.to_numpy()
    return integers


@numba.njit(cache=True, nogil=True)
def _number(integers: NDArray[Any], least: int, numbers: NDArray[Any], codes: NDArray[Any], first: NDArray[Any]) -> int:
    """Number integers of a small range as they first occur, by a table over the range; returns how many there are."""
    count = 0
    for i in range(len(integers)):
        at = integers[i] - least
        code = numbers[at]
        if code < 0:
            code = count
            numbers[at] = code
            first[count] = i
            count += 1
        codes[i] = code
    return count
