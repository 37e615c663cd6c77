"""`reprise quality` looks at every stream that is ingested, too; a warning is told and is no failure, a critical check is one.

Nothing is left out: neither a check that was not evaluated, nor an asset that has lost some of its tables.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest
from typer.testing import CliRunner

from assets import drift_picture, stream_checks
from assets.workplace import Workplace
from orchestration.building import build_defs
from orchestration.cli import app, platform
from orchestration.cli.showing import show_steps
from orchestration.demo import Step, StepError, checked_again, materialized
from quality.suites.results import suite as suite_of_results
from quality.suites.streams import suite
from replay.lake import Lake
from replay.streams.declaration import load
from replay.streams.ingest import ingest
from replay.streams.tasks import InProcess

DECLARED = """
files: {pattern: "*.csv", header: true}
columns:
  - {name: when, type: time}
  - {name: cost, type: float64, range: [0, null]}
time: {column: when}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder with a stream of one's own, of which a record in five is rejected: a warning."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / ".dagster"))
    path = tmp_path / "streams" / "calls.stream.yaml"
    for folder in (path.parent, tmp_path / "raw" / "calls"):
        folder.mkdir(parents=True)
    path.write_text(DECLARED)
    costs = [-1 if n % 5 == 0 else n for n in range(60)]
    lines = [f"2024-05-01T00:{n:02d}:00,{cost}" for n, cost in enumerate(costs)]
    (tmp_path / "raw" / "calls" / "may.csv").write_text("\n".join(["when,cost", *lines]) + "\n")
    ingest(Lake(str(tmp_path / "lake")), load(path), Lake(str(tmp_path / "raw" / "calls")), InProcess())
    return tmp_path


def test_streams_are_checked_and_only_a_critical_check_fails_the_command(folder: Path) -> None:
    done = CliRunner().invoke(app, ["quality", "--json"])
    assert done.exit_code == 0, done.output
    (step,) = json.loads(done.stdout)["steps"]
    assert step["what"] == "checks of streams/calls"
    assert list(step["checks"]) == [one.expected.name for one in suite()]
    assert [name for name, passed in step["checks"].items() if not passed] == step["warnings"] == ["few_records_are_rejected"]
    head, row, *_ = CliRunner().invoke(app, ["quality"]).stdout.splitlines()
    # Nothing is read, so nothing is told of tuples.
    assert re.split(r"  +", head.strip()) == ["what", "seconds", "checks passed", "not passed"]
    what, _, checks, wrong = re.split(r"  +", row.strip())
    assert (what, checks, wrong) == (
        "checks of streams/calls", f"{len(suite()) - 1} of {len(suite())}", "few_records_are_rejected (warning)"
    )  # fmt: skip
    assert row.index(checks) + len(checks) == head.index("checks passed") + len("checks passed")  # numbers stand at the right

    rejects = str(folder / "lake" / "streams" / "calls__rejects")
    pl.read_delta(rejects).head(3).write_delta(rejects, mode="overwrite")
    failed = CliRunner().invoke(app, ["quality"])
    assert failed.exit_code == 1
    assert "records_add_up" in failed.output
    sentence = "A check has failed: checks of streams/calls; the asset's page in the UI shows what is wrong."
    assert failed.stderr.splitlines()[-1] == sentence


def test_a_step_passes_with_warnings_and_fails_with_anything_else() -> None:
    assert Step("", checks=[("a", True), ("b", False)], warnings=["b"]).passed
    assert not Step("", checks=[("a", False), ("b", False)], warnings=["b"]).passed
    assert not Step("", error="checks of streams/calls: the run failed").passed


def quality() -> tuple[int, dict[str, Any]]:
    """The exit status, and what was told of each asset."""
    done = CliRunner().invoke(app, ["quality", "--json"])
    document, _ = json.JSONDecoder().raw_decode(done.stdout)  # the sentence of a failure may follow
    return done.exit_code, {step["what"].removeprefix("checks of "): step for step in document["steps"]}


def halfway(*given: Any) -> Any:
    """A check op that tells some checks and then breaks."""
    yield from real(*given)[:3]
    raise RuntimeError("the process ran out of memory")


real = stream_checks.check_results


def test_an_error_after_the_verdicts_is_red_in_every_check(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any) -> bytes:
        raise RuntimeError("plotting failed")

    monkeypatch.setattr(drift_picture, "picture_of_drift", broken)
    status, found = quality()
    assert status == 1
    assert found["streams/calls"]["checks"] == {one.expected.name: False for one in suite()}


def test_checks_that_were_not_evaluated_are_a_failure_and_other_assets_are_checked_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    another = Path(shutil.copy(folder / "streams" / "calls.stream.yaml", folder / "streams" / "dials.stream.yaml"))
    ingest(Lake(str(folder / "lake")), load(another), Lake(str(folder / "raw" / "calls")), InProcess())
    sentences: list[str] = []
    monkeypatch.setattr(platform, "_tell", sentences.append)
    of_one = {"calls": halfway, "dials": real}
    monkeypatch.setattr(stream_checks, "check_results", lambda context, key, *more: of_one[key.path[1]](context, key, *more))
    status, found = quality()
    assert status == 1
    assert not found["streams/calls"]["passed"]
    assert found["streams/dials"]["passed"]
    assert len(found["streams/dials"]["checks"]) == len(suite())
    (sentence,) = sentences
    assert sentence == "checks of streams/calls: RuntimeError: the process ran out of memory"


def test_ctrl_c_ends_the_command_and_not_the_checks_of_an_asset_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    another = Path(shutil.copy(folder / "streams" / "calls.stream.yaml", folder / "streams" / "dials.stream.yaml"))
    ingest(Lake(str(folder / "lake")), load(another), Lake(str(folder / "raw" / "calls")), InProcess())
    asked: list[str] = []

    def stopped(context: Any, key: dg.AssetKey, *more: Any) -> Any:
        asked.append(key.path[1])
        raise KeyboardInterrupt

    monkeypatch.setattr(stream_checks, "check_results", stopped)
    done = CliRunner().invoke(app, ["quality"])
    assert (done.exit_code, asked) == (130, ["calls"])
    assert done.stderr.splitlines()[-1] == "Stopped at checks of streams/calls; the same command does what is left."


def test_a_run_that_breaks_halfway_is_an_error_whether_it_materializes_or_only_checks(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defs, key = build_defs(Workplace(lake=str(folder / "lake"), raw=str(folder / "raw"))), dg.AssetKey(["streams", "calls"])

    def sentence(run: Any) -> str:
        with dg.DagsterInstance.ephemeral() as instance, pytest.raises(StepError) as told:
            run(defs, instance, key, "calls")
        return str(told.value)

    monkeypatch.setattr(stream_checks, "check_results", halfway)
    for run in (materialized, checked_again):
        assert sentence(run) == "calls: RuntimeError: the process ran out of memory"
    # Even if Dagster has nothing against it.
    monkeypatch.setattr(stream_checks, "check_results", lambda *given: [one for one in real(*given) if one.check_name != "units_stand"])
    monkeypatch.setattr(dg.ExecuteInProcessResult, "success", property(lambda self: True))
    assert sentence(checked_again) == "calls: not evaluated were units_stand."


@pytest.mark.parametrize("gone", [("calls",), ("calls", "calls__rejects"), ("calls", "calls__files")])
def test_a_stream_that_has_lost_its_log_is_red_and_not_left_out(gone: tuple[str, ...], folder: Path) -> None:
    for table in gone:
        shutil.rmtree(folder / "lake" / "streams" / table)
    status, found = quality()
    assert status == 1
    assert found["streams/calls"]["checks"] == {one.expected.name: False for one in suite()}


@pytest.mark.parametrize("left", ["", "__late", "__state"])
def test_results_that_have_lost_the_record_of_their_days_are_red_and_not_left_out(left: str, folder: Path) -> None:
    pl.DataFrame({"v": [1]}).write_delta(str(folder / "lake" / "results" / f"frames__traffic{left}"))
    status, found = quality()
    assert status == 1
    assert found["streams/calls"]["passed"]
    assert found["streams/calls"]["tuples"] is None
    assert found["frames/traffic"]["checks"] == {expected.name: False for expected in suite_of_results("frames")}


def test_what_is_in_the_lake_and_is_not_checked_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is no longer declared, and results under a name of somebody's own; tables beside others are no logs and no results."""
    sentences: list[str] = []
    monkeypatch.setattr(platform, "_tell", sentences.append)
    for table in ("mine", "mine__late", "mine__days", "frames__traffic__state"):
        pl.DataFrame({"v": [1]}).write_delta(str(folder / "lake" / "results" / table))
    assert quality()[1].keys() == {"streams/calls", "frames/traffic"}
    of_results = "results/mine is not checked: it is no asset's; only what was launched in Dagster was checked, by that run."
    assert sentences == [of_results]
    shutil.rmtree(folder / "lake" / "results" / "frames__traffic__state")
    shutil.rmtree(folder / "streams")
    sentences.clear()
    done = CliRunner().invoke(app, ["quality"])
    assert sentences == ["streams/calls is not checked: it is not declared, which would tell what to expect of it.", of_results]
    assert done.exit_code == 2
    assert done.stderr == f"lake: nothing in {folder}/lake is of a declared stream or of an asset, so nothing was checked.\n"


@pytest.mark.parametrize("command", ["quality", "demo"])
def test_a_folder_of_declarations_that_is_not_there_is_refused(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Misspelt, it would leave out one's own streams, and all would be well."""
    monkeypatch.setenv("REPRISE_STREAMS", "steams")
    done = CliRunner().invoke(app, [command])
    assert done.exit_code == 2
    assert done.stderr == "declarations: 'steams' given; there is no such folder; allowed is one with files STREAM.stream.yaml.\n"


def test_the_workplace_is_that_of_the_environment_but_for_what_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"LAKE": "elsewhere", "STREAMS": "declared", "REPORTS": "http://reports"}
    for name, value in {**texts, "TWIN_TUPLES": "7", "BUCKETS": "40", "TASKS": "64"}.items():
        monkeypatch.setenv(f"REPRISE_{name}", value)
    found = platform._workplace(str(tmp_path / "lake"), str(tmp_path / "raw"), "local[1]")
    assert (found.lake, found.raw, found.master) == (str(tmp_path / "lake"), str(tmp_path / "raw"), "local[1]")
    assert (found.declarations, found.reports, found.twin_tuples) == ("declared", "http://reports", 7)
    assert found.sizes == {"batch_tuples": 25_000_000, "buckets": 40, "tasks": 64}
    found = platform._workplace("s3://bucket/lake", "raw", "local[1]")
    assert (found.lake, found.place.root, found.raw) == ("s3://bucket/lake", "s3://bucket/lake", str(Path("raw").resolve()))


@pytest.mark.parametrize("name", ["REPRISE_TWIN_TUPLES", "REPRISE_BUCKETS", "REPRISE_TASKS"])
def test_a_size_in_the_environment_that_is_no_number_is_a_sentence(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "many")
    done = CliRunner().invoke(app, ["quality"])
    assert done.exit_code == 2
    assert done.stderr == f"{name}: 'many' given; allowed is a whole number from 1.\n"


def test_a_lake_in_an_object_store_is_told_by_its_address(capsys: pytest.CaptureFixture[str]) -> None:
    step = Step("frames/traffic", tuples=5, results=2, report="http://reports/page.html")
    show_steps([{**asdict(step), "checks": {}}], "s3://bucket/lake")
    _, _, lake, reports, _ = capsys.readouterr().out.splitlines()
    assert (lake, reports) == ("lake:    s3://bucket/lake", "reports: s3://bucket/lake/reports/index.html")


@pytest.mark.parametrize("given", [["--lake", ""], ["--raw", " "]])
def test_a_place_that_is_empty_is_refused(given: list[str], folder: Path) -> None:
    done = CliRunner().invoke(app, ["quality", *given])
    assert done.exit_code == 2
    setting = given[0].removeprefix("--")
    assert done.stderr == f"{setting}: {given[1]!r} given; allowed is a folder, or an object store's prefix.\n"
