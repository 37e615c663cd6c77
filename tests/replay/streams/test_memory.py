"""Ten times the file, the same memory: measured in a process of its own, after it has read a file of each kind once."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replay.streams.columnar import Columnar, Group
from replay.streams.rejects import read_rejects
from tests.replay.streams.harness import Place, stream

MB = 1 << 20
SMALL, LARGE = 15 * MB, 150 * MB
SMALL_TEXTS, LARGE_TEXTS = 90 * MB, 450 * MB
"""A small file of texts too fills what is held at a time, which is told in bytes."""
NUMBERS = [{"name": "k", "type": "int32"}, {"name": "v", "type": "float64"}]
TEXTS = [{"name": f"s{n}", "type": "string"} for n in range(50)]
KINDS = {
    "plain, order: file": NUMBERS, "gzip, order: file": NUMBERS, "plain, order: time": NUMBERS,
    "plain, 50 texts, order: file": TEXTS, "gzip, 50 texts, order: file": TEXTS, "gzip, 50 texts, order: time": TEXTS,
}  # fmt: skip


def lines_of(columns: list[dict[str, str]]) -> bytes:
    """Lines with these columns behind a time."""
    if columns == NUMBERS:
        return b"".join(b"%d,%d,%d.25\n" % (n, n % 50, n * 7919 % 100_003) for n in range(200_000))
    return b"".join(b"%d" % n + b",abcdefgh" * len(columns) + b"\n" for n in range(6_000))


def write(path: Path, size: int, block: bytes) -> int:
    """A file of about this size, before it is compressed, and how many lines it has."""
    packed = gzip.compress(block, compresslevel=1) if path.suffix == ".gz" else block
    blocks = -(-size // len(block))
    with path.open("wb") as file:
        for _ in range(blocks):
            file.write(packed)
    return blocks * block.count(b"\n")


def peak_of_ingesting(kind: str, size: int) -> int:
    """The most memory that this process had while it ingested such a file, in tasks of 8 MB and files of 100,000 rows."""
    declaration = stream(
        files={"pattern": "*.csv"},
        columns=[{"name": "t", "type": "int64"}, *KINDS[kind]], time={"column": "t", "format": "number"},
        key=KINDS[kind][0]["name"], order=kind.rpartition(" ")[2],
    )  # fmt: skip
    process, done, peak = psutil.Process(), threading.Event(), 0

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.002):
            now = process.memory_info()
            peak = max(peak, now.rss - now.shared)  # pages of staged files that are mapped are the system's, which can take them back

    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        place.raw.mkdir()
        lines = write(place.raw / ("a.csv.gz" if kind.startswith("gzip") else "a.csv"), size, lines_of(KINDS[kind]))
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
    assert list(peaks) == list(KINDS)
    for kind, (small, large) in peaks.items():
        assert large < 1.2 * small, f"{kind}: {small // MB} MB for a small file, {large // MB} MB for a large one"
        assert large - small < 60 * MB  # most of it is the libraries: the file itself would be more than this
    assert max(large for _, large in peaks.values()) < 1000 * MB  # nor is a small file read in memory that would do for a large one


@pytest.mark.slow
def test_thousands_of_columns_are_read_in_the_memory_of_a_block(tmp_path: Path) -> None:
    # Fields as they stand there, and lines that lack all but the first: either would be gigabytes if columns were set aside by lines.
    names = [f"c{n}" for n in range(3000)]
    header = ",".join(["t", *names]) + "\n"
    whole = "".join(f"{n}" + ",ab" * len(names) + "\n" for n in range(300))
    place = Place(tmp_path)
    place.write({"a.csv": header + whole + "1\n" * 4_000})
    script = (
        "import sys, psutil; from pathlib import Path; from tests.replay.streams.harness import Place, stream;"
        "d = stream(files={'pattern': '*.csv', 'header': True, 'short_records': True}, time={'column': 't', 'format': 'number'},"
        "columns=[{'name': 't', 'type': 'int64'}, *({'name': f'c{n}', 'type': 'string'} for n in range(3000))]);"
    )
    assert megabytes_of_ingesting(tmp_path, script) < 500
    assert place.log().end == 4_300


@pytest.mark.slow
def test_a_million_rejects_are_held_a_few_at_a_time(tmp_path: Path) -> None:
    place, lines = Place(tmp_path), 1_000_000  # in one block
    place.write({"a.csv": "1,1\n" + "x\n" * lines})
    script = (
        "import sys, psutil; from pathlib import Path; from tests.replay.streams.harness import Place, stream;"
        "d = stream(files={'pattern': '*.csv'}, time={'column': 't', 'format': 'number'},"
        "columns=[{'name': 't', 'type': 'int64'}, {'name': 'v'}]);"
    )
    assert megabytes_of_ingesting(tmp_path, script) < 480  # all of them would be 600
    assert len(place.rows()) == 1 and read_rejects(place.lake, "s").num_rows == lines


def megabytes_of_ingesting(root: Path, script: str) -> int:
    """How much memory a process of its own takes in addition when it ingests the files of a place by the declaration `d` of a script."""
    script += (
        "before = psutil.Process().memory_info().rss; Place(Path(sys.argv[1])).ingest(d, file_rows=1000);"
        # Not getrusage: to it the memory of whoever started this process counts too.
        "peak = next(int(line.split()[1]) << 10 for line in open('/proc/self/status') if line.startswith('VmHWM'));"
        "print((peak - before) >> 20)"
    )
    command = [sys.executable, "-c", script, str(root)]
    ran = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout)


class Counted(io.BytesIO):
    """A file that counts what is read of it."""

    done = 0

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self.done += len(found)
        return found


def test_the_first_rows_of_a_row_group_are_there_before_much_of_it_is_read() -> None:
    rows, names = 1_000_000, ["a", "b", "c"]
    file, draws = Counted(), np.random.default_rng(0)
    table = pa.table({name: draws.random(rows) for name in names})
    pq.write_table(table, file, row_group_size=rows, use_dictionary=False)
    reader = Columnar({name: name for name in names}, dict.fromkeys(names, pa.float64()))
    pieces = reader.read(SimpleNamespace(open_input_file=lambda _: pa.PythonFile(file, mode="r")), Group("a", 0, rows, 0))
    first = next(pieces)
    assert file.done < 0.2 * len(file.getbuffer())
    assert pa.concat_tables([first.table, *(piece.table for piece in pieces)]).equals(table)


def main() -> None:
    """In the process that is measured: for each kind the peak with a small and with a large file."""
    sizes = {kind: (SMALL_TEXTS, LARGE_TEXTS) if KINDS[kind] == TEXTS else (SMALL, LARGE) for kind in KINDS}
    for kind, (small, _) in sizes.items():
        peak_of_ingesting(kind, small)
    print(json.dumps({kind: [peak_of_ingesting(kind, small), peak_of_ingesting(kind, large)] for kind, (small, large) in sizes.items()}))
