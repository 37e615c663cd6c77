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

from assets import verification
from assets.results import LAUNCHED
from assets.verdicts import tell_days
from assets.verification import verify_published
from assets.workplace import Workplace
from engines.contract import TIMESTAMP
from quality.suites.results import suite
from replay.lake import Lake
from replay.log_writer import append
from tests.orchestration.driving import FRAMES, SPEC, Platform
from tests.replay.harness import in_process

DAY = 86_400_000_000
NAMES = [expected.name for expected in suite("frames")]


def verdicts(done: dg.ExecuteInProcessResult) -> dict[str, bool]:
    return {check.check_name: bool(check.passed) for check in done.get_asset_check_evaluations()}


def about(done: dg.ExecuteInProcessResult, name: str) -> str:
    """What every check of a run tells under a name."""
    (value,) = {str(check.metadata[name].value) for check in done.get_asset_check_evaluations()}
    return value


def told(done: dg.ExecuteInProcessResult) -> str:
    return about(done, "told")


def replayed(platform: Platform, *days: str) -> dg.ExecuteInProcessResult:
    """Days of frames on traffic with their checks, in one run."""
    tags = {"dagster/asset_partition_range_start": days[0], "dagster/asset_partition_range_end": days[-1]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Workplace, "spark", None)
        patch.setattr("replay.runs.execute", in_process)
        return platform.run([FRAMES], **({"partition_key": days[0]} if len(days) == 1 else {"tags": tags}))


def spoil(platform: Platform, *days: str) -> None:
    """One row of each of these days is wrong."""
    rows = platform.published()
    here = pl.col("day").cast(pl.String).is_in(days) & (pl.int_range(pl.len()).over("day") == 0)
    assert rows.filter(here).height == len(days)
    wrong = rows.with_columns(min_speed=pl.when(here).then(pl.col("min_speed") - 1.0).otherwise("min_speed"))
    options = {"partition_by": ["day"]}
    wrong.write_delta(f"{platform.workplace.lake}/results/frames__traffic", mode="overwrite", delta_write_options=options)


def shown(platform: Platform) -> dict[str, bool]:
    """The verdicts that the UI shows: the last of each check."""
    found = {name: platform.instance.get_latest_asset_check_evaluation_record(dg.AssetCheckKey(FRAMES, name)) for name in NAMES}
    return {name: bool(record and record.evaluation and record.evaluation.passed) for name, record in found.items()}


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
    assert red(platform, platform.days[:4]) == []
    done = platform.checks(FRAMES)
    assert verdicts(done) == dict.fromkeys(NAMES, True)
    assert about(done, "days") == "2011-09-01 to 2011-09-04 (not published: 2011-09-05)"
    # It is a jam that tells the versions apart: replayed again, the third day is another.
    assert platform.replay(platform.days[2]).success
    assert not platform.published().filter(pl.col("day") == date(2011, 9, 3)).equals(before.filter(pl.col("day") == date(2011, 9, 3)))
    assert red(platform, platform.days[:4]) == []


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
        return [(log.version, [day.day for day in of]) for log, of in verification._logs(lake, "s", known(arrivals), days)]

    assert found(10) == [(0, [3]), (1, [1, 2, 4])]  # the second version wrote arrivals from 10 on
    assert found(11) == [(0, [2, 3]), (1, [1, 4])]


def test_results_that_cannot_be_judged_are_red_in_every_check_and_say_why(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    assert platform.checks(FRAMES).get_asset_check_evaluations()[0].metadata["told"].value == (
        "it could not be judged: results/frames__traffic: no day is published; replay some first."
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
    assert "no day is published" in damaged("frames__traffic__days")
    assert "column 'min_speed': the engine has none, the oracle Float64" in damaged(column="min_speed")


def test_a_red_day_is_not_covered_by_the_next_green_one(tmp_path: Path) -> None:
    """Day 2 is spoilt and found so; days 3 and 4 are replayed, and are right. Green it is when day 2 is right again, in whatever run.

    | day 1 | day 2 | day 3 | day 4 |
              red      ok      ok        each check judges day 2 again
    """
    platform = Platform(tmp_path)
    platform.month(5)
    first, second, third, fourth, _ = platform.days
    assert verdicts(replayed(platform, first, second, third)) == dict.fromkeys(NAMES, True)
    spoil(platform, second)
    done = platform.checks(FRAMES)
    wrong = {name: name != "exact_values_are_equal" for name in NAMES}
    assert verdicts(done) == wrong
    for days in ((third,), (fourth,), (third, fourth)):
        done = replayed(platform, *days)
        assert verdicts(done) == shown(platform) == wrong
        (check,) = [check for check in done.get_asset_check_evaluations() if not check.passed]
        assert check.metadata["red_days"].value == second
        assert about(done, "days") == tell_days([date.fromisoformat(day) for day in (second, *days)])
    assert verdicts(replayed(platform, second)) == shown(platform) == dict.fromkeys(NAMES, True)
    assert verdicts(replayed(platform, fourth)) == shown(platform) == dict.fromkeys(NAMES, True)


def test_a_red_day_is_red_in_its_own_lake_alone(tmp_path: Path) -> None:
    """Two lakes with one instance: the verdicts of either neither clear nor spoil the days of the other."""
    one, other = Platform(tmp_path / "one"), Platform(tmp_path / "other")
    other.instance = one.instance
    for platform in (one, other):
        platform.month(2)
    first, second = one.days
    assert one.replay(first).success
    spoil(one, first)
    wrong = {name: name != "exact_values_are_equal" for name in NAMES}
    assert verdicts(one.checks(FRAMES)) == wrong
    for day in (first, second):
        done = replayed(other, day)
        assert verdicts(done) == dict.fromkeys(NAMES, True)
        assert about(done, "days") == day
    done = replayed(one, second)
    assert verdicts(done) == wrong
    assert about(done, "days") == f"{first} to {second}"
    assert about(done, "judged_days") == f"{first} to {second}"


def test_a_check_tells_how_many_rows_were_compared_the_worst_of_them_and_shows_engine_over_oracle(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    platform.month(2)
    assert all(platform.replay(day).success for day in platform.days)
    spoil(platform, platform.days[0])
    checks = {check.check_name: check for check in platform.checks(FRAMES).get_asset_check_evaluations()}
    wrong, compared = checks["exact_values_are_equal"], checks["every_expected_row_is_there"]
    assert (wrong.metadata["rows"].value, wrong.metadata["wrong"].value) == (platform.published().height, 1)
    head, _, row = str(wrong.metadata["worst"].value).splitlines()
    named = dict(zip(head.split(" | "), row.split(" | "), strict=True))
    assert float(named["min_speed__engine"]) == float(named["min_speed__oracle"]) - 1
    assert (compared.passed, "worst" in compared.metadata) == (True, False)
    drawn = {
        name: str(check.metadata["engine_and_oracle"].value) for name, check in checks.items() if "engine_and_oracle" in check.metadata
    }
    assert drawn.keys() == {"every_expected_row_is_there", "exact_values_are_equal"}
    assert all("data:image/png" in picture for picture in drawn.values())


def test_critical_checks_of_results_block_and_warnings_do_not(tmp_path: Path) -> None:
    graph = Platform(tmp_path).defs.resolve_asset_graph()
    blocking = {name: graph.get_check_spec(dg.AssetCheckKey(FRAMES, name)).blocking for name in NAMES}
    assert blocking == {expected.name: expected.severity == "critical" for expected in suite("frames")}
    assert set(blocking.values()) == {True, False}


def test_days_that_could_not_be_judged_are_judged_by_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    platform = Platform(tmp_path)
    platform.month(3)
    first, second, third = platform.days

    def broken(*given: object) -> None:
        raise RuntimeError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(verification, "_logs", broken)
        assert told(replayed(platform, first)) == "it could not be judged: no memory"
    spoil(platform, first)
    done = replayed(platform, second)
    assert [name for name, passed in verdicts(done).items() if not passed] == ["exact_values_are_equal"]
    assert about(done, "days") == f"{first} to {second}"


def test_days_that_are_asked_for_and_not_published_are_red_and_named(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    platform.month(5)
    first, second, third, fourth, _ = platform.days
    assert all(platform.replay(day).success for day in (first, third))
    asked = [date.fromisoformat(day) for day in (first, second, third, fourth)]
    with pytest.raises(ValueError, match=f"^results/frames__traffic: {second}, {fourth} are not published; replay them first.$"):
        verify_published(platform.workplace, SPEC, "traffic", "frames__traffic", asked)
    alone = platform._job("checks_alone", dg.AssetSelection.checks_for_assets(FRAMES))
    tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": second}
    done = alone.execute_in_process(instance=platform.instance, raise_on_error=False, tags=tags)
    assert verdicts(done) == dict.fromkeys(NAMES, False)
    assert told(done) == f"it could not be judged: results/frames__traffic: {second} is not published; replay it first."
    assert about(platform.checks(FRAMES), "days") == f"{first}, {third} (not published: {second}, {fourth} to {platform.days[4]})"


def test_days_of_another_specification_are_one_sentence(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    platform.month(2)
    assert all(platform.replay(day).success for day in platform.days)
    first, second = (date.fromisoformat(day) for day in platform.days)
    other = {**SPEC, "frame": {**SPEC["frame"], "where": "speed < 30"}}
    with pytest.raises(ValueError, match=f"{first} was published with another specification; replay it.$"):
        verify_published(platform.workplace, other, "traffic", "frames__traffic", [first])
    with pytest.raises(ValueError, match=f"{first} to {second} were published with another specification; replay them.$"):
        verify_published(platform.workplace, other, "traffic", "frames__traffic", None)


def test_checks_of_what_was_never_launched_are_red_and_say_so(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    done = platform.checks(LAUNCHED)
    assert set(verdicts(done).values()) == {False}
    assert told(done) == "it could not be judged: nothing was launched yet; run the job replay first."


def test_a_name_that_techniques_share_is_described_for_each_of_them(tmp_path: Path) -> None:
    graph = Platform(tmp_path).defs.resolve_asset_graph()
    described = graph.get_check_spec(dg.AssetCheckKey(LAUNCHED, "times_are_ordered")).description or ""
    for technique in ("frames", "slicing"):
        (own,) = [expected.description for expected in suite(technique) if expected.name == "times_are_ordered"]
        assert f"{technique.capitalize()}: {own}" in described
    assert graph.get_check_spec(dg.AssetCheckKey(LAUNCHED, "sums_agree")).description == suite("frames")[4].description


def test_checks_wait_for_no_run_but_those_that_write_what_they_judge(tmp_path: Path) -> None:
    graph = Platform(tmp_path).defs.resolve_asset_graph()
    for check in graph.asset_check_keys:
        pools = graph.assets_def_for_key(check).op.pool, graph.get(check.asset_key).assets_def.op.pool  # type: ignore[attr-defined]
        assert pools[0] == pools[1] is not None, check


def test_a_report_that_cannot_be_written_takes_no_verdict_with_it(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    platform.month(2)
    assert all(platform.replay(day).success for day in platform.days)
    shutil.rmtree(Path(platform.workplace.lake, "reports"), ignore_errors=True)
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
