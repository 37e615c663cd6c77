"""The command line as a person meets it: what it refuses, in which words, and what it tells without running anything.

Bad input must leave the lake as it was. Commands that start Spark and come to their end are in test_cli_runs.py.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import typer
import yaml
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError
from typer.testing import CliRunner

from assets.replaying import _told
from engines import build
from orchestration.cli import app
from orchestration.cli.given import profiles, read_spec
from orchestration.cli.sentences import told
from orchestration.cli.showing import tell
from replay.lake import Lake
from replay.log_writer import append
from replay.plan import Plan
from replay.progress import Progress
from replay.runs import RunError, _keep_plan, plan_run
from tests.orchestration.roads import HOURLY, REPRISE, stream


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A log 'roads', and a Delta table that is none."""
    lake = Lake(str(tmp_path_factory.mktemp("cli") / "lake"))
    append(lake, "roads", stream(), file_rows=50)
    write_deltalake(lake.address("streams", "plain"), pa.table({"v": [1]}))
    return lake


def tree(root: str) -> dict[str, tuple[int, int]]:
    """Every file below a folder, with its size and when it was changed."""
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in Path(root).parent.rglob("*")}


@pytest.fixture
def refused(lake: Lake) -> Callable[..., str]:
    """Runs a command that is refused; returns its sentence."""

    def run(*arguments: str, status: int = 2) -> str:
        before = tree(lake.root)
        result = CliRunner().invoke(app, [*arguments, "--lake", lake.root])
        assert (result.exit_code, result.stdout) == (status, "")
        assert tree(lake.root) == before
        (sentence,) = result.stderr.splitlines()
        return sentence.replace(lake.root, "LAKE")

    return run


def changed(**changes: Any) -> dict[str, Any]:
    """The specification with other settings of its window or its aggregates."""
    query = HOURLY["queries"][0]
    return {**HOURLY, "queries": [{**query, **changes}]}


def framed(where: str) -> dict[str, Any]:
    return {"technique": "frames", "frame": {"kind": "threshold", "where": where}}


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            changed(window={"kind": "tumbling", "length": "-5s"}),
            "queries[0].window.length: '-5s' given; allowed is a positive duration, such as '20s'.",
        ),
        (
            changed(window={"kind": "sliding", "length": "5s", "slide": "0s"}),
            "queries[0].window.slide: '0s' given; allowed is a positive duration, such as '20s'.",
        ),
        (
            changed(aggregates=[{"kind": "avg", "column": "v"}]),
            "queries[0].aggregates[0].kind: 'avg' given; allowed are 'count', 'sum', 'mean', 'min', 'max', 'first', 'last'.",
        ),
        (framed("speed << 40"), "frame.where: 'speed << 40' given; it does not parse at character 8: a value is missing."),
        ({**HOURLY, "technique": "magic"}, "technique: 'magic' given; allowed are frames, slicing."),
        (
            {**HOURLY, "colour": "red"},
            "colour: there is no such setting; 'red' was given, allowed are technique, delay, lateness, algorithm, queries.",
        ),
    ],
)
@pytest.mark.parametrize("command", [["replay", "--stream", "roads"], ["explain"]])
def test_a_wrong_setting_is_told_in_a_sentence(
    refused: Callable[..., str], tmp_path: Path, command: list[str], spec: dict[str, Any], sentence: str
) -> None:
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    assert refused(*command, str(tmp_path / "spec.json")) == sentence


@pytest.mark.parametrize("spec", [changed(aggregates=[{"kind": "sum", "column": "pressure"}]), framed("pressure > 1")])
def test_a_column_that_the_stream_lacks_is_named_with_those_it_has(
    refused: Callable[..., str], tmp_path: Path, spec: dict[str, Any]
) -> None:
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(spec))
    sentence = refused("replay", str(tmp_path / "spec.yaml"), "--stream", "roads")
    assert "pressure" in sentence
    assert "speed" in sentence


@pytest.mark.parametrize(
    ("stream", "sentence"),
    [
        ("rails", "log LAKE/streams/rails: there is no such log; write or ingest the stream first."),
        ("plain", "log LAKE/streams/plain: a Delta table with the description None found; allowed is 'Reprise log, format 1'."),
        ("../roads", "'../roads': leads out of the lake LAKE; allowed are paths inside it."),
        ("/etc/passwd", "'/etc/passwd': leads out of the lake LAKE; allowed are paths inside it."),
        ("a b", "'streams/a b': not a place in the lake LAKE; allowed are names of letters, digits, '_', '-' and '.'."),
    ],
)
def test_a_stream_that_is_no_log_of_the_lake_is_refused(refused: Callable[..., str], stream: str, sentence: str) -> None:
    assert refused("replay", "frames_threshold", "--stream", stream) == sentence


VALUE = "specification PATH: a value in it is not what it is written as"
NESTED = "specification PATH: it is nested too deeply; allowed are lists and mappings a few levels deep."


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("none.yaml", None, "specification PATH: it cannot be read (No such file or directory)."),
        (
            "spec.yaml",
            b"technique: slicing\ndelay: [2s\n",
            "specification PATH, line 3: it is not YAML (expected ',' or ']', but got '<stream end>').",
        ),
        ("spec.yaml", b"a: 1\nb: \x07\n", "specification PATH, line 2: it is not YAML (special characters are not allowed)."),
        ("spec.yaml", b"a: 1\nb: \xff\n", "specification PATH: it is not UTF-8 text (at byte 9)."),
        ("spec.yaml", b"!!python/name:os.system {}\n", None),
        ("spec.yaml", b"- slicing\n", "specification PATH: list found; allowed is a mapping with the setting 'technique'."),
        ("spec.yaml", b"", "specification PATH: NoneType found; allowed is a mapping with the setting 'technique'."),
        ("spec.yaml", b"delay: 1s\ndelay: 2s\n", "specification PATH: the setting 'delay' occurs twice."),
        ("spec.yaml", b"delay: 2024-99-99\n", f"{VALUE} (month must be in 1..12); put quotes around text."),
        ("spec.yaml", b"delay: !!int x\n", f"{VALUE} (invalid literal for int() with base 10: 'x'); put quotes around text."),
        ("spec.yaml", b"delay: !!bool maybe\n", f"{VALUE} ('maybe'); put quotes around text."),
        ("spec.json", b"1" * 5000, None),
        ("spec.yaml", b"[" * 3000, NESTED),
        ("spec.json", b"[" * 300_000, NESTED),
        ("spec.json", b'{"technique":\n "slicing"', "specification PATH, line 2: it is not JSON (Expecting ',' delimiter)."),
        ("spec.json", b'{"delay": "1s", "delay": "2s"}', "specification PATH: the setting 'delay' occurs twice."),
    ],
)
def test_a_file_that_holds_no_specification_is_refused(
    refused: Callable[..., str], tmp_path: Path, name: str, content: bytes | None, sentence: str | None
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    found = refused("replay", str(path), "--stream", "roads").replace(str(path), "PATH")
    assert found == sentence or sentence is None and found.startswith(("specification PATH, line 1: it is not YAML (", f"{VALUE} ("))


def test_an_unknown_profile_is_refused_with_those_there_are(refused: Callable[..., str]) -> None:
    assert refused("replay", "magic", "--stream", "roads") == (
        "specification: 'magic' given; allowed are a file that ends with .yaml, .yml, .json, "
        "and the profiles frames_threshold, slicing_sliding."
    )


DAYS = "allowed are 'all', a day such as 2024-01-31, and days in order such as 2024-01-01..2024-01-31."


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--days yesterday", f"days: 'yesterday' given; {DAYS}"),
        ("--days 2024-02-30", f"days: '2024-02-30' given; {DAYS}"),
        ("--days 2024-01-03..2024-01-01", f"days: '2024-01-03..2024-01-01' given; {DAYS}"),
        ("--days 2023-12-31", "days: 2023-12-31 to 2023-12-31 given; allowed are days from 2024-01-01 to 2024-01-03."),
        (
            "--days 2024-01-02..2024-01-04 --one-by-one",
            "days: 2024-01-02 to 2024-01-04 given; allowed are days from 2024-01-01 to 2024-01-03.",
        ),
        ("--days all --early", "early: given with --days; allowed is it only without --days."),
        ("--days all --no-flush", "flush: given with --days; allowed is it only without --days."),
        (
            "--days all --one-by-one --run mine",
            "run: 'mine' given, and these days take 3 runs; allowed is a name only where one is enough.",
        ),
        ("--days all --buckets 0", "buckets: 0 given; allowed is a whole number from 1."),
        ("--tasks 0", "tasks: 0 given; allowed is a whole number from 1."),
        (
            "--days all --publish-as ../x",
            "'results/../x__days': not a place in the lake LAKE; allowed are names of letters, digits, '_', '-' and '.'.",
        ),
        ("--again", "again: given without --days; allowed is it only with --days."),
        ("--one-by-one", "one_by_one: given without --days; allowed is it only with --days."),
        ("--publish-as mine", "publish_as: given without --days; allowed is it only with --days."),
        ("--replace", "replace: given without --days; allowed is it only with --days."),
        ("--batch-tuples 0", "batch_tuples: 0 given; allowed is a whole number from 1."),
        ("--batch-files -1", "batch_files: -1 given; allowed is a whole number from 1."),
        ("--speed fast", "speed: 'fast' given; allowed are 'max' and positive numbers."),
        ("--speed 0", "speed: '0' given; allowed are 'max' and positive numbers."),
        ("--speed nan", "speed: 'nan' given; allowed are 'max' and positive numbers."),
        ("--run ../x", "run: '../x' given; allowed is a name without '/'."),
        ("--run=", "run: '' given; allowed is a name of letters, digits, '_', '-' and '.'."),
        ("--days all --publish-as=", "publish_as: '' given; allowed is a name of letters, digits, '_', '-' and '.'."),
        ("--stream roads", "streams: ['roads', 'roads'] given; allowed are one or several with different names."),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(refused: Callable[..., str], options: str, sentence: str) -> None:
    assert refused("replay", "frames_threshold", "--stream", "roads", *options.split()) == sentence


@pytest.mark.parametrize("days", [[], ["--days", "all"]], ids=["a run of its own", "days"])
def test_tasks_and_buckets_are_those_that_are_given(lake: Lake, days: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """By an option or in the environment: a cluster has more cores than the machine of the command."""
    plans: list[Plan] = []
    monkeypatch.setattr("orchestration.cli.replaying.carry_out", lambda made, *, master: [plans.append(make()) for make in made] and [])
    monkeypatch.setenv("REPRISE_TASKS", "30")
    result = CliRunner().invoke(app, ["replay", "frames_threshold", "--stream", "roads", "--lake", lake.root, *days, "--buckets", "20"])
    assert result.exit_code == 0, result.stderr
    assert [(plan.tasks, plan.buckets) for plan in plans] == [(30, 20)]


def test_a_run_that_is_not_there_cannot_be_resumed(refused: Callable[..., str]) -> None:
    assert refused("resume", "none") == "run none: there is none in LAKE."


def test_a_lake_that_is_a_file_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("no folder")
    result = CliRunner().invoke(app, ["resume", "r", "--lake", str(tmp_path / "lake")])
    told = rf"Failed to open local file '{tmp_path}/lake/runs/r/plan\.json'\. Not a directory; see whether .*\.\n"
    assert result.exit_code == 2 and re.fullmatch(told, result.stderr), result.stderr


SEE = "see whether it is there, and may be read and written."


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (PermissionError(13, "Permission denied", "/lake"), (f"/lake: Permission denied; {SEE}", 2)),
        (OSError(28, "No space left on device", "/lake"), (f"/lake: No space left on device; {SEE}", 1)),
        (DeltaError("Kernel error: it\nis"), ("A Delta table could not be read or written: Kernel error: it; --debug shows where.", 1)),
    ],
    ids=["permission", "disk", "delta"],
)  # fmt: skip
def test_what_the_machine_refuses_is_no_defect(problem: Exception, sentence: tuple[str, int]) -> None:
    assert told(problem) == sentence


def test_debug_shows_where_a_failure_came_from(lake: Lake) -> None:
    result = CliRunner().invoke(app, ["replay", "magic", "--stream", "roads", "--lake", lake.root, "--debug"])
    assert result.exit_code == 2
    assert result.stderr.startswith("Traceback")
    assert result.stderr.splitlines()[-1].startswith("specification: 'magic' given")


def test_a_run_that_failed_is_told_with_its_notes_and_is_no_bad_input() -> None:
    problem = RunError("run a: it failed (no space left).")
    problem.add_note("Spark's own messages are in b.log.")
    assert told(problem) == ("run a: it failed (no space left). Spark's own messages are in b.log.", 1)


def test_without_java_the_sentence_names_sparks_log(lake: Lake, tmp_path: Path) -> None:
    before = tree(lake.root)
    command = [*REPRISE, "replay", "frames_threshold", "--stream", "roads", "--lake", lake.root]
    environment = {**os.environ, "JAVA_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    starting, sentence = found.stderr.splitlines()
    assert (found.returncode, found.stdout, starting) == (1, "", "starting Spark")
    match = re.fullmatch(
        r"master: 'local\[\*\]' given; Spark could not be started there \(.*\); allowed .*\. Spark's own messages are in (.*)\.", sentence
    )
    assert match
    assert str(tmp_path) in Path(match[1]).read_text()
    assert tree(lake.root) == before


@pytest.mark.parametrize("profile", profiles())
def test_every_profile_is_a_specification_that_fits_a_stream(lake: Lake, profile: str) -> None:
    engine = build(read_spec(profile))
    result = CliRunner().invoke(app, ["explain", profile, "--stream", "roads", "--lake", lake.root])
    assert result.exit_code == 0
    assert engine.explain() in result.stdout
    assert f"fingerprint: {engine.spec.fingerprint()}\n" in result.stdout
    assert all(column in result.stdout for column in ("decided (timestamp)", "count (int64)"))


def test_explain_needs_no_lake() -> None:
    result = CliRunner().invoke(app, ["explain", "slicing_sliding"])
    assert result.exit_code == 0
    assert "lookback: 20s" in result.stdout
    assert "results:" not in result.stdout


def test_techniques_are_listed_with_their_profiles() -> None:
    result = CliRunner().invoke(app, ["techniques"])
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["technique", "frames", "slicing"]
    assert "frames_threshold" in result.stdout


def test_a_lake_without_runs_lists_none(lake: Lake) -> None:
    result = CliRunner().invoke(app, ["runs", "--lake", lake.root])
    assert (result.exit_code, result.stdout.split()) == (0, ["run", "status", "technique", "streams", "tuples", "when"])


def test_runs_are_listed_whatever_else_lies_among_them(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    append(lake, "roads", stream(), file_rows=50)
    _keep_plan(plan_run(lake, read_spec("frames_threshold"), ["roads"], run="mine"))
    Path(lake.root, "runs", ".DS_Store").touch()
    Path(lake.root, "runs", "a b").mkdir()
    result = CliRunner().invoke(app, ["runs", "--lake", lake.root])
    assert (result.exit_code, result.stdout.splitlines()[1].split()[:2]) == (0, ["mine", "planned"])


def test_progress_tells_the_event_time_that_is_reached_and_the_watermark_behind_it() -> None:
    reached, behind = datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, 11, 50, tzinfo=UTC)
    now = Progress(batch=0, tuples=500, total=1000, late=3, results=1, clock=reached, watermark=behind, seconds=5.0)
    both = "at 2024-01-01 12:00:00, watermark 2024-01-01 11:50:00"
    assert tell(now) == f"500/1k tuples, 100/s, {both}, 3 late, 5 s left"
    assert _told(now) == f"batch 0: 500 of 1,000 tuples, 100/s, 3 late, {both}, 5 s left"
    first = replace(now, clock=None, watermark=None)
    assert "at its beginning" in tell(first)
    assert "watermark" not in tell(first) + _told(first)


def test_help_imports_nothing_that_takes_long() -> None:
    program = "import sys, orchestration.cli; print(*({'pyspark', 'pyarrow', 'numpy', 'numba', 'pydantic', 'dagster'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "\n"


def test_bench_is_loaded_when_it_is_called_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    def bench(only: str = "all") -> None:
        typer.echo(f"measured {only}")

    monkeypatch.setitem(sys.modules, "orchestration.bench.command", SimpleNamespace(bench=bench))
    result = CliRunner().invoke(app, ["bench", "--only", "sliding"])
    assert (result.exit_code, result.stdout) == (0, "measured sliding\n")
    monkeypatch.setitem(sys.modules, "orchestration.bench.command", None)
    result = CliRunner().invoke(app, ["bench"])
    assert result.exit_code == 1
    assert result.stderr.startswith("bench: it cannot be loaded (")
    assert CliRunner().invoke(app, ["techniques"]).exit_code == 0
