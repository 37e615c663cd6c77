"""Runs that are killed again and again, cancelled or failed: nothing is lost, nothing comes twice, nothing is half-published."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engines import build
from replay import log_writer
from replay.backfill import plan_days
from replay.lake import Lake, LakeError
from replay.plan import PLAN, Plan
from replay.publish import publish
from replay.runs import STATUS, Replayed, RunError, execute, plan_run
from tests.comparing import assert_same_rows, rows_of
from tests.replay.harness import SPECS, assert_published, in_process, published, stream, with_clock

pytestmark = pytest.mark.spark
SPEC = with_clock(SPECS["frames"], "an hour")
KILLS = 10


def planned(lake: Lake, table_seed: int = 21, **settings: int) -> Plan:
    log = log_writer.append(lake, "s", stream(table_seed, tuples=1200, behind_us=build(SPEC).clock("s").behind_us), file_rows=20)
    days = log.days()
    return plan_days(lake, SPEC, ["s"], days[0], days[-1], **{"batch_tuples": 20, **settings})


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_random_moments_again_and_again_ends_as_if_never_killed(lake: Lake, tmp_path: Path) -> None:
    plan = planned(lake)
    lake.write_json(plan.folder, PLAN, json.loads(plan.to_json()))
    rng, kills, seen = random.Random(4), 0, set[str]()
    for attempt in range(5 * KILLS):
        log = (tmp_path / f"attempt{attempt}.log").open("w+")
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.replay.crashing", lake.root, plan.run, "local[2]"],
            stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        if kills < KILLS:
            # From before the first batch has ended to a few batches later.
            batches = rng.randrange(0, 4)
            while line.startswith(("begun", "batch")) and batches:
                line, batches = process.stdout.readline(), batches - 1
            time.sleep(rng.uniform(0.0, 1.5))
            os.killpg(process.pid, signal.SIGKILL)
            kills += 1
        rest = process.stdout.read()
        process.wait()
        seen.add(line.strip())
        if "done" in line + rest:
            break
        assert kills <= KILLS and (process.returncode == -signal.SIGKILL), log.seek(0) or log.read()[-3000:]
    assert kills == KILLS, f"only {kills} kills before it was done"
    never = Replayed(in_process(None, planned(Lake(str(tmp_path / "never")))).plan, None)  # type: ignore[arg-type]
    killed = Replayed(plan, None)  # type: ignore[arg-type]
    identity = plan.operator.identity["results"]
    assert_same_rows(killed.table(), rows_of(never.table()), identity)
    assert_same_rows(killed.table("late"), rows_of(never.table("late")), ["arrival"], what="late")
    assert killed.metrics()["batch"].to_pylist() == list(range(len(never.metrics())))
    assert_published(lake, "frames__s", SPEC, stream(21, tuples=1200, behind_us=build(SPEC).clock("s").behind_us))


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
