"""The log: its own columns, its files, what is refused, and what a later version changed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from engines.contract import FOREVER, TIMESTAMP
from replay import log_writer
from replay.lake import Lake, LakeError
from replay.log import DAY_US, Log, day_end, day_of, day_start
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


def test_arrived_of_the_original_is_kept_but_never_goes_back(lake: Lake) -> None:
    log = log_writer.append(lake, "s", pa.table({"ts": seconds(5, 3, 9), "arrived": [70, 60, 90]}))
    assert pl.read_delta(log.address).sort("arrival")["arrived"].to_list() == [70, 70, 90]
    log = log_writer.append(lake, "s", pa.table({"ts": seconds(10, 11), "arrived": [80, 95]}))
    assert pl.read_delta(log.address).sort("arrival")["arrived"].to_list() == [70, 70, 90, 90, 95]


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
         "stream s: ts reaches out of the years 1 to 9999; allowed are times in them, for a log has days."),
    ],
    ids=["null", "no time", "nanoseconds", "own column", "day", "year 38501"],
)  # fmt: skip
def test_tuples_that_a_log_cannot_hold_are_refused(lake: Lake, tuples: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError) as refused:
        log_writer.append(lake, "s", pa.table(tuples))
    assert str(refused.value) == sentence
    assert lake.table(lake.address("streams", "s")) is None


def test_times_of_long_ago_have_statistics_too(lake: Lake) -> None:
    long_ago = pa.array([-34_000_000_000_000_001, -33_000_000_000_000_000], TIMESTAMP)  # 892 and 924
    log = log_writer.append(lake, "s", pa.table({"ts": long_ago}), file_rows=1)
    assert log.least_ts.tolist() == [-34_000_000_000_001_000, -33_000_000_000_000_000]
    assert [day.year for day in (log.days()[0], log.days()[-1])] == [892, 924]


@pytest.mark.parametrize(
    "values",
    [["a", "b" * 40, "b" * 40 + "c", None], [1.5, -2.0, math.nan, None], [True, False, None, None], [3, 2**62, -5, None],
     [Decimal("1.50"), Decimal("-0.10"), Decimal("1234567.01"), None], [b"x", b"", b"\xff", None],
     [date(2024, 1, 1), date(1, 1, 1), date(9999, 12, 31), None]],
    ids=["text", "float", "bool", "int", "decimal", "bytes", "date"],
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


@pytest.mark.parametrize("name", ["a#b", "a?b", "a b"])
def test_any_folder_can_be_a_lake(tmp_path: Path, name: str) -> None:
    log_writer.append(Lake(str(tmp_path / name / "lake")), "s", pa.table({"ts": seconds(1)}))
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert Lake(f"file://{tmp_path}/{name}/lake") == Lake(str(tmp_path / name / "lake"))
    with pytest.raises(LakeError, match=r"lake: '.*/a%20b' given; allowed are folders without '%'"):
        Lake(str(tmp_path / "a%20b"))


@pytest.mark.parametrize("path", ["../outside", "/etc", "streams/../../x"])
def test_a_path_out_of_the_lake_is_refused(lake: Lake, path: str) -> None:
    with pytest.raises(LakeError, match=r"leads out of the lake .*; allowed are paths inside it\."):
        lake.inside(path)
    with pytest.raises(LakeError, match="not a place in the lake"):
        lake.address("streams", path)
