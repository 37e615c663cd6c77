"""Columns of a stream as plain numbers: which types can be aggregated, and the way there and back.

Integers, booleans and everything on a time axis become int64, floats float64. What has no value (null, NaN, where asked
infinities) is not in the numbers but in `Tuples.cells`, which leaves such tuples out.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from engines.aggregates.kernels import Array, fixed

_TEMPORAL = (pa.types.is_timestamp, pa.types.is_date, pa.types.is_time, pa.types.is_duration)


def is_number(type_: pa.DataType) -> bool:
    """Whether values can be added: integers that fit int64, and floats."""
    return bool((pa.types.is_integer(type_) and type_ != pa.uint64()) or pa.types.is_floating(type_))


def is_ordered(type_: pa.DataType) -> bool:
    """Whether values can be compared and kept: numbers, booleans, dates, times, timestamps, durations."""
    return is_number(type_) or pa.types.is_boolean(type_) or any(test(type_) for test in _TEMPORAL)


def kept(type_: pa.DataType) -> pa.DataType:
    """The type of a single value in a result: the column's own, numbers widened."""
    if is_number(type_):
        return pa.float64() if pa.types.is_floating(type_) else pa.int64()
    return type_


def numbers(array: pa.Array) -> Array:
    """Values as int64 or float64; any number where the array is null."""
    type_ = array.type
    if array.null_count:
        array = array.fill_null(pa.scalar(0, _storage(type_)).cast(type_))
    array = array.cast(pa.float64()) if pa.types.is_floating(type_) else array.cast(_storage(type_)).cast(pa.int64())
    return fixed(array.to_numpy(zero_copy_only=True))


def restored(values: Array, type_: pa.DataType, nulls: Array) -> pa.Array:
    """Numbers as an Arrow array of the type they came from, null where told."""
    array = pa.array(values, mask=nulls if nulls.any() else None)
    return array if array.type == type_ else array.cast(_storage(type_)).cast(type_)


def _storage(type_: pa.DataType) -> pa.DataType:
    """The integer type that Arrow casts this type from and to without changing a bit."""
    if not any(test(type_) for test in _TEMPORAL):
        return pa.int64()
    return pa.int32() if type_.bit_width == 32 else pa.int64()


class Tuples:
    """The columns of one batch as arrays, each made once however many parts ask for it."""

    def __init__(self, cells: Array, batch: pa.RecordBatch, *, finite: bool) -> None:
        """Tuple i of the batch belongs to cell `cells[i]`, none if negative; `finite`: infinities are no values either."""
        self._all = fixed(cells, np.int32)
        self._batch = batch
        self._finite = finite
        self._numbers: dict[str, Array] = {}
        self._cells: dict[str, Array] = {}

    def numbers(self, column: str) -> Array:
        """The values of a column; only those with a cell mean anything."""
        if column not in self._numbers:
            self._numbers[column] = numbers(self._batch.column(column))
        return self._numbers[column]

    def cells(self, column: str | None) -> Array:
        """The cell of each tuple, -1 where the column has no value; without a column: of all tuples."""
        if column is None:
            return self._all
        if column not in self._cells:
            missing = self._missing(column)
            self._cells[column] = self._all if missing is None else fixed(np.where(missing, np.int32(-1), self._all))
        return self._cells[column]

    def _missing(self, column: str) -> Array | None:
        """Which tuples have no value in a column; None: all have one, found without a look at each where possible."""
        array = self._batch.column(column)
        if pa.types.is_dictionary(array.type) and array.dictionary.null_count:
            array = array.dictionary_decode()
        nulls = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
        if not pa.types.is_floating(array.type) or not len(array):
            return nulls
        values = self.numbers(column)
        # A single NaN makes the extremes NaN, so that a fast pass or two settle the usual case.
        if np.isfinite(values.min()) and (not self._finite or np.isfinite(values.max())):
            return nulls
        odd = ~np.isfinite(values) if self._finite else np.isnan(values)
        return odd if nulls is None else odd | nulls
