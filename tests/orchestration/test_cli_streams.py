"""`reprise streams`, as a person types it, in one process and on Spark."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from orchestration.cli import app
from replay.lake import Lake
from replay.log import Log
from replay.streams.rejects import read_rejects
from tests.orchestration.roads import REPRISE

ROOT = Path(__file__).parents[2]

CALLS = """
title: Phone calls
files: {pattern: "*.csv", header: true}
columns:
  - {name: timestamp, type: time}
  - {name: caller, from: from, type: int32}
  - {name: callee, from: to, type: int32}
  - {name: duration, type: int32, unit: s, description: -1 for a missed call}
time: {start: timestamp, duration: duration, format: number, origin: 2010-09-06}
key: caller
"""
Run = Callable[..., Any]


@pytest.fixture
def streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command in an empty folder: its document, or what it printed and its status."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, json_too: bool = True) -> Any:
        done = CliRunner().invoke(app, ["streams", *arguments, *(["--json"] if json_too else [])])
        if done.exit_code or not json_too:
            return done.exit_code, done.output.strip().splitlines()[-1], done.output
        return json.loads(done.stdout)

    return run


def test_a_stream_is_generated_ingested_and_listed(streams: Run, tmp_path: Path) -> None:
    (made,) = streams("generate", "traffic", "--tuples", "5000", "--option", "detectors=2")
    assert (made["files"], made["tuples"], made["options"]) == (1, 5000, {"detectors": 2})
    (done,) = streams("ingest", "traffic")
    assert (done["records_read"], done["tuples"], done["origin"]["options"]) == (5000, 5000, {"detectors": 2})
    (again,) = streams("ingest", "traffic")
    assert (again["files_read"], again["version"], again["changed_from"]) == (0, 0, None)
    listed = {row["stream"]: row for row in streams("list")}
    assert listed["traffic"]["tuples"] == 5000
    assert listed["traffic"]["raw_files"] == "twin, 1"
    assert listed["dye"]["raw_files"] == "twin, not made yet"
    assert Log.open(Lake(str(tmp_path / "lake")), str(tmp_path / "lake/streams/traffic")).end == 5000


def test_a_stream_of_ones_own_is_a_file_that_is_added(streams: Run, tmp_path: Path) -> None:
    (tmp_path / "streams").mkdir()
    (tmp_path / "streams/calls.stream.yaml").write_text(CALLS)
    (tmp_path / "raw/calls").mkdir(parents=True)
    (tmp_path / "raw/calls/a.csv").write_text("timestamp,from,to,duration\n184,300,301,121\n3920,512,299,670\n9252,401,457,-1\n")
    (done,) = streams("ingest", "calls")
    assert (done["records_read"], done["rejected"], done["tuples"]) == (3, 1, 2)
    described = streams("describe", "calls")
    assert described["files"] == [{"name": "a.csv", "size": 76, "lines": 4, "records": 3, "rows": 2, "rejected": 1}]
    assert "calls" in {row["stream"] for row in streams("list")}
    status, _, shown = streams("describe", "calls", json_too=False)
    assert status == 0
    assert "Phone calls" in shown
    assert "-1 for a missed call" in shown


def test_the_stream_that_the_documentation_adds_is_ingested_as_it_says(streams: Run, tmp_path: Path) -> None:
    page = (ROOT / "docs/streams.md").read_text().partition("## Adding a stream")[2]
    content, declared, shown = (re.sub(r"^\w*\n", "", block) for block in page.split("```")[1:6:2])
    for path, text in (("raw/calls/2010-09.csv", content), ("streams/calls.stream.yaml", declared)):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    command, *table = shown.splitlines()
    status, _, printed = streams(*command.removeprefix("$ reprise streams ").split(), json_too=False)
    assert status == 0
    assert [line.split() for line in printed.splitlines()[-2:]] == [line.split() for line in table]
    rejects = read_rejects(Lake(str(tmp_path / "lake")), "calls").to_pylist()
    assert [(row["text"], row["reason"]) for row in rejects] == [("9252,401,457,-1", "event ends before it starts")]
    assert "`event ends before it starts`" in page


def test_a_disordered_stream_and_its_profile(streams: Run, tmp_path: Path) -> None:
    streams("ingest", "debs2013", "--tuples", "20000")
    done = streams("disorder", "debs2013", "debs2013_late", "--fraction", "0.2", "--scale", "2s")
    assert done["tuples"] == 20000
    assert 0.15 < done["out_of_order"] < 0.21
    assert 1_500_000 < done["largest_delay_us"] < 2_000_000
    found = streams("profile", "debs2013_late", "--out", "late.png")
    assert found["inversion_rate"] == done["inversion_rate"] > 0
    assert (tmp_path / "late.png").read_bytes().startswith(b"\x89PNG")
    status, _, shown = streams("profile", "debs2013_late", json_too=False)
    assert status == 0
    assert "largest delay" in shown
    assert (tmp_path / "debs2013_late-profile.png").exists()


@pytest.mark.spark
@pytest.mark.slow
def test_on_spark_the_same_log_is_made(streams: Run, tmp_path: Path) -> None:
    streams("ingest", "traffic", "--tuples", "5000", "--lake", "here")
    # In a process of its own: the command stops its session, and tests share theirs.
    command = [*REPRISE, "streams", "ingest", "traffic", "--lake", "there", "--master", "local[2]", "--json"]
    (done,) = json.loads(
        subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)}).stdout
    )
    assert done["tuples"] == 5000
    tables = []
    for name in ("here", "there"):
        lake = Lake(str(tmp_path / name))
        table = lake.table(lake.address("streams", "traffic"))
        assert table is not None
        tables.append(table.to_pyarrow_table().sort_by("arrival"))
    assert tables[0].equals(tables[1])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["ingest", "trafic"], "stream: 'trafic' given; declared are debs2012, debs2013, dye, intel_lab, ss7, traffic."),
        (["generate", "trafic"], "stream: 'trafic' given; twins exist of ss7, intel_lab, debs2012, debs2013, traffic, dye."),
        (["generate", "dye", "--option", "long"], "option: 'long' given; allowed is NAME=VALUE."),
        (["generate", "dye", "--option", "wide=1"], "wide: given as an option of the dye twin; allowed are long."),
        (["profile", "traffic"], "log {lake}/streams/traffic: there is no such log; write or ingest the stream first."),
        (["disorder", "traffic", "late", "--scale", "2"], "scale: '2' given; allowed is a duration such as '250ms', '20s' or '2h30m' "
         "(units: us, ms, s, m, h, d, w)."),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(arguments: list[str], sentence: str, streams: Run, tmp_path: Path) -> None:
    status, told, _ = streams(*arguments)
    assert (status, told) == (2, sentence.format(lake=tmp_path / "lake"))
    assert not (tmp_path / "lake").exists()
