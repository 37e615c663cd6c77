"""Verification of logs that are too large for it: some keys, or some days, and it is said which.

Results are an engine's own, published as Delta tables by day; the limit is set so low that a small log is too large.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from assets import sampling
from assets.verdicts import Red, read_days
from assets.verification import verify_published
from assets.workplace import Workplace
from engines import build
from engines.contract import TIMESTAMP
from engines.slicing.engine import Engine
from quality import verifying
from replay import local
from replay.lake import Lake
from replay.log import Log
from replay.log_writer import append
from replay.publish import DAYS, results_address

START = 1_704_067_200_000_000
DAY = 86_400_000_000
WINDOWS = {
    "technique": "slicing",
    "delay": "2s",
    "queries": [
        {
            "name": "q",
            "window": {"kind": "sliding", "length": "2h", "slide": "30m"},
            "aggregates": [{"kind": "count"}, {"kind": "sum", "column": "v"}],
        }
    ],
}
FRAMES = {"technique": "frames", "delay": "2s", "frame": {"kind": "threshold", "where": "v > 0.2"}, "aggregates": [{"kind": "count"}]}


def published(lake: Lake, spec: dict[str, Any], keys: pa.Array | None, *, drawn: Any = None, lanes: int = 0) -> pl.DataFrame:
    """A log of some days, one tuple in twenty late, and the results of a replay of all of it; `drawn`: the key of each tuple, else any."""
    days, a_day = 6, 500
    n = days * a_day
    rng = np.random.default_rng(7)
    step = DAY // a_day
    ts = START + np.arange(n) * step - np.where(rng.random(n) < 0.05, 3 * step, 0)  # behind the last one by more than the delay: late
    tuples = {"ts": pa.array(ts).view(TIMESTAMP)}
    if keys is not None:
        tuples["key"] = keys.take(pa.array(rng.integers(0, len(keys), n) if drawn is None else drawn))
    if lanes:
        tuples["lane"] = pa.array(rng.integers(0, lanes, n))
    table = pa.table({**tuples, "v": rng.random(n)})
    log = append(lake, "s", table)
    run = local.run(build(spec), table, early=False)
    of_days = [date.fromordinal(day.toordinal()) for day in log.days()]
    results = pl.DataFrame(pl.from_arrow(run.final)).drop("revision", "retracted", strict=False)
    decided = pl.col("decided").dt.date().fill_null(of_days[-1]).clip(of_days[0], of_days[-1])
    late = pl.DataFrame(pl.from_arrow(run.late))
    clock = np.maximum.accumulate(ts)
    of_clock = pl.Series(clock[late["arrival"].to_numpy()]).cast(pl.Datetime("us", "UTC")).dt.date()
    tables = {"results": results.with_columns(day=decided), "late": late.with_columns(day=of_clock)}
    for output, rows in tables.items():
        write_deltalake(results_address(lake, "r", output), rows.to_arrow(), mode="overwrite", partition_by=["day"])
    record = {"run": "x", "fingerprint": build(spec).spec.fingerprint(), "arrivals": "{}", "sealed": True}
    record |= {"log_versions": json.dumps({"s": log.version}), "published": datetime.now(UTC)}
    counts = {output: dict(rows.group_by("day").len().iter_rows()) for output, rows in tables.items()}
    told = [{**record, "day": day, **{output: counts[output].get(day, 0) for output in counts}} for day in of_days]
    write_deltalake(results_address(lake, "r", "days"), pa.Table.from_pylist(told, schema=DAYS), mode="overwrite")
    return results


def verified(lake: Lake, spec: dict[str, Any]) -> dict[str, Any]:
    return verify_published(Workplace(lake=lake.root), spec, "s", "r", None)


def critical(found: dict[str, Any]) -> list[str]:
    return [outcome.name for outcome in found["outcomes"] if not outcome.passed and outcome.severity == "critical"]


KEYS = {
    "texts": pa.array([f"sensor {n}" for n in range(40)]),
    "small numbers": pa.array(range(40), pa.int32()),
    "large numbers": pa.array(range(40), pa.int64()),
}


@pytest.mark.parametrize("kind", KEYS)
def test_of_a_large_log_some_keys_are_verified_and_rows_of_others_are_not_called_wrong(
    kind: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = published(lake, WINDOWS, KEYS[kind])
    whole = verified(lake, WINDOWS)
    assert (critical(whole), whole["sample"]) == ([], "all keys")
    monkeypatch.setattr(sampling, "MOST_TUPLES", 700)
    some = verified(lake, WINDOWS)
    assert (critical(some), some["sample"]) == ([], "8 of 40 keys: the log has 3,000 tuples")
    keys = some["joined"]["key"].unique()
    assert keys.len() == 8
    assert set(some["joined"]["side"]) == {"both"}
    assert some["joined"].height == results.filter(pl.col("key").is_in(keys.implode())).height


def test_keys_are_told_apart_by_value_whatever_type_the_results_have(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Published keys are read as 64 bits, those of the log as 32: the same keys have to be chosen on both sides."""
    published(lake, WINDOWS, KEYS["small numbers"])
    monkeypatch.setattr(sampling, "MOST_TUPLES", 700)
    expected = verified(lake, WINDOWS)["joined"]["key"].unique().to_list()
    log = Log.open(lake, lake.address("streams", "s"))
    sampled = sampling.sampled(log, pl.scan_delta(log.address), WINDOWS, log.days())
    assert sampled.keys is not None
    for kind in (pl.Int32, pl.Int64):
        chosen = pl.DataFrame({"key": pl.Series(range(40), dtype=kind)}).filter(sampled.keys.among("key"))
        assert sorted(chosen["key"].to_list()) == sorted(expected)


@pytest.mark.parametrize("keys", [["tow4"], ["tow4", "tow13"], [None], ["tow4", None]], ids=str)
def test_however_few_keys_there_are_one_is_verified(keys: list[str | None], lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    published(lake, WINDOWS, pa.array(keys, pa.string()))
    monkeypatch.setattr(sampling, "MOST_TUPLES", 700)
    found = verified(lake, WINDOWS)
    assert (critical(found), found["sample"]) == ([], f"1 of {len(keys)} keys: the log has 3,000 tuples")
    assert found["joined"].height > 100
    assert found["joined"]["key"].n_unique() == 1


def test_of_a_day_keys_are_verified_that_have_tuples_there(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tow a day, as of dye: most keys have nothing to compare on most days.

    | tow 0 | tow 1 | tow 2 | tow 3 | tow 4 | tow 5 |
    """
    published(lake, WINDOWS, pa.array([f"tow {day}" for day in range(6)]), drawn=np.arange(3000) // 500)
    monkeypatch.setattr(sampling, "MOST_TUPLES", 700)
    for number, day in enumerate(Log.open(lake, lake.address("streams", "s")).days()):
        found = verify_published(Workplace(lake=lake.root), WINDOWS, "s", "r", [day])
        assert (critical(found), found["sample"]) == ([], "2 of 6 keys: the log has 3,000 tuples")
        assert f"tow {number}" in found["joined"]["key"].to_list()


def test_a_wrong_row_of_a_key_that_is_verified_is_found_and_one_of_another_key_is_not(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    results = published(lake, WINDOWS, KEYS["texts"])
    monkeypatch.setattr(sampling, "MOST_TUPLES", 700)
    chosen = verified(lake, WINDOWS)["joined"]["key"].unique().to_list()
    for among, expected in ((True, ["exact_values_are_equal"]), (False, [])):
        address = results_address(lake, "r")
        before = pl.read_delta(address)
        here = pl.col("key").is_in(chosen) if among else ~pl.col("key").is_in(chosen)
        wrong = before.with_columns(count=pl.col("count") + here.cast(pl.Int64))
        wrong.write_delta(address, mode="overwrite", delta_write_options={"partition_by": ["day"]})
        assert critical(verified(lake, WINDOWS)) == expected
        before.write_delta(address, mode="overwrite", delta_write_options={"partition_by": ["day"]})
    assert results.height > 0


@pytest.mark.parametrize("kind", KEYS)
def test_late_rows_of_keys_that_are_verified_are_verified_too(kind: str, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    published(lake, WINDOWS, KEYS[kind])
    monkeypatch.setattr(sampling, "MOST_TUPLES", 700)
    found = verified(lake, WINDOWS)
    address = results_address(lake, "r", "late")
    late, chosen = pl.read_delta(address), found["joined"]["key"].unique().to_list()
    (compared,) = [outcome for outcome in found["outcomes"] if outcome.name == "late_rows_are_equal"]
    assert compared.rows == late.filter(pl.col("key").is_in(chosen)).height > 10
    for among, expected in ((True, ["late_rows_are_equal"]), (False, [])):
        here = pl.col("key").is_in(chosen) if among else ~pl.col("key").is_in(chosen)
        wrong = late.with_columns(v=pl.col("v") + here.cast(pl.Float64))
        wrong.write_delta(address, mode="overwrite", delta_write_options={"partition_by": ["day"]})
        assert critical(verified(lake, WINDOWS)) == expected


@pytest.mark.parametrize("output", ["results", "late"])
def test_rows_of_keys_that_are_not_verified_are_counted_all_the_same(output: str, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a day is lost, or a row is there twice: no key that is verified need have been in it."""
    published(lake, WINDOWS, KEYS["texts"])
    monkeypatch.setattr(sampling, "MOST_TUPLES", 700)
    found = verified(lake, WINDOWS)
    assert critical(found) == []
    chosen = found["joined"]["key"].unique().to_list()
    address = results_address(lake, "r", output)
    rows = pl.read_delta(address).with_row_index()
    first = rows.filter(~pl.col("key").is_in(chosen)).head(1)
    for changed in (rows.filter(pl.col("index") != first["index"].item()), pl.concat([rows, first])):
        changed.drop("index").write_delta(address, mode="overwrite", delta_write_options={"partition_by": ["day"]})
        found = verified(lake, WINDOWS)
        assert critical(found) == ["counts_add_up"]
        assert read_days(found["verdicts"]["counts_add_up"]["red_days"]) == first["day"].to_list()


def test_by_another_column_than_the_key_results_are_sampled_by_that(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames by `lane`, of which there are six, in a log with forty keys."""
    spec = {**FRAMES, "key": "lane"}
    published(lake, spec, KEYS["texts"], lanes=6)
    monkeypatch.setattr(sampling, "MOST_TUPLES", 700)
    found = verified(lake, spec)
    assert (critical(found), found["sample"]) == ([], "2 of 6 keys: the log has 3,000 tuples")
    assert found["joined"]["key"].n_unique() == 2


def spoilt(lake: Lake, here: pl.Expr) -> None:
    """The counts of some windows are wrong."""
    rows = pl.read_delta(results_address(lake, "r"))
    assert rows.filter(here).height
    wrong = rows.with_columns(count=pl.col("count") + here.cast(pl.Int64))
    wrong.write_delta(results_address(lake, "r"), mode="overwrite", delta_write_options={"partition_by": ["day"]})


def again(found: dict[str, Any]) -> Red:
    """What a check that was found red tells the next one."""
    told = found["verdicts"]["exact_values_are_equal"]
    days = {day: ["exact_values_are_equal"] for day in read_days(told["red_days"])}
    return Red(days, frozenset(int(one) for one in told.get("red_keys", "").split()))


def test_a_key_that_was_red_is_verified_again_whatever_days_are_asked_for(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tow a day, that of the third day is wrong. With the sixth day alone, which has a key of its own, it would not be chosen.

    | tow 0 | tow 1 | tow 2 | tow 3 | tow 4 | tow 5 |
                       red                    asked
    """
    published(lake, WINDOWS, pa.array([f"tow {day}" for day in range(6)]), drawn=np.arange(3000) // 500)
    monkeypatch.setattr(sampling, "MOST_TUPLES", 500)
    days = Log.open(lake, lake.address("streams", "s")).days()
    spoilt(lake, (pl.col("key") == "tow 2") & (pl.col("day") == days[2]))
    workplace = Workplace(lake=lake.root)
    red = again(verify_published(workplace, WINDOWS, "s", "r", [days[2]]))
    assert list(red.days) == [days[2]]
    assert len(red.keys) == 1
    for day in days:
        found = verify_published(workplace, WINDOWS, "s", "r", [day], red)
        assert critical(found) == ["exact_values_are_equal"]
        assert again(found) == red
    forgotten = verify_published(workplace, WINDOWS, "s", "r", [days[5]], Red(red.days))
    assert critical(forgotten) == []  # the one key that is verified is that of the sixth day


def test_a_day_that_was_red_is_verified_again_whatever_days_are_sampled(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    published(lake, WINDOWS, None)
    days = Log.open(lake, lake.address("streams", "s")).days()
    spoilt(lake, pl.col("day") == days[1])
    workplace = Workplace(lake=lake.root)
    red = again(verify_published(workplace, WINDOWS, "s", "r", [days[1]]))
    monkeypatch.setattr(sampling, "MOST_TUPLES", 1200)
    assert critical(verified(lake, WINDOWS)) == []
    found = verify_published(workplace, WINDOWS, "s", "r", None, red)
    assert critical(found) == ["exact_values_are_equal"]
    assert found["sample"] == "one day in 3 and 1 that were red: the log has 3,000 tuples"


def test_of_a_large_log_without_keys_some_days_are_verified_from_the_tuples_that_they_hang_on(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = published(lake, WINDOWS, None)
    monkeypatch.setattr(sampling, "MOST_TUPLES", 1200)
    some = verified(lake, WINDOWS)
    assert (critical(some), some["sample"]) == ([], "one day in 3: the log has 3,000 tuples")
    assert set(some["joined"]["side"]) == {"both"}
    of_day = results["decided"].dt.date().fill_null(date(2024, 1, 6)).clip(date(2024, 1, 1), date(2024, 1, 6))
    assert some["joined"].height == sum(of_day.is_in([date(2024, 1, 3), date(2024, 1, 6)]))


def test_results_that_may_hang_on_any_tuple_are_verified_whole_and_that_is_said(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    published(lake, FRAMES, None)
    monkeypatch.setattr(sampling, "MOST_TUPLES", 1200)
    found = verified(lake, FRAMES)
    assert critical(found) == []
    assert found["sample"] == "all of it: there are no keys, and results may hang on any tuple before them"


@pytest.mark.parametrize(("most", "sample"), [(10_000, "all keys"), (700, "8 of 40 keys: the log has 3,000 tuples")])
def test_of_windows_no_more_is_read_than_the_tuples_that_their_days_hang_on(
    most: int, sample: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day has 500 tuples, and windows of its first hours some of the day before: for one day of a thousand the others are not read.

    | day 1 | day 2 | day 3 | day 4 | ...
                  |-|asked--|
    """
    published(lake, WINDOWS, KEYS["texts"])
    monkeypatch.setattr(sampling, "MOST_TUPLES", most)
    read: list[int] = []
    whole = verifying.oracle

    def oracle(spec: dict[str, Any], log: pl.LazyFrame) -> dict[str, pl.DataFrame]:
        read.append(log.select(pl.len()).collect().item())
        return whole(spec, log)

    monkeypatch.setattr(verifying, "oracle", oracle)
    monkeypatch.setattr(Engine, "lookback", lambda self: 0)  # whatever the engine says: it may be wrong, and is what is judged
    third = Log.open(lake, lake.address("streams", "s")).days()[2]
    found = verify_published(Workplace(lake=lake.root), WINDOWS, "s", "r", [third])
    assert (critical(found), found["sample"], set(found["joined"]["side"])) == ([], sample, {"both"})
    assert sum(read) < 600
