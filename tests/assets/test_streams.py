"""What a materialization of a stream tells: the same of an empty log as of any other, and a lake that is wrong in a sentence."""

from __future__ import annotations

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
    job = dg.define_asset_job("alone", selection=dg.AssetSelection.assets(KEY).without_checks())
    found = dg.Definitions.merge(build_defs(workplace), dg.Definitions(jobs=[job])).resolve_job_def("alone")
    with dg.DagsterInstance.ephemeral() as instance:
        return found.execute_in_process(instance=instance, raise_on_error=False)


def test_an_empty_log_is_told_under_the_same_names_as_any_other(workplace: Workplace) -> None:
    empty, full = (metadata(ingested(workplace, f"when,cost\n{rows}")) for rows in ("", "2024-05-01T00:00:00,1.5\n"))
    assert list(empty) == list(full)
    assert {name: type(value) for name, value in empty.items()} == {name: type(value) for name, value in full.items()}
    assert (empty["tuples"].value, empty["out_of_order"].value, empty["preview"].value) == (0, 0.0, "no rows")
    assert full["tuples"].value == 1


def test_a_table_that_is_no_log_is_refused_with_a_sentence(workplace: Workplace) -> None:
    address = f"{workplace.lake}/streams/calls"
    pl.DataFrame({"v": [1]}).write_delta(address)
    done = ingested(workplace, "when,cost\n2024-05-01T00:00:00,1.5\n")
    assert not done.success
    assert failure(done).startswith(f"log {address}: a Delta table with the description None found; allowed is ")
