"""Specification of frames: what makes a frame, of which key, and what is computed over its tuples.

Engine and oracle share it, so it imports nothing but pydantic and the shared specification helpers.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from engines.aggregates.spec import Aggregates, beside
from engines.expressions.tree import canonical
from engines.spec import DurationOrZero, Model, TechniqueSpec

COLUMNS = ("frame_id", "key", "kind", "start", "end", "tuples", "open", "decided", "revision", "retracted")
"""The columns of results that every frame has; aggregates stand before `open`."""

Predicate = Annotated[str, AfterValidator(canonical)]
"""A condition on a tuple, such as `speed < 40 and status != 'closed'`, in canonical form."""


class Threshold(Model):
    """Frames are the maximal runs of instants whose tuples all satisfy a predicate, if they are long enough.

    >>> Threshold("speed<40", min_duration="3m").where
    'speed < 40'
    """

    POSITIONAL: ClassVar[tuple[str, ...]] = ("where",)

    kind: Literal["threshold"] = Field(default="threshold", description="The kind of frame.")
    where: Predicate = Field(description="What every tuple of a frame satisfies.")
    min_duration: DurationOrZero = Field(default="0s", description="Least time from the first to the last tuple of a frame.")  # type: ignore[assignment]
    min_tuples: int = Field(default=1, strict=True, ge=1, le=2**63 - 1, description="Least number of tuples in a frame.")
    unknown: Literal["break", "skip"] = Field(
        default="break", description="A tuple for which the predicate is unknown (null) does not satisfy it (break), or is left out (skip)."
    )


class Spec(TechniqueSpec):
    """Frames of a stream, by key.

    >>> Spec(frame=Threshold("v > 0.2")).frame.min_tuples
    1
    """

    technique: Literal["frames"] = "frames"
    frame: Threshold = Field(description="What makes a frame.")
    key: str | None = Field(default=None, description="The column by which tuples are framed; absent: `key` if there is one, else none.")
    aggregates: Annotated[Aggregates, beside(COLUMNS)] = Field(default=(), description="What is computed over the tuples of a frame.")


EXAMPLES: tuple[dict[str, Any], ...] = (
    {"technique": "frames", "frame": {"kind": "threshold", "where": "v > 0.5"}},
    {
        "technique": "frames",
        "delay": "2s",
        "lateness": "3s",
        "frame": {"kind": "threshold", "where": "0 < v <= 10 and v is not null", "min_duration": "2s", "min_tuples": 2, "unknown": "skip"},
        "aggregates": [{"kind": kind, "column": "v"} for kind in ("count", "sum", "mean", "min", "max", "first", "last")],
    },
)
"""Specifications over the columns ts, key and v."""
