"""The run launcher: Dagster's own, which in addition notices that the process of a run is gone.

A code server marks the runs of its own children as failed when they die. But if the server dies with them (the machine is
switched off, `dagster dev` is killed), or a run was started from the command line, a run without a process would be under way
for ever, and all that waits for its end with it. Run monitoring asks here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import psutil
from dagster import DagsterEventType, DagsterRun, DefaultRunLauncher
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus

if TYPE_CHECKING:
    from dagster import EventLogEntry

_SERVER = ".dagster/grpc_info"
"""The tag of a run that names the code server that it was launched with."""
_HERE = ("localhost", "127.0.0.1", None)


class WatchedRunLauncher(DefaultRunLauncher):
    """Launches runs as processes of this machine, and tells whether they live."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        """Run monitoring may ask."""
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """Whether the process that told of itself in the run's events is still the same one, and lives."""
        if json.loads(run.tags.get(_SERVER, "{}")).get("host") not in _HERE:
            return CheckRunHealthResult(WorkerStatus.RUNNING, "its process is on another machine")
        told = [entry for entry in self._instance.all_logs(run.run_id, of_type=DagsterEventType.ENGINE_EVENT) if _pid(entry)]
        if not told or _lives(_pid(told[-1]) or 0, told[-1].timestamp):
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        gone = f"the process of this run, {_pid(told[-1])}, is gone: it was killed, or the machine went down"
        return CheckRunHealthResult(WorkerStatus.FAILED, f"{gone}. Launching the same again goes on where it stopped.")


def _pid(entry: EventLogEntry) -> int | None:
    """The process that an event names."""
    data = entry.dagster_event.engine_event_data if entry.dagster_event else None
    pid = data.metadata.get("pid") if data else None
    return int(str(pid.value)) if pid else None


def _lives(pid: int, seen: float) -> bool:
    """Whether a process is there that was when it was seen: numbers are given again."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.create_time() <= seen
    except psutil.NoSuchProcess:
        return False
