"""General slicing in Dagster: windows over a football game and over manufacturing equipment.

The technique itself is in engines/slicing, its oracle in quality/oracles/slicing.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import dagster as dg
import pyarrow as pa
from pydantic import Field

from assets.techniques.settings import Aggregate, Clock, choices
from engines.slicing.spec import Spec

if TYPE_CHECKING:
    from assets.shown import Shown

Algorithm = choices("Algorithm", Spec, "algorithm")

RESULTS: dict[str, dict[str, Any]] = {
    "debs2013": {
        "technique": "slicing",
        "delay": "1s",
        "queries": [
            {
                "name": "last_20s",
                "window": {"kind": "sliding", "length": "20s", "slide": "1s"},
                "aggregates": [{"kind": "count"}, {"kind": "mean", "column": "speed"}, {"kind": "max", "column": "acceleration"}],
            }
        ],
    },
    "debs2012": {
        "technique": "slicing",
        "delay": "1s",
        "queries": [
            {
                "name": "minute",
                "window": {"kind": "sliding", "length": "1m", "slide": "10s"},
                "aggregates": [{"kind": "count"}, {"kind": "mean", "column": "mf01"}, {"kind": "min", "column": "mf01"}],
            },
            {
                "name": "five_minutes",
                "window": {"kind": "tumbling", "length": "5m"},
                "aggregates": [{"kind": "count"}, {"kind": "max", "column": "mf01"}, {"kind": "sum", "column": "mf02"}],
            },
        ],
    },
}


class Tumbling(dg.Config):
    """Windows one after the other."""

    kind: Literal["tumbling"] = "tumbling"
    length: str = Field(default="1m", description="How long a window is, such as 20s or 1m.")
    offset: str = Field(default="0s", description="Where the first window after the epoch would begin.")


class Sliding(dg.Config):
    """Windows that overlap."""

    kind: Literal["sliding"] = "sliding"
    length: str = Field(default="20s", description="How long a window is, such as 20s or 1m.")
    slide: str = Field(default="1s", description="From one window's start to the next, such as 1s.")
    offset: str = Field(default="0s", description="Where the first window after the epoch would begin.")


class Query(dg.Config):
    """One question: which windows, and what of the tuples in each."""

    name: str = Field(default="q", description="Names the query in the results.")
    window: Tumbling | Sliding = Field(default={"sliding": {}}, discriminator="kind", description="The windows, for each key.")  # type: ignore[assignment]
    aggregates: list[Aggregate] = Field(
        default=[{"kind": "count"}, {"kind": "mean", "column": "speed"}],  # type: ignore[list-item]
        description="What is computed of each window.",
    )

    def spec(self) -> dict[str, Any]:
        """As a specification has it."""
        return {"name": self.name, "window": dict(self.window), "aggregates": [aggregate.spec() for aggregate in self.aggregates]}


class Settings(Clock):
    """General slicing: queries over one stream that share slices."""

    technique: Literal["slicing"] = "slicing"
    algorithm: Algorithm = Field(  # type: ignore[valid-type]
        default=Algorithm["auto"], description="How windows are computed; the results are the same."
    )
    queries: list[Query] = Field(default=[{"name": "last_20s"}], description="The queries; they share slices.")  # type: ignore[list-item]

    def spec(self) -> dict[str, Any]:
        """The specification."""
        return {
            "technique": "slicing", "delay": self.delay, "lateness": self.lateness, "algorithm": self.algorithm.value,
            "queries": [query.spec() for query in self.queries],
        }  # fmt: skip


def picture(shown: Shown, tuples: pa.Table, spec: dict[str, Any]) -> bytes:
    """Windows over time."""
    from assets.pictures import picture_of_windows  # the plotting library takes a moment to import

    return picture_of_windows(shown, tuples, spec["queries"])
