"""The platform as tests drive it: the definitions over a lake and an instance of their own, run in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest
from dagster._utils.test.data_versions import get_stale_status_resolver

from assets.techniques import technique_modules
from assets.workplace import Workplace
from orchestration.building import build_defs
from tests.orchestration.month import write_month
from tests.replay.harness import in_process

SPEC = technique_modules()["frames"].RESULTS["traffic"]
FRAMES, TRAFFIC = dg.AssetKey(["frames", "traffic"]), dg.AssetKey(["streams", "traffic"])


class Platform:
    """The definitions over a lake of their own, with an instance of their own."""

    def __init__(self, root: Path, **settings: str) -> None:
        self.workplace = Workplace(lake=str(root / "lake"), raw=str(root / "raw"), twin_tuples=13_000, **settings)
        self.defs = build_defs(self.workplace)
        (root / "instance").mkdir(parents=True)
        self.instance = dg.DagsterInstance.local_temp(str(root / "instance"))
        self._alone = self._job("days_alone", dg.AssetSelection.assets(FRAMES).without_checks())

    def run(self, selection: list[dg.AssetKey] | None = None, *, job: str | None = None, **how: Any) -> dg.ExecuteInProcessResult:
        found = self.defs.resolve_job_def(job) if job else self.defs.resolve_implicit_global_asset_job_def()
        return found.execute_in_process(instance=self.instance, asset_selection=selection, raise_on_error=False, **how)

    def ingest(self) -> None:
        assert self.run([TRAFFIC]).success

    def month(self, days: int = 30) -> None:
        """A month of traffic, ingested."""
        write_month(Path(self.workplace.raw), days)
        self.ingest()

    def replay(self, day: str | None = None, *, spark: bool = False, checks: bool = False, **how: Any) -> dg.ExecuteInProcessResult:
        """A day of frames on traffic, or all of them; without Spark its part is played in this process."""
        of = {"tags": self.whole()} if day is None else {"partition_key": day}
        with pytest.MonkeyPatch.context() as patch:
            if not spark:
                patch.setattr(Workplace, "spark", None)
                patch.setattr("replay.runs.execute", in_process)
            if checks:
                return self.run([FRAMES], **of, **how)
            return self._alone.execute_in_process(instance=self.instance, raise_on_error=False, **of, **how)

    def checks(self, key: dg.AssetKey) -> dg.ExecuteInProcessResult:
        """The checks of an asset alone."""
        found = self._job("checks_alone", dg.AssetSelection.checks_for_assets(key))
        return found.execute_in_process(instance=self.instance, raise_on_error=False)

    def tick(self, schedule: str = "next_day_of_frames__traffic") -> Any:
        """What a schedule asks for now."""
        (found,) = [one for one in self.defs.schedules or [] if one.name == schedule]
        with dg.build_schedule_context(instance=self.instance, resources={"workplace": self.workplace}) as context:
            return found(context)

    def _job(self, name: str, selection: dg.AssetSelection) -> dg.JobDefinition:
        job = dg.define_asset_job(name, selection=selection)
        return dg.Definitions.merge(self.defs, dg.Definitions(jobs=[job])).resolve_job_def(name)

    def stale(self, day: str) -> list[str]:
        """Why the UI shows a day of frames on traffic as stale, if it does."""
        resolver = get_stale_status_resolver(self.instance, list(self.defs.resolve_asset_graph().assets_defs))
        return [cause.reason for cause in resolver.get_stale_causes(FRAMES, day)]

    @property
    def days(self) -> list[str]:
        return list(self.instance.get_dynamic_partitions("traffic_days"))

    def whole(self) -> dict[str, str]:
        return {"dagster/asset_partition_range_start": self.days[0], "dagster/asset_partition_range_end": self.days[-1]}

    def report(self, link: Any) -> Path:
        """The page that a link leads to."""
        assert str(link.value).startswith(f"{self.workplace.reports}/")
        return Path(self.workplace.lake) / "reports" / Path(str(link.value)).name

    def published(self, name: str = "frames__traffic") -> pl.DataFrame:
        return pl.read_delta(f"{self.workplace.lake}/results/{name}").sort("key", "start")


def failure(done: dg.ExecuteInProcessResult) -> str:
    """What a failed run says."""
    events = [event.step_failure_data for event in done.all_events if event.is_step_failure]
    return events[0].user_failure_data.description if events[0].user_failure_data else str(events[0].error)


def lines(platform: Platform, done: dg.ExecuteInProcessResult) -> list[str]:
    """The log lines of a run."""
    return [entry.user_message for entry in platform.instance.all_logs(done.run_id) if entry.dagster_event is None]


def metadata(done: dg.ExecuteInProcessResult) -> Mapping[str, Any]:
    """What a run's materialization tells; of many partitions that of the last one."""
    events = done.get_asset_materialization_events()
    return max(events, key=lambda event: event.partition or "").materialization.metadata


def in_process_wrongly(*given: Any, **how: Any) -> Any:
    """A replay by an engine that finds the least speed too low."""
    done = in_process(*given, **how)
    rows = pl.read_delta(done.plan.output("results"))
    rows.with_columns(pl.col("min_speed") - 1.0).write_delta(done.plan.output("results"), mode="overwrite")
    return done
