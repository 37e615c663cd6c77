"""Large tables of state are in files, of which those that count are named in Spark's state store, whatever becomes of a batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay import log_writer
from replay.backfill import plan_days
from replay.lake import Lake
from replay.plan import Plan
from replay.publish import publish
from replay.runs import plan_run
from replay.state_files import FOLDER, StateFiles
from tests.replay.harness import SPECS, assert_published, in_process, stream, with_clock

SPEC = with_clock(SPECS["frames"], "an hour")


@pytest.fixture
def plan(lake: Lake) -> Plan:
    log_writer.append(lake, "s", stream(1))
    return plan_run(lake, SPEC, ["s"], inline_state_bytes=10)


def kept(plan: Plan) -> set[str]:
    folder = Path(plan.folder) / FOLDER
    return {file.name.partition("-")[0] for file in folder.iterdir()} if folder.exists() else set()


def test_only_large_tables_are_files_and_the_store_names_them(plan: Plan) -> None:
    entries = StateFiles(plan, {}).write({"": b"far", "large": b"12345678901", "small": b"1234567890"}, batch=1)
    assert kept(plan) == {"large"}
    assert entries[""] == b"far" and entries["small"] == b"1234567890" and b"1234" not in entries["large"]
    found = {name: bytes(content) for name, content in StateFiles(plan, entries).read().items()}
    assert found == {"": b"far", "large": b"12345678901", "small": b"1234567890"}


def test_a_file_goes_when_the_batch_that_replaced_it_is_committed_and_not_before(plan: Plan) -> None:
    #   batch     1        2              2 again (a crash)    3
    #   writes    one      another        another              nothing
    #   there     one      one, another   one, 2 x another     the one that counts, and what the crash left
    first = StateFiles(plan, {}).write({"t": b"one" * 9}, batch=1)
    StateFiles(plan, first).write({"t": b"another" * 9}, batch=2)
    again = StateFiles(plan, first)
    assert bytes(again.read()["t"]) == b"one" * 9
    second = {**first, **again.write({"t": b"another" * 9}, batch=2)}
    assert len(list((Path(plan.folder) / FOLDER).iterdir())) == 3
    third = StateFiles(plan, second)
    assert bytes(third.read()["t"]) == b"another" * 9
    entries = {**second, **third.write({}, batch=3)}
    assert len(list((Path(plan.folder) / FOLDER).iterdir())) == 2
    # The third batch is tried again, as it began and as it ended.
    for stored in (second, entries):
        tried = StateFiles(plan, stored)
        assert bytes(tried.read()["t"]) == b"another" * 9
        tried.write({}, batch=3)
    assert "another" not in str(entries)


@pytest.mark.parametrize("name", SPECS)
def test_state_in_files_gives_the_same_and_leaves_few_of_them(lake: Lake, name: str) -> None:
    spec, table = with_clock(SPECS[name], "an hour"), stream(4, tuples=400, behind_us=3_600_000_000)
    days = log_writer.append(lake, "s", table, file_rows=20).days()
    plan = plan_days(lake, spec, ["s"], days[0], days[-1], batch_tuples=20, inline_state_bytes=1)
    in_process(None, plan)
    assert 0 < len(list((Path(plan.folder) / FOLDER).iterdir())) <= 2 * plan.buckets * len(plan.operator.tables)
    publish(plan)
    assert_published(lake, f"{spec['technique']}__s", spec, table)
