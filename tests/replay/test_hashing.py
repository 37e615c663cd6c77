"""Buckets: a fixed hash of a key's value."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engines.keys import encode
from replay.hashing import buckets

KEYS = {
    "int64": pa.array([1, -1, 2**62, None, 1]),
    "int8": pa.array([1, -1, 7, None, 1], pa.int8()),
    "bool": pa.array([True, False, True, None, True]),
    "float": pa.array([1.5, -1.5, 0.0, None, 1.5]),
    "text": pa.array(["a", "", "äö", None, "a"]),
    "bytes": pa.array([b"a", b"", b"\xff", None, b"a"]),
    "bytes of one size": pa.array([b"ab", b"\x00\x00", b"\xff\xfe", None, b"ab"], pa.binary(2)),
    "timestamp": pa.array([1_704_067_200_000_000, -1, 1_704_153_600_000_000, None, 1_704_067_200_000_000], pa.timestamp("us", tz="UTC")),
    "date": pa.array([date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 3), None, date(2024, 1, 1)]),
    "decimal": pa.array([Decimal("1.5"), Decimal("-1.5"), Decimal("2.5"), None, Decimal("1.5")]),
}  # fmt: skip


@pytest.mark.parametrize("kind", KEYS)
def test_equal_keys_share_a_bucket_however_they_are_stored(kind: str) -> None:
    keys = KEYS[kind]
    plain = buckets(keys, 7)
    assert plain[0] == plain[4]
    assert (plain >= 0).all() and (plain < 7).all()
    assert (buckets(keys.dictionary_encode(), 7) == plain).all()
    assert (buckets(pa.concat_arrays([keys.slice(0, 1), keys]).slice(1), 7) == plain).all()


def test_integers_of_any_width_and_both_zeros_hash_alike() -> None:
    for narrow in (pa.int8(), pa.int16(), pa.int32(), pa.uint8()):
        assert (buckets(pa.array([1, 2, 3], narrow), 1000) == buckets(pa.array([1, 2, 3]), 1000)).all()
    assert len(set(buckets(pa.array([0.0, -0.0]), 1000))) == 1


@pytest.mark.parametrize(
    ("kind", "sign", "quiet"), [(np.uint16, 0x8000, 0x7E00), (np.uint32, 1 << 31, 0x7FC << 20), (np.uint64, 1 << 63, 0x7FF8 << 48)]
)
def test_what_is_one_key_to_an_engine_is_in_one_bucket(kind: type[np.unsignedinteger[Any]], sign: int, quiet: int) -> None:
    bits = np.array([quiet, quiet | sign, quiet | 13, 0, sign], kind)  # three of the many NaNs, and both zeros
    keys = pa.array(bits.view(f"f{bits.itemsize}"))
    assert encode(keys)[0].tolist() == [0, 0, 0, 1, 1]
    for form in (keys, keys.dictionary_encode()):
        nan, zero = buckets(pa.array([float("nan"), 0.0]), 1000)
        assert buckets(form, 1000).tolist() == [nan, nan, nan, zero, zero]


def splitmix64(number: int) -> int:
    mask = 2**64 - 1
    z = (number + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def fnv1a(data: bytes) -> int:
    h = 0xCBF29CE484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) % 2**64
    return h


def test_the_hash_is_the_published_one_in_any_process() -> None:
    numbers, texts = [0, 1, 2, -1, -(2**63)], ["", "a", "mote 7", "äö"]
    assert buckets(pa.array(numbers), 1 << 16).tolist() == [splitmix64(n % 2**64) % (1 << 16) for n in numbers]
    assert buckets(pa.array(texts), 1 << 16).tolist() == [splitmix64(fnv1a(t.encode())) % (1 << 16) for t in texts]


@pytest.mark.parametrize("keys", [pa.array(np.arange(100_000)), pa.array([f"sensor {i}" for i in range(100_000)])])
def test_keys_spread_evenly(keys: pa.Array) -> None:
    counts = np.bincount(buckets(keys, 5), minlength=5)
    assert counts.min() > 0.97 * len(keys) / 5
