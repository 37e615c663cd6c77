"""On a Spark standalone cluster, a master and two workers, replays and ingestions give the same tables; also if a worker dies."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from replay import log_writer
from replay.backfill import plan_days
from replay.lake import Lake
from replay.plan import PLAN
from replay.streams.declaration import declaration
from replay.streams.manifest import read_manifest
from tests.replay.harness import ONE_OF_EACH, assert_published, stream, with_clock
from tests.replay.streams.harness import Place
from tests.replay.streams.ingesting import FILE_ROWS, SPLIT_BYTES
from tests.replay.streams.test_spark_ingestion import machine_lines

pytestmark = [pytest.mark.spark, pytest.mark.slow]
EACH = [with_clock(spec, "an hour") for spec in ONE_OF_EACH.values()]
ROOT = Path(__file__).parents[2]


class Cluster:
    """A master and two workers of one core each, on localhost."""

    def __init__(self, folder: Path) -> None:
        self._spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        self._folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.master = self._start("master.Master", "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0")
        self._until("master.Master", "I have been elected leader")
        self.workers = [self._worker(n) for n in range(2)]
        self._registered(0, 1)

    def mend(self) -> None:
        """Start workers again that were killed."""
        dead = [n for n, worker in enumerate(self.workers) if worker.poll() is not None]
        for n in dead:
            self.workers[n] = self._worker(n)
        self._registered(*dead)

    def stop(self) -> None:
        for process in (*self.workers, self.master):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _worker(self, n: int) -> subprocess.Popen[bytes]:
        address = f"spark://127.0.0.1:{self.port}"
        options = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1500m", "--webui-port", "0", "-d", str(self._folder / f"work{n}")]
        return self._start("worker.Worker", address, *options, log=f"worker{n}")

    def _start(self, what: str, *arguments: str, log: str | None = None) -> subprocess.Popen[bytes]:
        out = (self._folder / f"{log or what}.log").open("wb")
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        command = [self._spark_class, f"org.apache.spark.deploy.{what}", *arguments]
        return subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)

    def _registered(self, *workers: int) -> None:
        for n in workers:
            self._until(f"worker{n}", "Successfully registered with master")

    def _until(self, log: str, text: str) -> None:
        for _ in range(600):
            if text in (self._folder / f"{log}.log").read_text():
                return
            time.sleep(0.2)
        raise AssertionError((self._folder / f"{log}.log").read_text()[-2000:])


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


@pytest.fixture
def cluster(started: Cluster) -> Cluster:
    """The cluster with both of its workers, whatever the test before did to them."""
    started.mend()
    return started


@pytest.mark.parametrize(
    ("spec", "killed"),
    [(EACH[0], False), *((spec, True) for spec in EACH[1:])],
    ids=[f"{EACH[0]['technique']}, both workers live", *(f"{spec['technique']}, one worker is killed" for spec in EACH[1:])],
)
def test_a_cluster_gives_the_same_tables(cluster: Cluster, lake: Lake, tmp_path: Path, spec: dict[str, Any], killed: bool) -> None:
    table = stream(31, tuples=600, behind_us=3_600_000_000)
    days = log_writer.append(lake, "s", table, file_rows=20).days()
    plan = plan_days(lake, spec, ["s"], days[0], days[-1], batch_tuples=100)
    lake.write_json(plan.folder, PLAN, json.loads(plan.to_json()))
    errors = (tmp_path / "driver.log").open("w+")
    command = [sys.executable, "-m", "tests.replay.crashing", lake.root, plan.run, f"spark://127.0.0.1:{cluster.port}"]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT, start_new_session=True)
    assert driver.stdout is not None
    lines = []
    for line in driver.stdout:
        lines.append(line.strip())
        if killed and line.startswith("batch 1"):
            os.killpg(cluster.workers[0].pid, signal.SIGKILL)
    driver.wait()
    assert lines[-1:] == ["done"], errors.seek(0) or errors.read()[-3000:]
    assert (cluster.workers[0].poll() is not None) == killed
    assert_published(lake, f"{spec['technique']}__s", spec, table)


def test_a_cluster_ingests_the_log_of_one_process(cluster: Cluster, tmp_path: Path) -> None:
    here, there = Place(tmp_path / "here"), Place(tmp_path / "there")
    content = machine_lines(400)
    assert len(content) > 8 * SPLIT_BYTES
    alone = here.ingest(declaration("debs2012"), {"allData.txt": content}, file_rows=FILE_ROWS)
    there.write({"allData.txt": content})
    command = [sys.executable, "-m", "tests.replay.streams.ingesting", str(there.root), "debs2012", f"spark://127.0.0.1:{cluster.port}"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=200)
    done = {
        executor: int(tasks) for _, executor, tasks in (line.split() for line in ran.stdout.splitlines() if line.startswith("executor"))
    }
    assert done.pop("driver", 0) == 0, ran.stderr[-3000:]
    assert len(done) == 2 and min(done.values()) > 2, f"{done} {ran.stderr[-3000:]}"  # each worker did its part
    assert there.rows("debs2012") == here.rows("debs2012") and len(here.rows("debs2012")) > 300
    assert there.rejects("debs2012") == here.rejects("debs2012") != []
    manifest = read_manifest(there.lake, "debs2012")
    assert manifest is not None and manifest.files == alone.manifest.files
    assert there.log("debs2012").first.tolist() == here.log("debs2012").first.tolist()
