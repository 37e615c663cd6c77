"""Which bucket a key belongs to: a fixed hash of its value, the same in every process and on every machine.

Changing anything here moves keys between buckets, so that no state written before could be gone on from.
"""

from __future__ import annotations

import numba
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


def buckets(keys: pa.Array, count: int) -> NDArray[np.int64]:
    """The bucket of each key, 0 to count - 1; null is a key like any other.

    >>> bool((buckets(pa.array([1, 2, None]), 4) == buckets(pa.array([1, 2, None], pa.int8()), 4)).all())
    True
    """
    if count == 1:
        return np.zeros(len(keys), np.int64)
    if pa.types.is_dictionary(keys.type):
        of_values = np.append(buckets(keys.dictionary, count), buckets(pa.nulls(1), count))
        indices: NDArray[np.int64] = keys.indices.cast(pa.int64()).fill_null(len(keys.dictionary)).to_numpy(zero_copy_only=False)
        return of_values[indices]
    return (_hash(keys) % np.uint64(count)).astype(np.int64)


def split(rows: pa.RecordBatch, count: int, keys: pa.Array | None = None) -> list[tuple[int, pa.RecordBatch]]:
    """Rows by the bucket of their key (the column `key`, unless others are given), in their order; buckets without rows are left out."""
    if rows.num_rows == 0:
        return []
    if count == 1:
        return [(0, rows)]
    of_row = buckets(rows["key"] if keys is None else keys, count)
    order = np.argsort(of_row, kind="stable")
    ends = np.searchsorted(of_row[order], np.arange(count + 1))
    moved = rows.take(pa.array(order))
    return [(b, moved.slice(ends[b], ends[b + 1] - ends[b])) for b in range(count) if ends[b + 1] > ends[b]]


def _hash(keys: pa.Array) -> NDArray[np.uint64]:
    kind = keys.type
    if pa.types.is_null(kind):
        return np.zeros(len(keys), np.uint64)
    if pa.types.is_floating(kind):
        # One key has one pattern of bits, as in `engines.keys`: all NaNs are equal, and adding zero makes -0.0 and 0.0 the same.
        floats: NDArray[np.float64] = keys.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        numbers = (np.where(np.isnan(floats), np.nan, floats) + 0.0).view(np.uint64)
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        numbers = keys.cast(pa.int64(), safe=False).fill_null(0).to_numpy(zero_copy_only=False)
    elif pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        numbers = keys.view(width).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    else:
        is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
        wide = pa.large_binary() if is_bytes else pa.large_string()
        text = keys.cast(wide).fill_null("" if wide == pa.large_string() else b"")
        _, offsets, data = text.buffers()
        ends = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
        numbers = _fnv(np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8), ends)
    hashed = _mix(np.ascontiguousarray(numbers).view(np.uint64))
    if keys.null_count:
        hashed[pc.is_null(keys).to_numpy(zero_copy_only=False)] = 0
    return hashed


@numba.njit(cache=True, nogil=True)
def _mix(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:  # pragma: no cover - compiled
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014)."""
    mixed = np.empty_like(numbers)
    for i in range(len(numbers)):
        z = numbers[i] + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed[i] = z ^ (z >> np.uint64(31))
    return mixed


@numba.njit(cache=True, nogil=True)
def _fnv(data: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[np.uint64]:  # pragma: no cover - compiled
    """FNV-1a, 64 bits, of the bytes between each two neighbouring ends."""
    hashed = np.empty(len(ends) - 1, np.uint64)
    for i in range(len(hashed)):
        h = np.uint64(0xCBF29CE484222325)
        for at in range(ends[i], ends[i + 1]):
            h = (h ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
        hashed[i] = h
    return hashed
