"""What general slicing can be asked for: queries, each with windows and aggregates, that share slices.

Engine and oracle both read this, so it imports nothing but pydantic and shared specifications. A new kind of window is a
model here, a member of `Window`, and a shape in `windows.py`.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from engines.aggregates.spec import Aggregates, alike, beside
from engines.spec import LONGEST_US, Duration, Model, Offset, TechniqueSpec, format_duration

MOST_WINDOWS_PER_TUPLE = 1_000_000
BEFORE = ("query", "key", "window_start", "window_end", "measure_start", "measure_end")
"""The result columns before the aggregates."""
AFTER = ("tuples", "decided", "revision", "retracted")
"""The result columns after the aggregates."""


def _bounded(us: int) -> int:
    # Ends of windows are computed in 64 bits; half the longest duration leaves room on both sides of every timestamp.
    if us > LONGEST_US // 2:
        raise ValueError(f"allowed is a duration of at most {LONGEST_US // 2} microseconds")
    return us


_Length = Annotated[Duration, AfterValidator(_bounded)]


class Tumbling(Model):
    """Windows `[s, s + length)`, one after the other."""

    POSITIONAL: ClassVar[tuple[str, ...]] = ("length",)

    kind: Literal["tumbling"] = "tumbling"
    length: _Length = Field(description="How long a window is.")
    offset: Offset = Field(default="0s", description="Where the first window after the epoch would begin.")  # type: ignore[assignment]

    @property
    def slide(self) -> int:
        """From one window's start to the next."""
        return self.length


class Sliding(Model):
    """Windows `[s, s + length)`, one every slide: they overlap, or leave out what is between them."""

    POSITIONAL: ClassVar[tuple[str, ...]] = ("length", "slide")

    kind: Literal["sliding"] = "sliding"
    length: _Length = Field(description="How long a window is.")
    slide: _Length = Field(description="From one window's start to the next.")
    offset: Offset = Field(default="0s", description="Where the first window after the epoch would begin.")  # type: ignore[assignment]

    @field_validator("slide")
    @classmethod
    def _few_enough(cls, slide: int, info: ValidationInfo) -> int:
        windows = -(-info.data.get("length", 0) // slide)
        if windows > MOST_WINDOWS_PER_TUPLE:
            length = format_duration(info.data["length"])
            raise ValueError(
                f"with a length of {length} a tuple would be in {windows} windows; allowed are at most {MOST_WINDOWS_PER_TUPLE}"
            )
        return slide


Window = Annotated[Tumbling | Sliding, Field(discriminator="kind")]
"""Any window; `kind` says which."""


class Query(Model):
    """One question: which windows, and what of the tuples in each.

    >>> from engines.aggregates.spec import Sum
    >>> Query("speed", Sliding("20s", "1s"), [Sum("v")]).window.length
    20000000
    """

    POSITIONAL: ClassVar[tuple[str, ...]] = ("name", "window", "aggregates")

    name: str = Field(min_length=1, description="Names the query in the results.")
    window: Window = Field(description="The windows, for each key.")
    aggregates: Annotated[Aggregates, beside(BEFORE + AFTER)] = Field(min_length=1, description="What is computed of each window.")


def _side_by_side(queries: tuple[Query, ...]) -> tuple[Query, ...]:
    """Queries that can be told apart, and whose results fit in one table."""
    name, times = Counter(query.name for query in queries).most_common(1)[0]
    if times > 1:
        raise ValueError(f"{times} queries of the name {name!r} given; allowed are distinct names")
    names = dict.fromkeys(aggregate.name for query in queries for aggregate in query.aggregates)
    if two := alike(names):
        raise ValueError(
            f"the result columns {two[0]!r} and {two[1]!r} given; allowed are names that differ in more than case, or in nothing"
        )
    return queries


class Spec(TechniqueSpec):
    """General slicing: queries over one stream that share slices."""

    technique: Literal["slicing"] = "slicing"
    algorithm: Literal["auto", "lazy_slicing"] = Field(default="auto", description="How windows are computed; the results are the same.")
    queries: Annotated[tuple[Query, ...], Field(min_length=1), AfterValidator(_side_by_side)] = Field(
        description="The queries; they share slices."
    )


def _query(name: str, window: dict[str, Any], *aggregates: str) -> dict[str, Any]:
    return {"name": name, "window": window, "aggregates": [{"kind": "count"}, *({"kind": kind, "column": "v"} for kind in aggregates)]}


EXAMPLES: tuple[dict[str, Any], ...] = (
    {"technique": "slicing", "queries": [_query("q", {"kind": "tumbling", "length": "10s"}, "sum")]},
    {
        "technique": "slicing",
        "delay": "2s",
        "queries": [_query("q", {"kind": "sliding", "length": "20s", "slide": "1s"}, "sum", "min", "max")],
    },
    {
        "technique": "slicing",
        "delay": "2s",
        "lateness": "5s",
        "queries": [_query("q", {"kind": "sliding", "length": "10s", "slide": "3s", "offset": "-1s"}, "mean", "first", "last")],
    },
    {"technique": "slicing", "delay": "10s", "queries": [_query("gaps", {"kind": "sliding", "length": "3s", "slide": "8s"}, "count")]},
    {
        "technique": "slicing",
        "delay": "1s",
        "lateness": "1m",
        "algorithm": "lazy_slicing",
        "queries": [
            _query("minutes", {"kind": "tumbling", "length": "1m"}, "mean"),
            _query("days", {"kind": "sliding", "length": "1d", "slide": "7h"}, "sum"),
            {"name": "a", "window": {"kind": "tumbling", "length": "1m"}, "aggregates": [{"kind": "max", "column": "v", "as": "peak"}]},
        ],
    },
)
"""Specifications over the columns ts, key and v."""
