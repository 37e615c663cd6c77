"""Jobs: what a person launches by name.

`replay` is any technique on any stream, from the Launchpad; `ingest` brings all streams up to date; `quality` runs every check;
`remove_old_runs` makes room. Days of results are materialized as assets, from the graph or by the schedules.
"""

from datetime import timedelta

import dagster as dg
from pydantic import Field

from assets.results import LAUNCHED
from assets.streams import GROUP
from assets.workplace import Workplace

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
    description="Run every check of streams and results, and recompute nothing; of what is not there yet they are red.",
)


class OldRuns(dg.Config):
    """Which folders of runs are removed."""

    days: int = Field(default=30, description="How many days after its end a run's folder is kept; what it published always stays.")


@dg.op(description="Remove the folders of runs that ended long ago.")
def remove_runs(context: dg.OpExecutionContext, config: OldRuns, workplace: Workplace) -> None:
    """Remove the folders of runs that ended longer ago than is configured."""
    from replay.runs import remove_old

    if not 0 <= config.days <= 36_500:
        raise dg.Failure(description=f"days: {config.days} given; allowed are 0 to 36500.", allow_retries=False)
    gone = remove_old(workplace.place, timedelta(days=config.days))
    context.log.info(f"{len(gone)} runs removed" + (f": {', '.join(gone[:20])}{', ...' if len(gone) > 20 else ''}" if gone else ""))


@dg.job(description="Remove the folders of runs that ended long ago, cancelled and failed ones too; what is published stays.")
def remove_old_runs() -> None:
    """The job of one op."""
    remove_runs()


JOBS = [REPLAY, INGEST, QUALITY, remove_old_runs]
NIGHTLY = dg.ScheduleDefinition(
    name="old_runs",
    job=remove_old_runs,
    cron_schedule="0 3 * * *",
    description="Removes every night the folders of runs that ended long ago; what they published stays.",
)
