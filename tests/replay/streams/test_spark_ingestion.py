"""Ingestion on Spark gives the log that it gives in one process; Parquet and Delta are sources like any other."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from replay.streams.declaration import declaration
from replay.streams.provide import TwinSettings, generate
from replay.streams.tasks import InProcess, OnSpark
from tests.replay.streams.harness import Place, counts, stream


@pytest.mark.spark
@pytest.mark.parametrize("name", ["debs2012", "intel_lab"], ids=["in order of files", "in order of time"])
def test_spark_gives_the_log_of_one_process(name: str, spark: SparkSession, tmp_path: Path) -> None:
    folder = Path(generate(name, str(tmp_path / "twins"), TwinSettings(6000), InProcess()).root)
    contents = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".txt"}
    here, there = Place(tmp_path / "here"), Place(tmp_path / "there")
    one = here.ingest(declaration(name), contents, file_rows=1000)
    many = there.ingest(declaration(name), contents, OnSpark(spark), split_bytes=100_000, file_rows=1000)
    assert counts(one) == counts(many)
    assert here.rows(name) == there.rows(name)
    assert here.rejects(name) == there.rejects(name)
    assert here.log(name).first.tolist() == there.log(name).first.tolist()


@pytest.mark.spark
def test_a_sentence_of_a_task_on_spark_reaches_the_person(spark: SparkSession, tmp_path: Path) -> None:
    from replay.streams.parsed import StreamError

    wanted = stream(files={"pattern": "*.csv", "header": True}, columns=[{"name": "t", "type": "time"}], time={"column": "t"})
    with pytest.raises(StreamError, match=r"^file a.csv: the column 't' of the setting columns is missing; found are u\.$"):
        Place(tmp_path).ingest(wanted, {"a.csv": "u\n1\n"}, OnSpark(spark))


ROWS = pa.table({
    "when": pa.array([3, 1, 2, None], pa.timestamp("ms", tz="UTC")), "who": ["a", "b", "a", "c"],
    "n": pa.array([1.0, 2.0, float("nan"), 4.0]), "large": pa.array([1, 2, 3, 2**40]),
})  # fmt: skip
COLUMNS = [
    {"name": "when", "type": "time"},
    {"name": "who", "type": "string"},
    {"name": "n", "type": "float64"},
    {"name": "large", "type": "int32"},
]


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_columnar_sources_are_read_with_their_types(form: str, tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.raw.mkdir(parents=True)
    if form == "parquet":
        pq.write_table(ROWS, place.raw / "a", row_group_size=3)
    else:
        deltalake.write_deltalake(str(place.raw / "a"), ROWS)
    done = place.ingest(stream(files={"pattern": "a", "format": form}, columns=COLUMNS, time={"column": "when"}, key="who", order="time"))
    assert [(row["ts"], row["key"], row["n"], row["large"]) for row in place.rows()] == [(1000, "b", 2.0, 2), (3000, "a", 1.0, 1)]
    assert [(line, reason) for _, line, _, reason in place.rejects()] == [(3, "not a finite number: n"), (4, "not a whole number: large")]
    assert (done.records, done.rejected) == (4, 2)


def test_a_new_version_of_a_delta_source_is_read(tmp_path: Path) -> None:
    place = Place(tmp_path)
    wanted = stream(files={"pattern": "a", "format": "delta"}, columns=COLUMNS[:2], time={"column": "when"}, order="time")
    rows = ROWS.select(["when", "who"])
    deltalake.write_deltalake(str(place.raw / "a"), rows.slice(0, 2))
    place.ingest(wanted)
    assert place.ingest(wanted).read == []
    deltalake.write_deltalake(str(place.raw / "a"), rows.slice(2, 1), mode="append")
    assert place.ingest(wanted).read == ["a"]
    assert [row["ts"] for row in place.rows()] == [1000, 2000, 3000]
