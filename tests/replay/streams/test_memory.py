"""A task's memory does not grow with the file: ten times as much to read, the same peak."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from replay.streams.provide import TwinSettings, generate
from replay.streams.tasks import InProcess

MEASURE = """
import resource, sys
from replay.lake import Lake
from replay.streams.declaration import declaration
from replay.streams.ingest import ingest
from replay.streams.tasks import InProcess
name, warm, raw, lake = sys.argv[1:]
ingest(Lake(lake + "/warm"), declaration(name), Lake(warm), InProcess(), file_rows=100_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
done = ingest(Lake(lake), declaration(name), Lake(raw), InProcess(), file_rows=100_000)
print(done.records, before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
SMALL, LARGE = 400_000, 4_000_000


@pytest.mark.slow
@pytest.mark.parametrize(("stream", "compressed"), [("debs2013", False), ("traffic", False), ("debs2013", True)])
def test_ten_times_the_file_takes_the_same_memory(stream: str, compressed: bool, tmp_path: Path) -> None:
    """In one process, whose peak is taken after a small file and after a large one: files of the log are small beside it."""
    folders = {}
    for tuples in (SMALL, LARGE if not compressed else LARGE // 2):
        made = Path(generate(stream, str(tmp_path / str(tuples)), TwinSettings(tuples), InProcess()).root)
        parts = sorted(path for path in made.iterdir() if path.suffix != ".json")
        headers = 1 if stream == "traffic" else 0
        whole = tmp_path / f"{tuples}-whole"
        whole.mkdir()
        name = "full-game" if stream == "debs2013" else "t.csv"
        with gzip.open(whole / f"{name}.gz", "wb", 1) if compressed else (whole / name).open("wb") as out:
            for number, part in enumerate(parts):
                lines = part.read_bytes()
                out.write(lines if number == 0 or not headers else lines.partition(b"\n")[2])
        folders[tuples] = whole
    (small, warm), (large, raw) = folders.items()
    found = subprocess.run(
        [sys.executable, "-c", MEASURE, stream, str(warm), str(raw), str(tmp_path / "lake")],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3],
    ).stdout.split()  # fmt: skip
    records, before, after = map(int, found)
    assert records == large > small
    assert after <= 1.2 * before, f"{before / 1024:.0f} MB for {small:,} tuples, {after / 1024:.0f} MB for {large:,}"
