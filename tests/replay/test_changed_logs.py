"""Logs that something else has worked on: what changes nothing is taken for nothing, what breaks their order is refused."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable

from replay import log_writer
from replay.lake import Lake, LakeError
from replay.log import Log
from tests.replay.harness import stream

REFUSED = (
    r"^log .*/streams/s: the file day=.* was written by something else \(.*\), which does not keep the order of arrival; restore .*\.$"
)


def grown(lake: Lake) -> tuple[Log, DeltaTable]:
    """A log of one day that was appended to a few times."""
    tuples = stream(1, tuples=100, days=0.5)
    for begin, end in ((0, 60), (60, 70), (70, 90), (90, 100)):
        log = log_writer.append(lake, "s", tuples.slice(begin, end - begin))
    table = lake.table(log.address)
    assert table is not None
    return log, table


@pytest.mark.parametrize("rewrite", ["compact", "z_order"])
def test_a_log_that_was_rewritten_is_refused_until_it_is_restored(lake: Lake, rewrite: str) -> None:
    """Its files follow one another still, but not their rows: a replay numbers them by where they are."""
    before, table = grown(lake)
    table.optimize.compact() if rewrite == "compact" else table.optimize.z_order(["key"])
    kept = pl.read_delta(before.address)["arrival"].to_list()
    assert sorted(kept) == [*range(100)] != kept
    with pytest.raises(LakeError, match=REFUSED):
        Log.open(lake, before.address)
    with pytest.raises(LakeError, match=REFUSED):
        log_writer.append(lake, "s", stream(2, tuples=1))
    assert Log.open(lake, before.address, before.version).paths == before.paths
    table.restore(before.version)
    assert sorted(Log.open(lake, before.address).paths) == sorted(before.paths)


def test_a_vacuum_and_another_property_change_no_tuple(lake: Lake) -> None:
    #   version   0       1        2        3           4          5, 6
    #   commit    0..59   60..69   70..89   90..99   property   start and end of a vacuum
    log, table = grown(lake)
    table.alter.set_table_properties({"delta.checkpointInterval": "50"})
    (Path(log.address) / log.paths[0]).with_name("left-behind.parquet").write_bytes(b"")
    table = lake.table(log.address)
    assert table is not None
    assert len(table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)) == 1
    now = Log.open(lake, log.address)
    assert now.version == log.version + 3
    assert [now.first_changed_since(version) for version in range(now.version + 1)] == [60, 70, 90, 100, 100, 100, 100]


def test_a_commit_that_does_not_say_what_it_changed_has_changed_everything(lake: Lake) -> None:
    log, table = grown(lake)
    table.optimize.compact()
    table.restore(log.version)
    now = Log.open(lake, log.address)
    assert now.version == log.version + 2
    assert now.first_changed_since(log.version) == 0
