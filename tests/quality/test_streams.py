"""The suite of raw streams: green on a log as it should be, and each expectation red on the fault that it is there for, and on no other.

Logs are Delta tables of four days; a fault is put into the tuples before they are written, or into the log's own columns.

    day     1               2               3               4
    tuples  1500, a minute apart, of three keys; 2 % of them half a minute late; speed about 60 mph, 5 % without one
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import ks_2samp

from engines.contract import BEGINNING, TIMESTAMP
from quality import scanning
from quality.drift import distances
from quality.inspecting import Inspected, inspect
from quality.measuring import raw_files
from quality.scanning import Promised, choose
from quality.suites.streams import Limits, suite
from replay.lake import Lake
from replay.log import Log, day_of
from replay.log_writer import by_day, commit, complete, write_day

START = 1_704_067_200_000_000  # 2024-01-01
SECOND = 1_000_000
DAY = 86_400 * SECOND
DAYS, A_DAY = 4, 1500
NAMES = [one.expected.name for one in suite()]


def tuples() -> pl.DataFrame:
    rng = np.random.default_rng(11)
    n = DAYS * A_DAY
    ts = START + np.arange(n) * (DAY // A_DAY)
    late = rng.random(n) < 0.02
    ts[1:] -= np.where(late[1:], 90 * SECOND, 0)
    return pl.DataFrame(
        {
            "ts": pl.Series(ts).cast(pl.Datetime("us", "UTC")),
            "key": rng.choice(["a", "b", "c"], n),
            "speed": [None if none else float(v) for none, v in zip(rng.random(n) < 0.05, rng.normal(60, 10, n), strict=True)],
            "count": rng.integers(0, 50, n),
            "wet": rng.random(n) < 0.3,
            "number": np.arange(n),
        }
    )


VALUES = [("speed", pa.float64()), ("count", pa.int64()), ("wet", pa.bool_()), ("number", pa.int64())]
PROMISED = Promised(
    columns=pa.schema([("ts", TIMESTAMP), ("key", pa.string()), *VALUES]),
    ranges={"speed": (0, 130), "count": (0, None)},
    times=(START - DAY, START + 10 * DAY),
    needed=frozenset({"ts", "key"}),
    units={"speed": "mph"},
)
ENTRIES = pl.DataFrame({"file": ["a.csv", "b.csv"], "records": [4000, 2010], "rows": [4000, 2000], "rejected": [0, 10], "rejects": [0, 10]})


def write(lake: Lake, rows: pl.DataFrame, own: Callable[[pl.DataFrame], pl.DataFrame] | None = None) -> Log:
    """A log with these tuples, a file for each day; `own`: what becomes of the log's own columns first."""
    table = rows.to_arrow()
    plain = [pa.string() if pa.types.is_large_string(f.type) or str(f.type) == "string_view" else f.type for f in table.schema]
    table = table.cast(pa.schema([pa.field(f.name, kind) for f, kind in zip(table.schema, plain, strict=True)]))
    whole, _, _ = complete(table.combine_chunks(), 0, BEGINNING, BEGINNING)
    schema = whole.schema
    changed = own(pl.DataFrame(pl.from_arrow(whole))).to_arrow().cast(schema) if own else whole
    # Rows stay in the files that they would have been in: a wrong clock is a fault of a row, not of its place.
    edges = np.cumsum([0, *(part.num_rows for part in by_day(whole))])
    address = lake.address("streams", "s")
    adds = [write_day(lake, address, changed.slice(a, b - a)).action() for a, b in zip(edges, edges[1:], strict=False) if b > a]
    commit(lake, address, schema, adds, {}, onto=None)
    return opened(lake, address, schema)


def opened(lake: Lake, address: str, schema: pa.Schema) -> Log:
    """A log by its statistics, whatever they are: those with holes are not opened for a replay."""
    table = lake.table(address)
    assert table is not None
    actions = pl.DataFrame(pl.from_arrow(pa.table(table.get_add_actions(flatten=True)))).sort("min.arrival")
    first, rows, clock, arrived = (actions[name].to_numpy() for name in ("min.arrival", "num_records", "max.clock", "min.arrived"))
    return Log(
        lake, address, "", table.version(), schema, actions["path"].to_list(), first, rows, clock, actions["min.clock"][0],
        arrived, actions["max.arrived"][-1], clock,
    )  # fmt: skip


def files(log: Log) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "path": [f"{log.address}/{path}" for path in log.paths],
            "day": [date.fromisoformat(path.partition("day=")[2][:10]) for path in log.paths],
            "first": log.first,
            "rows": log.rows,
            "clock_before": pl.Series([None, *log.clock[:-1].tolist()], dtype=pl.Int64),
        }
    )


def inspected(
    log: Log, *, entries: pl.DataFrame = ENTRIES, promised: Promised = PROMISED, limits: Limits | None = None, most: int = 10**7
) -> Inspected:
    there = raw_files(entries, log.end if entries is not ENTRIES else int(ENTRIES["rows"].sum()))
    return inspect(choose(files(log), most)[0], log.schema, there, promised, limits or Limits())


def red(found: Inspected) -> set[str]:
    return {outcome.name for outcome in found.outcomes if not outcome.passed}


def test_a_log_as_it_should_be_passes_and_every_expectation_has_something_to_judge(lake: Lake) -> None:
    found = inspected(write(lake, tuples()))
    assert red(found) == set()
    assert [outcome.name for outcome in found.outcomes] == NAMES
    assert all(outcome.rows > 0 for outcome in found.outcomes)
    critical = {outcome.name for outcome in found.outcomes if outcome.severity == "critical"}
    assert {"records_add_up", "arrivals_have_no_holes", "clock_is_the_running_maximum", "values_are_in_range"} <= critical
    assert {"distributions_stand", "silences_are_usual", "few_tuples_are_there_twice"}.isdisjoint(critical)


# ---- faults in the log's own columns ---------------------------------------------------------------------------------


def at(column: str, change: pl.Expr, where: pl.Expr) -> Callable[[pl.DataFrame], pl.DataFrame]:
    return lambda rows: rows.with_columns(pl.when(where).then(change).otherwise(column).alias(column))


ROW = pl.int_range(pl.len())
OWN_FAULTS: dict[str, tuple[Callable[[pl.DataFrame], pl.DataFrame], set[str]]] = {
    "a hole in a file": (at("arrival", pl.col("arrival") + 1, ROW > 700), {"arrivals_have_no_holes", "files_are_contiguous"}),
    "an arrival twice": (at("arrival", pl.col("arrival") - 1, ROW == 701), {"arrivals_have_no_holes"}),
    "a hole between files": (at("arrival", pl.col("arrival") + 5, ROW >= 3000), {"files_are_contiguous"}),
    "a clock that is a microsecond slow": (at("clock", pl.col("clock") - 1, ROW == 2000), {"clock_is_the_running_maximum"}),
    "a clock that follows a late tuple": (
        at("clock", pl.col("ts").dt.timestamp("us"), pl.col("ts").dt.timestamp("us") < pl.col("clock")),
        {"clock_is_the_running_maximum"},
    ),
    "an arrival time that goes back": (at("arrived", pl.col("arrived") - 3600 * SECOND, ROW == 2000), {"arrived_never_goes_back"}),
    "an arrival time that goes back from file to file": (
        at("arrived", pl.col("arrived") - DAY, ROW >= 1500),
        {"arrived_never_goes_back"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", OWN_FAULTS)
def test_a_fault_in_the_logs_own_columns_is_seen(fault: str, lake: Lake) -> None:
    change, expected = OWN_FAULTS[fault]
    found = inspected(write(lake, tuples(), change))
    assert red(found) == expected
    assert all(found.worst[name].height >= 1 for name in expected)


def test_a_file_under_another_day_than_its_clocks_is_seen(lake: Lake) -> None:
    log = write(lake, tuples())
    wrong = files(log).with_columns(day=pl.when(pl.col("day") == day_of(START + DAY)).then(pl.lit(date(2023, 12, 30))).otherwise("day"))
    found = inspect(wrong.with_columns(read=True), log.schema, raw_files(ENTRIES, log.end), PROMISED, Limits())
    assert "days_are_those_of_the_clock" in red(found)
    assert found.worst["days_are_those_of_the_clock"]["days_wrong"].to_list() == [A_DAY]


def test_a_file_with_other_rows_than_its_statistics_say_is_seen(lake: Lake) -> None:
    log = write(lake, tuples())
    fewer = files(log).with_columns(rows=pl.when(pl.col("first") == 4500).then(pl.col("rows") + 7).otherwise("rows"), read=True)
    found = inspect(fewer, log.schema, raw_files(ENTRIES, log.end), PROMISED, Limits())
    assert red(found) == {"arrivals_have_no_holes"}
    assert found.worst["arrivals_have_no_holes"]["arrivals_wrong"].to_list() == [7]


# ---- faults in tuples ------------------------------------------------------------------------------------------------

THIRD = pl.col("ts").dt.timestamp("us").is_between(START + 2 * DAY, START + 3 * DAY - 1)


def swapped(rows: pl.DataFrame) -> pl.DataFrame:
    """Half of the tuples come ten minutes late."""
    back = pl.col("ts").dt.timestamp("us") + pl.when((ROW % 2 == 0) & THIRD).then(600 * SECOND).otherwise(0)
    return rows.with_columns(back=back).sort("back").drop("back")


def again(rows: pl.DataFrame) -> pl.DataFrame:
    """One tuple in twenty of the third day comes twice."""
    return pl.concat([rows, rows.filter(THIRD & (ROW % 20 == 0))]).sort("ts", maintain_order=True)


def twice_delivered(rows: pl.DataFrame) -> pl.DataFrame:
    """The second day comes a second time behind the fourth, as a file would that has come under two names."""
    return pl.concat([rows, rows.slice(A_DAY, A_DAY)])


TUPLE_FAULTS: dict[str, tuple[Callable[[pl.DataFrame], pl.DataFrame], set[str]]] = {
    "a value out of range": (at("speed", pl.lit(500.0), ROW == 4000), {"values_are_in_range"}),
    "a value below the range": (at("count", pl.lit(-1), ROW == 4000), {"values_are_in_range"}),
    "a value that is no number": (at("speed", pl.lit(float("nan")), ROW == 4000), {"values_are_in_range"}),
    "a time out of range": (at("ts", pl.col("ts") - pl.duration(days=3), ROW == 9), {"times_are_in_range"}),
    "a tuple without a key": (at("key", pl.lit(None, pl.String), ROW == 4000), {"needed_values_are_there"}),
    "much is missing": (at("speed", pl.lit(None, pl.Float64), THIRD & (ROW % 5 == 0)), {"little_is_missing"}),
    "many are out of order": (swapped, {"few_tuples_are_out_of_order"}),
    "some come twice": (again, {"few_tuples_are_there_twice"}),
    "a day is delivered twice": (twice_delivered, {"few_tuples_are_there_twice", "few_tuples_are_out_of_order"}),
    "two days of silence": (at("ts", pl.col("ts") + pl.duration(days=2), ROW >= 2 * A_DAY), {"silences_are_usual"}),
    "a distribution that moved": (at("speed", pl.col("speed") + 12, THIRD), {"distributions_stand"}),
    "a share that moved": (at("wet", ~pl.col("wet"), THIRD), {"distributions_stand"}),
    "another unit": (at("speed", pl.col("speed") / 1000, THIRD), {"units_stand", "distributions_stand"}),
}  # fmt: skip


@pytest.mark.parametrize("fault", TUPLE_FAULTS)
def test_a_fault_in_tuples_is_seen(fault: str, lake: Lake) -> None:
    change, expected = TUPLE_FAULTS[fault]
    found = inspected(write(lake, change(tuples())))
    assert red(found) == expected
    assert all(found.worst[name].height >= 1 for name in expected)


def test_the_worst_rows_tell_where_and_how_much(lake: Lake) -> None:
    found = inspected(write(lake, TUPLE_FAULTS["a value out of range"][0](tuples())))
    assert found.worst["values_are_in_range"].rows() == [(date(2024, 1, 3), "speed", "mph", 1.0)]


def test_an_event_that_ends_before_it_starts_is_seen(lake: Lake) -> None:
    begins = np.arange(2000) * SECOND + START
    spans = pl.DataFrame({"start": begins, "end": begins + np.where(np.arange(2000) == 77, -1, 5)}).cast(pl.Datetime("us", "UTC"))
    promised = Promised(columns=pa.schema([("start", TIMESTAMP), ("end", TIMESTAMP)]), needed=frozenset({"start", "end"}))
    found = inspected(write(lake, spans), promised=promised)
    assert red(found) == {"times_are_in_range"}


def test_a_column_of_another_type_and_one_that_is_not_there_are_seen(lake: Lake) -> None:
    declared = pa.schema([*[f for f in PROMISED.columns if f.name != "count"], ("count", pa.int32()), ("more", pa.float64())])
    found = inspected(write(lake, tuples()), promised=replace(PROMISED, columns=declared))
    assert red(found) == {"columns_are_as_declared"}
    told = found.worst["columns_are_as_declared"].sort("column").rows()
    assert told == [("count", "int32", "int64", 1.0), ("more", "double", None, 1.0)]


@pytest.mark.parametrize(
    ("column", "change", "expected"),
    [
        ("rows", -1, {"records_add_up"}),
        ("rejects", -1, {"records_add_up"}),
        ("rejected", 30, {"records_add_up", "few_records_are_rejected"}),
    ],
)
def test_a_record_that_is_lost_is_seen(column: str, change: int, expected: set[str], lake: Lake) -> None:
    wrong = ENTRIES.with_columns(pl.when(pl.col("file") == "b.csv").then(pl.col(column) + change).otherwise(column).alias(column))
    assert red(inspected(write(lake, tuples()), entries=wrong)) == expected


def test_a_limit_that_is_declared_counts(lake: Lake) -> None:
    """What is red by the usual limits, as shown above, is green where more of it is usual."""
    for fault, limits in [
        ("a distribution that moved", Limits(drift=0.9)),
        ("many are out of order", Limits(out_of_order=0.9)),
        ("some come twice", Limits(there_twice=0.1)),
        ("two days of silence", Limits(silence_us=5 * DAY)),
    ]:
        log = write(Lake(f"{lake.root}-{len(fault)}"), TUPLE_FAULTS[fault][0](tuples()))
        assert red(inspected(log, limits=limits)) == set()


def test_a_column_that_counts_or_moves_within_the_day_may_move_between_days_and_another_unit_may_not(lake: Lake) -> None:
    """`number` rises for ever, and `heat` from morning to evening, every day a little differently."""
    rows = tuples().with_columns(heat=((ROW % A_DAY) / 100 + 3 * (ROW // A_DAY)).cast(pl.Float64))
    promised = replace(PROMISED, columns=PROMISED.columns.append(pa.field("heat", pa.float64())))
    found = inspected(write(lake, rows), promised=promised)
    drift = found.tables["values"].filter(pl.col("column").is_in(["number", "heat"])).group_by("column").agg(pl.col("drift").max())
    assert all(value > 0.15 for value in drift["drift"])
    assert red(found) == set()
    other = inspected(write(Lake(f"{lake.root}-other"), at("heat", pl.col("heat") + 500, THIRD)(rows)), promised=promised)
    assert red(other) == {"distributions_stand"}


def test_a_day_that_is_cut_short_is_not_compared_with_the_day_before(lake: Lake) -> None:
    """The last day has its first hours only, in which all is different: cold, and half of it missing."""
    rows = tuples().head(3 * A_DAY + A_DAY // 3).with_columns(night=ROW >= 3 * A_DAY)
    cold = rows.with_columns(speed=pl.when("night").then(20.0).otherwise("speed")).drop("night")
    assert red(inspected(write(lake, cold))) == set()


def test_of_a_large_log_the_last_days_are_looked_at_and_of_large_days_some_files(lake: Lake) -> None:
    wrong = at("speed", pl.lit(500.0), (ROW == 10) | (ROW == 5000))
    log = write(lake, wrong(tuples()))
    there, told = choose(files(log), 2 * A_DAY)
    assert told == "the last 2 of 4 days: the log has 6,000 tuples"
    assert there["read"].to_list() == [False, False, True, True]
    found = inspected(log, most=2 * A_DAY)
    assert found.worst["values_are_in_range"]["day"].to_list() == [date(2024, 1, 4)]
    assert found.tables["days"].height == 2
    assert {outcome.name: outcome.rows for outcome in found.outcomes}["files_are_contiguous"] == DAYS
    assert inspected(log).worst["values_are_in_range"]["day"].to_list() == [date(2024, 1, 1), date(2024, 1, 4)]


def test_a_sample_finds_what_all_tuples_would(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "SAMPLED_A_DAY", 300)
    assert red(inspected(write(lake, tuples()))) == set()
    assert red(inspected(write(Lake(f"{lake.root}-moved"), at("speed", pl.col("speed") + 12, THIRD)(tuples())))) == {"distributions_stand"}


def test_distances_are_those_of_scipy() -> None:
    rng = np.random.default_rng(3)
    frames, expected = [], []
    for pair in range(20):
        a, b = np.round(rng.normal(0, 1, 150 + pair), 1), np.round(rng.normal(pair / 10, 1, 300), 1)
        expected.append(ks_2samp(a, b).statistic)
        frames.append(pl.DataFrame({"pair": pair, "second": [False] * len(a) + [True] * len(b), "value": [*a, *b]}))
    assert distances(pl.concat(frames))["distance"].to_list() == pytest.approx(expected, abs=1e-9)
