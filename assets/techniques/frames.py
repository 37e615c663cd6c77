"""Frames in Dagster: episodes of congestion on traffic, patches of dye on dye.

The technique itself is in engines/frames, its oracle in quality/oracles/frames.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pydantic import Field

from assets.techniques.settings import Aggregate, Clock, choices
from engines.frames.spec import Threshold

if TYPE_CHECKING:
    from assets.shown import Shown

Unknown = choices("Unknown", Threshold, "unknown")

RESULTS: dict[str, dict[str, Any]] = {
    "traffic": {
        "technique": "frames",
        "frame": {"kind": "threshold", "where": "speed < 40", "min_duration": "3m", "unknown": "skip"},
        "aggregates": [{"kind": "count"}, {"kind": "mean", "column": "speed"}, {"kind": "min", "column": "speed"}],
    },
    "dye": {
        "technique": "frames",
        "frame": {"kind": "threshold", "where": "fluorescence > 0.2", "min_tuples": 20},
        "aggregates": [{"kind": "count"}, {"kind": "mean", "column": "fluorescence"}, {"kind": "max", "column": "fluorescence"}],
    },
}


class Settings(Clock):
    """Frames: runs of tuples that satisfy a predicate, if they are long enough."""

    technique: Literal["frames"] = "frames"
    where: str = Field(default="speed < 40", description="What every tuple of a frame satisfies, such as speed < 40 and volume > 0.")
    min_duration: str = Field(default="3m", description="Least time from the first to the last tuple of a frame, such as 90s or 3m.")
    min_tuples: int = Field(default=1, description="Least number of tuples of a frame.")
    unknown: Unknown = Field(  # type: ignore[valid-type]
        default=Unknown["skip"], description="A tuple for which it is unknown ends a frame (break) or is left out (skip)."
    )
    key: str | None = Field(default=None, description="The column by which tuples are framed. Default: the stream's key, if it has one.")
    aggregates: list[Aggregate] = Field(
        default=[{"kind": "count"}, {"kind": "mean", "column": "speed"}, {"kind": "min", "column": "speed"}],  # type: ignore[list-item]
        description="What is computed over the tuples of a frame.",
    )

    def spec(self) -> dict[str, Any]:
        """The specification."""
        frame = {
            "kind": "threshold", "where": self.where, "min_duration": self.min_duration, "min_tuples": self.min_tuples,
            "unknown": self.unknown.value,
        }  # fmt: skip
        return {
            "technique": "frames", "delay": self.delay, "lateness": self.lateness, "frame": frame,
            **({"key": self.key} if self.key is not None else {}),
            "aggregates": [aggregate.spec() for aggregate in self.aggregates],
        }  # fmt: skip


def picture(shown: Shown, tuples: pa.Table, spec: dict[str, Any]) -> bytes:
    """Episodes over the signal."""
    from assets.pictures import picture_of_episodes  # the plotting library takes a moment to import

    if (key := spec.get("key") or "key") != "key":
        there = [name for name in tuples.column_names if name not in ("key", key)]
        tuples = tuples.select([*there, key]).rename_columns([*there, "key"])
    return picture_of_episodes(shown, tuples, str(spec["frame"]["where"]))
