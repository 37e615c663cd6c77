"""Dagster as a user has it: `dagster dev` with webserver, daemon and code server, asked and told what the UI asks and tells."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import URLError
from urllib.request import Request, urlopen

import psutil

from orchestration.instance import SETTINGS

ROOT = Path(__file__).parents[2]
ENDED = ("SUCCESS", "FAILURE", "CANCELED")
PATIENCE = 240
_REPOSITORY = {"repositoryName": "__repository__", "repositoryLocationName": "reprise"}
T = TypeVar("T")


def settings(home: Path, **changed: int) -> dict[str, str]:
    """An instance with the project's settings but for some numbers, and the environment that names it."""
    text = SETTINGS.read_text()
    for name, value in changed.items():
        text, times = re.subn(rf"\b{name}: \d+", f"{name}: {value}", text)
        assert times == 1, name
    home.mkdir(parents=True)
    (home / "dagster.yaml").write_text(text)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "DAGSTER_HOME": str(home), "PATH": path}


@contextmanager
def started(command: Sequence[str], env: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server for the time of a block; all processes that it started end with it."""
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT, env=env, stdout=out, stderr=out)
        try:
            yield process
        finally:
            family = [process, *psutil.Process(process.pid).children(recursive=True)] if process.poll() is None else []
            process.send_signal(signal.SIGTERM)
            for member in family:
                try:
                    member.wait(10)
                except (psutil.TimeoutExpired, subprocess.TimeoutExpired):
                    member.kill()


def eventually(what: Callable[[], T]) -> T:
    """What a question answers as soon as it answers something."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if answer := what():
            return answer
        time.sleep(0.2)
    raise AssertionError(f"nothing after {PATIENCE} s")


class Served:
    """A server that is asked by GraphQL."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/graphql"
        eventually(self._loaded)

    def ask(self, query: str, **variables: Any) -> Any:
        body = json.dumps({"query": query, "variables": variables}).encode()
        with urlopen(Request(self._url, body, {"Content-Type": "application/json"}), timeout=60) as answer:  # noqa: S310 - ours
            told = json.load(answer)
        assert "errors" not in told, told
        (found,) = told["data"].values()
        return found

    def _loaded(self) -> bool:
        try:
            return bool(self.ask("{ repositoriesOrError { ... on RepositoryConnection { nodes { name } } } }").get("nodes"))
        except (URLError, ConnectionError, TimeoutError):
            return False

    def tick(self, schedule: str) -> dict[str, Any]:
        """What a schedule asks for now: the code server evaluates it, as for the daemon."""
        told = self.ask(
            """mutation($of: ScheduleSelector!) { scheduleDryRun(selectorData: $of, timestamp: 1800000000) { ... on DryRunInstigationTick {
            evaluationResult { skipReason error { message } runRequests { tags { key value } assetSelection { path } } } } } }""",
            of={**_REPOSITORY, "scheduleName": schedule},
        )["evaluationResult"]
        assert told["error"] is None, told
        return dict(told)

    def launch(self, request: dict[str, Any], config: dict[str, Any] | None = None, **selector: Any) -> str:
        """Launch what a schedule asks for."""
        selector = {**_REPOSITORY, "pipelineName": "__ASSET_JOB", "assetSelection": request["assetSelection"], **selector}
        tags = [tag for tag in request.get("tags", []) if not tag["key"].startswith("dagster/schedule")]
        params = {"selector": selector, "mode": "default", "runConfigData": config or {}, "executionMetadata": {"tags": tags}}
        told = self.ask(
            "mutation($run: ExecutionParams!) { launchRun(executionParams: $run) { ... on LaunchRunSuccess { run { runId } } } }",
            run=params,
        )
        return str(told["run"]["runId"])

    def terminate(self, run: str) -> None:
        """What the button Terminate does."""
        told = self.ask("mutation($run: String!) { terminateRun(runId: $run) { __typename } }", run=run)
        assert told["__typename"] == "TerminateRunSuccess"

    def run(self, run: str) -> dict[str, Any]:
        """The status of a run, and when it began and ended."""
        return dict(self.ask("query($run: ID!) { runOrError(runId: $run) { ... on Run { status startTime endTime } } }", run=run))

    def ended(self, run: str) -> str:
        """The status that a run comes to."""
        return eventually(lambda: status if (status := self.run(run)["status"]) in ENDED else None)

    def lines(self, run: str) -> list[str]:
        """The messages of a run's events."""
        told = self.ask(
            """query($run: ID!) { runOrError(runId: $run) { ... on Run { eventConnection(limit: 1000) {
            events { ... on MessageEvent { message } } } } } }""",
            run=run,
        )
        return [event["message"] for event in told["eventConnection"]["events"] if event]

    def after_batches(self, run: str, count: int) -> list[str]:
        """The messages of a run that has come so many batches far; it must not have ended by then."""

        def looked() -> list[str] | None:
            lines = self.lines(run)
            assert self.run(run)["status"] not in ENDED, lines[-5:]
            return lines if sum(line.startswith("batch ") for line in lines) >= count else None

        return eventually(looked)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
