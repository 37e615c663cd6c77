"""Backfills: which days have to be replayed, from where, and in how many runs.

The union of the days, replayed in any order and however often, equals one continuous replay. A sealed day stands; a
provisional one is replayed once its log has grown; a day read from tuples that have changed since is stale.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from engines.contract import Clock, Engine
from engines.spec import SpecError, TechniqueSpec
from replay.claims import claimed
from replay.lake import Lake, LakeError
from replay.log import Log
from replay.plan import Plan
from replay.progress import Progress
from replay.publish import Publication, origin, publish, published_days, refuse_mixing, results_address, results_name
from replay.runs import execute, plan_run
from replay.span import Start, all_days, neighbours, of_days, sealing_arrival


@dataclass(frozen=True)
class Backfilled:
    """A run of a backfill and what it published."""

    plan: Plan
    progress: Progress
    publication: Publication


def backfill(
    spark: SparkSession,
    lake: Lake,
    spec: Mapping[str, Any] | TechniqueSpec,
    streams: Sequence[str],
    days: Iterable[date] | None = None,
    *,
    again: bool = False,
    one_by_one: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    **settings: Any,
) -> list[Backfilled]:
    """Replay and publish days, neighbouring ones in a single run.

    Args:
        spark: the session to run in.
        lake: where the logs are and the results go.
        spec: the specification.
        streams: names of streams.
        days: which ones; None: all of the log.
        again: also days that stand.
        one_by_one: a run for each day.
        on_progress: called after batches, and at the end of every run.
        settings: further settings of the plan (`batch_tuples`, `buckets`, `publish`, ...).
    """
    done = []
    for first, last in pending(lake, spec, streams, days, again=again, one_by_one=one_by_one, publish_as=settings.get("publish")):
        plan = plan_days(lake, spec, streams, first, last, **settings)
        with claimed(lake, results_address(lake, results_name(plan))):
            replayed = execute(spark, plan, on_progress=on_progress)
            done.append(Backfilled(plan, replayed.progress, publish(plan)))
    return done


def plan_days(
    lake: Lake, spec: Mapping[str, Any] | TechniqueSpec, streams: Sequence[str], first: date, last: date, **settings: Any
) -> Plan:
    """The plan of a run that publishes the days from `first` to `last`."""
    plan = plan_run(lake, spec, streams, early=False, **settings)
    start = nearest_state(plan, first) if plan.engine.lookback() is None else None
    return replace(plan, span=of_days(plan.logs, plan.engine, first, last, start))


def pending(
    lake: Lake,
    spec: Mapping[str, Any] | TechniqueSpec,
    streams: Sequence[str],
    days: Iterable[date] | None,
    *,
    again: bool,
    one_by_one: bool,
    publish_as: str | None,
) -> list[tuple[date, date]]:
    """The days that have to be replayed, as ranges of neighbours."""
    plan = plan_run(lake, spec, streams, early=False, publish=publish_as)
    known = published_days(lake, results_name(plan))
    refuse_mixing(plan, known)
    there = all_days(plan.logs)
    wanted = there if days is None else sorted(set(days))
    if wanted and not there[0] <= wanted[0] <= wanted[-1] <= there[-1]:
        raise SpecError(f"days: {wanted[0]} to {wanted[-1]} given; allowed are days from {there[0]} to {there[-1]}.")
    missing = [day for day in wanted if again or not stands(plan.engine, plan.logs, known.get(day))]
    return [(day, day) for day in missing] if one_by_one else neighbours(missing)


def stands(engine: Engine, logs: Mapping[str, Log], record: Mapping[str, Any] | None) -> bool:
    """Whether a published day is what a replay of it now would give."""
    if record is None or record["fingerprint"] != engine.spec.fingerprint():
        return False
    versions, arrivals = json.loads(record["log_versions"]), json.loads(record["arrivals"])
    if json.loads(record.get("log_ids") or "{}") != {name: log.id for name, log in logs.items()}:
        return False
    if record["sealed"]:
        return all(log.first_changed_since(versions[name]) >= arrivals[name][1] for name, log in logs.items())
    return all(log.version == versions[name] for name, log in logs.items())


def nearest_state(plan: Plan, before: date) -> Start | None:
    """The state of the nearest earlier day that can be gone on from."""
    address = results_address(plan.lake, results_name(plan), "state")
    table = plan.lake.table(address)
    if table is None:
        return None
    made = origin(plan)
    same = [name for name in made if name != "log_versions"]
    if not {"day", "day_end", "read", *made} <= set(table.schema().to_arrow().names):
        return None
    left = {day for day in pa.table(table.get_add_actions(flatten=True))["partition.day"].to_pylist() if day < before}
    for day in sorted(left, reverse=True):  # one at a time: the first will nearly always do, and there may be thousands
        row = table.to_pyarrow_table(filters=[("day", "=", day)], columns=["day_end", "read", *made]).slice(0, 1).to_pylist()[0]
        if any(row[name] != made[name] for name in same):
            continue
        read, versions = json.loads(row["read"]), json.loads(row["log_versions"])
        if _left_to_read(plan, day, before, read) and all(
            _holds(log, versions[name], read[name], plan.engine.clock(name)) for name, log in plan.logs.items()
        ):
            return Start(int(row["day_end"].timestamp() * 1_000_000), read, address, table.version())
    return None


def _left_to_read(plan: Plan, day: date, wanted: date, read: Mapping[str, int]) -> bool:
    """Whether a day's state is of that day alone, or at least leaves something of the wanted day to be read.

    Of several streams one may have been read on, past all that is wanted: a day that is replayed again would then see no tuple again.
    """
    clocks = {name: (log, plan.engine.clock(name)) for name, log in plan.logs.items()}
    alone = all(read[name] <= sealing_arrival(log, clock, day) for name, (log, clock) in clocks.items())
    return alone or all(read[name] < sealing_arrival(log, clock, wanted) for name, (log, clock) in clocks.items())


def _holds(log: Log, version: int, read: int, clock: Clock) -> bool:
    """Whether a state that was read up to an arrival of an earlier version is one of this version, too.

    Lift had looked ahead: it took stretches of time for settled by the times of tuples behind those it read. Tuples that are only
    added change nothing of that; others must not reach back to what was read.
    """
    changed = log.first_changed_since(version)
    if changed < read:
        return False
    if version >= log.version or not read or log.clock_before(log.file_of(changed)) - clock.behind_us > log.clock[log.file_of(read - 1)]:
        return True
    try:
        return Log.open(log.lake, log.address, version).end <= changed
    except LakeError:  # nothing is known of that version any more
        return False
