"""A batch may release far more rows than it has tuples: they are made and held some at a time, and are the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engines import build
from engines.contract import TIMESTAMP, Operator
from engines.frames.engine import Operator as Frames
from engines.slicing.engine import Operator as Slicing
from replay import bucket, local, log_writer
from replay.backfill import plan_days
from replay.lake import Lake
from replay.publish import publish
from replay.runs import plan_run
from tests.comparing import assert_same_rows, rows_of
from tests.replay.harness import CLOCKS, SPECS, assert_published, in_process, stream, with_clock

OPERATORS = {"slicing": Slicing, "frames": Frames}
SPARSE = {"technique": "slicing", "queries": [
    {"name": "q", "window": {"kind": "sliding", "length": "1h", "slide": "1s"}, "aggregates": [{"kind": "count"}]}]}  # fmt: skip


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each lower gave."""
    counts: list[int] = []

    def counted(lower: Any) -> Any:
        def wrapper(self: Operator, *given: Any) -> Mapping[str, pa.Table]:
            released: Mapping[str, pa.Table] = lower(self, *given)
            counts.append(released["results"].num_rows)
            return released

        return wrapper

    for operator in OPERATORS.values():
        monkeypatch.setattr(operator, "lower", counted(operator.lower))
    return counts


def minutes(tuples: int) -> pa.Table:
    return pa.table({"ts": pa.array(np.arange(tuples) * 60_000_000, TIMESTAMP), "v": np.ones(tuples)})


@pytest.mark.parametrize("early", [True, False], ids=["early", "final only"])
@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("name", SPECS)
def test_no_row_depends_on_how_many_are_made_at_once(
    name: str, clock: str, early: bool, lowered: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, more = build(with_clock(SPECS[name], clock)), 0
    for seed in range(2):
        table = stream(seed, tuples=200, behind_us=engine.clock("s").behind_us)
        for batch_rows, buckets in ((1000, 1), (37, 3)):
            lowered.clear()
            whole = local.run(engine, table, batch_rows=batch_rows, buckets=buckets, early=early)
            at_once = len(lowered)
            for held in (1, 2, 20):
                lowered.clear()
                with monkeypatch.context() as patch:
                    patch.setattr(bucket, "HELD_ROWS", held)
                    run = local.run(engine, table, batch_rows=batch_rows, buckets=buckets, early=early)
                assert_same_rows(run.final, rows_of(whole.final), whole.operator.identity["results"])
                assert run.metrics["results"].to_pylist() == whole.metrics["results"].to_pylist()
                more += len(lowered) - at_once
    # Rows that may be taken back are not: of them all of a batch are made at once.
    assert (more > 0) == (not early or clock == "in order")


def test_rows_are_made_some_at_a_time_however_long_a_batch_lasts(lowered: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    #   x              x              x              a tuple a minute, and sixty windows for each
    #   |||||||||||||||||||||||||||||||||||
    monkeypatch.setattr(bucket, "HELD_ROWS", 4_000)
    run = local.run(build(SPARSE), minutes(2_000), batch_rows=10**6)
    assert run.results.num_rows == 60 * 1_999 + 3_600
    assert max(lowered) <= 4_000


def test_what_gives_few_rows_is_lowered_once_a_batch(lowered: list[int]) -> None:
    local.run(build(SPARSE), minutes(1_000), batch_rows=100, flush=False)
    assert len(lowered) <= 10 + 5  # before the first batch nothing was known


def test_a_bucket_that_is_loaded_knows_how_far_to_go(lake: Lake, lowered: list[int]) -> None:
    """Spark makes every bucket anew for each batch."""
    log_writer.append(lake, "s", minutes(1_000))
    in_process(None, plan_run(lake, SPARSE, ["s"], batch_tuples=100, buckets=1))
    assert len(lowered) <= 11 + 5 + 2


@pytest.mark.parametrize("name", SPECS)
def test_rows_that_are_written_before_a_batch_ends_are_published_once(lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = with_clock(SPECS[name], "an hour")
    table = stream(3, tuples=400, behind_us=build(spec).clock("s").behind_us)
    days = log_writer.append(lake, "s", table, file_rows=50).days()
    plan = plan_days(lake, spec, ["s"], days[0], days[-1], batch_tuples=150)
    with monkeypatch.context() as patch:
        patch.setattr(bucket, "HELD_ROWS", 10)
        run = in_process(None, plan)
    publish(plan)
    assert_published(lake, f"{spec['technique']}__s", spec, table)
    written = list(Path(plan.output("results")).glob("*.parquet"))
    assert len(written) > run.metrics().num_rows * plan.buckets or run.table().num_rows < 40
