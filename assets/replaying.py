"""A replay as assets carry it out: days of a stream, with log lines while it runs, published, and told in metadata.

The same for every technique. Names of runs follow from what is replayed, so that a run that was cancelled, or whose process
died, is gone on with by the next one that wants the same.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow as pa

from assets.metadata import picture, preview
from assets.techniques import technique_modules
from assets.workplace import Workplace

if TYPE_CHECKING:
    from replay.plan import Plan
    from replay.runs import Progress

SHOWN_TUPLES = 20_000
"""Of how many tuples a picture shows the signal at most."""


@dataclass(frozen=True)
class Replayed:
    """Days that were replayed and published."""

    plan: Plan
    progress: Progress
    seconds: float
    state_bytes: int
    rejected: int


def checked(spec: Mapping[str, Any], stream: str, workplace: Workplace) -> None:
    """Refuse a specification that cannot be run on a stream, before anything is written."""
    from engines.spec import SpecError
    from replay.lake import LakeError
    from replay.runs import plan_run

    try:
        plan_run(workplace.place, spec, [stream], early=False)
    except (SpecError, LakeError) as problem:
        raise dg.Failure(description=str(problem), allow_retries=False) from None


def replay_days(
    context: dg.AssetExecutionContext, spec: Mapping[str, Any], stream: str, days: Sequence[date] | None, publish: str, workplace: Workplace
) -> list[Replayed]:
    """Replay and publish days, neighbouring ones in a single run; None: all that do not stand."""
    from engines.spec import SpecError
    from replay.backfill import pending, plan_days
    from replay.lake import LakeError
    from replay.runs import RunError, execute

    done = []
    try:
        ranges = pending(workplace.place, spec, [stream], days, again=days is not None, one_by_one=False, publish_as=publish)
        for first, last in ranges:
            run = _name(workplace, publish, first, last, spec, stream)
            plan = plan_days(workplace.place, spec, [stream], first, last, run=run, publish=publish, batch_tuples=workplace.batch_tuples)
            context.log.info(f"run {plan.run}: {first} to {last} of {stream}, {plan.span.reason}")
            begun = time.monotonic()
            replayed = execute(workplace.spark, plan, on_progress=lambda now: context.log.info(_told(now)))
            _publish(plan)
            metrics = replayed.metrics()
            state = max(metrics["state_bytes"].to_pylist(), default=0) if "state_bytes" in metrics.column_names else 0
            done.append(Replayed(plan, replayed.progress, time.monotonic() - begun, state, _rejected(workplace, stream)))
    except (SpecError, LakeError) as problem:
        raise dg.Failure(description=str(problem), allow_retries=False) from None
    except RunError as problem:
        raise dg.Failure(
            description=f"{problem} Published results are as they were; launching the same again goes on where this run stopped."
        ) from problem
    return done


def metadata_of(done: Sequence[Replayed], spec: Mapping[str, Any], stream: str, publish: str, workplace: Workplace) -> dict[str, Any]:
    """What every materialization of results tells, under the same names."""
    from engines import build
    from replay.log import Log

    log = Log.open(workplace.place, workplace.place.address("streams", stream))
    tuples, seconds = sum(run.progress.tuples for run in done), sum(run.seconds for run in done)
    results = published_rows(workplace, publish, _days(done))
    return {
        "tuples": tuples,
        "late": sum(run.progress.late for run in done),
        "rejected": done[-1].rejected if done else 0,
        "results": results.num_rows,
        "batches": sum(run.progress.batch + 1 for run in done),
        "tuples_per_second": round(tuples / seconds, 1) if seconds else 0.0,
        "state_bytes": max((run.state_bytes for run in done), default=0),
        "seconds": round(seconds, 3),
        "delta_version": log.version,
        "config_hash": build(spec).spec.fingerprint(),
        "runs": ", ".join(run.plan.run for run in done),
        "published": results_path(workplace, publish),
        "specification": dg.MetadataValue.json(dict(spec)),
        "preview": preview(results.slice(0, 10).to_pylist()),
        "picture": picture(_picture(results, spec, log, _days(done), workplace)),
    }


def published_rows(workplace: Workplace, publish: str, days: Sequence[str] | None = None) -> pa.Table:
    """Published results, of some days or of all."""
    table = workplace.place.table(results_path(workplace, publish))
    if table is None:
        return pa.table({})
    rows = table.to_pyarrow_table(filters=[("day", "in", [date.fromisoformat(day) for day in days])] if days else None)
    return rows.sort_by("decided") if rows.num_rows else rows


def results_path(workplace: Workplace, publish: str) -> str:
    """Where results are published."""
    return workplace.place.address("results", publish)


def _days(done: Sequence[Replayed]) -> list[str]:
    days: list[str] = []
    for run in done:
        first, last = (date.fromisoformat(day) for day in (run.plan.span.days[0], run.plan.span.days[-1]))
        days += [date.fromordinal(n).isoformat() for n in range(first.toordinal(), last.toordinal() + 1)]
    return days


def _publish(plan: Plan) -> None:
    from replay.publish import publish

    publish(plan)


def _name(workplace: Workplace, publish: str, first: date, last: date, spec: Mapping[str, Any], stream: str) -> str:
    """The name of a run of these days: that of one that was begun and did not end, or a new one."""
    from engines import build
    from replay.log import Log
    from replay.runs import STATUS

    version = Log.open(workplace.place, workplace.place.address("streams", stream)).version
    base = f"{publish}-{first}-{last}-{build(spec).spec.fingerprint()[:8]}-v{version}"
    number = 1
    while True:
        name = f"{base}-{number}"
        status = workplace.place.read_json(workplace.place.address("runs", name), STATUS)
        if status is None or status["status"] != "succeeded":
            return name
        number += 1


def _rejected(workplace: Workplace, stream: str) -> int:
    from replay.streams.manifest import read_manifest

    manifest = read_manifest(workplace.place, stream)
    return manifest.rejected if manifest else 0


def _picture(results: pa.Table, spec: Mapping[str, Any], log: Any, days: Sequence[str], workplace: Workplace) -> bytes:
    import pyarrow.parquet as pq

    files = [path for path in log.paths if any(f"day={day}/" in path for day in days)] or log.paths[:1]
    with pq.ParquetFile(workplace.place.files(log.address).open_input_file(files[0])) as parquet:
        tuples = parquet.read().slice(0, SHOWN_TUPLES)
    drawn: bytes = technique_modules()[spec["technique"]].picture(results, tuples, dict(spec))
    return drawn


def _told(now: Progress) -> str:
    left = "" if now.seconds_left is None else f", {now.seconds_left:.0f} s left"
    reached = f", at {now.watermark:%Y-%m-%d %H:%M:%S}" if now.watermark else ""
    return f"batch {now.batch}: {now.tuples:,} of {now.total:,} tuples, {now.tuples_per_second:,.0f}/s, {now.late:,} late{reached}{left}"
