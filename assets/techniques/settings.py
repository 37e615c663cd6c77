"""Settings that several techniques have in the Launchpad: described, with defaults that work.

What may be chosen from is read off the specifications in engines/, so that the Launchpad offers all of it and nothing else.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, get_args

import dagster as dg
from pydantic import BaseModel, Field

from engines.aggregates import spec as aggregates


def choices(name: str, model: type[BaseModel], setting: str) -> type[Enum]:
    """What a setting of a specification may be, as the Launchpad offers it.

    >>> from engines.frames.spec import Threshold
    >>> [one.name for one in choices("Unknown", Threshold, "unknown")]
    ['break', 'skip']
    """
    return Enum(name, {value: value for value in get_args(model.model_fields[setting].annotation)})  # type: ignore[return-value]


_AGGREGATES = get_args(get_args(aggregates.Aggregate)[0])
Kind = Enum("Kind", {kind: kind for kind in (one.model_fields["kind"].default for one in _AGGREGATES)})  # type: ignore[misc]
"""The kinds of aggregates."""


class Aggregate(dg.Config):
    """What is computed of some tuples."""

    kind: Kind = Field(description=f"What: {', '.join(kind.name for kind in Kind)}.")
    column: str | None = Field(default=None, description="Of which column; count may do without.")
    rename: str | None = Field(default=None, alias="as", description="Name of the result column. Default: <kind>_<column>.")

    def spec(self) -> dict[str, Any]:
        """As a specification has it."""
        given = {"column": self.column, "as": self.rename}
        return {"kind": self.kind.value} | {name: value for name, value in given.items() if value is not None}


class Clock(dg.Config):
    """How long results wait for tuples that come late."""

    delay: str = Field(default="0s", description="How much disorder the watermark allows for, such as 2s.")
    lateness: str = Field(default="0s", description="How long a result that is due may still change, such as 1m.")
