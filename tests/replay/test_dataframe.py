"""Rows of a DataFrame on their way to the buckets, and what is refused; that Spark gives the same answer is in test_spark.py."""

from __future__ import annotations

import random
import re
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from engines import build
from engines.contract import TIMESTAMP, Interval
from engines.spec import SpecError
from engines.state import unpack
from replay import dataframe, local, log_writer
from replay.bucket import Bucket
from replay.dataframe import _Lift, _Ship
from replay.envelope import TUPLES, Envelope
from replay.finals import final_rows
from replay.lake import Lake, LakeError
from replay.placement import labels
from replay.plan import Plan, serialised
from replay.progress import STATUS
from replay.runs import Replayed, load_plan, remove_old
from replay.span import Span
from tests.comparing import assert_same_rows, rows_of
from tests.replay.harness import HOUR, SPECS, START, stream, with_clock

HOURS: dict[str, Any] = {"technique": "slicing", "queries": [
    {"name": "q", "window": {"kind": "tumbling", "length": "1h"}, "aggregates": [{"kind": "sum", "column": "v"}]}]}  # fmt: skip
STORES = "org.apache.spark.sql.execution.streaming.state"
EXAMPLE = (Path(__file__).parents[2] / "docs/dataframes.md").read_text()


def plan_of(lake: Lake, spec: Mapping[str, Any], schema: pa.Schema, buckets: int = 4) -> Plan:
    span = Span({"stream": 0}, {"stream": 0}, flush=False)
    return Plan(run="r", spec=spec, lake=lake, streams={"stream": ("", 0)}, span=span, columns=serialised(schema), buckets=buckets)


def envelopes_of(batches: Iterator[pa.RecordBatch]) -> list[Envelope]:
    return [Envelope(*row.values()) for batch in batches for row in batch.to_pylist()]


def logged(lake: Lake, table: pa.Table) -> pa.Table:
    """The tuples with their arrival and clock, in order of arrival."""
    log = log_writer.append(lake, "s", table)
    # Where a file has no nulls its columns say so.
    files = [pq.read_table(Path(log.address) / path, partitioning=None) for path in log.paths]
    return pa.concat_tables(files, promote_options="default").sort_by("arrival")


@pytest.mark.parametrize("key", ["mote", None], ids=["another column", "the column key"])
def test_tuples_of_one_key_meet_in_one_bucket_whatever_column_holds_it(lake: Lake, key: str | None) -> None:
    n = 60
    rows = pa.record_batch({
        "ts": pa.array(range(n), TIMESTAMP), "key": [f"k{i % 7}" for i in range(n)], "mote": [i % 11 or None for i in range(n)],
        "v": [1.0] * n,
    })  # fmt: skip
    plan = plan_of(lake, {"technique": "frames", "key": key, "frame": {"where": "v > 0"}}, rows.schema)
    homes = defaultdict(set)
    for envelope in envelopes_of(_Ship(plan)([rows])):
        if envelope.kind == TUPLES:
            for value in unpack(envelope.payload)[key or "key"].to_pylist():
                homes[value].add(envelope.bucket)
    assert len(homes) == (11 if key else 7)
    assert all(len(buckets) == 1 for buckets in homes.values())
    assert len(set.union(*homes.values())) > 1


@pytest.mark.parametrize("name", ["short windows", "frames"])
@pytest.mark.parametrize("deal", ["in turn", "as they were read", "at random"])
def test_rows_of_a_micro_batch_may_be_dealt_to_partitions_in_any_order(lake: Lake, name: str, deal: str) -> None:
    #   arrival       0 1 2 3 4 5 6 7 | 8 9 ...       two micro-batches; each is dealt to three partitions,
    #   partition 0   0 . . 3 . . 6 . |               whose Arrow batches hold 17 rows
    #   partition 1   . 1 . . 4 . . 7 |
    spec = with_clock(SPECS[name], "an hour")
    table = stream(3, behind_us=HOUR)
    rows = logged(lake, table)
    plan, rng = plan_of(lake, spec, rows.schema, buckets=3), random.Random(5)
    group = {place: Bucket(plan.engine, plan.operator, ["stream"], plan.span.emission(early=True)) for place in labels(3)}
    lifted: list[list[int]] = []
    lift = plan.operator.lift
    plan.operator.columns = (*plan.operator.columns, *({"arrival"} - set(plan.operator.columns)))

    def seen(tuples: pa.RecordBatch, alone: Interval) -> pa.RecordBatch:
        lifted.append(tuples["arrival"].to_pylist())
        return lift(tuples, alone)

    plan.operator.lift = seen  # type: ignore[method-assign]
    outputs = defaultdict(list)
    for first in range(0, rows.num_rows, 150):
        arrivals = list(range(first, min(first + 150, rows.num_rows)))
        if deal == "at random":
            rng.shuffle(arrivals)
        parts = [arrivals[n::3] for n in range(3)] if deal == "in turn" else [arrivals[:40], arrivals[80:] + arrivals[40:80]]
        dealt = [rows.take(pa.array(part)).combine_chunks().to_batches(max_chunksize=17) for part in parts]
        envelopes = [envelope for batches in dealt for envelope in envelopes_of(_Lift(plan)(batches))]
        rng.shuffle(envelopes)  # as a shuffle brings them
        for place, bucket in group.items():
            for output, some in bucket.step(e for e in envelopes if e.bucket == place).outputs:
                outputs[output].append(some)
    assert len(lifted) > 2 * 3 and all(some == sorted(some) for some in lifted)
    whole = local.run(build(spec), table, flush=False)
    identity = whole.operator.identity["results"]
    assert_same_rows(final_rows(pa.concat_tables(outputs["results"]), identity, whole.reached), rows_of(whole.final), identity)
    assert_same_rows(pa.concat_tables(outputs["late"]), rows_of(whole.late), ["arrival"], what="late")
    assert whole.late.num_rows and None in table["key"].to_pylist()


def test_envelopes_know_the_first_arrival_of_their_rows(lake: Lake) -> None:
    rows = logged(lake, stream(3, tuples=20)).combine_chunks().to_batches()[0]
    backwards = [rows.slice(12), rows.slice(0, 12).take(pa.array(range(11, -1, -1)))]
    plan = plan_of(lake, HOURS, rows.schema)
    assert {(e.seq, e.upto) for e in envelopes_of(_Lift(plan)(backwards))} == {(12, 20), (0, 12)}


@pytest.mark.parametrize(("column", "row"), [("ts", 1), ("arrival", 0), ("clock", 2)])
@pytest.mark.parametrize("rows", [3, 1], ids=["some", "all"])
def test_nulls_are_told_where_they_are_met(lake: Lake, column: str, row: int, rows: int) -> None:
    given = {"ts": pa.array([START] * 3, TIMESTAMP), "arrival": pa.array([0, 1, 2]), "clock": pa.array([START] * 3), "v": [1.0] * 3}
    given[column] = pc.replace_with_mask(given[column], pa.array([n == row for n in range(3)]), pa.nulls(1, given[column].type))
    batch = pa.record_batch(given).slice(row if rows == 1 else 0, rows)
    plan = plan_of(lake, HOURS, batch.schema)
    sentence = re.escape(f"{column}: null in 1 of {rows} rows; every tuple needs one, so leave such rows out.")
    with pytest.raises(SpecError, match=sentence):
        list(_Lift(plan)([batch]))
    if column == "ts":
        with pytest.raises(SpecError, match=sentence):
            list(_Ship(plan)([batch]))


@pytest.fixture
def raw(lake: Lake) -> Path:
    """A folder for files of a stream."""
    folder = Path(lake.root) / "raw"
    folder.mkdir(parents=True)
    return folder


def hours(count: int, **columns: Any) -> pa.Table:
    """A tuple an hour, each worth 1."""
    ts = [START + hour * HOUR for hour in range(count)]
    return pa.table({"ts": pa.array(ts, TIMESTAMP), "v": [1.0] * count, "arrival": range(count), "clock": pa.array(ts), **columns})


def read(spark: SparkSession, raw: Path) -> DataFrame:
    return spark.readStream.schema(spark.read.parquet(str(raw)).schema).parquet(str(raw))


def settle(lake: Lake, run: str) -> dict[str, Any]:
    """The status of a run that has ended."""
    for thread in threading.enumerate():
        if thread.name == lake.address("runs", run):
            thread.join(30)
    return lake.read_json(lake.address("runs", run), STATUS) or {}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("column", "expression", "sentence"),
    [
        ("ts", "1L", "ts: the column is bigint; allowed is timestamp."),
        ("ts", "timestamp_ntz'2024-01-01 00:00:00'", "ts: the column is timestamp_ntz; allowed is timestamp."),
        ("arrival", "'7'", "arrival: the column is string; allowed is tinyint or smallint or int or bigint."),
        ("clock", "1.5D", "clock: the column is double; allowed is tinyint or smallint or int or bigint or timestamp."),
        *(
            (
                "x",
                f"interval 1 {unit}",
                f"x: the column is interval {unit}, which Delta has not, and late tuples are kept there; leave it out, or cast it.",
            )
            for unit in ("day", "year")
        ),
        (
            "Watermark",
            "1",
            "Watermark: a column of the stream has this name, under which late tuples have another; allowed is any other name.",
        ),
    ],
)
def test_columns_of_other_types_are_refused_before_anything_is_written(
    spark: SparkSession, lake: Lake, raw: Path, column: str, expression: str, sentence: str
) -> None:
    pq.write_table(hours(2), raw / "1.parquet")
    with pytest.raises(SpecError) as refused:
        dataframe.start(read(spark, raw).withColumn(column, expr(expression)), HOURS, lake)
    assert str(refused.value) == sentence
    assert [folder.name for folder in Path(lake.root).iterdir()] == ["raw"]


@pytest.mark.spark
def test_what_is_no_stream_or_has_no_times_is_refused(spark: SparkSession, lake: Lake, raw: Path) -> None:
    pq.write_table(hours(2), raw / "1.parquet")
    with pytest.raises(SpecError, match=r"frame: a DataFrame of a batch given; allowed is a stream, as `spark.readStream` gives it\."):
        dataframe.start(spark.read.parquet(str(raw)), HOURS, lake)
    with pytest.raises(SpecError, match=r"ts: the DataFrame has no such column; there are v, arrival, clock\."):
        dataframe.start(read(spark, raw).drop("ts"), HOURS, lake)
    for there, other in (("arrival", "clock"), ("clock", "arrival")):  # minutes late, perhaps: its values would be others
        told = f"^{there}: the DataFrame has this column and no '{other}'; allowed are both or neither, so rename it\\.$"
        with pytest.raises(SpecError, match=told):
            dataframe.start(read(spark, raw).drop(other), HOURS, lake)
    assert [folder.name for folder in Path(lake.root).iterdir()] == ["raw"]


@pytest.mark.spark
def test_a_clock_of_timestamps_and_narrow_arrivals_are_taken_as_they_are(spark: SparkSession, lake: Lake, raw: Path) -> None:
    table = hours(6)
    table = table.set_column(2, "arrival", table["arrival"].cast(pa.int16())).set_column(3, "clock", table["clock"].cast(TIMESTAMP))
    pq.write_table(table, raw / "1.parquet")
    dataframe.start(read(spark, raw), HOURS, lake, run="r", available_now=True).awaitTermination()
    assert Replayed(load_plan(lake, "r"), None).table()["sum_v"].to_pylist() == [1.0] * 5  # type: ignore[arg-type]


@pytest.mark.spark
@pytest.mark.parametrize("column", ["ts", "clock"])
def test_a_null_fails_the_query_and_nothing_of_its_batch_is_written(spark: SparkSession, lake: Lake, raw: Path, column: str) -> None:
    table = hours(3)
    at = table.schema.names.index(column)
    nulls = pc.replace_with_mask(table[column], pa.array([False, True, False]), pa.nulls(1, table[column].type))
    pq.write_table(table.set_column(at, column, nulls), raw / "1.parquet")
    frame = read(spark, raw)
    sentence = f"{column}: null in 1 of 3 rows; every tuple needs one, so leave such rows out."
    with pytest.raises(StreamingQueryException, match=sentence):
        dataframe.start(frame, HOURS, lake, run="r", available_now=True).awaitTermination()
    status = settle(lake, "r")
    assert status["status"] == "failed" and status["reason"].endswith(sentence)
    run = Replayed(load_plan(lake, "r"), None)  # type: ignore[arg-type]
    assert run.table().num_rows == run.table("late").num_rows == run.metrics().num_rows == 0
    dataframe.start(frame.where(f"{column} is not null"), HOURS, lake, run="r", available_now=True).awaitTermination()
    assert run.table()["sum_v"].to_pylist() == [1.0] and run.metrics()["tuples"].to_pylist() == [2]


@pytest.mark.spark
def test_a_session_of_the_users_own_will_do_and_keeps_its_settings(spark: SparkSession, lake: Lake, raw: Path) -> None:
    pq.write_table(hours(6), raw / "1.parquet")
    own = spark.newSession()
    own.conf.set("spark.sql.streaming.stateStore.providerClass", f"{STORES}.HDFSBackedStateStoreProvider")
    own.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    own.conf.set("spark.sql.shuffle.partitions", "17")
    frame = read(own, raw)
    before = own.conf.getAll
    query = dataframe.start(frame, HOURS, lake, run="r", available_now=True, buckets=3)
    assert own.conf.getAll == before and "spark.sql.streaming.checkpointFileManagerClass" not in before
    query.awaitTermination()
    assert Replayed(load_plan(lake, "r"), None).table()["sum_v"].to_pylist() == [1.0] * 5  # type: ignore[arg-type]
    state = query.lastProgress["stateOperators"][0]  # type: ignore[index]
    assert state["numShufflePartitions"] == 3


@pytest.mark.spark
def test_a_run_is_held_while_its_query_goes_on_and_removed_some_time_after_it(
    spark: SparkSession, lake: Lake, raw: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(hours(3), raw / "1.parquet")
    query = dataframe.start(read(spark, raw), HOURS, lake, run="r", buckets=1)
    try:
        query.processAllAvailable()
        assert lake.read_json(lake.address("runs", "r"), STATUS)["status"] == "running"  # type: ignore[index]
        assert remove_old(lake, timedelta(0)) == []
        told = r"runs/r: process .* is writing there; wait for its end, or stop it\."
        with monkeypatch.context() as patient, pytest.raises(LakeError, match=told):
            patient.setattr(dataframe, "_SETTLE_SECONDS", 0)
            dataframe.start(read(spark, raw), HOURS, lake, run="r", buckets=1)
    finally:
        query.stop()
    pq.write_table(hours(6).slice(3), raw / "2.parquet")
    # Who resumes it at once does not have to wait for it to be let go.
    dataframe.start(read(spark, raw), HOURS, lake, run="r", buckets=1, available_now=True).awaitTermination()
    assert settle(lake, "r")["status"] == "ended"
    assert Replayed(load_plan(lake, "r"), None).table()["sum_v"].to_pylist() == [1.0] * 5  # type: ignore[arg-type]
    assert remove_old(lake, timedelta(hours=1)) == []
    assert remove_old(lake, timedelta(0)) == ["r"]


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:the stream has no columns")
def test_the_example_of_the_documentation_runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", EXAMPLE, re.DOTALL):
        exec(block, names)  # noqa: S102 - our own text
    assert names["results"].select("key", "sum_v").rows() == [("a", 3.0), ("b", 4.0)]
