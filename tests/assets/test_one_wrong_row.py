"""One wrong row among two hundred thousand, all the way: a launched replay, its checks in Dagster, and the page that they write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from assets.results import LAUNCHED
from assets.workplace import Workplace
from engines.contract import TIMESTAMP
from replay.lake import Lake
from replay.log_writer import append
from tests.assets.test_reporting import Text
from tests.orchestration.driving import Platform
from tests.replay.harness import in_process

MANY, HERE = 200_000, 123_456
SECOND = 1_000_000
PUBLISHED = "launched__slicing__ticks"


def test_one_wrong_row_is_red_and_shown_to_the_digit_in_the_check_and_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tuple a second and windows of a second, over three days; after they are published, one sum is off by a millionth of itself."""
    monkeypatch.setattr(Workplace, "spark", None)
    monkeypatch.setattr("replay.runs.execute", in_process)
    platform = Platform(tmp_path)
    ts = pa.array(np.arange(MANY) * SECOND).view(TIMESTAMP)
    append(Lake(platform.workplace.lake), "ticks", pa.table({"ts": ts, "v": np.arange(MANY) % 1000 + 0.5}))
    queries = [{"name": "q", "window": {"tumbling": {"length": "1s"}}, "aggregates": [{"kind": "sum", "column": "v"}]}]
    config = {"stream": "ticks", "technique": {"slicing": {"queries": queries}}}
    done = platform.run(job="replay", run_config={"ops": {"experiments__replay": {"config": config}}})
    checks = {check.check_name: check for check in done.get_asset_check_evaluations()}
    assert (done.success, all(check.passed for check in checks.values())) == (True, True)
    assert checks["sums_agree"].metadata["rows"].value == MANY

    table = f"{platform.workplace.lake}/results/{PUBLISHED}"
    rows, here = pl.read_delta(table), pl.col("measure_start") == HERE * SECOND
    (right,) = rows.filter(here)["sum_v"]
    wrong = right * (1 + 1e-6)
    spoilt = rows.with_columns(sum_v=pl.when(here).then(wrong).otherwise("sum_v"))
    spoilt.write_delta(table, mode="overwrite", delta_write_options={"partition_by": ["day"]})
    done = platform.checks(LAUNCHED)
    assert not done.success
    (red,) = [check for check in done.get_asset_check_evaluations() if not check.passed]
    assert (red.check_name, red.metadata["rows"].value, red.metadata["wrong"].value) == ("sums_agree", MANY, 1)
    assert red.metadata["red_days"].value == "1970-01-02"
    assert f" {wrong} | {right} |" in str(red.metadata["worst"].value)
    shown = Text(platform.report(red.metadata["report"]).read_text()).rows
    (engine,) = [row for row in shown if str(wrong) in row]
    assert str(HERE * SECOND) in engine
    assert str(right) in shown[shown.index(engine) + 1]
