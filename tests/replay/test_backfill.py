"""Days, backfilled in any way, come to one continuous replay. Driven in this process: hundreds of runs, real Delta tables."""

from __future__ import annotations

import random
from datetime import date
from itertools import product

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engines import build
from engines.contract import BEGINNING, TIMESTAMP
from replay import log_writer
from replay.backfill import backfill
from replay.lake import Lake
from replay.log import FIRST_CHANGED, Log, day_end
from replay.publish import published_days
from replay.span import all_days
from tests.replay.harness import CLOCKS, HOUR, SPECS, START, assert_published, in_process, stream, with_clock


@pytest.fixture(autouse=True)
def _in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay.backfill.execute", in_process)


every_case = pytest.mark.parametrize(
    ("name", "clock", "seed"), [(name, clock, seed) for seed, (name, clock) in enumerate(product(SPECS, CLOCKS))]
)


def settings(rng: random.Random) -> dict[str, int]:
    return {"batch_tuples": rng.choice([40, 1000]), "buckets": rng.choice([1, 2, 5]), "tasks": rng.choice([1, 3])}


@every_case
def test_days_in_any_order_some_twice_equal_one_replay(lake: Lake, name: str, clock: str, seed: int) -> None:
    #   day   1     2     3     4     5     6          runs, for example: 4, 2..3, 6, 1, 5, 2, 3..4
    #   log  |-x-xx|x---x|-----|xx-x-|-x-x-|x-xx-|
    rng = random.Random(seed)
    spec = with_clock(SPECS[name], clock)
    table = stream(seed, behind_us=build(spec).clock("s").behind_us)
    log = log_writer.append(lake, "s", table, file_rows=rng.choice([3, 25, 1000]))
    days = all_days({"s": log})
    ranges = [(day, day) for day in days] + [tuple(sorted(rng.sample(days, 2))) for _ in range(min(3, len(days) - 1)) if len(days) > 1]
    rng.shuffle(ranges)
    for first, last in ranges:
        wanted = [date.fromordinal(n) for n in range(first.toordinal(), last.toordinal() + 1)]
        backfill(None, lake, spec, ["s"], wanted, again=True, **settings(rng))  # type: ignore[arg-type]
    assert_published(lake, f"{spec['technique']}__s", spec, table)


@every_case
def test_a_log_that_grows_is_replayed_where_it_must_be_and_nowhere_else(lake: Lake, name: str, clock: str, seed: int) -> None:
    rng = random.Random(seed)
    spec = with_clock(SPECS[name], clock)
    table = stream(seed + 100, behind_us=build(spec).clock("s").behind_us)
    cuts = sorted(rng.sample(range(1, table.num_rows), 3))
    for begin, end in zip([0, *cuts], [*cuts, table.num_rows], strict=True):
        before = published_days(lake, f"{spec['technique']}__s")
        log_writer.append(lake, "s", table.slice(begin, end - begin), file_rows=rng.choice([3, 25, 1000]))
        done = backfill(None, lake, spec, ["s"], one_by_one=rng.random() < 0.3, **settings(rng))  # type: ignore[arg-type]
        again = {day for one in done for day in one.publication.days["day"].to_pylist()}
        assert again.isdisjoint(day for day, record in before.items() if record["sealed"])
        assert again >= {day for day, record in before.items() if not record["sealed"]}
        assert_published(lake, f"{spec['technique']}__s", spec, table.slice(0, end))
        assert backfill(None, lake, spec, ["s"]) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("name", SPECS)
def test_a_log_that_is_changed_is_replayed_from_there_on(lake: Lake, name: str, clock: str) -> None:
    """All days in one run, then the log holds something else from an arrival on: days sealed by then stand."""
    spec = with_clock(SPECS[name], clock)
    behind = build(spec).clock("s").behind_us
    table = stream(7, behind_us=behind)
    log = log_writer.append(lake, "s", table, file_rows=10)
    backfill(None, lake, spec, ["s"])  # type: ignore[arg-type]
    file = log.file_of(200)
    changed, day = int(log.first[file]), log.paths[file].partition("day=")[2].partition("/")[0]
    begin = next(int(first) for first, path in zip(log.first, log.paths, strict=True) if f"day={day}" in path)
    others = table.set_column(
        2, "v", pa.chunked_array([table["v"].slice(0, changed), pc.negate(table["v"].slice(changed)).combine_chunks()])
    )
    rows, _, _ = log_writer.complete(others.slice(begin), begin, log.clock_before(log.file_of(begin)), BEGINNING)
    adds = [log_writer.write_day(lake, log.address, part).action() for part in log_writer.by_day(rows)]
    days = sorted({path.partition("day=")[2].partition("/")[0] for path in log.paths})
    told = {FIRST_CHANGED: str(changed)}
    log_writer.commit(lake, log.address, log.schema, adds, told, onto=log, replacing=[one for one in days if one >= day])

    done = backfill(None, lake, spec, ["s"])  # type: ignore[arg-type]
    again = [one for run in done for one in run.publication.days["day"].to_pylist()]
    clocks = np.maximum.accumulate(table["ts"].to_numpy().astype("datetime64[us]").astype(np.int64))
    sealed = [one for one in all_days({"s": log}) if clocks[changed - 1] >= day_end(one) + behind]
    assert again == [one for one in all_days({"s": log}) if one not in sealed]
    assert 0 < len(sealed) < len(all_days({"s": log}))
    assert_published(lake, f"{spec['technique']}__s", spec, others)


def test_a_day_begins_where_it_can(lake: Lake) -> None:
    spec = with_clock(SPECS["frames"], "an hour")
    log_writer.append(lake, "s", stream(1, tuples=600, behind_us=build(spec).clock("s").behind_us), file_rows=20)
    days = all_days({"s": Log.open(lake, lake.address("streams", "s"))})
    third = backfill(None, lake, spec, ["s"], [days[2]], batch_tuples=20)[0]  # type: ignore[arg-type]
    assert third.plan.span.reason == "from the beginning of the log"
    fourth = backfill(None, lake, spec, ["s"], [days[3]])[0]  # type: ignore[arg-type]
    assert fourth.plan.span.reason == f"from the state of {days[2]}"
    assert fourth.plan.span.begin["s"] >= third.plan.span.end["s"] - 20
    # The third day's run passed the second: its state serves the third day again.
    again = backfill(None, lake, spec, ["s"], [days[2]], again=True)[0]  # type: ignore[arg-type]
    assert again.plan.span.reason == f"from the state of {days[1]}"
    windows = backfill(None, lake, with_clock(SPECS["short windows"], "an hour"), ["s"], [days[4]])[0]  # type: ignore[arg-type]
    assert windows.plan.span.reason == "from the lookback before the first day"
    assert windows.plan.span.begin["s"] > 0


def test_silent_days_leave_no_state_and_the_nearest_one_before_them_serves(lake: Lake) -> None:
    #   day   0    1    2  ...  150  151 ... 300  301 | 302 is the last, and provisional
    #   log  |xx-|----|----    |-x-|----    |--x|x-x|x|
    spec = with_clock(SPECS["frames"], "an hour")
    hours = [1, 2, 150 * 24 + 5, 300 * 24 + 20, 301 * 24 + 1, 301 * 24 + 9, 302 * 24 + 3]
    values = [1.0, 1.0, 1.0, -1.0, 1.0, 1.0, -1.0]
    ts = pa.array([START + hour * HOUR for hour in hours], TIMESTAMP)
    table = pa.table({"ts": ts, "key": ["a"] * len(hours), "v": values})
    log = log_writer.append(lake, "s", table, file_rows=1)
    days = log.days()
    backfill(None, lake, spec, ["s"], days[:200])  # type: ignore[arg-type]
    left = pl.read_delta(lake.address("results", "frames__s__state"))["day"].unique().sort().to_list()
    assert left == [days[0], days[150]]
    (one,) = backfill(None, lake, spec, ["s"], [days[90]], again=True)  # type: ignore[arg-type]
    assert one.plan.span.reason == f"from the state of {days[0]}"
    (rest,) = backfill(None, lake, spec, ["s"])  # type: ignore[arg-type]
    assert rest.plan.span.reason == f"from the state of {days[150]}" and rest.plan.span.days[0] == days[200].isoformat()
    left = pl.read_delta(lake.address("results", "frames__s__state"))["day"].unique().sort().to_list()
    assert left == [days[0], days[150], days[300], days[301]]
    assert_published(lake, "frames__s", spec, table)


def test_another_specification_replaces_what_was_published(lake: Lake) -> None:
    table = stream(5)
    log_writer.append(lake, "s", table, file_rows=50)
    first, second = SPECS["short windows"], SPECS["windows of days"]
    backfill(None, lake, first, ["s"])  # type: ignore[arg-type]
    days = all_days({"s": Log.open(lake, lake.address("streams", "s"))})
    backfill(None, lake, second, ["s"], days[:2])  # type: ignore[arg-type]
    assert {record["fingerprint"] for record in published_days(lake, "slicing__s").values()} == {build(second).spec.fingerprint()}
    backfill(None, lake, second, ["s"])  # type: ignore[arg-type]
    assert_published(lake, "slicing__s", second, table)


def test_days_that_the_log_does_not_have_are_refused(lake: Lake) -> None:
    log_writer.append(lake, "s", stream(5), file_rows=50)
    with pytest.raises(ValueError, match=r"days: 2023-12-01 to 2023-12-01 given; allowed are days from 2024-01-01 to 2024-01-0\d\."):
        backfill(None, lake, SPECS["frames"], ["s"], [date(2023, 12, 1)])  # type: ignore[arg-type]
