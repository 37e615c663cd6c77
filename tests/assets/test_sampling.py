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

from assets import checks
from assets.checks import verify_published
from assets.workplace import Workplace
from engines import build
from engines.contract import TIMESTAMP
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


def published(lake: Lake, spec: dict[str, Any], keys: pa.Array | None, days: int = 6, a_day: int = 500, drawn: Any = None) -> pl.DataFrame:
    """A log of some days, and the results of a replay of all of it; `drawn`: which key each tuple has, else any."""
    n = days * a_day
    rng = np.random.default_rng(7)
    ts = START + np.arange(n) * (DAY // a_day) - np.where(rng.random(n) < 0.05, 5_000_000, 0)
    tuples = {"ts": pa.array(ts).view(TIMESTAMP)}
    if keys is not None:
        tuples["key"] = keys.take(pa.array(rng.integers(0, len(keys), n) if drawn is None else drawn))
    table = pa.table({**tuples, "v": rng.random(n)})
    log = append(lake, "s", table)
    run = local.run(build(spec), table, early=False)
    of_days = [date.fromordinal(day.toordinal()) for day in log.days()]
    results = pl.DataFrame(pl.from_arrow(run.final)).drop("revision", "retracted", strict=False)
    decided = pl.col("decided").dt.date().fill_null(of_days[-1]).clip(of_days[0], of_days[-1])
    late = pl.DataFrame(pl.from_arrow(run.late))
    clock = np.maximum.accumulate(ts)
    for output, rows in (
        ("results", results.with_columns(day=decided)),
        ("late", late.with_columns(day=pl.Series(clock[late["arrival"].to_numpy()]).cast(pl.Datetime("us", "UTC")).dt.date())),
    ):
        write_deltalake(results_address(lake, "r", output), rows.to_arrow(), mode="overwrite", partition_by=["day"])
    record = {"run": "x", "fingerprint": "x", "log_versions": json.dumps({"s": log.version}), "arrivals": "{}", "sealed": True}
    told = [{**record, "day": day, "results": 0, "late": 0, "published": datetime.now(UTC)} for day in of_days]
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
    monkeypatch.setattr(checks, "MOST_TUPLES", 700)
    some = verified(lake, WINDOWS)
    assert (critical(some), some["sample"]) == ([], "8 of 40 keys: the log has 3,000 tuples")
    keys = some["joined"]["key"].unique()
    assert keys.len() == 8
    assert set(some["joined"]["side"]) == {"both"}
    assert some["joined"].height == results.filter(pl.col("key").is_in(keys.implode())).height


def test_keys_are_told_apart_by_value_whatever_type_the_results_have(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Published keys are read as 64 bits, those of the log as 32: the same keys have to be chosen on both sides."""
    published(lake, WINDOWS, KEYS["small numbers"])
    monkeypatch.setattr(checks, "MOST_TUPLES", 700)
    expected = verified(lake, WINDOWS)["joined"]["key"].unique().to_list()
    log = Log.open(lake, lake.address("streams", "s"))
    sampled = checks._sampled(log, pl.scan_delta(log.address), WINDOWS, "s", log.days())
    assert sampled.keys is not None
    for kind in (pl.Int32, pl.Int64):
        chosen = pl.DataFrame({"key": pl.Series(range(40), dtype=kind)}).filter(sampled.keys)
        assert sorted(chosen["key"].to_list()) == sorted(expected)


@pytest.mark.parametrize("keys", [["tow4"], ["tow4", "tow13"], [None], ["tow4", None]], ids=str)
def test_however_few_keys_there_are_one_is_verified(keys: list[str | None], lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    published(lake, WINDOWS, pa.array(keys, pa.string()))
    monkeypatch.setattr(checks, "MOST_TUPLES", 700)
    found = verified(lake, WINDOWS)
    assert (critical(found), found["sample"]) == ([], f"1 of {len(keys)} keys: the log has 3,000 tuples")
    assert found["joined"].height > 100
    assert found["joined"]["key"].n_unique() == 1


def test_of_a_day_keys_are_verified_that_have_tuples_there(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tow a day, as of dye: most keys have nothing to compare on most days.

    | tow 0 | tow 1 | tow 2 | tow 3 | tow 4 | tow 5 |
    """
    published(lake, WINDOWS, pa.array([f"tow {day}" for day in range(6)]), drawn=np.arange(3000) // 500)
    monkeypatch.setattr(checks, "MOST_TUPLES", 700)
    for number, day in enumerate(Log.open(lake, lake.address("streams", "s")).days()):
        found = verify_published(Workplace(lake=lake.root), WINDOWS, "s", "r", [day])
        assert (critical(found), found["sample"]) == ([], "2 of 6 keys: the log has 3,000 tuples")
        assert f"tow {number}" in found["joined"]["key"].to_list()


def test_a_wrong_row_of_a_key_that_is_verified_is_found_and_one_of_another_key_is_not(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    results = published(lake, WINDOWS, KEYS["texts"])
    monkeypatch.setattr(checks, "MOST_TUPLES", 700)
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


def test_of_a_large_log_without_keys_some_days_are_verified_from_the_tuples_that_they_hang_on(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = published(lake, WINDOWS, None)
    monkeypatch.setattr(checks, "MOST_TUPLES", 1200)
    some = verified(lake, WINDOWS)
    assert (critical(some), some["sample"]) == ([], "one day in 3: the log has 3,000 tuples")
    assert set(some["joined"]["side"]) == {"both"}
    of_day = results["decided"].dt.date().fill_null(date(2024, 1, 6)).clip(date(2024, 1, 1), date(2024, 1, 6))
    assert some["joined"].height == sum(of_day.is_in([date(2024, 1, 3), date(2024, 1, 6)]))


def test_results_that_may_hang_on_any_tuple_are_verified_whole_and_that_is_said(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    published(lake, FRAMES, None)
    monkeypatch.setattr(checks, "MOST_TUPLES", 1200)
    found = verified(lake, FRAMES)
    assert critical(found) == []
    assert found["sample"] == "all of it: there are no keys, and results may hang on any tuple before them"
