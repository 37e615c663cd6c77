"""Metrics tell what each batch was, in this process and from the lake alike, and a run is followed by them."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow.compute as pc
import pytest

from engines import build
from engines.contract import TIMESTAMP
from replay import local, log_writer
from replay.lake import Lake
from replay.log import FIRST_US
from replay.metrics import metrics_table
from replay.plan import PLAN
from replay.progress import Watch
from replay.runs import plan_run
from tests.comparing import assert_same_rows, rows_of
from tests.replay.harness import SPECS, in_process, stream


@pytest.mark.parametrize("setting", ["delay", "lateness"])
@pytest.mark.parametrize("name", ["short windows", "frames"])
def test_a_watermark_of_before_the_year_1_is_none_and_the_run_goes_on(lake: Lake, name: str, setting: str) -> None:
    #   year  -714                      1                      2024
    #           W(i)                    |                       C(i)       999999d: nothing is ever late
    spec, table = {**SPECS[name], setting: "999999d"}, stream(1, tuples=60, behind_us=10**10)
    log_writer.append(lake, "s", table, file_rows=20)
    plan = plan_run(lake, spec, ["s"], batch_tuples=20)
    lake.write_json(plan.folder, PLAN, {})
    run, whole = in_process(None, plan), local.run(build(spec), table, batch_rows=20)
    assert_same_rows(run.final(), rows_of(whole.final), whole.operator.identity["results"])
    assert run.table("late").num_rows == whole.late.num_rows == 0
    instants = ["clock", "watermark", "final_watermark"]
    assert run.metrics().select(instants).to_pylist() == whole.metrics.select(instants).to_pylist()
    reached = Watch(plan).progress()  # as a run that is resumed begins
    assert reached.batch == 3 and reached.tuples == 60
    assert reached.clock == pc.max(table["ts"]).as_py()
    assert run.metrics()["final_watermark"].null_count == 4
    assert (reached.watermark is None) == (setting == "delay")


def test_instants_are_told_as_far_as_there_are_dates() -> None:
    step = {"batch": 0, "clock": FIRST_US, "due": FIRST_US, "final": FIRST_US - 1}
    row = metrics_table([step]).to_pylist()[0]
    assert row["watermark"] == row["clock"] == datetime(1, 1, 1, tzinfo=UTC) and row["final_watermark"] is None
    assert metrics_table([step]).schema.field("clock").type == TIMESTAMP
