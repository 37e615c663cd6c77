"""Checks of results: each day against the log that it was replayed from, and what cannot be judged is red for every check."""

from __future__ import annotations

import json
import shutil
from datetime import date
from pathlib import Path

import dagster as dg
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from assets import checks
from assets.checks import verify_published
from engines.contract import TIMESTAMP
from quality.suites.results import suite
from replay.lake import Lake
from replay.log_writer import append
from tests.orchestration.driving import FRAMES, SPEC, Platform

DAY = 86_400_000_000
NAMES = [expected.name for expected in suite("frames")]


def verdicts(done: dg.ExecuteInProcessResult) -> dict[str, bool]:
    return {check.check_name: bool(check.passed) for check in done.get_asset_check_evaluations()}


def told(done: dg.ExecuteInProcessResult) -> str:
    (sentence,) = {str(check.metadata["told"].value) for check in done.get_asset_check_evaluations()}
    return sentence


def red(platform: Platform, days: list[str]) -> list[str]:
    asked = [date.fromisoformat(day) for day in days]
    found = verify_published(platform.workplace, SPEC, "traffic", "frames__traffic", asked)["outcomes"]
    return [outcome.name for outcome in found if not outcome.passed]


def test_every_day_is_judged_by_the_log_that_it_was_replayed_from(tmp_path: Path) -> None:
    """Day 3 is provisional when the log grows, in the midst of a jam; that day 4 is replayed then makes day 3 no wronger than it was.

    version 0  | day 1 | day 2 | day 3 |
                               jam------
    version 1  | day 1 | day 2 | day 3 | day 4 | day 5 |
                               jam---------jam
    """
    platform = Platform(tmp_path)
    platform.month(3)
    assert all(platform.replay(day).success for day in platform.days)
    before = platform.published()
    assert red(platform, platform.days) == []
    platform.month(5)
    assert platform.replay(platform.days[3]).success
    assert red(platform, platform.days) == []
    assert verdicts(platform.checks(FRAMES)) == dict.fromkeys(NAMES, True)
    # It is a jam that tells the versions apart: replayed again, the third day is another.
    assert platform.replay(platform.days[2]).success
    assert not platform.published().filter(pl.col("day") == date(2011, 9, 3)).equals(before.filter(pl.col("day") == date(2011, 9, 3)))
    assert red(platform, platform.days) == []


def test_sealed_days_whose_tuples_have_not_changed_share_the_newest_version(lake: Lake) -> None:
    """Versions 0 and 1 of a log: the first ends in the middle of day 3.

    | day 1 | day 2 | day|3    | day 4 |
    version 0            |version 1
    """
    for begin in (0, 2.5):
        ts = (begin + np.arange(10) * 0.15) * DAY
        append(lake, "s", pa.table({"ts": pa.array(ts.astype(np.int64)).view(TIMESTAMP), "v": ts}))
    days = [date(1970, 1, n) for n in (1, 2, 3, 4)]

    def known(arrivals: int) -> dict[date, dict[str, object]]:
        """Day 2 read up to some arrival; of all others nothing else matters."""
        ends = [7, arrivals, 10, 20]
        return {
            day: {"log_versions": json.dumps({"s": day.day // 4}), "arrivals": json.dumps({"s": [0, end]}), "sealed": day.day < 3}
            for day, end in zip(days, ends, strict=True)
        }

    def found(arrivals: int) -> list[tuple[int, list[int]]]:
        return [(log.version, [day.day for day in of]) for log, of in checks._logs(lake, "s", known(arrivals), days)]

    assert found(10) == [(0, [3]), (1, [1, 2, 4])]  # the second version wrote arrivals from 10 on
    assert found(11) == [(0, [2, 3]), (1, [1, 4])]


def test_results_that_cannot_be_judged_are_red_in_every_check_and_say_why(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    assert platform.checks(FRAMES).get_asset_check_evaluations()[0].metadata["told"].value == (
        "it could not be judged: results/frames__traffic: none of these days is published; replay them first."
    )
    platform.month(2)
    assert all(platform.replay(day).success for day in platform.days)
    results = Path(platform.workplace.lake, "results")
    whole = results.rename(tmp_path / "whole")

    def damaged(*gone: str, column: str | None = None) -> str:
        shutil.rmtree(results, ignore_errors=True)
        shutil.copytree(whole, results)
        for table in gone:
            shutil.rmtree(results / table)
        if column:
            rows = pl.read_delta(str(results / "frames__traffic")).drop(column)
            options = {"schema_mode": "overwrite", "partition_by": ["day"]}
            rows.write_delta(str(results / "frames__traffic"), mode="overwrite", delta_write_options=options)
        done = platform.checks(FRAMES)
        assert not done.success
        assert verdicts(done) == dict.fromkeys(NAMES, False)
        return told(done)

    assert "frames__traffic" in damaged("frames__traffic")
    assert "frames__traffic__late" in damaged("frames__traffic__late")
    assert "none of these days is published" in damaged("frames__traffic__days")
    assert "column 'min_speed': the engine has none, the oracle Float64" in damaged(column="min_speed")


def test_a_report_that_cannot_be_written_takes_no_verdict_with_it(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    platform.month(2)
    assert all(platform.replay(day).success for day in platform.days)
    Path(platform.workplace.lake, "reports").write_text("a file where a folder should be")
    done = platform.checks(FRAMES)
    assert done.success
    assert verdicts(done) == dict.fromkeys(NAMES, True)
    (report,) = {str(check.metadata["report"].value) for check in done.get_asset_check_evaluations()}
    assert report.startswith("it could not be written: ")


@pytest.mark.parametrize("name", ["sums_agree", "frames_are_apart"])
def test_a_check_that_is_run_alone_is_the_only_one_that_is_told(name: str, tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    one = platform._job("one", dg.AssetSelection.checks(dg.AssetCheckKey(FRAMES, name)))
    done = one.execute_in_process(instance=platform.instance, raise_on_error=False)
    assert verdicts(done) == {name: False}
