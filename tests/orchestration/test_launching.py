"""Runs as processes of their own, launched by Dagster's daemon: terminated, killed, marked as failed, and recovered by the schedule."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
import pytest
from polars.testing import assert_frame_equal

from tests.orchestration.driving import TRAFFIC, Platform
from tests.orchestration.serving import ROOT, Served, eventually, free_port, settings, started

SCHEDULE = "next_day_of_frames__traffic"
SLOWLY = {"resources": {"workplace": {"config": {"batch_tuples": 6}}}}
"""So few tuples a batch that a run of a day is still under way when something befalls it."""
WAITING = """
import dagster as dg, pathlib, sys, time

@dg.op
def wait():
    while not pathlib.Path(sys.argv[1]).exists():
        time.sleep(0.1)

@dg.job(executor_def=dg.in_process_executor)
def waiting():
    wait()

with dg.DagsterInstance.get() as instance:
    waiting.execute_in_process(instance=instance)
"""


def why(asked: dict[str, Any]) -> str:
    (request,) = asked["runRequests"]
    return str({tag["key"]: tag["value"] for tag in request["tags"]}["reprise/why"])


def went_on(lines: list[str], how: str) -> int:
    """After how many batches a run says that it goes on."""
    (said,) = [found for line in lines if (found := re.search(rf"goes on: {how} after (\d+) batches", line))]
    return int(said[1])


@pytest.mark.spark
@pytest.mark.slow
def test_a_day_that_is_terminated_and_then_killed_is_recovered_by_the_schedule(tmp_path: Path) -> None:
    """The second of four days.

    run 1  |--batches--Terminate|
    run 2     |queued for the pool...|--goes on--SIGKILL|
    ingestion    |not queued|
    run 3                                               |tick--goes on----published, checked|
    """
    platform = Platform(tmp_path)
    env = settings(tmp_path / "home", poll_interval_seconds=2, max_concurrent_runs=2)
    with dg.DagsterInstance.from_config(env["DAGSTER_HOME"]) as platform.instance:
        platform.month(4)
        first, second, third, _ = platform.days
        assert platform.replay(first, checks=True).success
    before = platform.published()
    env |= {"REPRISE_LAKE": platform.workplace.lake, "REPRISE_RAW": platform.workplace.raw, "REPRISE_MASTER": "local[2]"}
    port = free_port()
    command = ["dagster", "dev", "-w", "workspace.yaml", "-h", "127.0.0.1", "-p", str(port)]
    with started(command, env, tmp_path / "dev.log"):
        dagster = Served(port)
        asked = dagster.tick(SCHEDULE)
        assert why(asked) == f"{second} is not published yet"
        request = asked["runRequests"][0]
        one = dagster.launch(request, SLOWLY)
        eventually(lambda: dagster.run(one)["startTime"])
        assert dagster.tick(SCHEDULE)["skipReason"] == f"Run {one[:8]} of frames on traffic is started."
        two = dagster.launch(request, SLOWLY)
        ingestion = dagster.launch({"assetSelection": [{"path": TRAFFIC.path}]}, assetCheckSelection=[])
        # What was launched later and writes elsewhere has its turn; what would write the same results has not.
        eventually(lambda: dagster.run(ingestion)["startTime"])
        dagster.after_batches(one, 2)
        assert dagster.run(two)["status"] == "QUEUED"
        dagster.terminate(one)
        assert dagster.ended(one) == "CANCELED"
        (folder,) = (Path(platform.workplace.lake) / "runs").glob(f"frames__traffic-{second}-*")
        assert json.loads((folder / "status.json").read_text())["status"] == "cancelled"
        assert_frame_equal(platform.published(), before)

        lines = dagster.after_batches(two, 1)
        stopped = went_on(lines, "it was cancelled")
        assert stopped >= 2
        (pid,) = {int(found[1]) for line in lines if (found := re.fullmatch(r"Started process for run \(pid: (\d+)\)\.", line))}
        worker = psutil.Process(pid)
        family = worker.children(recursive=True)
        assert any("java" in process.name() for process in family)
        for process in (worker, *family):
            process.kill()
        assert dagster.ended(two) == "FAILURE"
        assert dagster.run(two)["startTime"] >= dagster.run(one)["endTime"]
        assert_frame_equal(platform.published(), before)

        asked = dagster.tick(SCHEDULE)
        assert why(asked) == f"{second} is not published yet; run {two[:8]} of it failed"
        three = dagster.launch(asked["runRequests"][0], SLOWLY)
        assert dagster.ended(three) == "SUCCESS", dagster.lines(three)[-5:]
        lines = dagster.lines(three)
        assert went_on(lines, "its process died") > stopped
        assert "Asset check 'exact_values_are_equal' on 'frames/traffic' passed." in lines
        assert why(dagster.tick(SCHEDULE)) == f"{third} is not published yet"

    never = Platform(tmp_path / "never")
    never.month(4)
    assert all(never.replay(day).success for day in (first, second))
    assert platform.published().height > before.height
    assert_frame_equal(platform.published(), never.published(), rel_tol=1e-12, abs_tol=0)


@pytest.mark.slow
def test_a_run_without_a_process_is_marked_as_failed_and_one_with_a_process_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is left who started them: as after the machine was switched off, or a command was killed."""
    env = settings(tmp_path / "home", poll_interval_seconds=1)
    monkeypatch.setenv("DAGSTER_HOME", env["DAGSTER_HOME"])
    with dg.DagsterInstance.get() as instance:
        # The instance is there by now: two processes that make its tables at once would be in each other's way.
        processes = [subprocess.Popen([sys.executable, "-c", WAITING, str(tmp_path / "end")], env=env, cwd=ROOT) for _ in range(2)]

        def runs(status: dg.DagsterRunStatus) -> list[dg.DagsterRun]:
            return list(instance.get_runs(dg.RunsFilter(statuses=[status])))

        def pids(run: dg.DagsterRun) -> set[str]:
            return {str(found[1]) for entry in instance.all_logs(run.run_id) if (found := re.search(r"\(pid: (\d+)\)", entry.message))}

        try:
            eventually(lambda: sum(bool(pids(run)) for run in runs(dg.DagsterRunStatus.STARTED)) == 2)
            killed, living = processes
            killed.kill()
            killed.wait()
            with started(["dagster._daemon", "run", "--empty-workspace"], env, tmp_path / "daemon.log"):
                (failed,) = eventually(lambda: runs(dg.DagsterRunStatus.FAILURE))
                assert pids(failed) == {str(killed.pid)}
                told = [entry.message for entry in instance.all_logs(failed.run_id)]
                assert any(f"the process of this run, {killed.pid}, is gone" in line for line in told)
                (tmp_path / "end").touch()
                (succeeded,) = eventually(lambda: runs(dg.DagsterRunStatus.SUCCESS))
                assert pids(succeeded) == {str(living.pid)}
        finally:
            for process in processes:
                process.kill()
                process.wait()
