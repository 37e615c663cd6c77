"""What belongs to a run and can be told without Spark: its name, its plan, what is kept of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from py4j.protocol import Py4JError

from engines import build
from engines.spec import SpecError
from replay import local, log_writer, runs
from replay.backfill import plan_days
from replay.claims import claimed
from replay.lake import Lake, LakeError
from replay.log import day_end
from replay.metrics import metrics_of
from replay.plan import PLAN, Plan
from replay.progress import STATUS, Progress, Watch, note_status
from replay.runs import RunError, _keep_plan, cause_of, execute, load_plan, plan_run, remove_old
from replay.source import LogReader
from tests.comparing import assert_same_rows, rows_of
from tests.replay.harness import HOUR, SPECS, in_process, stream


def test_a_plan_survives_being_written_down(lake: Lake) -> None:
    log_writer.append(lake, "s", stream(1), file_rows=50)
    plan = plan_run(lake, SPECS["frames"], ["s"], batch_tuples=70, speed=60.0)
    assert Plan.from_json(plan.to_json()) == plan


def test_a_plan_is_made_of_typed_specifications_and_durations_too(lake: Lake) -> None:
    log_writer.append(lake, "s", stream(1))
    spec = {**SPECS["frames"], "delay": "1h"}
    plans = [plan_run(lake, given, ["s"], run="r") for given in (spec, build(spec).spec, {**spec, "delay": timedelta(minutes=60)})]
    assert plans[0] == plans[1] == plans[2] == Plan.from_json(plans[0].to_json())


def test_runs_are_removed_some_time_after_they_ended_and_never_while_they_run(lake: Lake) -> None:
    log_writer.append(lake, "s", stream(1))
    for run, status in (("done", "succeeded"), ("stopped", "cancelled"), ("busy", "running")):
        plan = plan_run(lake, SPECS["frames"], ["s"], run=run)
        in_process(None, plan)
        note_status(plan, status)
    (Path(lake.root) / "runs" / ".DS_Store").touch()
    (Path(lake.root) / "runs" / "a b").mkdir()
    assert remove_old(lake, timedelta(hours=1)) == []
    with claimed(lake, lake.address("runs", "busy")):
        assert sorted(remove_old(lake, timedelta(0))) == ["done", "stopped"]
    assert sorted(folder.name for folder in (Path(lake.root) / "runs").iterdir()) == [".DS_Store", "a b", "busy"]
    # Nobody holds it any more: its process was killed before it could say so.
    assert remove_old(lake, timedelta(0)) == ["busy"]


def test_the_keys_to_a_store_are_not_written_down_and_may_change(lake: Lake) -> None:
    log_writer.append(lake, "s", stream(1))
    plan = plan_run(Lake(lake.root, {"secret": "abracadabra"}), SPECS["frames"], ["s"], run="mine")
    _keep_plan(plan)
    assert "abracadabra" not in (Path(plan.folder) / PLAN).read_text()
    again = load_plan(Lake(lake.root, {"secret": "new"}), "mine")
    _keep_plan(again)
    assert again.lake.storage_options == {"secret": "new"}
    assert replace(again, lake=plan.lake) == plan


def test_speed_and_time_left_count_what_this_process_did() -> None:
    progress = Progress(batch=3, tuples=700, total=1000, late=0, results=0, clock=None, watermark=None, seconds=2.0, before=300)
    assert progress.tuples_per_second == 200 and progress.seconds_left == 1.5


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"batch_tuples": 0}, "batch_tuples: 0 given; allowed is a whole number from 1."),
        ({"buckets": -1}, "buckets: -1 given; allowed is a whole number from 1."),
        ({"speed": 0.0}, "speed: 0.0 given; allowed is 'max' or a positive number."),
        ({"speed": float("inf")}, "speed: inf given; allowed is 'max' or a positive number."),
        ({"run": "a/b"}, "run: 'a/b' given; allowed is a name without '/'."),
    ],
)
def test_settings_that_no_run_can_have_are_refused(lake: Lake, settings: dict[str, Any], sentence: str) -> None:
    log_writer.append(lake, "s", stream(1))
    with pytest.raises(SpecError) as refused:
        plan_run(lake, SPECS["frames"], ["s"], **settings)
    assert str(refused.value) == sentence
    assert not (Path(lake.root) / "runs").exists()


@pytest.mark.parametrize("name", ["watermark", "Watermark"])
def test_a_column_that_late_tuples_have_of_their_own_is_refused(lake: Lake, name: str) -> None:
    table = stream(1).append_column(name, pa.array(range(stream(1).num_rows)))
    log_writer.append(lake, "s", table)
    sentence = f"{name}: a column of the stream has this name, under which late tuples have another; allowed is any other name."
    for refusing in (lambda: plan_run(lake, SPECS["frames"], ["s"]), lambda: local.run(build(SPECS["frames"]), table)):
        with pytest.raises(SpecError) as refused:
            refusing()
        assert str(refused.value) == sentence
    assert not (Path(lake.root) / "runs").exists()


def test_streams_have_to_be_named_once(lake: Lake) -> None:
    with pytest.raises(SpecError, match=r"streams: \['s', 's'\] given; allowed are one or several with different names\."):
        plan_run(lake, SPECS["frames"], ["s", "s"])


def test_a_run_that_is_not_there_is_named(lake: Lake) -> None:
    with pytest.raises(LakeError, match="run nobody: there is none in"):
        load_plan(lake, "nobody")


def test_what_went_wrong_is_told_by_whoever_raised_it_not_by_those_it_passed_through() -> None:
    passed = "py4j.Py4JException: An exception was raised by the Python Proxy.\n  at org.apache\nSQLSTATE: 39000 SQLSTATE: XXKST"
    raised = f"pyspark.errors.Captured: it failed\n{passed}\nreplay.lake.LakeError: log a: there is none.\nCaused by: java.Other: b"
    assert cause_of(Exception(raised)) == "replay.lake.LakeError: log a: there is none."
    inside = f"org.apache.Stream: it failed\nCaused by: org.apache.Outer: x\nCaused by: java.io.IOException: No space left\n{passed}"
    assert cause_of(Exception(inside)) == "java.io.IOException: No space left"
    assert cause_of(Exception("something else\nand more")) == "something else"


def test_a_run_does_not_go_on_with_a_log_that_was_written_anew(lake: Lake) -> None:
    """Half of its batches would be of the one log, half of the other, and it would be published as of the latter."""
    log = log_writer.append(lake, "s", stream(1))
    plan = plan_run(lake, SPECS["frames"], ["s"])
    _keep_plan(plan)
    lake.remove_folder(log.address)
    log_writer.append(lake, "s", stream(2))
    told = f"run {plan.run}: the log of 's' was removed and written anew since the run was begun, .*; remove runs/{plan.run}."
    with pytest.raises(LakeError, match=told):
        runs.execute(None, load_plan(lake, plan.run))  # type: ignore[arg-type]
    with pytest.raises(LakeError, match=told):
        LogReader(load_plan(lake, plan.run)).latestOffset({"read": {"s": 0}, "flushed": False}, None)  # type: ignore[arg-type]


class Gone:
    """A query as py4j shows it when the JVM was killed: nobody answers."""

    def __init__(self, problem: BaseException) -> None:
        self._problem = problem

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802
        raise self._problem

    def stop(self) -> None:
        raise ConnectionRefusedError(111, "Connection refused")


def test_a_run_whose_jvm_is_gone_has_failed_and_says_so(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    log_writer.append(lake, "s", stream(1))
    plan = plan_run(lake, SPECS["frames"], ["s"])
    monkeypatch.setattr(runs, "_start", lambda *_: Gone(Py4JError("An error occurred while calling o104.awaitTermination")))
    with pytest.raises(RunError) as failed:
        runs.execute(None, plan)  # type: ignore[arg-type]
    told = "Spark's JVM has ended, killed perhaps for want of memory"
    assert str(failed.value) == f"run {plan.run}: it failed ({told}); resume the run."
    status = lake.read_json(plan.folder, STATUS)
    assert status is not None and (status["status"], status["reason"]) == ("failed", told)


def test_a_run_that_is_terminated_with_its_jvm_is_cancelled(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    log_writer.append(lake, "s", stream(1))
    plan = plan_run(lake, SPECS["frames"], ["s"])
    monkeypatch.setattr(runs, "_start", lambda *_: Gone(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        runs.execute(None, plan)  # type: ignore[arg-type]
    assert (lake.read_json(plan.folder, STATUS) or {}).get("status") == "cancelled"


def test_metrics_of_a_run_are_its_own_and_in_order(lake: Lake) -> None:
    log_writer.append(lake, "s", stream(1), file_rows=50)
    for run in ("a", "b"):
        in_process(None, plan_run(lake, SPECS["frames"], ["s"], run=run, batch_tuples=50))
    found = metrics_of(lake, "a")
    assert set(found["run"].to_pylist()) == {"a"}
    assert found["batch"].to_pylist() == list(range(found.num_rows))
    assert sum(found["tuples"].to_pylist()) == stream(1).num_rows
    assert metrics_of(lake, "a", "b").num_rows == 2 * found.num_rows
    assert metrics_of(lake, "c").num_rows == 0


def test_the_name_of_a_run_that_is_gone_is_not_used_again(lake: Lake) -> None:
    log_writer.append(lake, "s", stream(1))
    plan = plan_run(lake, SPECS["frames"], ["s"], run="mine")
    _keep_plan(plan)
    in_process(None, plan)
    lake.remove_folder(plan.folder)
    with pytest.raises(RunError, match="run mine: the lake's metrics know a run of this name, which is gone; give this one another name."):
        _keep_plan(plan)
    with pytest.raises(RunError, match="run mine: the lake's metrics know a run of this name"):
        execute(None, plan)  # type: ignore[arg-type] - refused before Spark is asked for anything
    assert not Path(plan.folder).exists()


@pytest.mark.parametrize("flush", [True, False])
def test_final_rows_of_a_run_are_those_that_nothing_to_come_can_change(lake: Lake, flush: bool) -> None:
    spec = {**SPECS["short windows"], "delay": "1h", "lateness": "5h"}
    table = stream(3, behind_us=6 * HOUR)
    log_writer.append(lake, "s", table)
    run = in_process(None, plan_run(lake, spec, ["s"], flush=flush, batch_tuples=50))
    here = local.run(build(spec), table, batch_rows=50, flush=flush)
    assert_same_rows(
        run.final().drop_columns(["revision"]),
        rows_of(here.final.drop_columns(["revision"])),
        plan_run(lake, spec, ["s"]).operator.identity["results"],
    )
    assert here.results.num_rows > here.final.num_rows


def test_progress_tells_the_event_time_that_was_read_and_the_watermark_behind_it(lake: Lake) -> None:
    table = stream(3)
    log = log_writer.append(lake, "s", table)
    spec = {**SPECS["short windows"], "delay": "2h", "lateness": "3h"}
    plan = plan_days(lake, spec, ["s"], log.days()[0], log.days()[1])
    in_process(None, plan)
    watch = Watch(plan)
    watch.add(metrics_of(lake, plan.run))
    now = watch.progress()
    assert now.clock == pc.max(table.slice(0, plan.span.end["s"])["ts"]).as_py()
    # What is published is final, and no further than the end of the days: so is the watermark.
    assert now.watermark == min(now.clock - timedelta(hours=5), datetime.fromtimestamp(day_end(log.days()[1]) / 1e6, UTC))
