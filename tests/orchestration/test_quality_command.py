"""`reprise quality` looks at every stream that is ingested, too; a warning is told and is no failure, a critical check is one."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from orchestration.cli import app
from orchestration.demo import Step
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
    shown = CliRunner().invoke(app, ["quality"])
    assert f"{len(suite()) - 1} of {len(suite())} passed" in shown.output
    assert "few_records_are_rejected (warning)" in shown.output

    rejects = str(folder / "lake" / "streams" / "calls__rejects")
    pl.read_delta(rejects).head(3).write_delta(rejects, mode="overwrite")
    failed = CliRunner().invoke(app, ["quality"])
    assert failed.exit_code == 1
    assert "records_add_up" in failed.output


def test_a_step_passes_with_warnings_and_fails_with_anything_else() -> None:
    assert Step("", checks=[("a", True), ("b", False)], warnings=["b"]).passed
    assert not Step("", checks=[("a", False), ("b", False)], warnings=["b"]).passed
