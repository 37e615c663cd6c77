"""Commands that run on Spark: as processes of their own, interrupted, made to fail, resumed.

Whether engines are right is tested elsewhere, so what runs leave behind is compared with a replay in this process. What the
command line refuses is in test_cli.py.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from typer.testing import CliRunner

from engines import build
from orchestration.cli import app
from orchestration.cli.given import read_spec
from replay import local
from replay.finals import final_rows
from replay.lake import Lake
from replay.log_writer import append
from tests.comparing import DEPENDS_ON_BATCHES, assert_same_rows, rows_of
from tests.orchestration.roads import HOURLY, REPRISE, stream

BATCH = 100
"""Tuples of a batch of the run that is stopped: so few that it is not through when ctrl-C comes."""


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


PROGRESS = re.compile(r"starting Spark|run \S+( \(\d of \d\))?: \w+ on roads.*|batch \d+: \S+ tuples, .* late(, .* left)?")


def unexpected(shown: str) -> list[str]:
    """The lines that are no progress: a sentence at the end, and nothing of Spark's talk."""
    return [line for line in shown.splitlines() if not PROGRESS.fullmatch(line)]


def finish(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """The runs that a command tells of at its end."""
    out, err = process.communicate(timeout=540)
    assert process.returncode == 0, err
    assert unexpected(err) == []
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
    assert unexpected(err) == [f"Stopped; 'reprise resume mine --lake {lake.root}' goes on from here."]
    assert listed(lake) == "cancelled"
    before = read(lake, lake.address("metrics")).num_rows
    assert 0 < before < len(stream()) // BATCH

    last = max(Path(lake.address("streams", "roads")).rglob("*.parquet"), key=lambda path: path.name)
    last.rename(tmp_path / "away")
    failed = start(lake, "resume", "mine")
    out, err = failed.communicate(timeout=540)
    assert (failed.returncode, out) == (1, "")
    (sentence,) = unexpected(err)
    match = re.fullmatch(r"run mine: it failed \(.*\); put right .*\. Spark's own messages are in (.*)\.", sentence)
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
    assert run["clock"] > run["watermark"]


def listed(lake: Lake) -> str:
    """The status of the only run, as it is listed."""
    result = CliRunner().invoke(app, ["runs", "--lake", lake.root])
    assert result.exit_code == 0, result.stderr
    _, row = result.stdout.splitlines()
    assert row.split()[0] == "mine"
    return row.split()[1]
