"""What a materialization of a stream tells: the same of an empty log as of any other, and a lake that is wrong in a sentence."""

from __future__ import annotations

import shutil
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from assets.workplace import Workplace
from orchestration.building import build_defs
from tests.orchestration.driving import failure, metadata

DECLARED = """
files: {pattern: "*.csv", header: true}
columns: [{name: when, type: time}, {name: cost, type: float64}]
time: {column: when}
"""
KEY = dg.AssetKey(["streams", "calls"])


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    for folder in ("streams", "raw/calls"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "streams" / "calls.stream.yaml").write_text(DECLARED)
    return Workplace(lake=str(tmp_path / "lake"), raw=str(tmp_path / "raw"), declarations=str(tmp_path / "streams"))


def ingested(workplace: Workplace, content: str) -> dg.ExecuteInProcessResult:
    """A file of calls, ingested, without checks."""
    Path(workplace.raw, "calls", "may.csv").write_text(content)
    return materialized(workplace, KEY)


def materialized(workplace: Workplace, key: dg.AssetKey) -> dg.ExecuteInProcessResult:
    """A stream, without checks."""
    job = dg.define_asset_job("alone", selection=dg.AssetSelection.assets(key).without_checks())
    found = dg.Definitions.merge(build_defs(workplace), dg.Definitions(jobs=[job])).resolve_job_def("alone")
    with dg.DagsterInstance.ephemeral() as instance:
        return found.execute_in_process(instance=instance, raise_on_error=False)


def test_an_empty_log_is_told_under_the_same_names_as_any_other(workplace: Workplace) -> None:
    empty, full = (metadata(ingested(workplace, f"when,cost\n{rows}")) for rows in ("", "2024-05-01T00:00:00,1.5\n"))
    assert list(empty) == list(full)
    assert {name: type(value) for name, value in empty.items()} == {name: type(value) for name, value in full.items()}
    assert (empty["tuples"].value, empty["out_of_order"].value, empty["preview"].value) == (0, 0.0, "no rows")
    assert full["tuples"].value == 1


def test_a_log_that_is_written_anew_has_another_data_version_and_one_that_stays_as_it_is_has_the_same(workplace: Workplace) -> None:
    """Versions of the table count from 0 again: results of the log that is gone would be shown as fresh."""

    def version(cost: float) -> str:
        done = ingested(workplace, f"when,cost\n2024-05-01T00:00:00,{cost}\n")
        (event,) = done.get_asset_materialization_events()
        assert event.materialization.metadata["delta_version"].value == 0
        return event.materialization.tags["dagster/data_version"]

    before = version(1.5)
    assert version(1.5) == before
    shutil.rmtree(Path(workplace.lake, "streams"))
    assert version(2.5) != before


def test_a_table_that_is_no_log_is_refused_with_a_sentence(workplace: Workplace) -> None:
    address = f"{workplace.lake}/streams/calls"
    pl.DataFrame({"v": [1]}).write_delta(address)
    done = ingested(workplace, "when,cost\n2024-05-01T00:00:00,1.5\n")
    assert not done.success
    assert failure(done).startswith(f"log {address}: a Delta table with the description None found; allowed is ")


def test_originals_that_have_gone_are_not_replaced_by_a_twin_that_nobody_asked_for(workplace: Workplace) -> None:
    file = Path(workplace.raw, "traffic", "a.csv")
    file.parent.mkdir()
    file.write_text("detectorid,starttime,volume,speed,occupancy,status,dqflags\n1,2011-09-15 00:00:00-07,3,55,1,2,0\n")
    key = dg.AssetKey(["streams", "traffic"])
    assert materialized(workplace, key).success
    file.unlink()
    done = materialized(workplace, key)
    assert failure(done).startswith(f"stream traffic: no file in {file.parent} matches its setting files.pattern, '*.csv', but its log was")
    assert not Path(workplace.raw, "traffic__twin").exists()


def test_of_many_rejects_the_first_are_shown_and_no_more_are_read(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay.streams.rejects.read_rejects", None)
    lines = [f"2024-05-01T00:00:{n:02d},{'free' if n % 2 else n}" for n in range(60)]
    Path(workplace.raw, "calls", "april.csv").write_text("when,cost\nyesterday,1\n")
    told = metadata(ingested(workplace, "\n".join(["when,cost", *lines]) + "\n"))
    assert told["rejected"].value == 31
    rows = [row.split(" | ")[:2] for row in str(told["rejects"].value).splitlines()[2:]]
    assert rows == [["| april.csv", "2"], *(["| may.csv", str(line)] for line in range(3, 21, 2))]
