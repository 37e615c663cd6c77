"""The definitions: assets, jobs, schedules and sensors, with the workplace that they share.

Loading them reads declarations and nothing else: no lake is opened, no JVM started.
"""

from __future__ import annotations

import warnings
from typing import Any

import dagster as dg
from pydantic import Field, create_model

from assets.checks import results_checks
from assets.reports import reports_asset
from assets.results import launched_asset, results_assets
from assets.stream_checks import stream_checks
from assets.streams import stream_assets
from assets.workplace import Workplace
from orchestration.jobs import JOBS, NIGHTLY
from orchestration.schedules import schedules
from orchestration.sensors import raw_files_sensor
from replay.streams.declaration import declared, load

# Single-run backfills are what we want, whatever stage of its life the setting is in.
warnings.filterwarnings("ignore", category=dg.BetaWarning)


def build_defs(workplace: Workplace | None = None) -> dg.Definitions:
    """All definitions, around a workplace (default: the one that the environment names)."""
    place = workplace or Workplace.here()
    streams = [load(path) for path in declared(place.folders()).values()]
    return dg.Definitions(
        assets=[*stream_assets(streams), *results_assets(), launched_asset(), reports_asset()],
        asset_checks=[*stream_checks(streams), *results_checks()],
        jobs=JOBS,
        schedules=[*schedules(), NIGHTLY],
        sensors=[raw_files_sensor([stream.name for stream in streams])],
        resources={"workplace": _kept(place)},
        executor=dg.in_process_executor,
    )


def _kept(place: Workplace) -> Workplace:
    """The same workplace, of a class that has its values as defaults.

    Whoever sets one value in the Launchpad gets the class's defaults for all others: without this, another lake.
    """
    fields: Any = {
        name: (field.annotation, Field(default=getattr(place, name), description=field.description))
        for name, field in Workplace.model_fields.items()
    }
    return create_model("Workplace", __base__=Workplace, **fields)()
