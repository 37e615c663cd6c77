"""Replays on a real Spark give what the same tuples give in this process, to the row."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engines import build
from engines.contract import TIMESTAMP
from replay import dataframe, local, log_writer
from replay.backfill import backfill
from replay.lake import Lake
from replay.log import Log
from replay.placement import labels
from replay.runs import Replayed, execute, load_plan, plan_run
from tests.comparing import assert_same_rows, replayed, rows_of
from tests.replay.harness import SPECS, assert_published, stream, with_clock

pytestmark = pytest.mark.spark


def assert_same_run(run: Replayed, spec: Mapping[str, Any], table: pa.Table, *, flush: bool = True) -> None:
    whole = local.run(build(spec), table, flush=flush)
    identity = whole.operator.identity["results"]
    assert_same_rows(run.final(), rows_of(whole.final), identity)
    assert_same_rows(run.table("late"), rows_of(whole.late), ["arrival"], what="late")
    metrics = run.metrics()
    assert sum(metrics["tuples"].to_pylist()) == table.num_rows
    assert sum(metrics["late"].to_pylist()) == whole.late.num_rows


@pytest.mark.parametrize(
    ("name", "clock", "batch_tuples", "buckets", "file_rows"),
    [
        ("short windows", "an hour", 100, 2, 30),
        ("short windows", "in order", 1000, 5, 300),
        ("frames", "an hour", 100, 2, 300),
        ("frames", "more than a day", 1000, 1, 30),
        ("long frames", "in order", 70, 5, 1000),
    ],
)
def test_spark_gives_what_this_process_gives(
    spark: SparkSession, lake: Lake, name: str, clock: str, batch_tuples: int, buckets: int, file_rows: int
) -> None:
    spec = with_clock(SPECS[name], clock)
    table = stream(7, behind_us=build(spec).clock("s").behind_us)
    log_writer.append(lake, "s", table, file_rows=file_rows)
    run = execute(spark, plan_run(lake, spec, ["s"], batch_tuples=batch_tuples, buckets=buckets))
    assert_same_run(run, spec, table)


def test_early_rows_revised_and_retracted_end_in_the_final_rows(spark: SparkSession, lake: Lake) -> None:
    spec = {**SPECS["frames"], "lateness": "30h"}
    table = stream(1, behind_us=30 * 3_600_000_000)
    log_writer.append(lake, "s", table, file_rows=40)
    run = execute(spark, plan_run(lake, spec, ["s"], batch_tuples=40))
    rows = rows_of(run.table())
    assert any(row["retracted"] for row in rows) and max(row["revision"] for row in rows) > 1
    identity = run.plan.operator.identity["results"]
    assert_same_rows(rows_of(run.final()), replayed(rows, identity), identity)
    assert_same_run(run, spec, table)


def test_the_same_log_twice_gives_the_same_bytes_in_order_of_key(spark: SparkSession, lake: Lake) -> None:
    spec = with_clock(SPECS["short windows"], "an hour")
    log_writer.append(lake, "s", stream(11), file_rows=60)
    first, second = (execute(spark, plan_run(lake, spec, ["s"], batch_tuples=120, early=False)).final() for _ in range(2))
    assert first.equals(second)
    metrics = lake.table(lake.metrics)
    assert metrics is not None and len(metrics.file_uris()) == 2 < metrics.to_pyarrow_table().num_rows  # one for each run


def test_two_streams_advance_together_and_a_short_one_holds_nothing_up(spark: SparkSession, lake: Lake) -> None:
    #   east  x--x-x---x-|                 its clock stops: once it is read to its end, the other goes on alone
    #   west  -x--x---x----x--x---x--x
    spec = with_clock(SPECS["short windows"], "an hour")
    east, west = stream(1, tuples=80, days=1), stream(2, tuples=200, days=3)
    log_writer.append(lake, "east", east, file_rows=30)
    log_writer.append(lake, "west", west, file_rows=30)
    run = execute(spark, plan_run(lake, spec, ["east", "west"], batch_tuples=60))
    named = [t.append_column("stream", pa.array([n] * t.num_rows)) for n, t in (("east", east), ("west", west))]
    whole = local.run(build(spec), pa.concat_tables(named))
    columns = [name for name in whole.final.schema.names if not name.startswith(("first", "last"))]  # ties between streams are free
    assert_same_rows(run.final().select(columns), rows_of(whole.final.select(columns)), whole.operator.identity["results"])
    late = ["stream", "ts", "v"]
    assert sorted(map(str, run.table("late").select(late).to_pylist())) == sorted(map(str, whole.late.select(late).to_pylist()))
    watermarks = run.metrics()["watermark"].to_pylist()
    assert max(mark for mark in watermarks if mark) > named[0]["ts"].to_pylist()[-1]


@pytest.mark.parametrize(
    ("files", "partitions", "buckets"), [(1, None, 2), (4, None, 5), (4, 3, 3)], ids=["a file", "several files", "dealt out row by row"]
)
@pytest.mark.parametrize("name", ["short windows", "frames"])
def test_a_dataframe_with_arrival_and_clock_gives_the_same(
    spark: SparkSession, lake: Lake, name: str, files: int, partitions: int | None, buckets: int
) -> None:
    #   micro-batch   | 0 .. 29 | 30 .. 59 | 60 .. 89 | 90 .. 119 |      four files, in two partitions or dealt out to three;
    #   Arrow batch   | 0 .. 16 | 17 .. 33 | ...                         17 rows each, so that some hold the end of one file and
    #                                                                    the beginning of another that is not the next
    spec = with_clock(SPECS[name], "an hour")
    table = stream(7, behind_us=3_600_000_000)
    log = log_writer.append(lake, "s", table, file_rows=30)
    own = spark.newSession()
    own.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "17")
    rows = own.readStream.schema(own.read.format("delta").load(log.address).schema).option("maxFilesPerTrigger", files)
    frame = rows.parquet(_in_order_of_arrival(log)).drop("day")
    frame = frame.repartition(partitions) if partitions else frame
    dataframe.start(frame, spec, lake, run="frame", available_now=True, buckets=buckets).awaitTermination()
    run = Replayed(load_plan(lake, "frame"), None)  # type: ignore[arg-type]
    assert run.metrics().num_rows == -(-len(log.paths) // files)
    assert None in table["key"].to_pylist() and run.table("late").num_rows
    assert_same_run(run, spec, table, flush=False)


def test_a_dataframe_without_a_clock_says_so_and_is_judged_by_batches(spark: SparkSession, lake: Lake) -> None:
    spec = with_clock(SPECS["short windows"], "an hour")
    table = stream(7, behind_us=3_600_000_000)
    log = log_writer.append(lake, "s", table, file_rows=1000)
    frame = spark.readStream.format("delta").load(log.address).select("ts", "key", "v")
    with pytest.warns(UserWarning, match="a micro-batch is the unit of arrival"):
        query = dataframe.start(frame, spec, lake, run="frame", available_now=True)
    query.awaitTermination()
    run = Replayed(load_plan(lake, "frame"), None)  # type: ignore[arg-type]
    # Everything came in one batch: nothing was known before it, so nothing is late.
    assert run.table("late").num_rows == 0
    assert sum(run.metrics()["tuples"].to_pylist()) == table.num_rows
    expected = local.run(build({**spec, "delay": "100d"}), table)
    counted = {(r["query"], r["key"], r["measure_end"]): r["tuples"] for r in rows_of(expected.final)}
    found = rows_of(run.table())
    assert found and all(counted[r["query"], r["key"], r["measure_end"]] == r["tuples"] for r in found)


def test_published_days_and_every_other_table_can_be_read_by_polars_and_spark(spark: SparkSession, lake: Lake) -> None:
    spec = with_clock(SPECS["frames"], "an hour")
    table = stream(7, behind_us=3_600_000_000)
    log = log_writer.append(lake, "s", table, file_rows=70)
    days = log.days()
    for wanted in ([days[2]], days[:2], None):
        backfill(spark, lake, spec, ["s"], wanted, batch_tuples=150)
    assert_published(lake, "frames__s", spec, table)
    tables = ["streams/s", "metrics", *(f"results/frames__s{o}" for o in ("", "__late", "__state", "__days"))]
    tables += [f"runs/{backfilled}/{o}" for backfilled in _runs(lake) for o in ("results", "late", "state")]
    for name in tables:
        by_polars = pl.read_delta(lake.inside(name))
        by_spark = spark.read.format("delta").load(lake.inside(name))
        assert by_polars.height == by_spark.count(), name
        assert set(by_polars.columns) == set(by_spark.columns), name


def test_spark_finds_values_that_are_no_numbers(spark: SparkSession, lake: Lake) -> None:
    """To Spark they are greater than every number, and it passes over files, and parts of them, by their greatest value."""
    log = log_writer.append(lake, "s", pa.table({"ts": pa.array([1, 2, 3], TIMESTAMP), "v": [1.0, math.nan, 2.0]}), file_rows=2)
    found = spark.read.format("delta").load(log.address)
    for condition, arrivals in {"v > 100": [1], "v > 1": [1, 2], "v < 2": [0], "isnan(v)": [1]}.items():
        assert sorted(row["arrival"] for row in found.where(condition).collect()) == arrivals, condition


def test_a_replay_at_a_given_speed_takes_its_time_and_gives_the_same(spark: SparkSession, lake: Lake) -> None:
    spec = with_clock(SPECS["short windows"], "an hour")
    table = stream(7, days=2)
    log_writer.append(lake, "s", table, file_rows=1000)
    run = execute(spark, plan_run(lake, spec, ["s"], speed=2 * 86_400 / 3))
    assert len(run.metrics()) > 2
    assert_same_run(run, spec, table)


def test_each_bucket_has_a_partition_of_its_own(spark: SparkSession) -> None:
    for count in (1, 2, 5, 16):
        rows = spark.createDataFrame([(label,) for label in labels(count)], "bucket int")
        places = rows.selectExpr(f"pmod(hash(bucket), {count}) AS place").collect()
        assert [row["place"] for row in places] == list(range(count))


def _in_order_of_arrival(log: Log) -> str:
    """A folder with the log's files, whose modification times are in order of arrival, as Spark's file source wants them."""
    folder = Path(log.address).parent / "files"
    folder.mkdir()
    for n, path in enumerate(log.paths):
        target = folder / f"{n:05d}.parquet"
        shutil.copy(Path(log.address) / path, target)
        os.utime(target, (1_700_000_000 + n, 1_700_000_000 + n))
    return str(folder)


def _runs(lake: Lake) -> list[str]:
    return [folder.name for folder in (Path(lake.root) / "runs").iterdir()]
