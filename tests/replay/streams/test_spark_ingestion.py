"""On Spark the log is that of one process; and sources whose values have types already: Parquet and Delta."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from deltalake.exceptions import TableNotFoundError
from pyspark import TaskContext
from pyspark.sql import SparkSession

from replay.streams import splitting, tasks
from replay.streams.declaration import declaration
from replay.streams.parsed import StreamError
from replay.streams.provide import TwinSettings, generate
from replay.streams.tasks import InProcess, OnSpark
from tests.replay.streams.harness import Place, counts, nothing_but, stream, us


def machine_lines(count: int) -> str:
    """Lines of the machine, some glued, some broken, some with a spike in their time; a new day begins in the middle."""
    random_ = random.Random(1)
    start, lines = us("2012-02-22 23:59:58"), []
    for n in range(count):
        moment = np.datetime64(start + n * 10_000 + random_.choice([0, 0, 0, -30_000, 7_200_000_000 if n % 50 == 7 else 0]), "us")
        fields = [f"{moment}7+00:00", str(n), *[str(random_.randrange(20_000)) for _ in range(3)], *["0071"] * 7, *["1"] * 44]
        line = "\t".join(fields)
        lines.append(line.replace("0071", "x", 1) if n % 40 == 3 else line + ("" if n % 30 == 5 else "\r\n"))
    return "".join(lines)


def mote_lines(mote: int, count: int) -> str:
    random_ = random.Random(mote)
    rows = []
    for epoch in range(count):
        second = epoch * 31 + random_.randrange(20)
        clock = f"{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}.{random_.randrange(10**6)}"
        time = f"2004-03-0{1 + second // 86_400} {clock}"
        rows.append(f"{time} {epoch} {random_.choice([mote] * 20 + [65407])} {random_.choice(['19.5', '', 'x', '122.153'])} 37.1 45.08 2.7")
    return "\n".join(rows) + "\n"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("debs2012", {"allData.txt": machine_lines(400)}),  # order: file, and spikes at the edges of splits
        ("intel_lab", {"data.txt": "".join(mote_lines(mote, 300) for mote in (1, 2, 3)), "data-2.txt": mote_lines(4, 50)}),  # order: time
    ],
)
def test_many_spark_tasks_give_the_log_of_one_process(spark: SparkSession, tmp_path: Path, name: str, contents: dict[str, str]) -> None:
    here, there = Place(tmp_path / "here"), Place(tmp_path / "there")
    told: list[int] = []
    alone = here.ingest(declaration(name), contents, file_rows=100)
    spread = there.ingest(declaration(name), contents, OnSpark(spark, told.append), split_bytes=6_000, file_rows=100)
    assert sum(len(content) for content in contents.values()) > 6_000 * 8  # that many tasks
    assert there.rows(name) == here.rows(name) and len(here.rows(name)) > 300
    assert there.rejects(name) == here.rejects(name) != []
    assert spread.manifest.files == alone.manifest.files
    assert there.log(name).first.tolist() == here.log(name).first.tolist()
    assert sum(told) >= sum(len(content) for content in contents.values())  # who waits is told how far it is


@pytest.mark.spark
def test_a_refusal_in_a_spark_task_is_the_same_sentence(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path)
    with pytest.raises(StreamError, match="^file b.csv: the column 'detectorid' of the setting columns is missing; found are a, b.$"):
        place.ingest(declaration("traffic"), {"b.csv": "a,b\n1,2\n"}, OnSpark(spark))
    assert place.is_untouched("traffic")


@pytest.mark.spark
def test_a_full_disk_in_a_spark_task_is_told_in_a_sentence(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(splitting, "stage", full)
    place = Place(tmp_path)
    with pytest.raises(StreamError) as caught:
        place.ingest(declaration("intel_lab"), {"data.txt": mote_lines(1, 3)}, OnSpark(spark))
    assert str(caught.value) == (
        f"stream intel_lab: its tables in {place.lake.root} cannot be read or written ([Errno 28] No space left on device); "
        "nothing of this ingestion is stored."
    )
    assert place.is_untouched("intel_lab")


def no_table(number: int) -> int:
    if number == 1:
        raise TableNotFoundError("no log files")
    return number


@pytest.mark.spark
def test_an_error_of_a_table_in_a_spark_task_is_one_of_storage(spark: SparkSession) -> None:
    with pytest.raises(OSError, match="^no log files$"):
        OnSpark(spark)(no_table, [0, 1])


@pytest.mark.spark
def test_a_twin_that_spark_makes_is_the_twin_of_one_process(spark: SparkSession, tmp_path: Path) -> None:
    told: list[int] = []
    folders = [
        Path(generate("dye", str(tmp_path / name), TwinSettings(3_000, seed=4), tasks).root)
        for name, tasks in (("here", InProcess()), ("there", OnSpark(spark, told.append)))
    ]
    here, there = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
    assert here == there and sorted(here) == ["tow13.cnv", "tow4.cnv", "twin.json"]
    assert sum(told) == 3_000


def partition_of(number: int) -> tuple[int, int]:
    context = TaskContext.get()
    assert context is not None
    return number, context.partitionId()


@pytest.mark.spark
def test_very_many_small_files_are_few_tasks(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MOST_TASKS", 12)
    monkeypatch.setattr(tasks, "TASKS_A_CORE", 1)
    told: list[int] = []
    found = OnSpark(spark, told.append)(partition_of, range(100), lambda number: number)
    assert [number for number, _ in found] == list(range(100)) and sum(told) == sum(range(100))
    assert len({partition for _, partition in found}) == 12
    assert len({partition for _, partition in OnSpark(spark)(partition_of, range(7))}) == 7


# ---- Parquet and Delta ---------------------------------------------------------------------------------------------------

COLUMNS = [
    {"name": "t", "type": "time"},
    {"name": "k", "type": "string"},
    {"name": "i", "type": "int16", "range": [0, 1000]},
    {"name": "f", "type": "float64"},
]
#   arrival          0        1        2            3         4
#   ts               5 s      3 s    null: no time  4 s       9 s
TABLE = pa.table(
    {
        "f": pa.array([1.5, None, 2.5, float("nan"), -0.0, 7.5]),
        "more": [1] * 6,
        "i": pa.array([1, 2, 3, 4, 70_000, 1001], pa.int64()),
        "k": pa.array(["a", "NA", "c", "d", "e", "f"]),
        "t": pa.array([5_000_001_999, 3_000_000_000, None, 4_000_000_000, 9_000_000_000, 9_000_000_000], pa.timestamp("ns")),
    }
)
STORED = [(5_000_001, "a", 1, 1.5), (3_000_000, None, 2, None)]
REASONS = [(3, "missing: t"), (4, "not a finite number: f"), (5, "not a whole number: i"), (6, "out of range: i")]


def columnar(kind: str) -> dict[str, object]:
    return {"files": {"pattern": "*", "format": kind}, "columns": COLUMNS, "time": {"column": "t"}, "nulls": ["", "NA"]}


def test_parquet_is_read_by_the_names_of_its_columns_and_its_rows_are_lines(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.raw.mkdir()
    pq.write_table(TABLE, place.raw / "a.parquet", row_group_size=4)
    done = place.ingest(stream(**columnar("parquet")))
    assert nothing_but(place.rows(), "ts", "k", "i", "f") == STORED
    assert [(line, reason) for _, line, _, reason in place.rejects()] == REASONS
    assert '"i": 70000' in place.rejects()[2][2]  # the text of a record is its JSON
    assert [entry[1:] for entry in counts(done).values()] == [(6, 2, 4)]


@pytest.mark.parametrize("order", ["file", "time", "i"])
def test_parquet_with_any_row_groups_gives_the_same_log(tmp_path: Path, order: str) -> None:
    random_ = random.Random(order)
    table = pa.table(
        {
            "t": pa.array([random_.randrange(10**12) for _ in range(200)], pa.timestamp("us", tz="UTC")),
            "k": [random_.choice("abc") for _ in range(200)],
            "i": [random_.randrange(1100) for _ in range(200)],
            "f": [random_.random() for _ in range(200)],
        }
    )
    logs = []
    for rows in (1, 7, 200):
        place = Place(tmp_path / str(rows))
        place.raw.mkdir(parents=True)
        pq.write_table(table, place.raw / "a.parquet", row_group_size=rows)
        place.ingest(stream(**columnar("parquet"), order=order, key="k", max_jump="2h"), file_rows=30)
        logs.append((place.rows(), place.rejects(), place.log().first.tolist()))
    assert logs[0] == logs[1] == logs[2]
    assert len(logs[0][0]) > 50 and {reason.split(" ")[0] for _, _, _, reason in logs[0][1]} == {"more", "out"}


def test_numbers_in_parquet_count_units_as_in_text(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.raw.mkdir()
    pq.write_table(pa.table({"t": pa.array([10753295627242564, 10753295627999999]), "v": [1, 2]}), place.raw / "a.parquet")
    place.ingest(
        stream(
            files={"pattern": "*.parquet", "format": "parquet"},
            columns=[{"name": "t", "type": "int64"}, {"name": "v", "type": "int32"}],
            time={"column": "t", "format": "number", "unit": "ps"},
        )
    )
    assert nothing_but(place.rows(), "ts", "t") == [(10753295627, 10753295627242564), (10753295627, 10753295627999999)]


def test_a_delta_table_is_a_file_that_changes_with_its_version(tmp_path: Path) -> None:
    place = Place(tmp_path)
    source = place.raw / "calls"
    write_deltalake(source, TABLE.set_column(4, "t", TABLE["t"].cast(pa.timestamp("us"), safe=False)))
    delta = stream(**columnar("delta"))
    done = place.ingest(delta)
    assert list(counts(done)) == ["calls"]
    assert nothing_but(place.rows(), "ts", "k", "i", "f") == STORED
    assert sorted(reason for *_, reason in place.rejects()) == sorted(reason for _, reason in REASONS)
    assert place.ingest(delta).changed is None
    more = {"t": pa.array([8_000_000], pa.timestamp("us")), "k": ["z"], "i": pa.array([9], pa.int64()), "f": [0.5], "more": [1]}
    write_deltalake(source, pa.table(more), mode="append")
    place.ingest(delta)
    assert sorted(nothing_but(place.rows(), "ts", "k")) == [(3_000_000, None), (5_000_001, "a"), (8_000_000, "z")]
