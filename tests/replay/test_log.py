"""The log: its own columns, its files, what is refused, and what a later version changed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from engines.contract import FOREVER, TIMESTAMP
from engines.spec import SpecError
from replay import log_writer
from replay.files import read_file
from replay.lake import Lake, LakeError
from replay.log import DAY_US, FIRST_CHANGED, Log, day_end, day_of, day_start
from tests.replay.harness import stream


def seconds(*times: float) -> pa.Array:
    return pa.array([round(t * 1_000_000) for t in times], TIMESTAMP)


def test_arrival_clock_and_arrived_are_written_once_and_go_on_when_the_log_grows(lake: Lake) -> None:
    #   ts       5    3    9 |  8   12
    #   clock    5    5    9 |  9   12
    log_writer.append(lake, "s", pa.table({"ts": seconds(5, 3, 9), "v": [1, 2, 3]}))
    log = log_writer.append(lake, "s", pa.table({"ts": seconds(8, 12), "v": [4, 5]}))
    rows = pl.read_delta(log.address).sort("arrival")
    assert rows["arrival"].to_list() == [0, 1, 2, 3, 4]
    assert (rows["clock"] // 1_000_000).to_list() == [5, 5, 9, 9, 12]
    assert rows["arrived"].to_list() == rows["clock"].to_list()
    assert rows["v"].to_list() == [1, 2, 3, 4, 5]


def test_files_have_room_for_nulls_only_where_there_are_some_and_are_one_table_all_the_same(lake: Lake) -> None:
    #   file     0        1
    #   v        1  2     -  4
    log = log_writer.append(lake, "s", pa.table({"ts": seconds(5, 6, 7, 8), "v": pa.array([1, 2, None, 4])}), file_rows=2)
    schemas = [pq.read_schema(Path(log.address) / path) for path in log.paths]
    assert [[field.name for field in schema if field.nullable] for schema in schemas] == [[], ["v"]]
    assert pl.read_delta(log.address).sort("arrival")["v"].to_list() == [1, 2, None, 4]
    files = [read_file(lake.files(log.address), path) for path in log.paths]
    assert pa.concat_tables(files)["v"].to_pylist() == [1, 2, None, 4]


def test_arrived_of_the_original_is_kept_but_never_goes_back(lake: Lake) -> None:
    log = log_writer.append(lake, "s", pa.table({"ts": seconds(5, 3, 9), "arrived": [70, 60, 90]}))
    assert pl.read_delta(log.address).sort("arrival")["arrived"].to_list() == [70, 70, 90]
    log = log_writer.append(lake, "s", pa.table({"ts": seconds(10, 11), "arrived": [80, 95]}))
    assert pl.read_delta(log.address).sort("arrival")["arrived"].to_list() == [70, 70, 90, 90, 95]


def test_arrived_does_not_go_back_where_tuples_come_without_it(lake: Lake) -> None:
    later = 20_000_000
    log_writer.append(lake, "s", [pa.table({"ts": seconds(5), "arrived": [later]}), pa.table({"ts": seconds(6)})])
    log = log_writer.append(lake, "s", pa.table({"ts": seconds(7, 30)}))
    assert pl.read_delta(log.address).sort("arrival")["arrived"].to_list() == [later, later, later, 30_000_000]


@pytest.mark.parametrize("file_rows", [1, 7, 1000])
def test_files_are_contiguous_in_arrival_and_none_straddles_a_day(lake: Lake, file_rows: int) -> None:
    table = stream(3)
    log = log_writer.append(lake, "s", table, file_rows=file_rows)
    assert log.first.tolist() == [0, *np.cumsum(log.rows)[:-1].tolist()] and log.end == table.num_rows
    assert log.rows.max() <= file_rows
    rows = pl.read_delta(log.address).sort("arrival")
    for path, first, count, clock, least in zip(log.paths, log.first, log.rows, log.clock, log.least_ts, strict=True):
        mine = rows.slice(first, count)
        day = {day_of(c) for c in mine["clock"]}
        assert path.startswith(f"day={day.pop()}/") and not day
        assert mine["clock"].max() == clock
        exact = mine["ts"].cast(pl.Int64).min()
        assert exact - 1000 < least <= exact  # Delta cuts times to milliseconds
    after = [min(rows.slice(end)["ts"].cast(pl.Int64), default=FOREVER) for end in np.cumsum(log.rows)]
    assert all(known <= real for known, real in zip(log.least_ts_after, after, strict=True))


def test_days_are_all_from_the_first_clock_to_the_last_silent_ones_too(lake: Lake) -> None:
    log = log_writer.append(lake, "s", pa.table({"ts": seconds(3 * 86_400 - 1, 5 * 86_400, 4)}))
    assert log.days() == [date(1970, 1, 3), date(1970, 1, 4), date(1970, 1, 5), date(1970, 1, 6)]
    assert day_end(date(1970, 1, 3)) == day_start(date(1970, 1, 4)) == 3 * DAY_US


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (lambda lake: None, "there is no such log; write or ingest the stream first."),
        (lambda lake: write_deltalake(lake.address("streams", "s"), pa.table({"a": [1]})),
         "a Delta table with the description None found; allowed is"),
        (lambda lake: write_deltalake(lake.address("streams", "s"), pa.table({"a": [1]}), description="Reprise log, format 2"),
         "a Delta table with the description 'Reprise log, format 2' found; allowed is 'Reprise log, format 1'."),
        (lambda lake: write_deltalake(lake.address("streams", "s"), pa.table({"arrival": [1]}), description="Reprise log, format 1"),
         "the column 'arrived' should be int64; found are arrival."),
    ],
    ids=["missing", "no log", "another format", "another schema"],
)  # fmt: skip
def test_what_is_no_log_is_refused_in_a_sentence(lake: Lake, made: object, sentence: str) -> None:
    made(lake)  # type: ignore[operator]
    with pytest.raises(LakeError) as refused:
        Log.open(lake, lake.address("streams", "s"))
    assert str(refused.value).startswith(f"log {lake.root}/streams/s: ") and sentence in str(refused.value)


def test_a_version_that_is_not_there_is_named(lake: Lake) -> None:
    log_writer.append(lake, "s", stream(1))
    with pytest.raises(LakeError, match=r"log .*/streams/s: version 7 cannot be read"):
        Log.open(lake, lake.address("streams", "s"), 7)


def test_other_columns_than_the_log_has_are_refused_and_nothing_is_written(lake: Lake) -> None:
    log = log_writer.append(lake, "s", pa.table({"ts": seconds(1), "v": [1]}))
    files = sorted(Path(log.address).rglob("*"))
    with pytest.raises(LakeError, match=r"stream s: columns ts timestamp\[us, tz=UTC\], w int64 given; its log has .* v int64\."):
        log_writer.append(lake, "s", pa.table({"ts": seconds(2), "w": [1]}))
    assert sorted(Path(log.address).rglob("*")) == files


@pytest.mark.parametrize(
    ("tuples", "sentence"),
    [
        ({"ts": pa.array([1, None], TIMESTAMP)}, "ts: row 1 is null; every tuple needs a time."),
        ({"t": [1]}, "ts: the stream has no such column; there are t."),
        ({"ts": pa.array([1500], pa.timestamp("ns", "UTC"))},
         "ts: the column is timestamp[ns, tz=UTC], with times that no whole microseconds are; allowed is timestamp[us, tz=UTC]."),
        ({"ts": seconds(1), "clock": ["noon"]},
         "stream s: a column 'clock' given; the log keeps its own under that name, so another is allowed."),
        ({"ts": seconds(1), "day": [1]}, "stream s: a column 'day' given; the log keeps its own under that name, so another is allowed."),
        ({"ts": pa.array([2**60], TIMESTAMP)},
         "ts: a time of 1152921504606846976 microseconds since 1970 given; allowed are times in the years 1 to 9999."),
        ({"start": seconds(1), "end": pa.array([2**60], pa.timestamp("s"))},
         "end: a time of 1152921504606846976000000 microseconds since 1970 given; allowed are times in the years 1 to 9999."),
        ({"ts": seconds(1), "stream": ["a"]},
         "stream s: a column 'stream' given; a replay keeps its own under that name, so another is allowed."),
        ({"ts": seconds(1), "v": [1], "V": [2]},
         "stream s: a column 'V' given beside 'v'; allowed are names that differ in more than case."),
        ({"ts": seconds(1), "Day": [1]}, "stream s: a column 'Day' given beside 'day'; allowed are names that differ in more than case."),
        ({"ts": seconds(1, 2), "arrived": [1, None]},
         "stream s: arrived is int64 with 1 nulls; allowed are whole microseconds, or times, and no nulls."),
        ({"ts": seconds(1), "arrived": ["noon"]},
         "stream s: arrived is string with 0 nulls; allowed are whole microseconds, or times, and no nulls."),
    ],
    ids=["null", "no time", "nanoseconds", "own column", "day", "year 38501", "far end", "stream", "case", "case of an own column",
         "arrived null", "arrived text"],
)  # fmt: skip
def test_tuples_that_a_log_cannot_hold_are_refused(lake: Lake, tuples: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError) as refused:
        log_writer.append(lake, "s", pa.table(tuples))
    assert str(refused.value) == sentence
    assert lake.table(lake.address("streams", "s")) is None


def test_a_name_for_two_columns_is_refused(lake: Lake) -> None:
    twice = pa.Table.from_arrays([seconds(1), pa.array([1]), pa.array([2])], names=["ts", "v", "v"])
    with pytest.raises(SpecError, match=r"^columns: 'v' given 2 times; allowed is a name for each\.$"):
        log_writer.append(lake, "s", twice)


def test_a_file_of_no_tuples_is_refused(lake: Lake) -> None:
    with pytest.raises(SpecError, match=r"^file_rows: 0 given; allowed is a whole number from 1\.$"):
        log_writer.append(lake, "s", stream(1), file_rows=0)


def test_a_table_is_checked_to_its_end_before_any_of_it_is_written(lake: Lake) -> None:
    with pytest.raises(SpecError, match="ts: row 2 is null"):
        log_writer.append(lake, "s", pa.table({"ts": pa.array([1, 2, None], TIMESTAMP)}), file_rows=1)
    assert not Path(lake.root).exists()


def test_tables_of_one_log_have_the_same_columns(lake: Lake) -> None:
    with pytest.raises(LakeError, match=r"^stream s: columns .* v double given; its log has .* v int64\.$"):
        log_writer.append(lake, "s", [pa.table({"ts": seconds(1), "v": [1]}), pa.table({"ts": seconds(2), "v": [1.5]})])
    assert lake.table(lake.address("streams", "s")) is None


STORED: list[tuple[pa.Array, pa.DataType]] = [
    (pa.array([200, None], pa.uint8()), pa.int16()),
    (pa.array([40_000, 1], pa.uint16()), pa.int32()),
    (pa.array([3_000_000_000, 1], pa.uint32()), pa.int64()),
    (pa.array([2**63 - 1, 1], pa.uint64()), pa.int64()),
    (pa.array(np.array([1.5, -2], np.float16)), pa.float32()),
    (pa.array([5_000, None], pa.timestamp("ns")), pa.timestamp("us")),
    (pa.array([5, -1], pa.timestamp("s", "Europe/Berlin")), TIMESTAMP),
    (pa.array([0, 86_400_000], pa.int64()).view(pa.date64()), pa.date32()),
    (pa.array(["a", None], pa.large_string()), pa.string()),
    (pa.array(["a", "b"], pa.string_view()), pa.string()),
    (pa.array([b"a", b"b"], pa.binary_view()), pa.binary()),
    (pa.array([b"a", b"b"], pa.binary(1)), pa.binary()),
    (pa.array(["a", None]).dictionary_encode(), pa.string()),
    (pa.array([Decimal("1.50"), None], pa.decimal64(9, 2)), pa.decimal128(9, 2)),
    (pa.array([Decimal("1.50"), None], pa.decimal256(38, 2)), pa.decimal128(38, 2)),
    (pa.array([None, None]), pa.null()),
    (pa.array([[200], None], pa.large_list(pa.uint8())), pa.list_(pa.int16())),
    (pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)), pa.list_(pa.int64())),
    (pa.array([{"a": 200}, None], pa.struct([pa.field("a", pa.uint8(), nullable=False)])), pa.struct([("a", pa.int16())])),
    (pa.array([[("a", 200)], []], pa.map_(pa.large_string(), pa.uint8())), pa.map_(pa.string(), pa.int16())),
]  # fmt: skip


@pytest.mark.parametrize(("values", "kind"), STORED, ids=[str(values.type) for values, _ in STORED])
def test_values_are_stored_in_the_type_of_delta_that_holds_them_again_and_again(lake: Lake, values: pa.Array, kind: pa.DataType) -> None:
    table = pa.table({"ts": seconds(1, 2), "v": values})
    log_writer.append(lake, "s", table)
    log = log_writer.append(lake, "s", table)
    assert log.end == 4 and log.schema.field("v").type == kind
    delta = lake.table(log.address)
    assert delta is not None
    assert delta.to_pyarrow_table().sort_by("arrival")["v"].to_pylist() == values.to_pylist() * 2
    assert pl.read_delta(log.address)["v"].null_count() == 2 * values.null_count


@pytest.mark.parametrize(
    "values",
    [pa.array([1], pa.duration("us")), pa.array([1], pa.time64("us")), pa.array([Decimal(1)], pa.decimal256(40, 2)),
     pa.array([Decimal(100)], pa.decimal128(5, -2)), pa.array([[1]], pa.list_view(pa.int64())), pa.array([[1]], pa.list_(pa.duration("s"))),
     pa.array([{}], pa.struct([])), pa.array([{"a": 1, "A": 1}]), pa.array([b"0" * 16], pa.uuid()),
     pa.DictionaryArray.from_arrays([0], pa.array([[1]]))],
    ids=lambda values: str(values.type),
)  # fmt: skip
def test_types_that_delta_has_not_are_refused(lake: Lake, values: pa.Array) -> None:
    with pytest.raises(LakeError) as refused:
        log_writer.append(lake, "s", pa.table({"ts": seconds(1), "v": values}))
    assert str(refused.value).startswith(f"stream s: the column 'v' is {values.type}; allowed are booleans, numbers ")
    assert not Path(lake.root).exists()


@pytest.mark.parametrize(
    ("values", "kind"),
    [(pa.array([1, 2**63], pa.uint64()), "int64"), (pa.array([1_000, 1_500], pa.timestamp("ns", "UTC")), "timestamp[us, tz=UTC]"),
     (pa.array([2**50, 0], pa.timestamp("s")), "timestamp[us]"), (pa.array([0, 1], pa.int64()).view(pa.date64()), "date32[day]")],
    ids=lambda given: str(given.type) if isinstance(given, pa.Array) else "",
)  # fmt: skip
def test_values_that_would_change_are_refused(lake: Lake, values: pa.Array, kind: str) -> None:
    with pytest.raises(LakeError) as refused:
        log_writer.append(lake, "s", pa.table({"ts": seconds(1, 2), "v": values}), file_rows=1)
    given = f"stream s: the column 'v' is {values.type}, with values that {kind} cannot hold"
    assert str(refused.value) == f"{given}; allowed are those that it can hold exactly."
    assert not Path(lake.root).exists()


@pytest.mark.parametrize("values", [[7, 8], [1.5, 2.0], ["noon", "1"]], ids=["whole numbers", "numbers", "text"])
@pytest.mark.parametrize("name", ["start", "end"])
def test_start_and_end_beside_ts_are_values_like_others(lake: Lake, name: str, values: list[object]) -> None:
    log = log_writer.append(lake, "s", pa.table({"ts": seconds(1, 2), name: values}))
    assert pl.read_delta(log.address).sort("arrival")[name].to_list() == values


@pytest.mark.parametrize("nothing", [pa.table({"ts": seconds(), "v": pa.array([], pa.uint8())}), []], ids=["an empty table", "no table"])
def test_no_tuples_make_no_new_version(lake: Lake, nothing: pa.Table) -> None:
    """A new one would have provisional days replayed for nothing."""
    with pytest.raises(LakeError, match=r"^stream s: no tuples given; a log begins with its first\.$"):
        log_writer.append(lake, "s", nothing)
    before = log_writer.append(lake, "s", pa.table({"ts": seconds(1), "v": pa.array([1], pa.uint8())}))
    after = log_writer.append(lake, "s", nothing)
    assert (after.version, after.end) == (before.version, 1) == (Log.open(lake, before.address).version, 1)


def test_a_log_of_which_a_part_is_gone_is_refused_in_a_sentence(lake: Lake) -> None:
    log = log_writer.append(lake, "s", pa.table({"ts": seconds(1, 86_401, 86_402, 200_000)}))
    delta = lake.table(log.address)
    assert delta is not None
    delta.delete("day = '1970-01-02'")
    with pytest.raises(
        LakeError, match=r"^log .*: a file begins with arrival 3 where 1 should follow, so tuples are missing or there twice;"
    ):
        Log.open(lake, log.address)
    assert Log.open(lake, log.address, log.version).end == 4


def test_a_log_that_is_damaged_is_refused_in_a_sentence(lake: Lake) -> None:
    log = log_writer.append(lake, "s", pa.table({"ts": seconds(1)}))
    (Path(log.address) / "_delta_log" / f"{0:020d}.json").write_text("no json")
    with pytest.raises(LakeError, match=r"^log .*/streams/s: it cannot be read \(.*\)\.$"):
        Log.open(lake, log.address)


def test_a_log_whose_statistics_are_lost_is_refused_in_a_sentence(lake: Lake) -> None:
    log = log_writer.append(lake, "s", pa.table({"ts": seconds(1)}))
    rows, _, _ = log_writer.complete(pa.table({"ts": seconds(2)}), 1, log.clock_end, log.arrived_end)
    without = replace(log_writer.write_day(lake, log.address, rows), statistics='{"numRecords": 1}')
    log_writer.commit(lake, log.address, rows.schema, [without.action()], {FIRST_CHANGED: "1"}, onto=log)
    with pytest.raises(
        LakeError, match=r"^log .*: the statistic min\.arrival of a file cannot be read; remove the log, and write or ingest"
    ):
        Log.open(lake, log.address)


def test_dates_that_nobody_can_tell_have_no_bounds(lake: Lake) -> None:
    far = pa.array([3_000_000, -5_000_000], pa.int32()).cast(pa.date32())
    assert log_writer.append(lake, "s", pa.table({"ts": seconds(1, 2), "v": far})).end == 2


def test_times_of_long_ago_have_statistics_too(lake: Lake) -> None:
    long_ago = pa.array([-34_000_000_000_000_001, -33_000_000_000_000_000], TIMESTAMP)  # 892 and 924
    log = log_writer.append(lake, "s", pa.table({"ts": long_ago}), file_rows=1)
    assert log.least_ts.tolist() == [-34_000_000_000_001_000, -33_000_000_000_000_000]
    assert [day.year for day in (log.days()[0], log.days()[-1])] == [892, 924]


@pytest.mark.parametrize(
    "values",
    [["a", "b" * 40, "b" * 40 + "c", None], [1.5, -2.0, math.nan, None], [math.nan, 1.5, 7.0, None],
     [True, False, None, None], [3, 2**62, -5, None],
     [Decimal("1.50"), Decimal("-0.10"), Decimal("1234567.01"), None], [b"x", b"", b"\xff", None],
     [date(2024, 1, 1), date(1, 1, 1), date(9999, 12, 31), None]],
    ids=["text", "float", "float beside NaN", "bool", "int", "decimal", "bytes", "date"],
)  # fmt: skip
def test_whoever_filters_a_table_by_its_values_finds_them(lake: Lake, values: list[object]) -> None:
    """Readers pass over files by their statistics; one that takes a missing bound for a null would find nothing at all."""
    log = log_writer.append(lake, "s", pa.table({"ts": seconds(1, 2, 3, 4), "key": values}), file_rows=2)
    table = lake.table(log.address)
    assert table is not None
    for value in values:
        if value is None or value != value:
            continue
        by_arrow = table.to_pyarrow_dataset().to_table(filter=pc.field("key") == pa.scalar(value, log.schema.field("key").type))
        by_polars = pl.scan_delta(log.address).filter(pl.col("key") == value).collect()
        assert by_arrow["arrival"].to_pylist() == by_polars["arrival"].to_list() == [values.index(value)]


@pytest.mark.parametrize("there", [False, True], ids=["a new log", "a log that grows"])
def test_of_two_writers_at_a_time_one_is_refused(lake: Lake, there: bool) -> None:
    """Both counted arrivals on from the same end: with both, some arrivals would be there twice."""
    if there:
        log_writer.append(lake, "s", pa.table({"ts": seconds(0)}))

    def tuples() -> Iterator[pa.Table]:
        yield pa.table({"ts": seconds(1)})
        log_writer.append(lake, "s", pa.table({"ts": seconds(2)}))
        yield pa.table({"ts": seconds(3)})

    with pytest.raises(
        LakeError, match=r"log .*/streams/s: another process has written to it meanwhile, and nothing of this one is stored;"
    ):
        log_writer.append(lake, "s", tuples())
    assert pl.read_delta(lake.address("streams", "s"))["arrival"].sort().to_list() == [*range(1 + there)]
    assert log_writer.append(lake, "s", pa.table({"ts": seconds(4)})).end == 2 + there


def test_what_commits_have_changed_is_known_however_far_the_log_has_grown_since(lake: Lake) -> None:
    #   version    0    1    2    3    4
    #   arrivals   01   23   23   45   67       the third writes the second day anew
    days = [pa.table({"ts": seconds(day * 86_400, day * 86_400 + 1)}) for day in range(5)]
    for day in days[:2]:
        log = log_writer.append(lake, "s", day)
    rows, _, _ = log_writer.complete(days[2], 2, log.clock_before(1), log.clock_before(1))
    adds = [log_writer.write_day(lake, log.address, rows).action()]
    log_writer.commit(lake, log.address, rows.schema, adds, {FIRST_CHANGED: "2"}, onto=log, replacing=["1970-01-02"])
    for day in days[3:]:
        log = log_writer.append(lake, "s", day)
    assert [log.first_changed_since(version) for version in range(5)] == [2, 2, 4, 6, 8]
    pinned = Log.open(lake, log.address, 2)
    assert [pinned.first_changed_since(version) for version in range(3)] == [2, 2, 4]


def test_each_commit_is_read_once_however_many_days_ask(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for second in range(20):
        log = log_writer.append(lake, "s", pa.table({"ts": seconds(second)}))
    reads, files = [], Lake.files
    monkeypatch.setattr(Lake, "files", lambda lake, address: reads.append(address) or files(lake, address))
    monkeypatch.setattr(Lake, "table", None)
    assert [log.first_changed_since(version) for version in range(20)] == list(range(1, 21))
    assert len(reads) <= 19
