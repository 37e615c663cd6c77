"""Planning reads statistics, never data; and memory follows the batch, never the length of the stream."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest

from engines import build
from engines.contract import TIMESTAMP
from replay import local, log_writer
from replay.backfill import plan_days
from replay.lake import Lake
from replay.log import FIRST_CHANGED, Log
from replay.plan import PLAN
from replay.runs import plan_run
from replay.source import LogReader, Pieces
from tests.comparing import assert_same_rows, rows_of
from tests.replay.harness import SPECS, START, in_process, stream, with_clock

SPEC = with_clock(SPECS["short windows"], "an hour")


def test_planning_a_whole_run_needs_no_data_file(lake: Lake) -> None:
    log = log_writer.append(lake, "s", stream(1), file_rows=10)
    for path in log.paths:  # what is not there cannot be opened
        (Path(log.address) / path).unlink()
    plan = plan_days(lake, SPEC, ["s"], log.days()[1], log.days()[-2], batch_tuples=25)
    reader = LogReader(plan)
    offset, planned = reader.initialOffset(), 0
    while (end := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
        tasks = [task for task in reader.partitions(offset, end) if isinstance(task, Pieces)]
        planned += sum(part.take for task in tasks for part in task.files)
        offset = end
    assert planned == plan.span.end["s"] - plan.span.begin["s"] > 100


def test_batches_are_whole_files_and_cut_one_only_if_it_is_larger(lake: Lake) -> None:
    log_writer.append(lake, "s", stream(1, tuples=100, days=0.5), file_rows=20)

    def ends(**settings: int) -> list[int]:
        reader = LogReader(plan_run(lake, SPEC, ["s"], **settings))
        offset, found = reader.initialOffset(), []
        while (end := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
            found.append(end["read"]["s"])
            offset = end
        assert offset["flushed"]
        return found

    assert ends(batch_tuples=50) == [40, 80, 100, 100]
    assert ends(batch_tuples=8)[:6] == [8, 16, 20, 28, 36, 40]
    assert ends(batch_tuples=1000, batch_files=3) == [60, 100, 100]


@pytest.mark.parametrize(("batch_tuples", "file_rows"), [(1, 4), (7, 1), (7, 1000), (1000, 3)])
@pytest.mark.parametrize("name", ["short windows", "frames"])
def test_no_row_depends_on_where_batches_are_cut_or_files_end(lake: Lake, name: str, batch_tuples: int, file_rows: int) -> None:
    """Through the source, which knows of files ahead what a replay in this process does not; there sizes are tried by the thousand."""
    spec = with_clock(SPECS[name], "an hour")
    table = stream(7, tuples=30, behind_us=build(spec).clock("s").behind_us)
    log_writer.append(lake, "s", table, file_rows=file_rows)
    run = in_process(None, plan_run(lake, spec, ["s"], batch_tuples=batch_tuples, buckets=2, tasks=3))
    whole = local.run(build(spec), table)
    assert_same_rows(run.final(), rows_of(whole.final), whole.operator.identity["results"])
    assert_same_rows(run.table("late"), rows_of(whole.late), ["arrival"], what="late")
    totals = {column: sum(run.metrics()[column].to_pylist()) for column in ("tuples", "late")}
    assert totals == {"tuples": table.num_rows, "late": whole.late.num_rows} and whole.late.num_rows > 0


@pytest.mark.parametrize("beside", [[], ["emptied"]], ids=["alone", "beside a log without tuples"])
def test_a_paced_replay_follows_the_arrival_of_tuples_and_not_their_times(
    lake: Lake, beside: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tuple a second, of times that are a day apart."""
    table = stream(1, tuples=100)
    table = table.append_column("arrived", pa.array(START + np.arange(100) * 1_000_000))
    log_writer.append(lake, "s", table, file_rows=1000)
    for name in beside:
        log = log_writer.append(lake, name, table)
        days = [day.isoformat() for day in log.days()]
        log_writer.commit(lake, log.address, log.schema, [], {FIRST_CHANGED: "0"}, onto=log, replacing=days)
    reader = LogReader(plan_run(lake, SPEC, ["s", *beside], speed=10.0))
    now = 0.0
    monkeypatch.setattr("replay.source.time.monotonic", lambda: now)
    offset, read = reader.initialOffset(), []
    for now in (0.0, 2.0, 5.0, 10.0):  # noqa: B007 - the clock
        offset = reader.latestOffset(offset, reader.getDefaultReadLimit())
        read.append(offset["read"]["s"])
    assert read == pytest.approx([0, 20, 50, 100], abs=1)


def test_a_log_is_read_at_the_version_it_was_planned_with(lake: Lake) -> None:
    table = stream(1)
    log_writer.append(lake, "s", table.slice(0, 200), file_rows=50)
    plan = plan_run(lake, SPEC, ["s"])
    log_writer.append(lake, "s", table.slice(200), file_rows=50)
    assert plan.logs["s"].end == 200
    assert Log.open(lake, plan.logs["s"].address).end == 300
    assert Log.open(lake, plan.logs["s"].address).first_changed_since(0) == 200


@pytest.mark.spark
@pytest.mark.slow
def test_ten_times_the_stream_takes_the_same_memory(lake: Lake, tmp_path: Path) -> None:
    """Each in a process of its own, whose Java is limited anyway: what counts is its Python, and the largest of its workers.

    A first one is not measured: it compiles the kernels, into a cache that no other process touches, for the compiler takes more
    memory than they ever do.
    """

    def tuples(count: int) -> Iterator[pa.Table]:
        rng = np.random.default_rng(0)
        for first in range(0, count, 250_000):
            ts = START + np.arange(first, first + 250_000) * 10_000
            yield pa.table({"ts": pa.array(ts, TIMESTAMP), "key": rng.integers(0, 50, 250_000), "v": rng.normal(size=250_000)})

    peaks = {}
    logs = {
        name: log_writer.append(lake, name, tuples(count), file_rows=125_000) for name, count in (("short", 500_000), ("long", 5_000_000))
    }
    for name in ("short", "short", "long"):
        days = logs[name].days()
        plan = plan_days(lake, SPEC, [name], days[0], days[-1], batch_tuples=250_000)
        lake.write_json(plan.folder, PLAN, json.loads(plan.to_json()))
        peaks[name] = _peaks([sys.executable, "-m", "tests.replay.crashing", lake.root, plan.run, "local[2]"], tmp_path / "kernels")
    told = {name: [f"{peak / 1e6:.0f} MB" for peak in found] for name, found in peaks.items()}
    assert all(long <= 1.2 * short for long, short in zip(peaks["long"], peaks["short"], strict=True)), told


def _peaks(command: list[str], cache: Path) -> tuple[int, int]:
    """The most memory of its own that the command's process had at any time, and that any Python process under it had."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], env=environment, **quiet) as process:
        driver = worker = 0
        me = psutil.Process(process.pid)
        while process.poll() is None:
            with suppress(psutil.Error):
                driver = max(driver, me.memory_full_info().uss)
                for child in me.children(recursive=True):
                    with suppress(psutil.Error):
                        # By its program: what Java is about to start is for a moment still Java, under the name of a thread.
                        if "python" in Path(child.exe()).name:
                            worker = max(worker, child.memory_full_info().uss)
            time.sleep(0.05)
    assert process.returncode == 0
    return driver, worker
