"""Whole twins in memory, made once for all tests that look at the same one."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from replay.streams.twins import twin


@lru_cache(maxsize=4)
def text_of(name: str, tuples: int, seed: int = 0, **options: Any) -> str:
    """All files of a twin, one after the other."""
    made = twin(name, tuples=tuples, seed=seed, **options)
    return b"".join(block for part in made.parts for block in made.blocks(part)).decode("ascii")


def quantile(values: list[float], share: float) -> float:
    """The value below which a share of the values lies."""
    return sorted(values)[int(share * (len(values) - 1))]
