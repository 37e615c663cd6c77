"""Dagster does what it promises: partitions, backfills in one run, schedules, the sensor, checks, reports, failures in sentences."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from assets.techniques import technique_modules
from assets.workplace import Workplace
from orchestration.building import build_defs
from orchestration.schedules import days_to_replay

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SPEC = technique_modules()["frames"].RESULTS["traffic"]
FRAMES = dg.AssetKey(["frames", "traffic"])


class Platform:
    """The definitions over a lake of their own, with an instance of their own."""

    def __init__(self, root: Path, spark: Any) -> None:
        self.workplace = Workplace(lake=str(root / "lake"), raw=str(root / "raw"), twin_tuples=13_000)
        self.defs = build_defs(self.workplace)
        (root / "instance").mkdir(parents=True)
        self.instance = dg.DagsterInstance.local_temp(str(root / "instance"))
        self._spark = spark

    def run(self, selection: list[dg.AssetKey] | None = None, *, job: str | None = None, **how: Any) -> dg.ExecuteInProcessResult:
        found = self.defs.resolve_job_def(job) if job else self.defs.resolve_implicit_global_asset_job_def()
        return found.execute_in_process(instance=self.instance, asset_selection=selection, raise_on_error=False, **how)

    def checks(self, key: dg.AssetKey) -> dg.ExecuteInProcessResult:
        """The checks of an asset alone."""
        job = dg.define_asset_job("checks_alone", selection=dg.AssetSelection.checks_for_assets(key))
        found = dg.Definitions.merge(self.defs, dg.Definitions(jobs=[job])).resolve_job_def("checks_alone")
        return found.execute_in_process(instance=self.instance, raise_on_error=False)

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


@pytest.fixture
def platform(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Platform]:
    # All tests share one JVM: the session of a run is theirs, and is not stopped when the run ends.
    monkeypatch.setattr(Workplace, "spark", property(lambda self: spark))
    yield Platform(tmp_path, spark)


def failure(done: dg.ExecuteInProcessResult) -> str:
    events = [event.step_failure_data for event in done.all_events if event.is_step_failure]
    return events[0].user_failure_data.description if events[0].user_failure_data else str(events[0].error)


def test_a_stream_then_all_days_in_one_run_then_single_days_in_any_order_give_the_same_tables(platform: Platform, tmp_path: Path) -> None:
    """One run of the whole range, beside a run for each day in random order, some of them twice."""
    assert platform.run([dg.AssetKey(["streams", "traffic"])]).success
    done = platform.run([FRAMES], tags=platform.whole())
    assert done.success
    assert {check.passed for check in done.get_asset_check_evaluations()} == {True}
    whole = platform.published()
    assert whole.height > 3
    told = done.get_asset_materialization_events()[0].materialization.metadata
    for name in (
        "tuples",
        "late",
        "rejected",
        "results",
        "batches",
        "tuples_per_second",
        "state_bytes",
        "seconds",
        "delta_version",
        "config_hash",
    ):
        assert name in told
    report = platform.report(told["report"])
    assert "every check passed" in report.read_text()
    assert report.name in (report.parent / "index.html").read_text()

    other = Platform(tmp_path / "other", None)
    assert other.run([dg.AssetKey(["streams", "traffic"])]).success
    days = [*other.days, *other.days[2:4]]
    random.Random(3).shuffle(days)
    for day in days:
        assert other.run([FRAMES], partition_key=day).success, day
    assert_frame_equal(whole, other.published(), rel_tol=1e-12, abs_tol=0)


def test_the_schedule_asks_for_the_oldest_day_that_does_not_stand_and_says_why_there_is_none(platform: Platform) -> None:
    schedule = next(s for s in platform.defs.schedules or [] if s.name == "next_day_of_frames__traffic")

    def tick() -> Any:
        with dg.build_schedule_context(instance=platform.instance, resources={"workplace": platform.workplace}) as context:
            return schedule(context)

    assert tick().skip_message == "The stream traffic is not ingested yet."
    platform.run([dg.AssetKey(["streams", "traffic"])])
    first, second = platform.days[:2]
    assert tick().partition_key == first
    assert platform.run([FRAMES], partition_key=first).success
    assert tick().partition_key == second
    assert platform.run([FRAMES], tags=platform.whole()).success
    told = tick().skip_message
    assert told == f"All {len(platform.days)} days of traffic, {platform.days[0]} to {platform.days[-1]}, are published and stand."
    changed = {**SPEC, "frame": {**SPEC["frame"], "where": "speed < 30"}}
    days, reason = days_to_replay(platform.workplace, "frames", "traffic", changed)
    assert days[0] == date.fromisoformat(first)
    assert reason == f"{first} was published with another specification"


def test_a_new_file_starts_an_ingestion_by_the_sensor_once_it_is_written(platform: Platform) -> None:
    sensor, cursor = next(iter(platform.defs.sensors or [])), None

    def tick() -> Any:
        nonlocal cursor
        given = {"workplace": platform.workplace}
        with dg.build_sensor_context(instance=platform.instance, cursor=cursor, resources=given) as context:
            found = sensor(context)
            cursor = getattr(found, "cursor", None) or context.cursor
            return found

    def asked() -> str:
        (request,) = tick().run_requests
        assert request.asset_selection == [dg.AssetKey(["streams", "traffic"])]
        return str(request.tags["reprise/why"])

    assert "No original file" in tick().skip_message
    file = Path(platform.workplace.raw) / "traffic" / "a.csv"
    file.parent.mkdir(parents=True)
    file.write_text("detectorid,starttime,volume,speed,occupancy,status,dqflags\n1,2011-09-15 00:00:00-07,3,35,1,2,0\n")
    assert tick().skip_message == "Files of traffic are still being written."
    os.utime(file, (1e9, 1e9))
    assert asked() == "original files of traffic have come"
    assert "No original file" in tick().skip_message
    assert platform.run([dg.AssetKey(["streams", "traffic"])]).success
    assert platform.days == ["2011-09-15"]
    os.utime(file, (2e9, 1.1e9))
    assert asked() == "original files of traffic have changed"
    # The log is not replaced by a twin's when the files are put away, and files that come back as they were are files that come.
    away = file.rename(file.with_suffix(".away"))
    assert tick().skip_message == "All original files of traffic are gone; what was ingested of them stays."
    away.rename(file)
    assert asked() == "original files of traffic have come"


def test_one_wrong_row_makes_a_check_red_and_the_report_shows_it(platform: Platform) -> None:
    platform.run([dg.AssetKey(["streams", "traffic"])])
    assert platform.run([FRAMES], tags=platform.whole()).success
    address = f"{platform.workplace.lake}/results/frames__traffic"
    rows = pl.read_delta(address)
    wrong = rows.with_columns(min_speed=pl.when(pl.int_range(pl.len()) == 2).then(pl.col("min_speed") - 1.0).otherwise("min_speed"))
    wrong.write_delta(address, mode="overwrite", delta_write_options={"partition_by": ["day"]})
    done = platform.checks(FRAMES)
    assert not done.success
    red = [check for check in done.get_asset_check_evaluations() if not check.passed]
    assert [check.check_name for check in red] == ["exact_values_are_equal"]
    assert red[0].metadata["wrong"].value == 1
    page = platform.report(red[0].metadata["report"]).read_text()
    assert "Rows that differ, engine beside oracle" in page
    for frame in (wrong, rows):
        assert f'<td class="number differs">{frame["min_speed"][2]}</td>' in page


def test_a_wrong_setting_in_the_launchpad_is_a_sentence_and_nothing_is_written(platform: Platform) -> None:
    platform.run([dg.AssetKey(["streams", "traffic"])])
    for config, sentence in [
        (
            {"technique": {"frames": {"where": "speed <"}}},
            "frame.where: 'speed <' given; it does not parse at character 8: a value is missing.",
        ),
        ({"technique": {"frames": {"min_duration": "-3m"}}}, "frame.min_duration: '-3m' given; allowed is a duration of zero or more"),
        ({"stream": "nowhere"}, "streams/nowhere: there is no such log; write or ingest the stream first."),
        ({"days": "yesterday"}, "days: 'yesterday' given; allowed are all, a day such as 2011-09-15"),
    ]:
        done = platform.run(job="replay", run_config={"ops": {"experiments__replay": {"config": config}}})
        assert not done.success
        assert sentence in failure(done)
    assert not (Path(platform.workplace.lake) / "results").exists()
    assert not (Path(platform.workplace.lake) / "runs").exists()


def test_a_replay_from_the_launchpad_is_published_under_its_own_name_and_checked(platform: Platform) -> None:
    platform.run([dg.AssetKey(["streams", "traffic"])])
    config = {"technique": {"frames": {"where": "speed < 30"}}, "days": f"{platform.days[0]}..{platform.days[2]}", "name": "slow"}
    done = platform.run(job="replay", run_config={"ops": {"experiments__replay": {"config": config}}})
    assert done.success
    checks = done.get_asset_check_evaluations()
    assert {check.passed for check in checks} == {True}
    assert {check.metadata["days"].value for check in checks if "days" in check.metadata} == {f"{platform.days[0]} to {platform.days[2]}"}
    assert platform.published("slow__frames__traffic")["day"].n_unique() <= 3
    assert not (Path(platform.workplace.lake) / "results/frames__traffic").exists()
