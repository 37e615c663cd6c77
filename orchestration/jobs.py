"""Jobs: what a person launches by name.

`replay` is any technique on any stream, from the Launchpad; `ingest` brings all streams up to date. Days of results are
materialized as assets, from the graph or by the schedules.
"""

from __future__ import annotations

import dagster as dg

from assets.results import LAUNCHED
from assets.streams import GROUP

REPLAY = dg.define_asset_job(
    "replay",
    selection=dg.AssetSelection.assets(LAUNCHED) | dg.AssetSelection.checks_for_assets(LAUNCHED),
    description="Replay any technique on any stream, with any of its settings: open the Launchpad.",
)
INGEST = dg.define_asset_job(
    "ingest",
    selection=dg.AssetSelection.groups(GROUP),
    description="Bring every stream's log up to date with its raw files, or with its twin.",
)
QUALITY = dg.define_asset_job(
    "quality",
    selection=dg.AssetSelection.all_asset_checks() - dg.AssetSelection.checks_for_assets(LAUNCHED),
    description="Run every check on what is published, and recompute nothing.",
)
JOBS = [REPLAY, INGEST, QUALITY]
