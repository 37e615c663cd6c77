"""Runs that are killed again and again, cancelled or failed: nothing is lost, nothing comes twice, nothing is half-published."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engines import build
from replay import log_writer
from replay.backfill import plan_days
from replay.lake import Lake, LakeError
from replay.log import Log
from replay.plan import PLAN, Plan
from replay.publish import publish
from replay.runs import STATUS, Replayed, RunError, execute, plan_run
from tests.comparing import assert_same_rows, rows_of
from tests.replay.harness import ONE_OF_EACH, SPECS, assert_published, in_process, published, stream, with_clock

pytestmark = pytest.mark.spark
SPEC = with_clock(SPECS["frames"], "an hour")
KILLED = {f"{technique}__s": with_clock(spec, "an hour") for technique, spec in ONE_OF_EACH.items()}
KILLS = 10


def planned(lake: Lake, spec: Mapping[str, Any] = SPEC, *, tuples: int = 1200, **settings: int) -> Plan:
    days = logged(lake, tuples).days()
    return plan_days(lake, spec, ["s"], days[0], days[-1], **{"batch_tuples": 20, **settings})


def tuples_of(count: int) -> pa.Table:
    return stream(21, tuples=count, behind_us=build(SPEC).clock("s").behind_us)


def logged(lake: Lake, tuples: int) -> Log:
    """The log of so many tuples, written when it is first asked for."""
    there = lake.table(lake.address("streams", "s")) is not None
    return Log.open(lake, lake.address("streams", "s")) if there else log_writer.append(lake, "s", tuples_of(tuples), file_rows=20)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_random_moments_again_and_again_ends_as_if_never_killed(lake: Lake, tmp_path: Path) -> None:
    """A run of each technique, killed in turn, then each to its end; every other one has its state in files, however small it is."""
    plans = {name: planned(lake, spec, tuples=600, inline_state_bytes=(1 << 20, 1)[n % 2]) for n, (name, spec) in enumerate(KILLED.items())}
    for plan in plans.values():
        lake.write_json(plan.folder, PLAN, json.loads(plan.to_json()))
    rng = random.Random(4)
    for attempt, plan in enumerate([*islice(cycle(plans.values()), KILLS), *plans.values()]):
        log = (tmp_path / f"attempt{attempt}.log").open("w+")
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.replay.crashing", lake.root, plan.run, "local[2]"],
            stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        to_be_killed = attempt < KILLS
        if to_be_killed:
            # From before the first batch has ended to a few batches later.
            batches = rng.randrange(0, 4)
            while line.startswith(("begun", "batch")) and batches:
                line, batches = process.stdout.readline(), batches - 1
            time.sleep(rng.uniform(0.0, 1.5))
            os.killpg(process.pid, signal.SIGKILL)
        lines = [line, *process.stdout]
        process.wait()
        told = log.seek(0) or log.read()[-3000:]
        assert process.returncode == (-signal.SIGKILL if to_be_killed else 0), told
        assert ("done\n" in lines) != to_be_killed, f"attempt {attempt}: it was done before it was killed"
    for name, plan in plans.items():
        never = in_process(None, planned(Lake(str(tmp_path / name)), KILLED[name], tuples=600))
        killed = Replayed(plan, None)  # type: ignore[arg-type]
        assert_same_rows(killed.table(), rows_of(never.table()), plan.operator.identity["results"])
        assert_same_rows(killed.table("late"), rows_of(never.table("late")), ["arrival"], what="late")
        assert killed.metrics()["batch"].to_pylist() == list(range(len(never.metrics())))
        assert_published(lake, name, KILLED[name], tuples_of(600))


def test_a_cancelled_run_publishes_nothing_and_goes_on_where_it_stopped(spark: SparkSession, lake: Lake) -> None:
    plan = planned(lake, batch_tuples=150)
    stopped = []

    def interrupt(progress: object) -> None:
        stopped.append(progress)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(spark, plan, on_progress=interrupt)
    assert lake.read_json(plan.folder, STATUS)["status"] == "cancelled"  # type: ignore[index]
    assert lake.table(lake.address("results", "frames__s")) is None
    run = execute(spark, plan)
    assert lake.read_json(plan.folder, STATUS)["status"] == "succeeded"  # type: ignore[index]
    never = in_process(None, planned(Lake(lake.root + "2"), batch_tuples=150))
    assert_same_rows(run.table(), rows_of(never.table()), plan.operator.identity["results"])
    # The first process had ended batch 0: the second did not do it again.
    assert run.metrics()["batch"].to_pylist() == list(range(len(never.metrics())))


def test_a_run_whose_query_somebody_else_stops_has_not_succeeded_and_can_be_resumed(spark: SparkSession, lake: Lake) -> None:
    plan = planned(lake, batch_tuples=150)

    def stop(progress: object) -> None:
        for query in spark.streams.active:
            query.stop()

    with pytest.raises(
        RunError, match=f"run {plan.run}: its query was stopped before its end, though not by this process; resume the run."
    ):
        execute(spark, plan, on_progress=stop)
    assert lake.read_json(plan.folder, STATUS)["status"] == "cancelled"  # type: ignore[index]
    with pytest.raises(LakeError, match="it has not come to its end; resume it, and publish it then"):
        publish(plan)
    run = execute(spark, plan)
    never = in_process(None, planned(Lake(lake.root + "2"), batch_tuples=150))
    assert_same_rows(run.table(), rows_of(never.table()), plan.operator.identity["results"])


def test_a_run_that_fails_says_why_and_leaves_what_was_published(spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from replay.backfill import backfill

    plan = planned(lake, batch_tuples=400)
    monkeypatch.setattr("replay.backfill.execute", in_process)
    backfill(None, lake, SPEC, ["s"], batch_tuples=5000)  # type: ignore[arg-type]
    before = published(lake, "frames__s")
    victim = Path(lake.address("streams", "s")) / plan.logs["s"].paths[30]
    content = victim.read_bytes()
    victim.write_bytes(b"not a parquet file")
    with pytest.raises(RunError, match=rf"run {plan.run}: it failed \(.*Parquet.*\); put right what it says and resume the run\."):
        execute(spark, plan)
    assert published(lake, "frames__s").equals(before)
    victim.write_bytes(content)
    run = execute(spark, plan)
    assert_same_rows(run.final(), rows_of(in_process(None, planned(Lake(lake.root + "2"))).final()), plan.operator.identity["results"])


def test_a_run_goes_on_only_as_it_was_begun(spark: SparkSession, lake: Lake) -> None:
    log_writer.append(lake, "s", stream(1), file_rows=1000)
    execute(spark, plan_run(lake, SPEC, ["s"], run="mine"))
    other = {**SPEC, "delay": "1s"}
    with pytest.raises(RunError, match="run mine: it was begun with another spec; resume it as it was, or give this one another name."):
        execute(spark, plan_run(lake, other, ["s"], run="mine"))
