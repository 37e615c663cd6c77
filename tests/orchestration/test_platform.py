"""Dagster does what it promises: partitions, backfills in one run, schedules, checks, reports, failures in sentences."""

from __future__ import annotations

import json
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from deltalake.exceptions import CommitFailedError
from polars.testing import assert_frame_equal

from assets.techniques import technique_modules
from assets.workplace import Workplace
from engines.contract import TIMESTAMP
from orchestration.building import build_defs
from quality.suites.results import suite
from replay.lake import Lake
from replay.log_writer import append
from replay.progress import note_status
from replay.runs import _keep_plan
from replay.streams.declaration import declaration
from replay.streams.ingest import ingest
from replay.streams.tasks import InProcess
from tests.orchestration import driving
from tests.orchestration.driving import FRAMES, SPEC, TRAFFIC, Platform, failure, lines, metadata
from tests.orchestration.month import write_month
from tests.replay.harness import in_process


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_tells_its_numbers_and_leaves_a_report(platform: Platform) -> None:
    platform.ingest()
    done = platform.run([FRAMES], tags=platform.whole())
    assert done.success
    assert {check.passed for check in done.get_asset_check_evaluations()} == {True}
    assert platform.published().height > 3
    report = platform.report(metadata(done)["report"])
    assert "every check passed" in report.read_text()
    assert report.name in (report.parent / "index.html").read_text()


def test_the_schedule_asks_for_the_oldest_day_that_does_not_stand_and_says_why_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = Platform(tmp_path)
    assert platform.tick().skip_message == "The stream traffic is not ingested yet."
    platform.month(4)
    days = platform.days
    for day in days:
        asked = platform.tick()
        assert (asked.partition_key, asked.asset_selection) == (day, [FRAMES])
        assert asked.tags["reprise/why"] == f"{day} is not published yet"
        assert platform.replay(day, checks=True).success
    assert platform.tick().skip_message == f"All 4 days of traffic, {days[0]} to {days[-1]}, are published and stand."

    # The last day is provisional: it is asked for again when the log has grown, and the sealed ones stand.
    platform.month(6)
    asked = platform.tick()
    assert (asked.partition_key, asked.tags["reprise/why"]) == (days[-1], f"{days[-1]} was provisional, and the log has grown")
    assert platform.replay(days[-1], checks=True).success
    assert platform.tick().partition_key == platform.days[4]

    # Another specification makes all of them stale, for the schedule and for the UI.
    assert "has a new code version" not in platform.stale(days[0])
    monkeypatch.setitem(technique_modules()["frames"].RESULTS, "traffic", {**SPEC, "frame": {**SPEC["frame"], "where": "speed < 30"}})
    platform.defs = build_defs(platform.workplace)
    asked = platform.tick()
    assert (asked.partition_key, asked.tags["reprise/why"]) == (days[0], f"{days[0]} was published with another specification")
    assert "has a new code version" in platform.stale(days[0])


def test_the_last_days_that_are_neighbours_are_replayed_again(tmp_path: Path) -> None:
    """Published are 1, 2 and 4 to 7: the last three of them are 5 to 7, and nothing in between is asked for."""
    platform = Platform(tmp_path)
    schedule = "last_days_of_frames__traffic"
    assert platform.tick(schedule).skip_message == "No day of frames on traffic is published yet."
    platform.month(8)
    days = platform.days
    assert all(platform.replay(day).success for day in (*days[:2], *days[3:7]))
    asked = platform.tick(schedule)
    assert asked.tags["dagster/asset_partition_range_start"] == days[4]
    assert asked.tags["dagster/asset_partition_range_end"] == days[6]
    # The log is replaced by one of other days, then it is gone: a tick says so, and goes on asking for days as soon as there are some.
    log = Path(platform.workplace.lake) / "streams" / "traffic"
    shutil.rmtree(log)
    append(Lake(platform.workplace.lake), "traffic", pa.table({"ts": pa.array([0], TIMESTAMP), "key": [1], "speed": [30.0]}))
    assert platform.tick(schedule).skip_message == "No published day of frames on traffic is in the log any more."
    assert platform.tick().partition_key == "1970-01-01"
    shutil.rmtree(log)
    assert platform.tick(schedule).skip_message == "The log of traffic is gone."


@pytest.mark.parametrize(
    ("workplace", "sentence"),
    [
        (
            {"master": "nonsense"},
            "master: 'nonsense' given; Spark could not be started there (Could not parse Master URL: 'nonsense'); allowed",
        ),
        ({"lake": ""}, "lake: '' given; allowed is a folder, or an object store's prefix."),
        ({"raw": " "}, "raw: ' ' given; allowed is a folder, or an object store's prefix."),
        ({"declarations": ""}, "declarations: '' given; allowed is a folder."),
    ],
)
def test_a_workplace_that_is_nowhere_is_a_sentence_and_nothing_is_written(
    workplace: dict[str, str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def session(master: str) -> None:
        raise ValueError(f"An error occurred while calling None.None.\n: Could not parse Master URL: {master!r}\n\tat java.lang")

    monkeypatch.setattr("replay.session.session", session)
    monkeypatch.chdir(tmp_path)
    platform = Platform(tmp_path)
    platform.month(1)
    before = {path for path in tmp_path.rglob("*") if "instance" not in path.parts}
    config = {"resources": {"workplace": {"config": workplace}}}
    runs = [platform.run(job="replay", run_config=config)]
    if "master" not in workplace:
        runs.append(platform.run([TRAFFIC], run_config=config))
    for done in runs:
        assert not done.success
        assert failure(done).startswith(sentence)
    assert {path for path in tmp_path.rglob("*") if "instance" not in path.parts} == before


def test_batches_that_no_run_could_have_are_refused_before_spark_is_started_and_anything_is_written(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    platform.month(1)
    before = set(Path(platform.workplace.lake).rglob("*"))
    for setting in ("batch_tuples", "buckets", "tasks"):
        config = {"resources": {"workplace": {"config": {setting: 0}}}}
        for done in (
            platform.run(job="replay", run_config=config),
            platform.run([FRAMES], partition_key=platform.days[0], run_config=config),
        ):
            assert failure(done) == f"{setting}: 0 given; allowed is a whole number from 1."
    assert set(Path(platform.workplace.lake).rglob("*")) == before


def test_a_partition_that_is_no_day_is_a_sentence(tmp_path: Path) -> None:
    """Whoever adds a partition in the UI can call it anything."""
    platform = Platform(tmp_path)
    platform.month(1)
    platform.instance.add_dynamic_partitions("traffic_days", ["monday", "2011-09-09"])
    refused = [failure(platform.run([FRAMES], partition_key=key)) for key in ("monday", "2011-09-09")]
    assert refused == [
        "partition: 'monday' given; allowed are the days of the log, such as 2011-09-15.",
        "days: 2011-09-09 to 2011-09-09 given; allowed are days from 2011-09-01 to 2011-09-01.",
    ]


def test_what_was_published_is_computed_anew_even_if_another_run_has_published_the_day_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Day 2 by itself, all days in one run, day 2 again: the first run is over, though no published day names it any more."""
    platform = Platform(tmp_path)
    platform.month(3)

    def execute(spark: object, plan: Any, **how: Any) -> Any:
        _keep_plan(plan)
        done = in_process(spark, plan, **how)
        note_status(plan, "succeeded")
        return done

    monkeypatch.setattr(driving, "in_process", execute)
    day = platform.days[1]
    runs = [platform.replay(of) for of in (day, None, day)]
    assert all(done.success for done in runs)
    assert len({metadata(done)["runs"].value for done in runs}) == 3
    assert not any(" goes on: " in line for done in runs for line in lines(platform, done))


def test_the_start_of_spark_is_no_part_of_a_replays_time_and_comes_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = Platform(tmp_path)
    platform.month(2)
    monkeypatch.setattr("replay.runs.execute", in_process)

    def started(workplace: Workplace) -> None:
        assert not (Path(workplace.lake) / "results").exists()
        time.sleep(2)

    monkeypatch.setattr(Workplace, "spark", property(started))
    begun = time.monotonic()
    done = platform.replay(platform.days[0], spark=True)
    elapsed = time.monotonic() - begun
    assert done.success
    assert metadata(done)["seconds"].value < elapsed - 2


def test_a_day_that_nobody_has_checked_has_a_page_that_says_so(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    platform.month(2)
    done = platform.replay(platform.days[0])
    page = platform.report(metadata(done)["report"])
    assert "no check has run yet" in page.read_text()
    assert "every check passed" not in page.read_text()
    assert page.name in (page.parent / "index.html").read_text()


@pytest.mark.spark
@pytest.mark.slow
def test_one_wrong_row_makes_a_check_red_and_the_report_shows_it(platform: Platform) -> None:
    platform.ingest()
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


def test_a_wrong_setting_in_the_launchpad_is_a_sentence_and_nothing_is_written(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    platform.month(3)
    name = "allowed are letters, digits, '_' and '-', at most 60 of them, beginning with a letter."
    stream = "allowed is the name of a stream that is ingested, such as traffic."
    for config, sentence in [
        (frames(where="speed <"), "frame.where: 'speed <' given; it does not parse at character 8: a value is missing."),
        (frames(where="velocity < 40"), "'velocity'"),
        (frames(min_duration="-3m"), "frame.min_duration: '-3m' given; allowed is a duration of zero or more"),
        (frames(min_duration="99999999999d"), "frame.min_duration: '99999999999d' given; allowed is a duration of at most"),
        (frames(min_tuples=-1), "frame.min_tuples: -1 given; allowed is a number of at least 1."),
        (frames(aggregates=[{"kind": "mean", "column": "velocity"}]), "velocity"),
        ({"technique": {"slicing": {"queries": [{"window": {"tumbling": {"length": "0s"}}}]}}}, "window.length: '0s' given; allowed is"),
        ({"stream": "nowhere"}, "streams/nowhere: there is no such log; write or ingest the stream first."),
        ({"stream": ""}, f"stream: '' given; {stream}"),
        ({"stream": "streams/traffic"}, f"stream: 'streams/traffic' given; {stream}"),
        ({"stream": "../raw"}, f"stream: '../raw' given; {stream}"),
        ({"name": ""}, f"name: '' given; {name}"),
        ({"name": "../outside"}, f"name: '../outside' given; {name}"),
        ({"name": "a/b"}, f"name: 'a/b' given; {name}"),
        ({"name": "."}, f"name: '.' given; {name}"),
        ({"name": "x" * 61}, f"given; {name}"),
        ({"days": "yesterday"}, "days: 'yesterday' given; allowed are all, a day such as 2011-09-01"),
        ({"days": ""}, "days: '' given; allowed are all, a day such as 2011-09-01"),
        ({"days": "2011-09-01.."}, "days: '2011-09-01..' given; allowed are all, a day such as 2011-09-01"),
        ({"days": "..2011-09-01"}, "days: '..2011-09-01' given; allowed are all, a day such as 2011-09-01"),
        (
            {"days": "2011-09-03..2011-09-01"},
            "days: '2011-09-03..2011-09-01' given; allowed is a range in order, such as 2011-09-01..2011-09-03.",
        ),
        ({"days": "2011-08-31..2011-09-02"}, "days: '2011-08-31..2011-09-02' given; allowed are days from 2011-09-01 to 2011-09-03."),
        ({"days": "2012-01-01"}, "days: '2012-01-01' given; allowed are days from 2011-09-01 to 2011-09-03."),
    ]:
        done = platform.run(job="replay", run_config={"ops": {"experiments__replay": {"config": config}}})
        assert not done.success, config
        assert sentence in failure(done)
        assert "Traceback" not in failure(done)
    assert not (Path(platform.workplace.lake) / "results").exists()
    assert not (Path(platform.workplace.lake) / "runs").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"lake", "raw", "instance"}


def test_what_is_published_is_told_even_if_it_cannot_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any) -> bytes:
        raise RuntimeError("no such colour")

    platform = Platform(tmp_path)
    platform.month(1)
    monkeypatch.setattr(technique_modules()["frames"], "picture", broken)
    done = platform.replay(platform.days[0])
    assert done.success
    assert metadata(done)["picture"].value == "it could not be drawn: no such colour"
    assert metadata(done)["results"].value == platform.published().height > 0
    assert "What was found" not in platform.report(metadata(done)["report"]).read_text()


@pytest.mark.parametrize("technique", technique_modules())
def test_a_technique_without_any_setting_can_be_launched(technique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    platform = Platform(tmp_path)
    platform.month(2)
    monkeypatch.setattr(Workplace, "spark", None)
    monkeypatch.setattr("replay.runs.execute", in_process)
    done = platform.run(job="replay", run_config={"ops": {"experiments__replay": {"config": {"technique": {technique: {}}}}}})
    assert done.success
    assert metadata(done)["results"].value > 0


@pytest.mark.parametrize("problem", [OSError(28, "No space left on device"), CommitFailedError("version 7 is there already.")])
def test_a_lake_that_cannot_be_written_is_told_with_what_to_do(problem: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def publish(plan: Any) -> None:
        raise problem

    platform = Platform(tmp_path)
    platform.month(1)
    monkeypatch.setattr("replay.publish.publish", publish)
    told = failure(platform.replay(platform.days[0]))
    assert told.startswith(f"{str(problem).rstrip('.')}. It was publishing: tables may have some of it, their record has none. ")
    assert "Launching the same again" in told


def test_a_replay_tells_the_version_of_the_log_that_it_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log grows while it is replayed."""
    platform = Platform(tmp_path)
    platform.month(3)

    def meanwhile(*given: Any, **how: Any) -> Any:
        done = in_process(*given, **how)
        write_month(Path(platform.workplace.raw), 5)
        traffic = declaration("traffic")
        ingest(platform.workplace.place, traffic, Lake(f"{platform.workplace.raw}/traffic"), InProcess())
        return done

    monkeypatch.setattr(driving, "in_process", meanwhile)
    done = platform.replay(platform.days[2])
    assert done.success
    assert platform.workplace.place.table(platform.workplace.place.address("streams", "traffic")).version() == 1  # type: ignore[union-attr]
    assert metadata(done)["delta_version"].value == 0


def test_frames_by_another_column_than_the_key_are_published_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of the results are then no keys of the log."""
    platform = Platform(tmp_path)
    platform.month(2)
    monkeypatch.setattr(Workplace, "spark", None)
    monkeypatch.setattr("replay.runs.execute", in_process)
    config = frames(key="status", aggregates=[{"kind": "min", "column": "speed", "as": "slowest"}])
    done = platform.run(job="replay", run_config={"ops": {"experiments__replay": {"config": config}}})
    assert done.success
    found = pl.read_delta(f"{platform.workplace.lake}/results/launched__frames__traffic")
    assert set(found["key"]) == {2}
    assert found["slowest"].max() < 40  # type: ignore[operator]


def frames(**settings: Any) -> dict[str, Any]:
    return {"technique": {"frames": settings}}


@pytest.mark.spark
@pytest.mark.slow
def test_a_replay_from_the_launchpad_is_published_under_its_own_name_and_checked(platform: Platform) -> None:
    """A second launch, of fewer days, is judged by these; what the first has published beyond them stays.

    | day 1 | day 2 | day 3 |   then   | day 1 | day 2 |
    """
    platform.month(3)
    first, second, third = platform.days
    for last in (third, second):
        config = {"technique": {"frames": {"where": "speed < 40"}}, "days": f"{first}..{last}", "name": "slow"}
        done = platform.run(job="replay", run_config={"ops": {"experiments__replay": {"config": config}}})
        assert done.success
        checks = done.get_asset_check_evaluations()
        assert {check.check_name: check.passed for check in checks} == {expected.name: True for expected in suite("frames")}
        assert {check.metadata["days"].value for check in checks} == {f"{first} to {last}"}
    assert {str(day) for day in platform.published("slow__frames__traffic")["day"]} == {first, second, third}
    assert not (Path(platform.workplace.lake) / "results/frames__traffic").exists()


def test_folders_of_runs_that_ended_long_ago_are_removed_and_what_they_published_stays(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    platform.month(3)
    assert all(platform.replay(day).success for day in platform.days[:2])
    old, new = sorted((Path(platform.workplace.lake) / "runs").iterdir())
    for folder, ended in ((old, datetime.now(UTC) - timedelta(days=31)), (new, datetime.now(UTC) - timedelta(days=29))):
        (folder / "status.json").write_text(json.dumps({"status": "succeeded", "at": ended.isoformat()}))
    before = platform.published()
    assert platform.run(job="remove_old_runs").success
    assert list(old.parent.iterdir()) == [new]
    assert_frame_equal(platform.published(), before)
    refused = platform.run(job="remove_old_runs", run_config={"ops": {"remove_runs": {"config": {"days": -1}}}})
    assert failure(refused) == "days: -1 given; allowed are 0 to 36500."
    assert new.exists()
