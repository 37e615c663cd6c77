"""Checks of streams in Dagster: a stream of one's own has them all from its declaration, and what cannot be judged is red."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from assets import stream_checks
from assets.stream_checks import inspect_stream, limits, promised
from assets.workplace import Workplace
from orchestration.building import build_defs
from quality.suites.streams import Limits, suite
from replay.lake import Lake
from replay.streams.declaration import Declaration, Expect, declaration
from replay.streams.ingest import ingest
from replay.streams.tasks import InProcess

DECLARED = """
title: Calls of a study
files: {pattern: "*.csv", header: true}
columns:
  - {name: when, type: time}
  - {name: caller, type: int32, range: [1, 99]}
  - {name: cost, type: float64, unit: EUR, range: [0, null]}
  - {name: note, type: string, required: true}
  - {name: zone, type: string, optional: true}
time: {column: when}
key: caller
range: [2024-01-01, 2025-01-01]
expect: {silence: 30d, rejected: 0.3}
"""
RAW = """when,caller,cost,note
2024-05-01T00:00:00,7,1.5,a
2024-05-01T00:01:00,8,2.5,b
2024-05-01T00:02:00,500,2.5,an unknown caller
2024-05-01T00:03:00,8,0,c
2024-05-02T00:00:00,7,3,d
"""
KEY = dg.AssetKey(["streams", "calls"])


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    (tmp_path / "streams").mkdir()
    (tmp_path / "streams" / "calls.stream.yaml").write_text(DECLARED)
    (tmp_path / "raw" / "calls").mkdir(parents=True)
    (tmp_path / "raw" / "calls" / "may.csv").write_text(RAW)
    return Workplace(lake=str(tmp_path / "lake"), raw=str(tmp_path / "raw"), declarations=str(tmp_path / "streams"))


def ingested(workplace: Workplace, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    job = build_defs(workplace).resolve_implicit_global_asset_job_def()
    return job.execute_in_process(instance=instance, asset_selection=[KEY], raise_on_error=False)


def checked(workplace: Workplace, instance: dg.DagsterInstance, *names: str) -> dg.ExecuteInProcessResult:
    """The checks of the stream alone, all or some."""
    some = dg.AssetSelection.checks(*(dg.AssetCheckKey(KEY, name) for name in names))
    job = dg.define_asset_job("alone", selection=some if names else dg.AssetSelection.checks_for_assets(KEY))
    defs = dg.Definitions.merge(build_defs(workplace), dg.Definitions(jobs=[job]))
    return defs.resolve_job_def("alone").execute_in_process(instance=instance, raise_on_error=False)


def red(done: dg.ExecuteInProcessResult) -> list[str]:
    return [check.check_name for check in done.get_asset_check_evaluations() if not check.passed]


def told(done: dg.ExecuteInProcessResult) -> str:
    (sentence,) = {str(check.metadata["told"].value) for check in done.get_asset_check_evaluations()}
    return sentence


def test_a_stream_of_ones_own_has_every_check_when_it_is_ingested_and_one_that_fails_is_red(workplace: Workplace) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        done = ingested(workplace, instance)
        assert done.success
        checks = {check.check_name: check for check in done.get_asset_check_evaluations()}
        assert list(checks) == [one.expected.name for one in suite()]
        assert red(done) == []
        about = checks["records_add_up"].metadata
        assert (about["rows"].value, about["tuples"].value, about["sample"].value) == (2, 4, "the whole log")
        assert "data:image/png" in str(checks["distributions_stand"].metadata["drift"].value)

        one = checked(workplace, instance, "units_stand")
        assert [check.check_name for check in one.get_asset_check_evaluations()] == ["units_stand"]

        rejects = f"{workplace.lake}/streams/calls__rejects"
        rows = pl.read_delta(rejects)
        pl.concat([rows, rows.with_columns(file=pl.lit("june.csv"))]).write_delta(rejects, mode="overwrite")
        unknown = checked(workplace, instance, "records_add_up")
        assert red(unknown) == ["records_add_up"]
        assert "| june.csv | 0 | 0 | 0 | 1 | 1 |" in str(unknown.get_asset_check_evaluations()[0].metadata["worst"].value)

        # A record that was rejected is in the table of rejects, or it is lost.
        pl.read_delta(rejects).clear().write_delta(rejects, mode="overwrite")
        again = checked(workplace, instance)
        assert not again.success
        assert red(again) == ["records_add_up"]
        (failed,) = [check for check in again.get_asset_check_evaluations() if not check.passed]
        assert failed.severity == dg.AssetCheckSeverity.ERROR
        assert "| may.csv | 5 | 4 | 1 | 0 | 1 |" in str(failed.metadata["worst"].value)


def test_what_cannot_be_judged_is_red_and_says_why(workplace: Workplace) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        missing = checked(workplace, instance)
        assert len(red(missing)) == len(suite())
        assert "there is no such log; write or ingest the stream first" in str(
            missing.get_asset_check_evaluations()[0].metadata["told"].value
        )
        ingested(workplace, instance)
        next(Path(workplace.lake, "streams", "calls").rglob("*.parquet")).unlink()
        gone = checked(workplace, instance)
        assert not gone.success
        assert len(red(gone)) == len(suite())
        assert "it could not be judged" in told(gone)


def test_critical_checks_block_and_warnings_do_not(workplace: Workplace) -> None:
    graph = build_defs(workplace).resolve_asset_graph()
    blocking = {key.name for key in graph.asset_check_keys if key.asset_key == KEY and graph.get_check_spec(key).blocking}
    assert blocking == {one.expected.name for one in suite() if one.expected.severity == "critical"}
    described = {key.name: graph.get_check_spec(key).description for key in graph.asset_check_keys if key.asset_key == KEY}
    assert "more than 0.3 of the records" in str(described["few_records_are_rejected"])  # as it is declared


@pytest.mark.parametrize("job", ["ingest", "quality"])
def test_checks_of_streams_are_part_of_the_jobs(job: str, workplace: Workplace) -> None:
    assert "checks_of_streams__calls" in {node.name for node in build_defs(workplace).resolve_job_def(job).nodes}


def test_what_a_declaration_promises_is_told_by_the_names_of_the_log(workplace: Workplace) -> None:
    found = promised(workplace.declaration("calls"))
    assert found.columns.names == ["ts", "key", "cost", "note", "zone"]
    assert found.ranges == {"key": (1, 99), "cost": (0, None)}
    assert found.needed == {"ts", "key", "note"}
    assert found.optional == {"zone"}
    assert found.units == {"cost": "EUR"}


def test_any_stream_that_can_be_declared_can_be_inspected(workplace: Workplace) -> None:
    """Events with a duration, two columns as key, in the order of a third, and columns with names that inspection itself uses."""
    names = ("path", "hash", "column", "told", "pair", "value", "second", "weight", "tuples", "missing")
    columns = "".join(f"  - {{name: {name}, type: int32}}\n" for name in names)
    text = "files: {pattern: '*.csv', header: true}\ncolumns:\n  - {name: begin, type: time}\n  - {name: lasts, type: int32}\n" + columns
    Path(workplace.declarations, "odd.stream.yaml").write_text(
        text + "time: {start: begin, duration: lasts, format: number}\nkey: [path, pair]\norder: value\n"
    )
    folder = Path(workplace.raw, "odd")
    folder.mkdir()
    lines = [",".join([str(n * 60), "30", *(str(n) for _ in names)]) for n in range(4000)]
    (folder / "a.csv").write_text("\n".join([",".join(("begin", "lasts", *names)), *lines]) + "\n")
    ingest(workplace.place, workplace.declaration("odd"), Lake(str(folder)), InProcess())
    found, about = inspect_stream(workplace, "odd")
    assert [outcome.name for outcome in found.outcomes if not outcome.passed] == []
    assert about["tuples"] == 4000
    needed = found.tables["values"].filter(pl.col("lacking").is_not_null())["column"].unique().to_list()
    assert set(needed) == {"arrival", "arrived", "clock", "start", "end", "key", "path", "pair", "value"}


def test_limits_are_those_of_the_declaration_and_change_no_log(workplace: Workplace) -> None:
    assert {field.name.removesuffix("_us") for field in fields(Limits)} == set(Expect.model_fields)
    calls = workplace.declaration("calls")
    assert limits(calls) == Limits(silence_us=30 * 86_400_000_000, rejected=0.3)
    assert limits(declaration("traffic")) == Limits()
    content = calls.model_dump(mode="json", by_alias=True, exclude={"expect"})
    assert Declaration(**content).fingerprint() == calls.fingerprint()


def test_of_a_large_log_the_last_days_are_inspected_and_that_is_said(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"2024-05-{day:02d}T{hour:02d}:00:00,7,1,x" for day in range(1, 6) for hour in range(24)]
    Path(workplace.raw, "calls", "may.csv").write_text("\n".join(["when,caller,cost,note", *lines]) + "\n")
    with dg.DagsterInstance.ephemeral() as instance:
        ingested(workplace, instance)
    monkeypatch.setattr(stream_checks, "MOST_TUPLES", 50)
    found, about = inspect_stream(workplace, "calls")
    assert (about["tuples"], about["sample"]) == (48, "the last 2 of 5 days: the log has 120 tuples")
    assert all(outcome.passed for outcome in found.outcomes)
