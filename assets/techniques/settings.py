"""Settings that several techniques have in the Launchpad: described, with defaults that work."""

from __future__ import annotations

from typing import Any

import dagster as dg
from pydantic import Field


class Aggregate(dg.Config):
    """What is computed of some tuples."""

    kind: str = Field(description="count, sum, mean, min, max, first or last.")
    column: str | None = Field(default=None, description="Of which column; count may do without.")

    def spec(self) -> dict[str, Any]:
        """As a specification has it."""
        return {"kind": self.kind} | ({"column": self.column} if self.column else {})


class Clock(dg.Config):
    """How long results wait for tuples that come late."""

    delay: str = Field(default="0s", description="How much disorder the watermark allows for, such as 2s.")
    lateness: str = Field(default="0s", description="How long a result that is due may still change, such as 1m.")
