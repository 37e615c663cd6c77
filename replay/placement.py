"""Which label makes Spark put a bucket into a partition of its own.

Spark places a group by the hash of its key: with the labels 0, 1, 2 two buckets may share a partition and a core stand
idle. The labels found here hash to different partitions.
"""

from __future__ import annotations

from functools import cache

_MASK = 0xFFFFFFFF


@cache
def labels(count: int) -> tuple[int, ...]:
    """A label for each bucket, such that Spark puts each into its own of `count` shuffle partitions.

    >>> len(labels(5)), sorted(_murmur3(label) % 5 for label in labels(5))
    (5, [0, 1, 2, 3, 4])
    """
    found: dict[int, int] = {}
    label = 0
    while len(found) < count:
        found.setdefault(_murmur3(label) % count, label)
        label += 1
    return tuple(found[place] for place in range(count))


def _murmur3(value: int, seed: int = 42) -> int:
    """Spark's hash of an int: Murmur3, x86, 32 bits, as a signed number."""
    k = (value * 0xCC9E2D51) & _MASK
    k = ((k << 15) | (k >> 17)) & _MASK
    h = seed ^ ((k * 0x1B873593) & _MASK)
    h = ((h << 13) | (h >> 19)) & _MASK
    h = (h * 5 + 0xE6546B64) & _MASK
    h ^= 4
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & _MASK
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h
