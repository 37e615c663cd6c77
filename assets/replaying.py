"""A replay as assets carry it out: days of a stream, with log lines while it runs, published, and told in metadata.

The same for every technique. A run that was cancelled, or whose process died, is gone on with by the next one that wants the
same: the same results, days, specification and version of the log.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow as pa
import pyarrow.dataset as ds

from assets.metadata import picture, preview
from assets.signals import signal_of
from assets.techniques import technique_modules
from assets.workplace import Workplace

if TYPE_CHECKING:
    from replay.plan import Plan
    from replay.progress import Progress

SHOWN = 20_000
"""Of how many results a picture is drawn at most."""
_AGAIN = (
    "Launching the same again, or the next tick of the schedule, goes on where this run stopped;"
    " if it cannot, remove the run's folder, and it begins anew."
)
_ENDED = {"cancelled": "it was cancelled", "failed": "it failed", "succeeded": "it ended, with nothing published"}
"""How a run came to its end that is gone on with; without any of these its process died."""


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
    context: dg.AssetExecutionContext, spec: Mapping[str, Any], stream: str, days: Sequence[date], publish: str, workplace: Workplace
) -> list[Replayed]:
    """Replay and publish days, neighbouring ones in a single run."""
    from engines.spec import SpecError
    from replay.backfill import pending
    from replay.claims import claimed
    from replay.lake import LakeError
    from replay.publish import results_address
    from replay.runs import RunError

    lake = workplace.place
    try:
        ranges = pending(lake, spec, [stream], days, again=True, one_by_one=False, publish_as=publish)
        with claimed(lake, results_address(lake, publish)):
            return [_replay_range(context, spec, stream, first, last, publish, workplace) for first, last in ranges]
    except (SpecError, LakeError) as problem:
        raise dg.Failure(description=str(problem), allow_retries=False) from None
    except (RunError, OSError) as problem:
        told = f"{str(problem).rstrip('.')}. Published results are as they were. {_AGAIN}"
        raise dg.Failure(description=told) from problem


def _replay_range(
    context: dg.AssetExecutionContext, spec: Mapping[str, Any], stream: str, first: date, last: date, publish: str, workplace: Workplace
) -> Replayed:
    """Replay and publish neighbouring days in a run, or go on with the one that was begun."""
    from engines import build
    from replay.backfill import plan_days
    from replay.log import Log
    from replay.publish import publish as publish_run
    from replay.runs import execute, new_run_id

    lake = workplace.place
    version = Log.open(lake, lake.address("streams", stream)).version
    wanted = f"{publish}-{first}-{last}-{build(spec).spec.fingerprint()[:8]}-v{version}-"
    plan = _begun(context, wanted, publish, workplace)
    if plan is None:
        # A name is used once, even if its folder is removed: batches are known by it in the lake's metrics.
        name = wanted + new_run_id()
        plan = plan_days(lake, spec, [stream], first, last, run=name, publish=publish, batch_tuples=workplace.batch_tuples)
        context.log.info(f"run {plan.run}: {first} to {last} of {stream}, {plan.span.reason}")
    begun = time.monotonic()
    replayed = execute(workplace.spark, plan, on_progress=lambda now: context.log.info(_told(now)))
    publish_run(plan)
    state = max(replayed.metrics()["state_bytes"].to_pylist(), default=0)
    return Replayed(plan, replayed.progress, time.monotonic() - begun, state, _rejected(workplace, stream))


def _begun(context: dg.AssetExecutionContext, wanted: str, publish: str, workplace: Workplace) -> Plan | None:
    """The plan of the latest run of the same that has published nothing, as it was begun."""
    from pyarrow.fs import FileSelector

    from replay.plan import PLAN
    from replay.publish import published_days
    from replay.runs import STATUS, load_plan
    from replay.runs import Replayed as Run

    lake = workplace.place
    folders = lake.files(lake.root).get_file_info(FileSelector("runs", allow_not_found=True))
    names = [folder.base_name for folder in folders if folder.base_name.startswith(wanted)]
    begun = [name for name in names if lake.read_json(lake.address("runs", name), PLAN)]
    latest = max(begun, default=None)
    if latest is None or any(record["run"] == latest for record in published_days(lake, publish).values()):
        return None
    plan = load_plan(lake, latest)
    if plan.lake.root != lake.root:
        return None  # the lake was moved, and the plan would lead to where it was
    status = lake.read_json(plan.folder, STATUS) or {}
    why = _ENDED.get(status.get("status", ""), "its process died")
    batches = Run(plan, None).metrics().num_rows  # type: ignore[arg-type]
    context.log.info(f"run {latest} goes on: {why} after {batches} batches")
    return plan


def metadata_of(done: Sequence[Replayed], spec: Mapping[str, Any], stream: str, publish: str, workplace: Workplace) -> dict[str, Any]:
    """What every materialization of results tells, under the same names."""
    from engines import build
    from replay.log import Log
    from replay.publish import published_days, results_address

    lake = workplace.place
    # As it was replayed: by now the log may have grown.
    log = done[-1].plan.logs[stream] if done else Log.open(lake, lake.address("streams", stream))
    tuples, seconds = sum(run.progress.tuples for run in done), sum(run.seconds for run in done)
    read = tuples - sum(run.progress.before for run in done)
    days = _days(done)
    published = [record for day, record in published_days(lake, publish).items() if day in days]
    results = _some_results(workplace, publish, days)
    return {
        "picture": picture(_picture(results, spec, log, days, workplace)),
        "preview": preview(results.slice(0, 10).to_pylist()),
        "first_day": str(min(_days(done), default="")),
        "last_day": str(max(_days(done), default="")),
        "tuples": tuples,
        "late": sum(int(str(record["late"])) for record in published),
        "rejected": done[-1].rejected if done else 0,
        "results": sum(int(str(record["results"])) for record in published),
        "batches": sum(run.progress.batch + 1 for run in done),
        "tuples_per_second": round(read / seconds, 1) if seconds else 0.0,
        "state_bytes": max((run.state_bytes for run in done), default=0),
        "seconds": round(seconds, 3),
        "delta_version": log.version,
        "config_hash": build(spec).spec.fingerprint(),
        "runs": ", ".join(run.plan.run for run in done),
        "began": "; ".join(run.plan.span.reason for run in done),
        "published": results_address(lake, publish),
        "specification": dg.MetadataValue.json(dict(spec)),
    }


def _some_results(workplace: Workplace, publish: str, days: Collection[date]) -> pa.Table:
    """Published results of these days, as many as a picture shows."""
    from replay.publish import results_address

    table = workplace.place.table(results_address(workplace.place, publish))
    if table is None:
        return pa.table({})
    rows = table.to_pyarrow_dataset().filter(ds.field("day").isin(list(days))).head(SHOWN)
    return rows.sort_by("decided") if rows.num_rows else rows


def _days(done: Sequence[Replayed]) -> set[date]:
    spans = [[date.fromisoformat(day).toordinal() for day in run.plan.span.days] for run in done]
    return {date.fromordinal(n) for first, last in spans for n in range(first, last + 1)}


def _rejected(workplace: Workplace, stream: str) -> int:
    from replay.streams.manifest import read_manifest

    manifest = read_manifest(workplace.place, stream)
    return manifest.rejected if manifest else 0


def _picture(results: pa.Table, spec: Mapping[str, Any], log: Any, days: Collection[date], workplace: Workplace) -> bytes:
    drawn: bytes = technique_modules()[spec["technique"]].picture(results, signal_of(workplace, log, spec, results, days), dict(spec))
    return drawn


def _told(now: Progress) -> str:
    left = "" if now.seconds_left is None else f", {now.seconds_left:.0f} s left"
    reached = f", at {now.watermark:%Y-%m-%d %H:%M:%S}" if now.watermark else ""
    return f"batch {now.batch}: {now.tuples:,} of {now.total:,} tuples, {now.tuples_per_second:,.0f}/s, {now.late:,} late{reached}{left}"
