"""Schedules and red days: one that is red is replayed once more, and then it is said, in every tick, that it stays so."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster._utils.schedules import schedule_execution_time_iterator
from deltalake import DeltaTable, write_deltalake

from assets.workplace import Workplace
from orchestration.building import build_defs
from tests.orchestration.driving import FRAMES, TRAFFIC, Platform, in_process_wrongly
from tests.replay.harness import in_process


def replayed(platform: Platform, asked: Any, *, wrongly: bool) -> dg.ExecuteInProcessResult:
    """What a schedule has asked for, with its checks; `wrongly`: by an engine that finds the least speed too low."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Workplace, "spark", None)
        patch.setattr("replay.runs.execute", in_process_wrongly if wrongly else in_process)
        return platform.run(asked.asset_selection, partition_key=asked.partition_key, tags=dict(asked.tags))


def red(done: dg.ExecuteInProcessResult) -> list[str]:
    return [check.check_name for check in done.get_asset_check_evaluations() if not check.passed]


def test_a_red_day_is_replayed_once_more_and_then_named_in_every_tick(tmp_path: Path) -> None:
    """Day 1 comes out wrong, twice; the other days are none the worse for it. A person replays it with an engine that is right.

    tick    1      2        3     4     5         6
            day 1  day 1    day 2 day 3 nothing   nothing
            red    red again            but that day 1 is red
    """
    platform = Platform(tmp_path)
    platform.month(3)
    first, second, third = platform.days
    asked = platform.tick()
    assert (asked.partition_key, asked.tags["reprise/why"]) == (first, f"{first} is not published yet")
    done = replayed(platform, asked, wrongly=True)
    assert not done.success
    assert red(done) == ["exact_values_are_equal"]

    asked = platform.tick()
    assert asked.partition_key == first
    assert asked.tags["reprise/why"] == f"{first} is red (exact_values_are_equal); run {done.run_id[:8]} of it failed"
    again = replayed(platform, asked, wrongly=True)
    assert red(again) == ["exact_values_are_equal"]
    for day in (second, third):
        asked = platform.tick()
        assert (asked.partition_key, asked.tags["reprise/why"]) == (day, f"{day} is not published yet")
        assert red(replayed(platform, asked, wrongly=False)) == ["exact_values_are_equal"]  # of day 1
    for _ in range(2):
        assert platform.tick().skip_message == (
            f"All 3 days of traffic, {first} to {third}, are published and stand. But {first} is red, and was replayed again to no avail "
            f"(run {again.run_id[:8]}: exact_values_are_equal); remove the cause, then replay by hand."
        )
    by_hand = dg.RunRequest(partition_key=first, asset_selection=[FRAMES])
    assert red(replayed(platform, by_hand, wrongly=False)) == []
    assert platform.tick().skip_message == f"All 3 days of traffic, {first} to {third}, are published and stand."


def test_a_red_day_whose_replay_failed_before_it_was_published_is_asked_for_again(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    platform.month(1)
    replayed(platform, platform.tick(), wrongly=True)
    asked = platform.tick()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("replay.publish.publish", None)
        assert not replayed(platform, asked, wrongly=False).success
    assert platform.tick().tags["reprise/red"] == asked.tags["reprise/red"]
    assert red(replayed(platform, asked, wrongly=False)) == []
    assert "are published and stand." in platform.tick().skip_message


def test_a_published_day_that_was_not_checked_is_replayed_once_more(tmp_path: Path) -> None:
    """Both days are published without their checks, as by a command; the run that day 1 is asked for with is stopped before its checks.

    tick    1           2           3           4                   5         6
            day 1       day 2       nothing     day 1 is red, for   day 1     nothing
            unchecked   unchecked               it was checked      unchecked
            stopped     green                   published again     green
    """
    platform = Platform(tmp_path)
    platform.month(2)
    assert platform.replay().success
    first, second = platform.days

    def asks_for(day: str) -> Any:
        asked = platform.tick()
        assert asked.partition_key == day
        assert asked.tags["reprise/why"].startswith(f"{day} was not checked since it was published")
        return asked

    def stopped(*given: Any) -> None:
        raise KeyboardInterrupt

    asked = asks_for(first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("assets.checks.verify_published", stopped)
        done = replayed(platform, asked, wrongly=True)
    assert done.get_asset_check_evaluations() == []
    assert red(replayed(platform, asks_for(second), wrongly=False)) == []
    assert platform.tick().skip_message == (
        f"All 2 days of traffic, {first} to {second}, are published and stand. But {first} is unchecked, and was replayed again to no "
        f"avail (run {done.run_id[:8]}); remove the cause, then replay by hand."
    )
    assert red(platform.checks(FRAMES)) == ["exact_values_are_equal"]
    assert platform.tick().tags["reprise/why"].startswith(f"{first} is red (exact_values_are_equal)")
    assert platform.replay(first).success
    assert red(replayed(platform, asks_for(first), wrongly=False)) == []
    assert "are published and stand." in platform.tick().skip_message


def test_a_red_day_of_a_log_that_is_gone_is_not_asked_for(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    platform.month(1)
    replayed(platform, platform.tick(), wrongly=True)
    shutil.rmtree(Path(platform.workplace.lake, "streams", "traffic"))
    assert platform.tick().skip_message == "The stream traffic is not ingested yet."


def test_nothing_is_replayed_of_a_stream_that_is_red(tmp_path: Path) -> None:
    """Of its raw file more records are counted than there are tuples and rejects; then the count is right again."""
    platform = Platform(tmp_path)
    platform.month(1)
    assert platform.tick().partition_key == platform.days[0]
    table = DeltaTable(f"{platform.workplace.lake}/streams/traffic__rejects")
    rejects = table.to_pyarrow_table()
    counted = {"file": "month.csv", "line": 7, "reason": "it was not"}
    more = pa.Table.from_pylist([{name: counted.get(name) for name in rejects.schema.names}], rejects.schema)
    write_deltalake(table, more, mode="append")
    assert red(platform.checks(TRAFFIC)) == ["records_add_up"]
    held_up = "The stream traffic is red (records_add_up); remove the cause, then ingest it again, or run its checks."
    assert platform.tick().skip_message == held_up
    assert platform.replay().success  # a person may
    assert platform.tick("last_days_of_frames__traffic").skip_message == held_up
    write_deltalake(DeltaTable(table.table_uri), rejects, mode="overwrite")
    assert red(platform.checks(TRAFFIC)) == []
    assert platform.tick().partition_key == platform.days[0]


def test_a_warning_is_no_reason_to_replay_a_day(tmp_path: Path) -> None:
    """A day with too many late tuples has them however often it is replayed, and however often it is judged."""
    platform = Platform(tmp_path)
    platform.month(2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quality.suites.results.COMMON", _with_limit(-1.0))
        for day in platform.days:
            done = replayed(platform, platform.tick(), wrongly=False)
            assert red(done) == ["late_rows_are_few"]
            assert {check.metadata["days"].value for check in done.get_asset_check_evaluations()} == {day}
    assert "are published and stand." in platform.tick().skip_message


def _with_limit(share: float) -> dict[str, Any]:
    from dataclasses import replace

    from quality.suites.results import COMMON, DAYS

    adds_up, few = COMMON[DAYS]
    return {**COMMON, DAYS: (adds_up, replace(few, settings={"max_value": share}))}


def test_no_two_schedules_of_the_same_results_tick_in_the_same_minute() -> None:
    """Neither would see the run that the other asks for."""
    defs = build_defs(Workplace(lake="nowhere/lake", raw="nowhere/raw", declarations=str(Path(__file__).parent)))
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    ticks: dict[str, set[datetime]] = {}
    for schedule in defs.schedules or []:
        _, of, results = schedule.name.partition("_of_")
        if of:
            found = set()
            for tick in schedule_execution_time_iterator(begin.timestamp(), schedule.cron_schedule, "UTC"):
                if tick >= begin + timedelta(days=1):
                    break
                found.add(tick)
            assert found
            assert not ticks.setdefault(results, set()) & found
            ticks[results] |= found
    assert len(ticks) >= 4
