"""`reprise streams`: what is given is told or used, how far it is, and what is left by a command that was stopped."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from orchestration.cli import app, showing, stream_work

CALLS = """
title: Phone calls
files: {pattern: "*.csv"}
columns: [{name: at, type: time}, {name: cost, range: [-0.5, 9007199254740993]}]
time: {column: at, format: number}
"""
Run = Callable[..., Any]


@pytest.fixture
def streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command in a folder with one stream of ones own: its status, its document if it has one, and what it said beside."""
    monkeypatch.chdir(tmp_path)
    for folder in ("streams", "raw/calls"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "streams/calls.stream.yaml").write_text(CALLS)
    (tmp_path / "raw/calls/a.csv").write_text("1,0.5\nx,1\n3,0.25\n")

    def run(*arguments: str, as_json: bool = True) -> tuple[int, Any, str]:
        done = CliRunner().invoke(app, ["streams", *arguments, *(["--json"] if as_json else [])])
        return done.exit_code, json.loads(done.stdout) if as_json and not done.exit_code else done.stdout, done.stderr.strip()

    return run


def test_numbers_of_a_listed_stream_are_numbers_and_logs_that_nobody_declared_are_listed_and_described(streams: Run) -> None:
    streams("ingest", "calls")
    streams("disorder", "calls", "late", "--fraction", "1", "--seed", "3")
    _, found, _ = streams("list")
    listed = {row["stream"]: row for row in found}
    assert (listed["calls"]["tuples"], listed["calls"]["rejected"], listed["dye"]["tuples"]) == (2, 1, None)
    assert (listed["late"]["tuples"], listed["late"]["rejected"]) == (2, None)
    assert listed["late"]["title"].startswith("disordered from calls version 0 by ") and "calls__rejects" not in listed
    _, table, _ = streams("list", as_json=False)
    assert "late" in table
    _, described, _ = streams("describe", "late")
    assert described["tuples"] == 2 and {"name": "cost", "type": "double"} in described["declaration"]["columns"]
    status, shown, _ = streams("describe", "late", as_json=False)
    assert status == 0 and "2 tuples" in shown and "cost" in shown


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["list", "--declarations", "/nowhere"],
         "declarations: '/nowhere' given; there is no such folder; allowed is one with files STREAM.stream.yaml."),
        (["generate", "dye", "--option", "long=[1"],
         "option: 'long=[1' given, whose value is not YAML; allowed is NAME=VALUE, such as detectors=4."),
        (["generate", "dye", "--seed", str(2**70)], f"seed: {2**70} given; allowed is a whole number from 0 to {2**62}."),
        (["ingest", "traffic", "--seed", str(2**70)], f"seed: {2**70} given; allowed is a whole number from 0 to {2**62}."),
        (["disorder", "nothing", "new", "--seed", str(2**70)], f"seed: {2**70} given; allowed is a whole number from 0 to {2**62}."),
        (["disorder", "nothing", "new", "--fraction", "2"], "fraction: 2.0 given; allowed is a share from 0 to 1."),
        (["disorder", "nothing", "new", "--kind", "odd"], "kind: 'odd' given; allowed are uniform, gaussian and exponential."),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told_first_and_in_a_sentence(arguments: list[str], sentence: str, streams: Run, tmp_path: Path) -> None:
    assert streams(*arguments) == (2, "", sentence)
    assert not (tmp_path / "lake").exists() and [path.name for path in (tmp_path / "raw").iterdir()] == ["calls"]


@pytest.mark.parametrize("name", ["calls", "dye"])
def test_a_declared_stream_is_not_disordered_into(name: str, streams: Run, tmp_path: Path) -> None:
    (tmp_path / "streams/other.stream.yaml").write_text(CALLS)
    (tmp_path / "raw/calls").rename(tmp_path / "raw/other")
    streams("ingest", "other")
    status, _, said = streams("disorder", "other", name)
    assert status == 2 and said.startswith(f"stream: '{name}' given, which is declared in ")
    assert said.endswith(f"/{name}.stream.yaml and could not be ingested any more; allowed is a new name.")
    assert not (tmp_path / "lake/streams" / name).exists()


def test_a_date_as_an_option_is_the_text_that_was_given(streams: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(stream_work, "generate_twins", lambda streams, raw, settings, master: given.update(settings) or [])
    streams("generate", "traffic", "--option", "start=2011-09-15", "--option", "at=2011-09-15T01:02:03", "--option", "detectors=2")
    assert given["options"] == {"start": "2011-09-15", "at": "2011-09-15T01:02:03", "detectors": 2}


def test_a_range_is_described_to_the_last_digit(streams: Run) -> None:
    assert "-0.5 to 9007199254740993" in streams("describe", "calls", as_json=False)[1]


def test_settings_of_a_twin_that_is_not_used_are_told(streams: Run, tmp_path: Path) -> None:
    status, _, said = streams("ingest", "calls", "--tuples", "10", "--seed", "1")
    assert status == 0 and said.endswith("tuples, seed: given, but not used for calls, which has no twin.")
    (tmp_path / "raw/traffic").mkdir()
    head = "detectorid,starttime,volume,speed,occupancy,status,dqflags\n"
    (tmp_path / "raw/traffic/a.csv").write_text(f"{head}1,2011-09-15 00:00:00-07,3,55,1,2,0\n")
    assert streams("ingest", "traffic", "--tuples", "10")[2].endswith("tuples: given, but not used for traffic, whose originals are read.")
    assert "not used" not in streams("ingest", "dye", "--tuples", "10")[2]


def test_originals_that_have_gone_are_replaced_by_a_twin_only_if_one_is_asked_for(streams: Run, tmp_path: Path) -> None:
    (tmp_path / "raw/traffic").mkdir()
    file = tmp_path / "raw/traffic/a.csv"
    file.write_text("detectorid,starttime,volume,speed,occupancy,status,dqflags\n1,2011-09-15 00:00:00-07,3,55,1,2,0\n")
    streams("ingest", "traffic")
    file.rename(tmp_path / "away.csv")
    before = sorted((tmp_path / "lake").rglob("*"))
    status, _, said = streams("ingest", "traffic")
    assert (status, said.splitlines()[-1]) == (
        2, f"stream traffic: no file in {tmp_path}/raw/traffic matches its setting files.pattern, '*.csv', "
        "but its log was made from original files; allowed is to put them back, or to ask for a twin by its tuples or its seed.",
    )  # fmt: skip
    assert sorted((tmp_path / "lake").rglob("*")) == before and not (tmp_path / "raw/traffic__twin").exists()
    _, (done,), _ = streams("ingest", "traffic", "--tuples", "10")
    assert (done["origin"]["kind"], done["tuples"]) == ("twin", 10)
    assert streams("ingest", "traffic")[0] == 0  # of a twin, one is wanted


def test_streams_ingested_before_one_that_cannot_be_are_told(streams: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "streams/other.stream.yaml").write_text(CALLS)
    status, _, said = streams("ingest", "calls", "other")
    assert (status, said.splitlines()[-1]) == (
        2, f"stream other: no file in {tmp_path}/raw/other matches its setting files.pattern, '*.csv'. "
        "Ingested before it: calls (version 0, 2 tuples).",
    )  # fmt: skip
    assert "Ingested" not in streams("ingest", "other", "calls")[2]

    def stop(*given: Any, **how: Any) -> Any:
        if given[1].name == "other":
            raise KeyboardInterrupt
        return ingest(*given, **how)

    (tmp_path / "raw/other").mkdir()
    (tmp_path / "raw/other/a.csv").write_text("1,0.5\n")
    ingest = stream_work.ingest
    monkeypatch.setattr(stream_work, "ingest", stop)
    told = "Stopped; nothing of this ingestion is stored. Ingested before it: calls (version 0, 2 tuples)."
    assert streams("ingest", "calls", "other")[2].splitlines()[-1] == told


def test_files_that_are_no_originals_are_told(streams: Run, tmp_path: Path) -> None:
    (tmp_path / "raw/traffic").mkdir()
    (tmp_path / "raw/traffic/a.dat").write_text("x")
    _, (done,), said = streams("ingest", "traffic", "--tuples", "10")
    told = f"1 files in {tmp_path}/raw/traffic, none of which matches the setting files.pattern"
    assert f"traffic: the twin is used, for there are {told}." in said and done["origin"]["passed_over"] == told


def test_a_stopped_ingestion_says_that_nothing_of_it_is_stored(streams: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stream_work, "ingest", stop)
    status, _, said = streams("ingest", "calls")
    assert (status, said.splitlines()[-1]) == (130, "Stopped; nothing of this ingestion is stored.")


def test_a_lake_that_cannot_be_made_is_told(streams: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    status, _, said = streams("ingest", "calls", "--lake", "file/lake")
    assert (status, said.splitlines()[-1]) == (
        2, f"lake: '{tmp_path}/file/lake' given; it cannot be written (Not a directory); allowed is a folder that can.",
    )  # fmt: skip


def test_on_a_terminal_a_bar_tells_how_far_it_is(streams: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(showing, "Console", lambda **_: Console(file=shown, force_terminal=True, width=120, highlight=False))
    assert streams("generate", "traffic", "--tuples", "70000")[0] == 0
    assert "making the twin of traffic" in shown.getvalue() and "70k/70k tuples" in shown.getvalue()
    streams("ingest", "traffic")
    told = shown.getvalue().partition("ingesting traffic: the twin in ")[2]
    assert "100 %" in told and re.search(r"([\d.]+M)/\1 bytes, [\d.]+[kM]?/s", told)
