"""Several streams in one replay: each with its own clock, and nothing that depends on how batches mix them.

Driven in this process, with real logs; that Spark does the same with two is in test_spark.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engines import build
from engines.contract import TIMESTAMP
from replay import local, log_writer
from replay.backfill import backfill
from replay.lake import Lake
from replay.log import Log
from replay.runs import plan_run
from replay.span import all_days
from tests.comparing import DEPENDS_ON_BATCHES, assert_same_rows, rows_of
from tests.replay.harness import CLOCKS, HOUR, SPECS, in_process, published, stream, with_clock

NAMES = ["east", "west"]


@pytest.fixture(autouse=True)
def _in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay.backfill.execute", in_process)


def tables(seed: int, spec: dict[str, Any]) -> dict[str, pa.Table]:
    """Two streams over the same days; equal times in both are frequent, for they are rounded to hours."""
    made = {name: stream(seed + at, tuples=60, behind_us=build(spec).clock(name).behind_us) for at, name in enumerate(NAMES)}
    hours = {name: [us // HOUR * HOUR for us in table["ts"].cast(pa.int64()).to_pylist()] for name, table in made.items()}
    return {name: table.set_column(0, "ts", pa.array(hours[name], TIMESTAMP)) for name, table in made.items()}


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("name", ["short windows", "frames"])
def test_no_row_depends_on_how_batches_mix_the_streams(lake: Lake, name: str, clock: str) -> None:
    """First and last, too: of two tuples of one time and one arrival in different streams it is settled which came first."""
    spec = with_clock(SPECS[name], clock)
    east, west = tables(3, spec).values()
    log_writer.append(lake, "east", east, file_rows=10)
    log_writer.append(lake, "west", east.set_column(2, "v", pc.add(pc.abs(west["v"]), 0.25)), file_rows=7)
    found = [
        in_process(None, plan_run(lake, spec, NAMES, early=False, batch_tuples=batch, buckets=buckets, tasks=tasks))
        for batch, buckets, tasks in ((3, 1, 1), (11, 2, 3), (1000, 5, 2))
    ]
    identity = found[0].plan.operator.identity["results"]
    expected = rows_of(found[0].final().drop_columns(list(DEPENDS_ON_BATCHES)))
    assert len(expected) > 3
    for other in found[1:]:
        assert_same_rows(other.final().drop_columns(list(DEPENDS_ON_BATCHES)), expected, identity)


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("name", SPECS)
def test_days_of_two_streams_that_grow_equal_one_replay(lake: Lake, name: str, clock: str) -> None:
    rng = random.Random(name + clock)
    spec = with_clock(SPECS[name], clock)
    whole = tables(11, spec)
    cuts = {stream_name: rng.randrange(1, table.num_rows) for stream_name, table in whole.items()}
    publish_as = f"{spec['technique']}__{'_'.join(NAMES)}"
    for grown in (False, True):
        for stream_name, table in whole.items():
            part = table.slice(cuts[stream_name]) if grown else table.slice(0, cuts[stream_name])
            log_writer.append(lake, stream_name, part, file_rows=rng.choice([3, 25, 1000]))
        there = all_days({one: Log.open(lake, lake.address("streams", one)) for one in NAMES})
        for first, last in [sorted(rng.choices(there, k=2)) for _ in range(2)]:
            wanted = [date.fromordinal(n) for n in range(first.toordinal(), last.toordinal() + 1)]
            backfill(None, lake, spec, NAMES, wanted, again=rng.random() < 0.5, **settings(rng))  # type: ignore[arg-type]
        backfill(None, lake, spec, NAMES, one_by_one=rng.random() < 0.5, **settings(rng))  # type: ignore[arg-type]
        now = {one: table if grown else table.slice(0, cuts[one]) for one, table in whole.items()}
        run = local.run(build(spec), pa.concat_tables(marked(now)), early=False)
        assert_same_rows(without(published(lake, publish_as)), rows_of(without(run.final)), run.operator.identity["results"])
        late = published(lake, publish_as, "late").drop_columns(["arrival"])
        assert sorted(map(str, late.select(sorted(late.column_names)).to_pylist())) == sorted(
            map(str, run.late.select(sorted(late.column_names)).to_pylist())
        )


def marked(streams: dict[str, pa.Table]) -> Iterator[pa.Table]:
    for name, table in streams.items():
        yield table.append_column("stream", pa.array([name] * table.num_rows))


def without(rows: pa.Table) -> pa.Table:
    """Without what depends on batches, and on which of two streams is the first in a table."""
    return rows.drop_columns([n for n in rows.column_names if n in ("revision", "retracted") or n.startswith(("first_", "last_"))])


def settings(rng: random.Random) -> dict[str, int]:
    return {"batch_tuples": rng.choice([5, 1000]), "buckets": rng.choice([1, 2])}
