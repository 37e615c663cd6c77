"""What Dagster loads. Everything is made by `build_defs`, which tests call with settings of their own."""

from __future__ import annotations

from orchestration.building import build_defs

defs = build_defs()
