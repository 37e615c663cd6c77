"""What general slicing can be asked for: queries, each with windows and aggregates, that share slices.

Engine and oracle both read this, so it imports nothing but pydantic and shared specifications. A new kind of window is a
model here, a member of `Window`, and a shape in `windows.py`.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from engines.aggregates.spec import Aggregates
from engines.spec import LONGEST_US, Duration, Model, Offset, TechniqueSpec

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

    @model_validator(mode="after")
    def _few_enough(self) -> Sliding:
        if self.length > MOST_WINDOWS_PER_TUPLE * self.slide:
            raise ValueError(f"a tuple would be in {-(-self.length // self.slide)} windows; allowed are at most {MOST_WINDOWS_PER_TUPLE}")
        return self


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
    aggregates: Aggregates = Field(min_length=1, description="What is computed of each window.")

    @model_validator(mode="after")
    def _no_reserved_names(self) -> Query:
        for aggregate in self.aggregates:
            if aggregate.name in BEFORE + AFTER:
                raise ValueError(f"an aggregate is named {aggregate.name!r}; allowed are names other than {', '.join(BEFORE + AFTER)}")
        return self


class Spec(TechniqueSpec):
    """General slicing: queries over one stream that share slices."""

    technique: Literal["slicing"] = "slicing"
    algorithm: Literal["auto", "lazy_slicing"] = Field(default="auto", description="How windows are computed; the results are the same.")
    queries: tuple[Query, ...] = Field(min_length=1, description="The queries; they share slices.")

    @model_validator(mode="after")
    def _distinct_names(self) -> Spec:
        name, times = Counter(query.name for query in self.queries).most_common(1)[0]
        if times > 1:
            raise ValueError(f"{times} queries are named {name!r}; allowed are distinct names")
        return self


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
