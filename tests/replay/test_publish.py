"""Published days are those of the log that there is, whatever became of it, and of runs that came to their end.

Driven in this process, with real Delta tables; days of a log that only grows are in test_backfill.py.
"""

from __future__ import annotations

import json
import shutil
import time
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines import build
from engines.contract import BEGINNING, TIMESTAMP
from engines.frames.engine import Engine
from engines.spec import SpecError
from replay import log_writer, publish
from replay.backfill import backfill, pending, plan_days
from replay.finals import order
from replay.lake import Lake, LakeError
from replay.log import FIRST_CHANGED, Log
from replay.sink import Writer
from replay.span import sealing_arrival
from tests.replay.harness import DAY, HOUR, SPECS, START, assert_published, in_process, published, stream, with_clock

SLICING = with_clock(SPECS["short windows"], "an hour")
FRAMES = with_clock(SPECS["frames"], "an hour")


@pytest.fixture(autouse=True)
def _in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay.backfill.execute", in_process)


def day(number: int, v: Any = 1.0) -> pa.Table:
    """A day of a stream, a tuple every hour."""
    return pa.table(
        {"ts": pa.array([START + number * DAY + hour * HOUR for hour in range(24)], TIMESTAMP), "key": ["a"] * 24, "v": [v] * 24}
    )


def days(*values: Any) -> pa.Table:
    return pa.concat_tables([day(number, v) for number, v in enumerate(values)])


def replace_days(lake: Lake, table: pa.Table, since: int) -> None:
    """Put other tuples into a log from a day on, as ingestion does when raw files have changed."""
    log = Log.open(lake, lake.address("streams", "s"))
    first = since * 24
    clock = log.clock_before(log.file_of(first)) if first else BEGINNING
    adds, schema = [], log.schema
    if table.num_rows > first:
        rows, _, _ = log_writer.complete(table.slice(first), first, clock, clock)
        adds, schema = [log_writer.write_day(lake, log.address, part).action() for part in log_writer.by_day(rows)], rows.schema
    gone = [one.isoformat() for one in log.days()[since:]]
    log_writer.commit(lake, log.address, schema, adds, {FIRST_CHANGED: str(first)}, onto=log, replacing=gone)


def still_to_do(lake: Lake, spec: dict[str, Any] = SLICING, stream: str = "s") -> list[tuple[date, date]]:
    return pending(lake, spec, [stream], None, again=False, one_by_one=False, publish_as=None)


def replay(lake: Lake, spec: dict[str, Any] = SLICING, **settings: Any) -> None:
    backfill(None, lake, spec, ["s"], **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("spec", [SLICING, FRAMES], ids=["slicing", "frames"])
def test_a_log_that_was_removed_and_written_anew_is_another(lake: Lake, spec: dict[str, Any]) -> None:
    log = log_writer.append(lake, "s", days(1.0, 2.0, 3.0))
    replay(lake, spec)
    shutil.rmtree(log.address)
    other = days(-1.0, 5.0, 0.5)
    log_writer.append(lake, "s", other)
    assert still_to_do(lake, spec) == [(log.days()[0], log.days()[-1])]
    replay(lake, spec, one_by_one=True)
    assert_published(lake, f"{spec['technique']}__s", spec, other)


def test_a_log_of_the_same_name_elsewhere_is_another(lake: Lake) -> None:
    log_writer.append(lake, "s", days(1.0, 2.0))
    replay(lake)
    assert still_to_do(lake) == []
    elsewhere = Lake(lake.address("elsewhere"))
    log = log_writer.append(elsewhere, "s", days(3.0, 4.0))
    assert still_to_do(lake, stream="elsewhere/streams/s") == [(log.days()[0], log.days()[-1])]


def test_what_is_no_longer_known_of_a_log_may_have_changed(lake: Lake) -> None:
    log = log_writer.append(lake, "s", days(1.0, 2.0, 3.0))
    table = lake.table(log.address)
    assert table is not None and table.metadata().configuration["delta.logRetentionDuration"] == "interval 36500 days"
    replay(lake)
    replace_days(lake, days(1.0, 9.0, 3.0), since=1)
    log_writer.append(lake, "s", day(3))
    assert still_to_do(lake)[0][0] == log.days()[0]  # sealed by a tuple of the second day
    # Somebody keeps less history than the log asks for.
    table = lake.table(log.address)
    assert table is not None
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
    table = lake.table(log.address)
    assert table is not None
    table.create_checkpoint()
    time.sleep(0.05)
    table.cleanup_metadata()
    assert not (Path(log.address) / "_delta_log" / f"{1:020d}.json").exists()
    now = Log.open(lake, log.address)
    assert now.first_changed_since(0) == 0
    assert still_to_do(lake) == [(now.days()[0], now.days()[-1])]


def test_results_of_two_streams_are_not_mixed_under_one_name(lake: Lake) -> None:
    """Days of the first would stay beside those of the second, and nothing in a row tells which is which."""
    for name, v in (("s", 1.0), ("t", 2.0), ("s_t", 3.0)):
        log = log_writer.append(lake, name, days(v, v, v))
    backfill(None, lake, SLICING, ["s"], publish="mine")  # type: ignore[arg-type]
    backfill(None, lake, SLICING, ["s_t"])  # type: ignore[arg-type]
    before = published(lake, "mine"), published(lake, "slicing__s_t")
    for streams, settings, sentence in (
        (["t"], {"publish": "mine"}, "publish: 'mine' given, and results of s are published so; allowed is another name."),
        (["s", "t"], {}, "publish: 'slicing__s_t' given, and results of s_t are published so; allowed is another name."),
    ):
        with pytest.raises(SpecError) as refused:
            backfill(None, lake, SLICING, streams, [log.days()[1]], **settings)  # type: ignore[arg-type]
        assert str(refused.value) == sentence
        plan = plan_days(lake, SLICING, streams, log.days()[0], log.days()[-1], **settings)
        in_process(None, plan)
        with pytest.raises(SpecError, match=sentence):
            publish.publish(plan)
    assert (published(lake, "mine"), published(lake, "slicing__s_t")) == before


def test_results_do_not_take_the_name_of_another_table(lake: Lake) -> None:
    log_writer.append(lake, "s", days(1.0, 2.0))
    replay(lake)
    before = published(lake, "slicing__s", "late")
    told = "publish: 'slicing__s__late' given; allowed are names that do not end in '__late', as tables beside results do."
    with pytest.raises(SpecError, match=told):
        replay(lake, publish="slicing__s__late")
    assert published(lake, "slicing__s", "late").equals(before)


@pytest.mark.parametrize("spec", [SLICING, FRAMES], ids=["slicing", "frames"])
@pytest.mark.parametrize("left", [1, 2])
def test_days_that_the_log_no_longer_has_are_no_longer_published(lake: Lake, spec: dict[str, Any], left: int) -> None:
    log_writer.append(lake, "s", days(1.0, 2.0, 3.0, 4.0))
    replay(lake, spec)
    shorter = days(1.0, 2.0, 3.0, 4.0).slice(0, left * 24)
    replace_days(lake, shorter, since=left)
    replay(lake, spec)
    name = f"{spec['technique']}__s"
    assert_published(lake, name, spec, shorter)
    there = Log.open(lake, lake.address("streams", "s")).days()
    assert len(there) == left
    for output in ("results", "late", "days", "state"):
        assert set(pl.read_delta(publish.results_address(lake, name, output))["day"].to_list()) <= set(there), output
    assert still_to_do(lake, spec) == []


def test_a_column_of_another_type_begins_the_results_anew(lake: Lake) -> None:
    log_writer.append(lake, "s", days(1, 2, 3))
    replay(lake)
    fractions = days(0.5, 1.5, 2.5)
    replace_days(lake, fractions, since=0)
    replay(lake, one_by_one=True)
    assert_published(lake, "slicing__s", SLICING, fractions)
    assert published(lake, "slicing__s").schema.field("sum_v").type == pa.float64()


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint8(), pa.float32(), pa.date32(), pa.bool_(), pa.binary(), pa.large_string(), pa.decimal128(15, 2)]
)
def test_keys_of_any_type_are_published_day_by_day(lake: Lake, kind: pa.DataType) -> None:
    table = days(1.0, 2.0, 3.0)
    value = pa.scalar("a").cast(kind) if pa.types.is_binary(kind) or pa.types.is_large_string(kind) else pa.scalar(1, pa.int32()).cast(kind)
    table = table.set_column(1, "key", pa.repeat(value, table.num_rows))
    log_writer.append(lake, "s", table)
    replay(lake, one_by_one=True)
    assert len(publish.published_days(lake, "slicing__s")) == 3
    assert still_to_do(lake) == []


@pytest.mark.parametrize("batches", [0, 1, 3])
def test_a_run_that_has_not_come_to_its_end_is_not_published(lake: Lake, batches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a batch, with some, and with all but the flush."""
    log = log_writer.append(lake, "s", days(1.0, 2.0, 3.0))
    replay(lake)
    before = published(lake, "slicing__s")
    plan = plan_days(lake, SLICING, ["s"], log.days()[0], log.days()[-1], batch_tuples=24, buckets=1)
    written: list[int] = []

    def stopped(*_: object) -> None:
        if len(written) == batches:
            raise InterruptedError
        written.append(1)

    with monkeypatch.context() as patch:
        message = Writer.message
        patch.setattr(Writer, "message", lambda *given: stopped() or message(*given))
        with pytest.raises(InterruptedError):
            in_process(None, plan)
    with pytest.raises(LakeError, match=f"run {plan.run}: it has not come to its end; resume it, and publish it then."):
        publish.publish(plan)
    assert published(lake, "slicing__s").equals(before)


def test_state_of_another_layout_is_passed_over(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = stream(1, tuples=600, behind_us=build(FRAMES).clock("s").behind_us)
    there = log_writer.append(lake, "s", table, file_rows=20).days()
    replay(lake, FRAMES, days=there[:3])
    monkeypatch.setattr(Engine, "version", Engine.version + 1)
    (fourth,) = backfill(None, lake, FRAMES, ["s"], [there[3]])  # type: ignore[arg-type]
    assert fourth.plan.span.reason == "from the beginning of the log"
    replay(lake, FRAMES)
    assert_published(lake, "frames__s", FRAMES, table)


def test_the_state_to_begin_with_is_found_without_a_look_at_those_of_all_other_days(lake: Lake) -> None:
    table = stream(1, tuples=600, behind_us=HOUR)
    there = log_writer.append(lake, "s", table, file_rows=20).days()
    replay(lake, FRAMES, days=there[:3])
    states = Path(publish.results_address(lake, "frames__s", "state"))
    for file in states.glob("day=*/*.parquet"):
        if file.parent.name != f"day={there[2]}":
            file.unlink()
    assert plan_days(lake, FRAMES, ["s"], there[3], there[3]).span.reason == f"from the state of {there[2]}"


@pytest.mark.parametrize("reaches_back", [True, False])
def test_a_state_is_gone_on_from_only_if_nothing_new_reaches_back_to_what_it_holds(lake: Lake, reaches_back: bool) -> None:
    """Day 1 is sealed by tuples of day 2, which its state therefore holds; then the log changes behind them.

    day 1         22     23   | 00:30  01:10      01:40   02:00 |  06:00  07:00
    v > 0         +------+----+-+------+----------+-------+-----+--+      -
    changed: 40 minutes behind, and accepted      01:20 -
    """

    def tuples(*rows: tuple[float, float]) -> pa.Table:
        return pa.table({"ts": pa.array([START + int(hour * HOUR) for hour, _ in rows], TIMESTAMP), "v": [v for _, v in rows]})

    spec = {"technique": "frames", "delay": "1h", "frame": {"kind": "threshold", "where": "v > 0"}}
    before = [(22.0, 1.0), (23.0, 1.0), (24.5, 1.0), (25 + 1 / 6, 1.0), (25 + 2 / 3, 1.0), (26.0, 1.0)]
    behind = [(25 + 1 / 3, -1.0)] if reaches_back else [(28.0, -1.0)]
    log_writer.append(lake, "s", tuples(*before))
    log = log_writer.append(lake, "s", tuples((30.0, 1.0), (31.0, -1.0)))
    replay(lake, spec, days=log.days()[:1], buckets=1)
    whole = tuples(*before, *behind, (30.0, 1.0), (31.0, -1.0))
    rows, _, _ = log_writer.complete(whole.slice(2), 2, START + 23 * HOUR, BEGINNING)
    adds = [log_writer.write_day(lake, log.address, part).action() for part in log_writer.by_day(rows)]
    replaced = [log.days()[1].isoformat()]
    log_writer.commit(lake, log.address, log.schema, adds, {FIRST_CHANGED: "6"}, onto=log, replacing=replaced)
    (done,) = backfill(None, lake, spec, ["s"], buckets=1)  # type: ignore[arg-type]
    assert done.plan.span.reason == "from the beginning of the log"
    assert_published(lake, "frames__s", spec, whole)


def test_an_older_run_neither_removes_nor_replaces_what_was_published_since(lake: Lake) -> None:
    log = log_writer.append(lake, "s", days(1.0, 2.0))
    older = plan_days(lake, SLICING, ["s"], log.days()[0], log.days()[-1])
    first = plan_days(lake, SLICING, ["s"], log.days()[0], log.days()[0])
    for plan in (older, first):
        in_process(None, plan)
    log_writer.append(lake, "s", pa.concat_tables([day(2), day(3)]))
    replay(lake, days=Log.open(lake, log.address).days()[1:])
    # The first day was not published yet, and all others stay.
    publish.publish(first)
    assert_published(lake, "slicing__s", SLICING, days(1.0, 2.0, 1.0, 1.0))
    before = published(lake, "slicing__s")
    with pytest.raises(
        LakeError, match=rf"run {older.run}: it has read version 0 of the log of 's', and {log.days()[1]} is published from version 1;"
    ):
        publish.publish(older)
    assert published(lake, "slicing__s").equals(before)


def test_a_day_that_is_replayed_again_is_read_again(lake: Lake) -> None:
    """However far the batch had read that left the state of the day before."""
    log = log_writer.append(lake, "s", stream(5, behind_us=HOUR), file_rows=20)
    replay(lake, FRAMES, batch_tuples=10_000)
    there = log.days()
    for one in (there[2], there[-1]):
        (again,) = backfill(None, lake, FRAMES, ["s"], [one], again=True)  # type: ignore[arg-type]
        assert again.progress.tuples > 0
    assert_published(lake, "frames__s", FRAMES, stream(5, behind_us=HOUR))


def test_a_day_leaves_what_was_read_for_it_and_not_the_rest_of_the_batch(lake: Lake) -> None:
    """All days are in one batch: would each leave the tuples of all that come after it, states would grow with the square of the days."""
    log = log_writer.append(lake, "s", stream(5, behind_us=HOUR), file_rows=20)
    replay(lake, FRAMES, batch_tuples=10_000)
    left = pl.read_delta(publish.results_address(lake, "frames__s", "state"))
    read = {day: json.loads(arrivals)["s"] for day, arrivals in left.select("day", "read").iter_rows()}
    assert read == {day: sealing_arrival(log, build(FRAMES).clock("s"), day) for day in read}
    assert len(set(read.values())) > 3


@pytest.mark.parametrize(("spec", "output", "column", "most"), [(SLICING, "results", "decided", 5), (FRAMES, "state", "day_end", 1)])
def test_a_batch_of_many_days_is_written_so_that_a_day_is_found_in_few_groups_of_rows(
    lake: Lake, spec: dict[str, Any], output: str, column: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Would each day be looked for in all rows of the batch, publishing would take the square of the days."""
    monkeypatch.setattr("replay.sink.GROUP_ROWS", 5)
    log_writer.append(lake, "s", stream(3, tuples=600, behind_us=HOUR), file_rows=20)
    replay(lake, spec, batch_tuples=10_000, buckets=1)
    files = Path(lake.root).glob(f"runs/*/{output}/*.parquet")
    found = max((pq.read_metadata(file) for file in files), key=lambda metadata: metadata.num_rows)
    at = found.schema.names.index(column)
    groups = [found.row_group(n) for n in range(found.num_row_groups)]
    assert len(groups) > 5 and max(group.num_rows for group in groups) <= most
    bounds = [group.column(at).statistics for group in groups]
    assert all(one.max <= other.min for one, other in pairwise(bounds))


@pytest.mark.parametrize("spec", [SLICING, FRAMES], ids=["slicing", "frames"])
@pytest.mark.parametrize("batch_tuples", [100, 10_000])
def test_of_a_day_with_many_results_only_a_part_is_in_memory(
    lake: Lake, spec: dict[str, Any], batch_tuples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part is a file, sorted as a day is that fits into one; together they are the day, row for row."""
    most, held = 2_000, list[int]()
    monkeypatch.setattr("replay.sink.GROUP_ROWS", 5)
    monkeypatch.setattr(publish, "PART_BYTES", most)
    monkeypatch.setattr(publish, "order", lambda rows, columns: held.append(rows.nbytes) or order(rows, columns))
    table = stream(3, tuples=600, behind_us=HOUR)
    log_writer.append(lake, "s", table, file_rows=20)
    replay(lake, spec, batch_tuples=batch_tuples, buckets=2)
    name = f"{spec['technique']}__s"
    assert_published(lake, name, spec, table)
    counted = {day: record["results"] for day, record in publish.published_days(lake, name).items()}
    found = pl.read_delta(publish.results_address(lake, name)).group_by("day").len()
    assert dict(found.iter_rows()) == {day: rows for day, rows in counted.items() if rows}
    assert max(held) <= most
    files = list(Path(publish.results_address(lake, name)).glob("day=*/*.parquet"))
    assert len(files) == len(held) > len(found)
    identity = build(spec).on(table.schema).identity["results"]
    for rows in map(pq.read_table, files):
        assert rows.take(order(rows, identity)).equals(rows)
