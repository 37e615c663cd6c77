"""The commands that the README tells a newcomer to type: they work, and do no harm to what the demonstration has made."""

from __future__ import annotations

import re
import shlex
from contextlib import nullcontext
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
import yaml
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from engines import build
from engines.contract import TIMESTAMP
from orchestration.cli import app
from orchestration.cli.given import read_spec
from replay.lake import Lake
from replay.log_writer import append
from tests.orchestration.driving import SPEC, Platform
from tests.replay.harness import in_process

ROOT = Path(__file__).parents[2]
COMMANDS = [
    shlex.split(found[1])
    for page in ("README.md", "docs/tour.md")
    for found in re.finditer(r"^\$ \.venv/bin/reprise (replay [^#\n]*)", (ROOT / page).read_text(), re.MULTILINE)
]
NAME = "frames__traffic"


@pytest.fixture
def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """What the demonstration has made of traffic, in small; Spark's part is played in this process."""
    monkeypatch.setattr("orchestration.cli.replaying.quiet_session", lambda master: nullcontext())
    monkeypatch.setattr("orchestration.cli.replaying.execute", in_process)
    monkeypatch.chdir(tmp_path)
    found = Platform(tmp_path)
    found.month(3)
    assert found.replay().success
    return found


def tables(platform: Platform) -> dict[str, pl.DataFrame]:
    """All that is published of the asset."""
    address = f"{platform.workplace.lake}/results/{NAME}"
    return {
        output: pl.read_delta(f"{address}{output}").drop("run", "published", strict=False) for output in ("", "__late", "__days", "__state")
    }


def reprise(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.output


def test_there_are_commands_to_try() -> None:
    assert any("traffic" in command for command in COMMANDS)
    assert any("sensors" in command for command in COMMANDS)


def test_the_commands_of_the_readme_work_and_leave_the_results_of_assets_as_they_are(platform: Platform) -> None:
    before = tables(platform)
    sensors = pa.table({"ts": pa.array([1, 2, 3], TIMESTAMP), "key": ["a"] * 3, "v": [1, 2, 3]})
    append(Lake(platform.workplace.lake), "sensors", sensors)
    for command in COMMANDS:
        status, told = reprise(*command)
        assert status == 0, (command, told)
    for output, table in tables(platform).items():
        assert_frame_equal(table, before[output], check_row_order=False)


def test_results_of_another_specification_are_replaced_only_if_that_is_asked_for(platform: Platform, tmp_path: Path) -> None:
    """The name of an asset, published or not, and the name of an earlier publication; under a name of its own there is no question."""
    before = tables(platform)
    spec = {"technique": "frames", "frame": {"kind": "threshold", "where": "speed < 30"}}
    (tmp_path / "slow.yaml").write_text(yaml.safe_dump(spec))
    slow = ["replay", "slow.yaml", "--stream", "traffic", "--days", "all"]
    ways = "allowed are another name (--publish-as NAME), or to replace what is there (--replace).\n"
    refused = f"publish_as: '{NAME}' given, and the results asset frames/traffic is published so with another specification; {ways}"
    assert reprise(*slow) == reprise(*slow, "--again") == reprise(*slow, "--publish-as", NAME) == (2, refused)
    for output, table in tables(platform).items():
        assert_frame_equal(table, before[output])
    assert reprise(*slow, "--publish-as", "slow")[0] == 0
    other = ["replay", "frames_threshold", "--stream", "traffic", "--days", "all", "--publish-as", "slow"]
    assert reprise(*other) == (2, f"publish_as: 'slow' given, and days are published so with another specification; {ways}")
    assert reprise(*other, "--replace")[0] == 0
    assert_frame_equal(platform.published("slow"), platform.published())
    assert reprise(*slow, "--replace")[0] == 0
    assert platform.published()["frame_id"].to_list() != before[""]["frame_id"].to_list()


def test_the_profile_of_frames_is_the_specification_of_the_asset_on_traffic() -> None:
    fingerprints = {build(spec).spec.fingerprint() for spec in (SPEC, read_spec("frames_threshold"))}
    assert len(fingerprints) == 1
