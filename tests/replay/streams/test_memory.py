"""Ten times the file, the same memory: measured in a process of its own, after it has read a file of each kind once."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import psutil
import pytest

from tests.replay.streams.harness import Place, stream

MB = 1 << 20
SMALL, LARGE = 15 * MB, 150 * MB
KINDS = ["plain, order: file", "gzip, order: file", "plain, order: time"]


def write(path: Path, size: int) -> int:
    """A file of about this size, before it is compressed, and how many lines it has."""
    block = b"".join(b"%d,%d,%d.25\n" % (n, n % 50, n * 7919 % 100_003) for n in range(200_000))
    packed = gzip.compress(block, compresslevel=1) if path.suffix == ".gz" else block
    blocks = -(-size // len(block))
    with path.open("wb") as file:
        for _ in range(blocks):
            file.write(packed)
    return blocks * 200_000


def peak_of_ingesting(kind: str, size: int) -> int:
    """The most memory that this process had while it ingested such a file, in tasks of 8 MB and files of 100,000 rows."""
    declaration = stream(
        files={"pattern": "*.csv"},
        columns=[{"name": "t", "type": "int64"}, {"name": "k", "type": "int32"}, {"name": "v", "type": "float64"}],
        time={"column": "t", "format": "number"}, key="k", order=kind.rpartition(" ")[2],
    )  # fmt: skip
    process, done, peak = psutil.Process(), threading.Event(), 0

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.002):
            peak = max(peak, process.memory_info().rss)

    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        place.raw.mkdir()
        lines = write(place.raw / ("a.csv.gz" if kind.startswith("gzip") else "a.csv"), size)
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            ingested = place.ingest(declaration, split_bytes=8 * MB, file_rows=100_000)
        finally:
            done.set()
            watcher.join()
        if ingested.records != lines or place.log().end != lines:
            raise AssertionError(f"{lines} lines, {ingested.records} records, {place.log().end} rows")
    return peak


@pytest.mark.slow
def test_the_memory_of_an_ingestion_does_not_grow_with_the_file() -> None:
    command = [sys.executable, "-c", "import tests.replay.streams.test_memory as here; here.main()"]
    ran = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    peaks = json.loads(ran.stdout.splitlines()[-1])
    assert list(peaks) == KINDS
    for kind, (small, large) in peaks.items():
        assert large < 1.2 * small, f"{kind}: {small // MB} MB for {SMALL // MB} MB, {large // MB} MB for {LARGE // MB} MB"
        assert large - small < 60 * MB  # most of it is the libraries: the file itself would be more than this


def main() -> None:
    """In the process that is measured: for each kind the peak with a small and with a large file."""
    for kind in KINDS:
        peak_of_ingesting(kind, SMALL)
    print(json.dumps({kind: [peak_of_ingesting(kind, SMALL), peak_of_ingesting(kind, LARGE)] for kind in KINDS}))
