"""Days of results in Dagster: in one run and one by one, failed and asked for again, broken off and gone on with."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from replay.claims import claimed
from replay.lake import Lake
from replay.log import Log
from replay.plan import Plan
from replay.progress import note_status
from replay.runs import STATUS, RunError, _keep_plan
from tests.orchestration.driving import FRAMES, Platform, failure, lines, metadata
from tests.replay.harness import in_process

TOLD = {
    "tuples", "late", "rejected", "results", "batches", "tuples_per_second", "state_bytes", "seconds", "delta_version", "config_hash",
    "run_tuples", "run_late", "run_results", "runs", "published", "specification", "preview", "picture", "report",
}  # fmt: skip
NAME = "frames__traffic"


def tables(platform: Platform) -> dict[str, pl.DataFrame]:
    """What is published, and what is recorded of it, but for the names of runs and when they were."""
    address = f"{platform.workplace.lake}/results/{NAME}"
    days = pl.read_delta(f"{address}__days").select("day", "fingerprint", "sealed", "results", "late").sort("day")
    return {"results": platform.published(), "late": pl.read_delta(f"{address}__late").sort("arrival"), "days": days}


def assert_same_tables(one: Platform, other: Platform) -> None:
    for name, table in tables(one).items():
        assert_frame_equal(table, tables(other)[name], rel_tol=1e-12, abs_tol=0)


@pytest.mark.spark
@pytest.mark.slow
def test_thirty_days_in_one_run_and_day_by_day_in_any_order_give_the_same_tables(platform: Platform, tmp_path: Path) -> None:
    """One run of the month, beside a run for each of its days in random order, some of them twice, one in ten of them on Spark."""
    platform.month()
    assert len(platform.days) == 30
    done = platform.run([FRAMES], tags=platform.whole())
    assert done.success
    assert {check.passed for check in done.get_asset_check_evaluations()} == {True}
    whole = platform.published()
    over_midnight = whole.filter(pl.col("start").dt.date() < pl.col("end").dt.date())
    assert whole["day"].n_unique() > 25 and over_midnight.height > 20
    assert any(line.startswith("batch 0: ") for line in lines(platform, done))
    told = metadata(done)
    assert (told["run_tuples"].value, told["run_results"].value) == (4176, whole.height)

    other = Platform(tmp_path / "other")
    other.month()
    days = [*other.days, *other.days[7:9]]
    random.Random(3).shuffle(days)
    for number, day in enumerate(days):
        alone = other.replay(day, spark=number % 10 == 0)
        assert alone.success, day
        assert set(metadata(alone)) == set(told) > TOLD
    assert_same_tables(platform, other)


@pytest.mark.spark
@pytest.mark.slow
def test_a_day_that_failed_is_asked_for_again_and_goes_on_where_it_failed(platform: Platform, tmp_path: Path) -> None:
    platform.month(4)
    first, second, third, _ = platform.days
    assert platform.replay(first, checks=True).success
    before = platform.published()
    log = Log.open(Lake(platform.workplace.lake), f"{platform.workplace.lake}/streams/traffic")
    # A day is sealed by the tuples of the next one: without its file the second day comes to no end.
    (file,) = [Path(log.address) / path for path in log.paths if f"day={third}" in path]
    file.rename(tmp_path / "away")

    assert platform.tick().partition_key == second
    failed = platform.run([FRAMES], partition_key=second)
    assert not failed.success
    assert "Published results are as they were. Launching the same again" in failure(failed)
    assert_frame_equal(platform.published(), before)
    again = platform.tick()
    assert again.partition_key == second
    assert again.tags["reprise/why"] == f"{second} is not published yet; run {failed.run_id[:8]} of it failed"

    (tmp_path / "away").rename(file)
    done = platform.run([FRAMES], partition_key=second)
    assert done.success
    assert any("goes on: it failed after" in line for line in lines(platform, done))
    assert platform.tick().partition_key == third


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_goes_on_as_it_was_begun_whatever_was_published_meanwhile(
    platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Day 4 begins with the state of day 2, is interrupted, and goes on so when day 3 has left a nearer one."""
    platform.month(5)
    first, second, third, fourth, fifth = platform.days
    assert all(platform.replay(day).success for day in (first, second))
    before = platform.published()

    slowly = {"resources": {"workplace": {"config": {"batch_tuples": 50}}}}
    with monkeypatch.context() as patch:
        patch.setattr("assets.replaying._told", lambda now: os.kill(os.getpid(), signal.SIGINT) or f"batch {now.batch}")
        stopped = platform.replay(fourth, spark=True, run_config=slowly)
    assert not stopped.success
    (begun,) = [line for line in lines(platform, stopped) if line.startswith("run ")]
    assert begun.endswith(f"{fourth} to {fourth} of traffic, from the state of {second}")
    name = begun.removeprefix("run ").partition(":")[0]
    lake = Lake(platform.workplace.lake)
    assert (lake.read_json(lake.address("runs", name), STATUS) or {})["status"] == "cancelled"
    assert_frame_equal(platform.published(), before)

    assert platform.replay(third).success
    done = platform.replay(fourth, spark=True, run_config=slowly)
    assert done.success
    assert any(line.startswith(f"run {name} goes on: it was cancelled after") for line in lines(platform, done))
    assert metadata(done)["runs"].value == name
    assert platform.replay(fifth).success
    never = Platform(tmp_path / "never")
    never.month(5)
    assert all(never.replay(day).success for day in never.days)
    assert_same_tables(platform, never)


def test_a_run_that_died_of_its_batches_begins_anew_with_smaller_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without memory for 25 million tuples has it for 1,000: with the same plan it would die again and again."""
    platform = Platform(tmp_path)
    platform.month(2)
    (day, _), tried = platform.days, list[Plan]()

    def dies(spark: Any, plan: Plan, **how: Any) -> None:
        tried.append(plan)
        _keep_plan(plan)
        note_status(plan, "failed")
        raise RunError("Spark's JVM has ended, killed perhaps for want of memory")

    smaller = {"resources": {"workplace": {"config": {"batch_tuples": 1000}}}}
    monkeypatch.setattr("tests.orchestration.driving.in_process", dies)
    for settings in ({}, {}, smaller):
        done = platform.replay(day, run_config=settings)
        assert not done.success
    first, second, third = tried
    assert (first.run, first.batch_tuples) == (second.run, second.batch_tuples)
    assert (third.run != first.run, third.batch_tuples) == (True, 1000)
    told = "batch_tuples was 25,000,000, and is 1,000 now"
    assert f"run {first.run} does not go on, all begins anew: {told}" in lines(platform, done)
    monkeypatch.setattr("tests.orchestration.driving.in_process", in_process)
    done = platform.replay(day, run_config=smaller)
    assert done.success
    assert metadata(done)["runs"].value == third.run


def test_each_day_of_a_run_tells_its_own_numbers_and_the_last_one_shows_them(tmp_path: Path) -> None:
    """Four days in one run: the same numbers for each of them would be told four times over."""
    platform = Platform(tmp_path)
    platform.month(4)
    done = platform.replay()
    published = platform.published().group_by(pl.col("day").cast(pl.String)).len()
    log = pl.read_delta(f"{platform.workplace.lake}/streams/traffic").group_by(pl.col("day").cast(pl.String)).len()
    told = {event.partition: event.materialization.metadata for event in done.get_asset_materialization_events()}
    assert sorted(told) == platform.days
    assert {day: told[day]["results"].value for day in told} == dict(published.iter_rows())
    assert {day: told[day]["tuples"].value for day in told} == dict(log.iter_rows())
    assert {told[day]["late"].value for day in told} == {0}
    totals = {(told[day]["run_tuples"].value, told[day]["run_results"].value, told[day]["run_late"].value) for day in told}
    assert totals == {(4 * 144, platform.published().height, 0)}
    assert [day for day in told if "picture" in told[day] or "preview" in told[day]] == platform.days[-1:]
    assert set(told[platform.days[-1]]) > TOLD
    # Its page tells of the whole run.
    page = platform.report(told[platform.days[0]]["report"]).read_text()
    assert f"{platform.days[0]} to {platform.days[-1]}" in page
    assert "<b>576</b><span>tuples read" in page


def test_results_that_another_process_writes_are_left_to_it(tmp_path: Path) -> None:
    quick = Platform(tmp_path)
    quick.month(2)
    lake = Lake(quick.workplace.lake)
    with claimed(lake, lake.address("results", NAME)):
        refused = quick.replay(quick.days[0])
    assert not refused.success
    assert failure(refused).startswith(f"results/{NAME}: process {os.getpid()} on ")
    assert failure(refused).endswith("UTC, is writing there; wait for its end, or stop it.")
    assert not (Path(lake.root) / "runs").exists()
    assert quick.replay(quick.days[0]).success
