"""The command line as a person meets it: what it refuses, in which words, and what real runs of it leave behind.

Bad input is tried in this process and must leave the lake as it was. Runs are started as processes of their own, interrupted
and resumed; whether engines are right is tested elsewhere, so what they give is compared with a replay in this process.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import typer
import yaml
from deltalake import write_deltalake
from typer.testing import CliRunner

from engines import build
from engines.contract import TIMESTAMP
from orchestration.cli import app
from orchestration.cli.given import profiles, read_spec
from orchestration.cli.sentences import told
from replay import local
from replay.finals import final_rows
from replay.lake import Lake
from replay.log_writer import append
from replay.runs import RunError
from tests.comparing import DEPENDS_ON_BATCHES, assert_same_rows, rows_of

REPRISE = [sys.executable, "-c", "from orchestration.cli import main; main()"]
MIDNIGHT = 1_704_067_200_000_000
MINUTE = 60_000_000
BATCH = 100
HOURLY: dict[str, Any] = {
    "technique": "slicing",
    "delay": "10m",
    "queries": [
        {"name": "q", "window": {"kind": "tumbling", "length": "1h"}, "aggregates": [{"kind": "count"}, {"kind": "sum", "column": "v"}]}
    ],
}


def stream() -> pa.Table:
    """Three days, a tuple every ten minutes, some of them late; a slow night over each midnight.

    2024-01-01           2024-01-02           2024-01-03
    |--fast----------slow|slow--fast------slow|slow--fast------slow|
    """
    minutes = np.arange(0, 3 * 24 * 60, 10)
    hours = minutes // 60 % 24
    behind = np.where(np.arange(len(minutes)) % 7 == 5, 25, 0)
    return pa.table({
        "ts": pa.array(MIDNIGHT + (minutes - behind) * MINUTE).view(TIMESTAMP),
        "key": pa.array(np.where(np.arange(len(minutes)) % 3 == 0, "north", "south")),
        "v": pa.array(np.arange(len(minutes))),
        "speed": pa.array(np.where((hours >= 20) | (hours < 4), 20.0, 60.0)),
    })  # fmt: skip


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
        ({**HOURLY, "colour": "red"}, "colour: there is no such setting; 'red' was given."),
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
    assert found == sentence or sentence is None and found.startswith("specification PATH, line 1: it is not YAML (")


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
        (
            "--days all --publish-as ../x",
            "'results/../x__days': not a place in the lake LAKE; allowed are names of letters, digits, '_', '-' and '.'.",
        ),
        ("--again", "again: given without --days; allowed is it only with --days."),
        ("--one-by-one", "one_by_one: given without --days; allowed is it only with --days."),
        ("--publish-as mine", "publish_as: given without --days; allowed is it only with --days."),
        ("--batch-tuples 0", "batch_tuples: 0 given; allowed is a whole number from 1."),
        ("--batch-files -1", "batch_files: -1 given; allowed is a whole number from 1."),
        ("--speed fast", "speed: 'fast' given; allowed are 'max' and positive numbers."),
        ("--speed 0", "speed: '0' given; allowed are 'max' and positive numbers."),
        ("--speed nan", "speed: 'nan' given; allowed are 'max' and positive numbers."),
        ("--run ../x", "'runs/../x': not a place in the lake LAKE; allowed are names of letters, digits, '_', '-' and '.'."),
        ("--stream roads", "streams: ['roads', 'roads'] given; allowed are one or several different ones."),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(refused: Callable[..., str], options: str, sentence: str) -> None:
    assert refused("replay", "frames_threshold", "--stream", "roads", *options.split()) == sentence


def test_a_run_that_is_not_there_cannot_be_resumed(refused: Callable[..., str]) -> None:
    assert refused("resume", "none") == "run none: there is none in LAKE."


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
    match = re.fullmatch(r"Spark could not be started on local\[\*\] \(.*\)\. Spark's own messages are in (.*)\.", sentence)
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


def expected(spec: dict[str, Any]) -> tuple[list[dict[str, Any]], local.Run]:
    """The final rows of a replay in this process, which nobody stopped."""
    run = local.run(build(spec), stream())
    return rows_of(run.final.drop_columns(list(DEPENDS_ON_BATCHES))), run


def read(lake: Lake, address: str) -> pa.Table:
    table = lake.table(address)
    assert table is not None
    return table.to_pyarrow_table()


def start(lake: Lake, *arguments: str) -> subprocess.Popen[str]:
    """A command in a process group of its own, as a shell starts it: ctrl-C reaches all processes of it."""
    command = [*REPRISE, *arguments, "--lake", lake.root, "--master", "local[2]", "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0)


LINES = re.compile(r"starting Spark|run \S+( \(\d of \d\))?: \w+ on roads.*|batch \d+: \S+ tuples, .* late(, .* left)?")


def finish(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """The runs that a command tells of at its end; nothing of Spark's talk is seen on the way."""
    out, err = process.communicate(timeout=540)
    assert process.returncode == 0, err
    assert [line for line in err.splitlines() if not LINES.fullmatch(line)] == []
    document: dict[str, Any] = json.loads(out)
    assert list(document) == ["runs"]
    return list(document["runs"])


@pytest.mark.spark
@pytest.mark.slow
def test_days_are_replayed_one_by_one_and_published_until_all_stand(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    append(lake, "roads", stream(), file_rows=50)
    backfill = ["replay", "frames_threshold", "--stream", "roads", "--days", "all", "--publish-as", "jams"]
    runs = finish(start(lake, *backfill, "--one-by-one"))

    days = ["2024-01-01", "2024-01-02", "2024-01-03"]
    assert [run["days"] for run in runs] == [[day, day] for day in days]
    assert [run["published"]["days"][0]["day"] for run in runs] == days
    assert [run["published"]["days"][0]["sealed"] for run in runs] == [True, True, False]
    published = read(lake, lake.address("results", "jams"))
    assert {run["published"]["address"] for run in runs} == {lake.address("results", "jams")}
    assert sum(run["published"]["days"][0]["results"] for run in runs) == published.num_rows
    for run in runs:
        assert run["results"] == read(lake, run["outputs"]["results"]).num_rows
    rows, replayed = expected(read_spec("frames_threshold"))
    assert len(rows) > 3
    assert_same_rows(published.drop_columns(["day"]), rows, replayed.operator.identity["results"])

    # A sealed day stands, and so does the last one as long as its log has not grown: Spark is not even started.
    again = CliRunner().invoke(app, [*backfill, "--lake", lake.root])
    assert again.exit_code == 0
    assert again.stdout.startswith("There is nothing to do: all of these days are published and stand")
    assert json.loads(CliRunner().invoke(app, [*backfill, "--lake", lake.root, "--json"]).stdout) == {"runs": []}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1200)  # three JVMs, one after the other
def test_a_run_that_was_stopped_and_then_failed_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    append(lake, "roads", stream(), file_rows=50)
    (tmp_path / "hourly.yaml").write_text(yaml.safe_dump(HOURLY))

    stopped = start(lake, "replay", str(tmp_path / "hourly.yaml"), "--stream", "roads", "--batch-tuples", str(BATCH), "--run", "mine")
    assert stopped.stderr is not None
    for line in stopped.stderr:
        if line.startswith("batch"):
            break
    os.killpg(stopped.pid, signal.SIGINT)
    out, err = stopped.communicate(timeout=300)
    assert (stopped.returncode, out) == (130, "")
    assert err.splitlines()[-1] == f"Stopped; 'reprise resume mine --lake {lake.root}' goes on from here."
    assert listed(lake) == "cancelled"
    before = read(lake, lake.address("metrics")).num_rows
    assert 0 < before < len(stream()) // BATCH

    last = max(Path(lake.address("streams", "roads")).rglob("*.parquet"), key=lambda path: path.name)
    last.rename(tmp_path / "away")
    failed = start(lake, "resume", "mine")
    out, err = failed.communicate(timeout=540)
    assert (failed.returncode, out) == (1, "")
    match = re.fullmatch(r"run mine: it failed \(.*\); put right .*\. Spark's own messages are in (.*)\.", err.splitlines()[-1])
    assert match
    assert last.name in Path(match[1]).read_text()
    Path(match[1]).unlink()
    assert listed(lake) == "failed"

    (tmp_path / "away").rename(last)
    (run,) = finish(start(lake, "resume", "mine"))
    assert listed(lake) == "succeeded"
    rows, replayed = expected(HOURLY)
    identity = replayed.operator.identity["results"]
    found, metrics = read(lake, run["outputs"]["results"]), read(lake, lake.address("metrics"))
    assert_same_rows(final_rows(found, identity).drop_columns(list(DEPENDS_ON_BATCHES)), rows, identity)
    assert (run["run"], run["days"], run["published"]) == ("mine", None, None)
    assert run["tuples"] == len(stream()) == sum(metrics["tuples"].to_pylist())
    assert run["late"] == replayed.late.num_rows == read(lake, run["outputs"]["late"]).num_rows > 0
    assert run["results"] == found.num_rows
    assert run["batches"] == metrics.num_rows > before
    assert run["tuples_per_second"] > 0


def listed(lake: Lake) -> str:
    """The status of the only run, as it is listed."""
    result = CliRunner().invoke(app, ["runs", "--lake", lake.root])
    assert result.exit_code == 0, result.stderr
    _, row = result.stdout.splitlines()
    assert row.split()[0] == "mine"
    return row.split()[1]
