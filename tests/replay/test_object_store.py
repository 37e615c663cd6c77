"""A lake in an object store: everything goes through its client, which knows no folders, locks or buffers.

The store is a folder of this machine, opened by the client that opens all others. Spark's checkpoints need a client of Hadoop's, which
is none of our packages: without one a replay is refused.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.fs as pafs
import pytest
from pyspark.sql import SparkSession

from replay import backfill, log_writer
from replay.lake import Lake
from replay.publish import published_days
from replay.runs import RunError, plan_run, start_query
from replay.streams.declaration import declaration
from tests.replay.harness import ONE_OF_EACH, assert_published, in_process, stream, with_clock
from tests.replay.streams.harness import Place
from tests.replay.streams.test_spark_ingestion import machine_lines


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every lake is taken for one in an object store; only that there the client misses a folder, so it is made."""
    files = Lake.files

    def of_store(self: Lake, address: str) -> pafs.FileSystem:
        Path(address).mkdir(parents=True, exist_ok=True)
        return files(self, address)

    monkeypatch.setattr(Lake, "local", property(lambda self: False))
    monkeypatch.setattr(Lake, "files", of_store)


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("technique", ONE_OF_EACH)
def test_days_are_replayed_published_and_replayed_again(lake: Lake, technique: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "execute", in_process)
    spec, table = with_clock(ONE_OF_EACH[technique], "an hour"), stream(7, behind_us=3_600_000_000)
    days = log_writer.append(lake, "s", table, file_rows=70).days()
    settings = {"batch_tuples": 60, "inline_state_bytes": 1}  # state in files, too
    backfill.backfill(None, lake, spec, ["s"], days[:2], **settings)  # type: ignore[arg-type]
    backfill.backfill(None, lake, spec, ["s"], **settings)  # type: ignore[arg-type]
    assert sorted(published_days(lake, f"{technique}__s")) == days
    assert_published(lake, f"{technique}__s", spec, table)


def test_raw_files_become_the_log_that_they_become_in_a_folder(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    places, contents = [Place(tmp_path / "folder"), Place(tmp_path / "store")], {"allData.txt": machine_lines(60)}
    for place in places:
        place.ingest(declaration("debs2012"), contents, split_bytes=2000, file_rows=20)
        request.getfixturevalue("stored")  # from the second on
    rows, rejects = [place.rows("debs2012") for place in places], [place.rejects("debs2012") for place in places]
    assert rows[0] == rows[1] != []
    assert rejects[0] == rejects[1] != []


@pytest.mark.spark
def test_a_store_that_spark_has_no_client_for_is_refused_before_anything_is_written(spark: SparkSession, lake: Lake) -> None:
    log_writer.append(lake, "s", stream(7), file_rows=1000)
    plan = replace(plan_run(lake, ONE_OF_EACH["frames"], ["s"]), lake=Lake("s3://bucket/lake"))
    sentence = "lake: s3://bucket/lake given; Spark has no client for 's3', and needs one for checkpoints. Allowed are folders, and stores"
    with pytest.raises(RunError, match=sentence):
        start_query(spark, plan, spark.readStream.format("rate").load(), {})
