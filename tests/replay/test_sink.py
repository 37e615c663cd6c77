"""However many batches a run has, its tables have few files; putting them together loses no row, doubles none and shows to nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from engines import build
from replay import local, log_writer, sink
from replay.envelope import LATE
from replay.files import write_file
from replay.lake import Lake
from replay.metrics import metrics_of, metrics_table
from replay.outputs import create_tables
from replay.plan import Plan
from replay.runs import plan_run
from tests.comparing import assert_same_rows, rows_of
from tests.replay.harness import ONE_OF_EACH, in_process, stream, with_clock

BATCHES = 8


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "MERGE_BATCHES", BATCHES)


def planned(lake: Lake, spec: dict[str, Any], **settings: Any) -> Plan:
    log_writer.append(lake, "s", table(spec), file_rows=4)
    return plan_run(lake, spec, ["s"], **{"batch_tuples": 4, "buckets": 2, **settings})


def table(spec: dict[str, Any]) -> pa.Table:
    return stream(7, tuples=120, behind_us=build(spec).clock("s").behind_us)


def files(lake: Lake, address: str) -> list[str]:
    found = lake.table(address)
    assert found is not None
    return found.file_uris()


def commit(lake: Lake, run: str, batch: int) -> None:
    sink.commit_batch(lake, run, batch, [f'{{"written": {{}}, "metrics": {{"batch": {batch}, "clock": 0, "due": 0, "final": 0}}}}'])


def changes(lake: Lake, address: str) -> Iterator[tuple[int, int]]:
    """Of each commit how many files it adds and removes that change data."""
    for version in range(DeltaTable(address).version() + 1):
        log = (Path(address) / "_delta_log" / f"{version:020d}.json").read_text()
        yield tuple(
            sum(line.startswith(f'{{"{kind}"') and '"dataChange":true' in line for line in log.splitlines()) for kind in ("add", "remove")
        )  # type: ignore[misc]


@pytest.mark.parametrize("technique", ONE_OF_EACH)
def test_a_run_of_many_batches_has_few_files_and_every_row_once(lake: Lake, technique: str) -> None:
    #   batch    0 1 2 3 4 5 6 7 8 9 ...             every seventh is committed twice, as after a crash
    #   files    . . . . . . . 1 . . ...             of each output, beside those of the batches since
    spec = with_clock(ONE_OF_EACH[technique], "an hour")
    plan = planned(lake, spec)
    run, whole = in_process(None, plan), local.run(build(spec), table(spec))
    assert run.metrics()["batch"].to_pylist() == list(range(31))
    assert_same_rows(run.final(), rows_of(whole.final), whole.operator.identity["results"])
    assert_same_rows(run.table(LATE), rows_of(whole.late), ["arrival"], what="late")
    assert len(files(lake, lake.metrics)) == 1 + 31 % BATCHES + 1  # the one that was put together last, and its batch's own
    for output in ("results", LATE):
        assert len(files(lake, plan.output(output))) <= 1 + plan.buckets * BATCHES
    added = [added for added, _ in changes(lake, plan.output("results"))]
    assert sum(added) > BATCHES and max(added) <= plan.buckets  # a stream of the table gets each row once
    assert not any(removed for _, removed in changes(lake, plan.output("results")))


def test_killed_while_files_are_put_together_a_batch_is_done_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    create_tables(planned(lake, ONE_OF_EACH["slicing"]))
    for batch in range(BATCHES - 1):
        commit(lake, "r", batch)

    def killed(*args: Any, **settings: Any) -> None:
        raise KeyboardInterrupt

    for moment in ("replay.sink.RemoveAction", "deltalake.DeltaTable.create_write_transaction"):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(moment, killed)
            commit(lake, "r", BATCHES - 1)
        assert metrics_of(lake, "r")["batch"].to_pylist() == list(range(BATCHES - 1))
    for _ in range(2):
        commit(lake, "r", BATCHES - 1)
        assert metrics_of(lake, "r")["batch"].to_pylist() == list(range(BATCHES))
        assert len(files(lake, lake.metrics)) == 2


def test_a_run_leaves_one_file_of_metrics_and_touches_none_of_another_that_goes_on(lake: Lake) -> None:
    create_tables(planned(lake, ONE_OF_EACH["slicing"]))
    for batch in range(BATCHES + 3):
        for run in ("a.run-1", "other"):
            commit(lake, run, batch)
    before = {path for path in files(lake, lake.metrics) if "run=other" in path}
    opened = lake.table(lake.metrics)
    assert opened is not None
    commit(lake, "other", BATCHES + 3)
    sink.settle(lake, "a.run-1")
    sink.settle(lake, "a.run-1")  # a run that had come to its end is resumed
    sink.settle(lake, "of no batches")
    now = files(lake, lake.metrics)
    assert before < set(now) and len([path for path in now if "run=other" not in path]) == 1
    told = metrics_of(lake, "a.run-1", "other").select(["run", "batch"]).to_pylist()
    assert [row["batch"] for row in told] == [*range(BATCHES + 3), *range(BATCHES + 4)]
    assert opened.to_pyarrow_table().num_rows == 2 * (BATCHES + 3)  # who had opened it before reads on


def test_files_that_were_put_together_go_from_the_disk_and_no_others(lake: Lake) -> None:
    create_tables(planned(lake, ONE_OF_EACH["slicing"]))
    opened = lake.table(lake.metrics)
    assert opened is not None
    opened.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    rows = metrics_table([{"batch": 0, "clock": 0, "due": 0, "final": 0}])
    pending = Path(lake.metrics) / write_file(lake, lake.metrics, rows, partition={"run": "another"}).path
    for batch in range(6 * BATCHES):
        commit(lake, "r", batch)
    assert pending.exists()  # a task has written it, and its batch is yet to be committed
    assert len(list((Path(lake.metrics) / "run=r").iterdir())) <= 2 * BATCHES
    assert metrics_of(lake, "r").num_rows == 6 * BATCHES


def test_large_files_are_left_and_small_ones_read_few_at_a_time(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    create_tables(planned(lake, ONE_OF_EACH["slicing"]))
    for batch in range(BATCHES - 1):
        commit(lake, "r", batch)
    size = Path(files(lake, lake.metrics)[0]).stat().st_size
    monkeypatch.setattr(sink, "_MERGED_BYTES", 3 * size)
    commit(lake, "r", BATCHES - 1)
    assert len(files(lake, lake.metrics)) == 3 + 1
    monkeypatch.setattr(sink, "_SMALL_BYTES", 1)
    sink.settle(lake, "r")
    assert len(files(lake, lake.metrics)) == 3 + 1
    assert metrics_of(lake, "r").num_rows == BATCHES
