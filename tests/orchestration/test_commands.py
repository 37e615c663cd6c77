"""Commands that go through Dagster: `reprise backfill` and `reprise demo`, as a person types them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from assets.workplace import Workplace
from orchestration import demo
from orchestration.cli import app, platform
from quality.suites.results import suite as suite_of_results
from quality.suites.streams import suite as suite_of_streams
from replay.backfill import backfill
from replay.lake import Lake
from replay.publish import published_days
from replay.runs import RunError
from replay.streams.declaration import declaration
from replay.streams.ingest import ingest
from replay.streams.tasks import InProcess
from tests.orchestration.driving import SPEC, in_process_wrongly
from tests.orchestration.month import write_month
from tests.replay.harness import in_process


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / ".dagster"))
    return tmp_path


@pytest.fixture
def lake(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Four days of traffic, ingested; Spark's part is played in this process."""
    monkeypatch.setattr(Workplace, "spark", None)
    monkeypatch.setattr("replay.runs.execute", in_process)
    write_month(folder / "raw", 4)
    lake = Lake(str(folder / "lake"))
    ingest(lake, declaration("traffic"), Lake(str(folder / "raw" / "traffic")), InProcess())
    return lake


def days(lake: Lake) -> list[int]:
    """The days of the month that are published."""
    return sorted(day.day for day in published_days(lake, "frames__traffic"))


def reprise(*arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    """The exit status, the steps, and what was told of a failure."""
    done = CliRunner().invoke(app, [*arguments, "--json"])
    return done.exit_code, json.loads(done.stdout)["steps"] if done.stdout else [], done.stderr.splitlines()[-1] if done.stderr else ""


def test_a_backfill_replays_what_is_missing_and_checks_it(lake: Lake) -> None:
    """Day 2, then what is missing: 1 alone, 3 and 4 in one run; then nothing."""
    status, (step,), _ = reprise("backfill", "frames/traffic", "--days", "2011-09-02")
    assert (status, step["what"], days(lake)) == (0, "frames/traffic 2011-09-02..2011-09-02", [2])
    assert step["checks"] == {expected.name: True for expected in suite_of_results("frames")}
    status, steps, _ = reprise("backfill", "frames/traffic")
    assert [step["what"].split()[1] for step in steps] == ["2011-09-01..2011-09-01", "2011-09-03..2011-09-04"]
    assert (status, days(lake), all(step["passed"] for step in steps)) == (0, [1, 2, 3, 4], True)
    assert Path(lake.root, "reports", Path(steps[-1]["report"]).name).exists()
    told = "frames/traffic: All 4 days of traffic, 2011-09-01 to 2011-09-04, are published and stand."
    assert reprise("backfill", "frames/traffic") == (0, [], told)
    assert json.loads(CliRunner().invoke(app, ["backfill", "frames/traffic", "--json"]).stdout) == {"steps": []}
    assert CliRunner().invoke(app, ["backfill", "frames/traffic"]).stdout == ""


def test_a_backfill_tells_how_far_it_has_come(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def execute(spark: object, plan: Any, *, on_progress: Any) -> Any:
        done = in_process(spark, plan)
        on_progress(done.progress)
        on_progress(done.progress)  # as at the end of every run
        return done

    told: list[str] = []
    monkeypatch.setattr("replay.runs.execute", execute)
    monkeypatch.setattr(platform, "_tell", told.append)
    assert reprise("backfill", "frames/traffic", "--days", "2011-09-01")[0] == 0
    day, batch = told
    assert day == "frames/traffic: 2011-09-01 to 2011-09-01"
    assert batch.startswith("batch 0: 288 of 288 tuples")


def test_a_backfill_replays_what_is_red(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Day 2 came out wrong; all days stand, and it alone is replayed again."""
    monkeypatch.setattr("replay.runs.execute", in_process_wrongly)
    assert reprise("backfill", "frames/traffic", "--days", "2011-09-02")[0] == 1
    monkeypatch.setattr("replay.runs.execute", in_process)
    assert reprise("backfill", "frames/traffic", "--days", "2011-09-03..2011-09-04")[0] == 1  # of day 2
    assert reprise("backfill", "frames/traffic", "--days", "2011-09-01")[0] == 1
    status, (step,), _ = reprise("backfill", "frames/traffic")
    assert (status, step["what"], step["passed"]) == (0, "frames/traffic 2011-09-02..2011-09-02", True)
    assert reprise("backfill", "frames/traffic")[1] == []


def test_a_backfill_replays_what_was_published_and_never_checked(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay.backfill.execute", in_process)
    backfill(None, lake, SPEC, ["traffic"])  # type: ignore[arg-type]
    assert days(lake) == [1, 2, 3, 4]
    status, (step,), _ = reprise("backfill", "frames/traffic")
    assert (status, step["what"], step["tuples"]) == (0, "frames/traffic 2011-09-01..2011-09-04", 4 * 144)
    assert set(step["checks"].values()) == {True}
    assert reprise("backfill", "frames/traffic")[1] == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["frames/rails"],
            "results: 'frames/rails' given; allowed are frames/traffic, frames/dye, slicing/debs2013, slicing/debs2012.",
        ),
        (["frames/traffic", "--days", "2011-10-01"], "days: '2011-10-01' given; allowed are days from 2011-09-01 to 2011-09-04."),
    ],
)
def test_a_backfill_of_what_is_not_there_is_refused(arguments: list[str], sentence: str, lake: Lake) -> None:
    assert reprise("backfill", *arguments) == (2, [], sentence)
    assert days(lake) == []


def test_a_backfill_of_a_stream_that_is_not_there_fails_and_one_of_an_empty_log_has_nothing_to_do(folder: Path) -> None:
    for days in ("missing", "all"):
        status, steps, sentence = reprise("backfill", "frames/traffic", "--days", days)
        assert (status, steps) == (2, [])
        assert sentence.endswith("streams/traffic: there is no such log; write or ingest the stream first.")
    write_month(folder / "raw", 0)
    ingest(Lake(str(folder / "lake")), declaration("traffic"), Lake(str(folder / "raw" / "traffic")), InProcess())
    for days in ("missing", "all", "2011-09-01"):
        assert reprise("backfill", "frames/traffic", "--days", days) == (0, [], "frames/traffic: traffic has no tuples.")


def test_steps_that_were_done_are_told_even_if_a_later_one_cannot_be(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Day 2 is there; day 1 is replayed, and the run of 3 and 4 fails."""
    assert reprise("backfill", "frames/traffic", "--days", "2011-09-02")[0] == 0

    def execute(spark: object, plan: Any, **how: Any) -> Any:
        if plan.span.days[0] == "2011-09-03":
            raise RunError("run x: it failed (no space left).")
        return in_process(spark, plan, **how)

    monkeypatch.setattr("replay.runs.execute", execute)
    status, (done, failed), sentence = reprise("backfill", "frames/traffic")
    assert (done["passed"], failed["passed"], days(lake)) == (True, False, [1, 2])
    assert failed["error"].startswith("frames/traffic 2011-09-03..2011-09-04: run x: it failed (no space left). Published results")
    assert (status, sentence) == (1, "Not done: frames/traffic 2011-09-03..2011-09-04.")


@pytest.mark.spark
@pytest.mark.slow
def test_the_demonstration_ingests_replays_replays_again_and_checks(folder: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of its six streams, and small: the others take the same way."""
    monkeypatch.setattr(Workplace, "spark", property(lambda self: spark))
    monkeypatch.setattr(demo, "TUPLES", {"traffic": 14_000})
    monkeypatch.setattr(demo, "declared", lambda: ["traffic"])
    monkeypatch.setattr(demo, "technique_modules", lambda: {"frames": SimpleNamespace(RESULTS={"traffic": SPEC})})
    status, steps, _ = reprise("demo")
    assert status == 0, steps
    known = sorted(published_days(Lake(str(folder / "lake")), "frames__traffic"))
    assert len(known) > 2
    again = [f"frames/traffic {day} again" for day in known[1:3]]
    assert [step["what"] for step in steps] == ["streams/traffic", f"frames/traffic {known[0]}..{known[-1]}", *again, "reports/index"]
    assert steps[0]["tuples"] == steps[1]["tuples"] == 14_000
    assert list(steps[0]["checks"]) == [one.expected.name for one in suite_of_streams()]
    assert all(step["checks"] == {expected.name: True for expected in suite_of_results("frames")} for step in steps[1:-1])
    assert (folder / "lake" / "reports" / "index.html").exists()


def test_every_stream_of_the_demonstration_has_its_size() -> None:
    assert set(demo.TUPLES) == set(demo.declared())
