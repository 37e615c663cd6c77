"""A replay as assets carry it out: days of a stream, with log lines while it runs, published, and told in metadata.

The same for every technique. A run that was cancelled, or whose process died, is gone on with by the next one that wants the
same: the same results, days, specification, version of the log, and sizes of what is done at a time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.metadata import drawn, preview
from assets.signals import signal_of
from assets.techniques import technique_modules
from assets.workplace import Workplace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from assets.shown import Shown
    from replay.plan import Plan
    from replay.progress import Progress

_AGAIN = (
    "Launching the same again, or the next tick of the schedule, goes on where this run stopped;"
    " if it cannot, remove the run's folder, and it begins anew."
)
COUNTED = ("tuples", "late", "results")
"""What is told of each day by itself."""
_SHOWN = ("picture", "preview")
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
        plan_run(workplace.place, spec, [stream], early=False, **workplace.sizes)
    except (SpecError, LakeError) as problem:
        raise dg.Failure(description=str(problem), allow_retries=False) from None


def replay_days(
    context: dg.AssetExecutionContext, spec: Mapping[str, Any], stream: str, days: Sequence[date], publish: str, workplace: Workplace
) -> list[Replayed]:
    """Replay and publish days, neighbouring ones in a single run."""
    from deltalake.exceptions import DeltaError

    from engines.spec import SpecError
    from replay.backfill import pending
    from replay.claims import claimed
    from replay.lake import LakeError
    from replay.publish import results_address
    from replay.runs import RunError

    lake = workplace.place
    try:
        ranges = pending(lake, spec, [stream], days, again=True, one_by_one=False, publish_as=publish)
        spark = workplace.spark  # before the claim, which leaves a file, and before any clock runs: to start it takes seconds
        with claimed(lake, results_address(lake, publish)):
            return [_replay_range(context, spark, spec, stream, first, last, publish, workplace) for first, last in ranges]
    except (SpecError, LakeError) as problem:
        raise dg.Failure(description=str(problem), allow_retries=False) from None
    except (RunError, OSError, DeltaError) as problem:
        raise _failed(problem, "Published results are as they were.") from problem


def _failed(problem: Exception, published: str) -> dg.Failure:
    """A failure that tells what has become of what is published, and what to do."""
    return dg.Failure(description=f"{str(problem).rstrip('.')}. {published} {_AGAIN}")


def _replay_range(
    context: dg.AssetExecutionContext,
    spark: SparkSession,
    spec: Mapping[str, Any],
    stream: str,
    first: date,
    last: date,
    publish: str,
    workplace: Workplace,
) -> Replayed:
    """Replay and publish neighbouring days in a run, or go on with the one that was begun."""
    from deltalake.exceptions import DeltaError

    from engines import build
    from replay.backfill import plan_days
    from replay.log import Log
    from replay.publish import publish as publish_run
    from replay.runs import execute, new_run_id

    lake = workplace.place
    log = Log.open(lake, lake.address("streams", stream))
    wanted = f"{publish}-{first}-{last}-{build(spec).spec.fingerprint()[:8]}-{log.id[:8]}-v{log.version}-"
    plan = _begun(context, wanted, workplace)
    if plan is None:
        # A name is used once, even if its folder is removed: batches are known by it in the lake's metrics.
        name = wanted + new_run_id()
        plan = plan_days(lake, spec, [stream], first, last, run=name, publish=publish, **workplace.sizes)
        context.log.info(f"run {plan.run}: {first} to {last} of {stream}, {plan.span.reason}")
    begun = time.monotonic()
    replayed = execute(spark, plan, on_progress=_BatchLog(context))
    try:
        publish_run(plan)
    except (OSError, DeltaError) as problem:
        raise _failed(problem, "It was publishing: tables may have some of it, their record has none.") from problem
    state = max(replayed.metrics()["state_bytes"].to_pylist(), default=0)
    return Replayed(plan, replayed.progress, time.monotonic() - begun, state, _rejected(workplace, stream))


def _begun(context: dg.AssetExecutionContext, wanted: str, workplace: Workplace) -> Plan | None:
    """The plan of the latest run of the same, as it was begun; None if it was published: then all is to be computed anew."""
    from pyarrow.fs import FileSelector

    from replay.plan import PLAN
    from replay.runs import STATUS, load_plan
    from replay.runs import Replayed as Run

    lake = workplace.place
    folders = lake.files(lake.root).get_file_info(FileSelector("runs", allow_not_found=True))
    names = [folder.base_name for folder in folders if folder.base_name.startswith(wanted)]
    latest = max((name for name in names if lake.read_json(lake.address("runs", name), PLAN)), default=None)
    if latest is None:
        return None
    plan = load_plan(lake, latest)
    status = (lake.read_json(lake.address("runs", latest), STATUS) or {}).get("status", "")
    if status == "published" or plan.lake.root != lake.root:  # in a lake that was moved the plan would lead to where it was
        return None
    # A run that has died of its batches is saved by smaller ones: with the same plan it would die again and again.
    if other := {name: number for name, number in workplace.sizes.items() if getattr(plan, name) != number}:
        told = ", ".join(f"{name} was {getattr(plan, name):,}, and is {number:,} now" for name, number in other.items())
        context.log.info(f"run {latest} does not go on, all begins anew: {told}")
        return None
    batches = Run(plan, None).metrics().num_rows  # type: ignore[arg-type]
    context.log.info(f"run {latest} goes on: {_ENDED.get(status, 'its process died')} after {batches} batches")
    return plan


def metadata_of(done: Sequence[Replayed], spec: Mapping[str, Any], stream: str, publish: str, workplace: Workplace) -> dict[str, Any]:
    """What every materialization of results tells, under the same names."""
    from assets.shown import shown_results
    from engines import build
    from replay.log import Log
    from replay.publish import published_days, results_address

    lake = workplace.place
    # As it was replayed: by now the log may have grown.
    log = done[-1].plan.logs[stream] if done else Log.open(lake, lake.address("streams", stream))
    tuples, seconds = sum(run.progress.tuples for run in done), sum(run.seconds for run in done)
    read = tuples - sum(run.progress.before for run in done)
    days = replayed_days(done)
    published = [record for day, record in published_days(lake, publish).items() if day in days]
    shown = shown_results(lake, publish, days)
    return {
        "picture": drawn(lambda: _picture(shown, spec, log, days, workplace)),
        "preview": preview(shown.rows.slice(0, 10).to_pylist()),
        "first_day": str(min(days, default="")),
        "last_day": str(max(days, default="")),
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


def metadata_of_days(
    metadata: Mapping[str, Any], done: Sequence[Replayed], stream: str, publish: str, workplace: Workplace
) -> dict[str, Any]:
    """What the materialization of each day of a run tells in the place of the run's totals, the last one with the picture and the preview.

    Pictures are large, and those of all days would be the same.
    """
    from replay.publish import published_days

    known = published_days(workplace.place, publish)
    log, tuples, days = done[-1].plan.logs[stream], Counter[str](), sorted(replayed_days(done))
    for path, rows in zip(log.paths, log.rows.tolist(), strict=True):
        tuples[path.partition("day=")[2].partition("/")[0]] += rows
    told = {str(day): {"tuples": tuples[str(day)], "late": known[day]["late"], "results": known[day]["results"]} for day in days}
    told[str(days[-1])] |= {name: metadata[name] for name in _SHOWN}
    return told


def metadata_of_run(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What the materializations of all days of a run tell: its totals under names of their own."""
    return {f"run_{name}" if name in COUNTED else name: value for name, value in metadata.items() if name not in _SHOWN}


def replayed_days(done: Sequence[Replayed]) -> set[date]:
    """The days that runs have published."""
    spans = [[date.fromisoformat(day).toordinal() for day in run.plan.span.days] for run in done]
    return {date.fromordinal(n) for first, last in spans for n in range(first, last + 1)}


def _rejected(workplace: Workplace, stream: str) -> int:
    from replay.streams.manifest import read_manifest

    manifest = read_manifest(workplace.place, stream)
    return manifest.rejected if manifest else 0


def _picture(shown: Shown, spec: Mapping[str, Any], log: Any, days: Collection[date], workplace: Workplace) -> bytes:
    """As the technique draws its results, over the signal of the key that has most of them."""
    by_log_key = spec.get("key") in (None, "key")  # else keys of results are no keys of the log, and whoever draws picks the tuples
    most = shown.of_key(shown.keys()[0]) if shown.keys() and by_log_key else shown.rows.slice(0, 0)
    png: bytes = technique_modules()[spec["technique"]].picture(shown, signal_of(workplace, log, spec, most, days), dict(spec))
    return png


class _BatchLog:
    """A log line per batch; at its end a run tells how far it has come once more, and that is not said again."""

    def __init__(self, context: dg.AssetExecutionContext) -> None:
        self._context, self._batch = context, -1

    def __call__(self, now: Progress) -> None:
        if now.batch > self._batch:
            self._context.log.info(_told(now))
        self._batch = now.batch


def _told(now: Progress) -> str:
    left = "" if now.seconds_left is None else f", {now.seconds_left:.0f} s left"
    reached = f", at {now.clock:%Y-%m-%d %H:%M:%S}" if now.clock else ""
    decided = f", watermark {now.watermark:%Y-%m-%d %H:%M:%S}" if now.watermark else ""
    counted = f"{now.tuples:,} of {now.total:,} tuples, {now.tuples_per_second:,.0f}/s, {now.late:,} late"
    return f"batch {now.batch}: {counted}{reached}{decided}{left}"
