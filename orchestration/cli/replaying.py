"""Runs as the command line carries them out: planned before Spark starts, shown, stopped by ctrl-C, told as documents.

What a plan is, how it is executed and what is published are the business of replay/; only the order of calls is decided here.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

from engines import build
from orchestration.cli.sentences import Told
from orchestration.cli.showing import Display
from orchestration.cli.spark import quiet_session
from replay.backfill import pending, plan_days
from replay.claims import claimed
from replay.lake import Lake
from replay.plan import PLAN, Plan
from replay.publish import Publication, publish, published_days, results_address, results_name
from replay.runs import Replayed, execute, load_plan, plan_run
from replay.span import all_days, of_days

Plans = Sequence[Callable[[], Plan]]
"""Plans that are made when their turn comes: a day may begin with the state that the one before it leaves."""


@dataclass(frozen=True)
class Done:
    """A run that came to its end, and what it published."""

    replayed: Replayed
    publication: Publication | None

    def document(self) -> dict[str, Any]:
        """What was done, as `--json` tells it."""
        plan, progress = self.replayed.plan, self.replayed.progress
        return {
            "run": plan.run,
            "technique": plan.spec["technique"],
            "fingerprint": plan.engine.spec.fingerprint(),
            "streams": {name: {"log": address, "version": version} for name, (address, version) in plan.streams.items()},
            "began": plan.span.reason,
            "days": list(plan.span.days) or None,
            "tuples": progress.tuples,
            "late": progress.late,
            "results": progress.results,
            "batches": progress.batch + 1,
            "seconds": round(progress.seconds, 3),
            "tuples_per_second": round(progress.tuples_per_second, 1),
            "clock": progress.clock.isoformat() if progress.clock else None,
            "watermark": progress.watermark.isoformat() if progress.watermark else None,
            "outputs": {name: plan.output(name) for name in [*plan.operator.outputs, "late"]},
            "published": _published(self.publication) if self.publication else None,
        }


def plan_whole(lake: Lake, spec: Mapping[str, Any], streams: Sequence[str], **settings: Any) -> Plans:
    """The plan of a replay of whole logs, which publishes nothing."""
    plan = plan_run(lake, spec, streams, **settings)
    lake.address("runs", plan.run)  # refused before Spark starts
    return [lambda: plan]


def plan_backfill(
    lake: Lake,
    spec: Mapping[str, Any],
    streams: Sequence[str],
    days: tuple[date, date] | None,
    *,
    again: bool,
    one_by_one: bool,
    replace: bool,
    **settings: Any,
) -> Plans:
    """The plans of a backfill: of all days that are asked for and do not stand. All are checked before the first is replayed."""
    whole = plan_run(lake, spec, streams, early=False, **settings)
    first, last = days or (all_days(whole.logs)[0], all_days(whole.logs)[-1])
    of_days(whole.logs, whole.engine, first, last)
    lake.address("runs", whole.run)
    if not replace:
        _refuse_another(whole)
    wanted = map(date.fromordinal, range(first.toordinal(), last.toordinal() + 1))
    ranges = pending(lake, spec, streams, wanted, again=again, one_by_one=one_by_one, publish_as=settings.get("publish"))
    if len(ranges) > 1 and "run" in settings:
        raise Told(f"run: {settings['run']!r} given, and these days take {len(ranges)} runs; allowed is a name only where one is enough.")
    return [partial(plan_days, lake, spec, streams, *span, **settings) for span in ranges]


def _refuse_another(plan: Plan) -> None:
    """Refuse to publish under a name that has another specification: all days of it would be emptied."""
    from assets.techniques import technique_modules  # brings Dagster's libraries

    name, fingerprint = results_name(plan), plan.engine.spec.fingerprint()
    assets = {f"{t}__{s}": (f"{t}/{s}", spec) for t, module in technique_modules().items() for s, spec in module.RESULTS.items()}
    asset, spec = assets.get(name, ("", None))
    if spec is not None and build(spec).spec.fingerprint() != fingerprint:
        whose = f"the results asset {asset} is published so"
    elif any(record["fingerprint"] != fingerprint for record in published_days(plan.lake, name).values()):
        whose = "days are published so"
    else:
        return
    raise Told(
        f"publish_as: {name!r} given, and {whose} with another specification; allowed are another name (--publish-as NAME), "
        "or to replace what is there (--replace)."
    )


def plan_resumed(lake: Lake, run: str) -> Plans:
    """The plan of a run that was begun before."""
    plan = load_plan(lake, run)
    if plan.lake.root != lake.root:
        raise Told(f"run {run}: it was begun in the lake {plan.lake.root}, and {lake.root} was given; allowed is the former.")
    if not plan.of_logs:
        raise Told(f"run {run}: it replays a DataFrame, not a log; allowed is to resume it from the program that has the DataFrame.")
    return [lambda: plan]


def carry_out(plans: Plans, *, master: str) -> list[Done]:
    """Execute plans one after the other, and publish those that are of days."""
    if not plans:
        return []
    done = []
    with Display() as display:
        display.say("starting Spark")
        with quiet_session(master) as spark:
            for number, make in enumerate(plans, start=1):
                plan = make()
                display.begin(_title(plan, number, len(plans)))
                publishing = claimed(plan.lake, results_address(plan.lake, results_name(plan))) if plan.span.days else nullcontext()
                with publishing, _resumable(plan):
                    replayed = execute(spark, plan, on_progress=display.progress)
                    done.append(Done(replayed, publish(plan) if plan.span.days else None))
    return done


@contextmanager
def _resumable(plan: Plan) -> Iterator[None]:
    """Tell whoever interrupts a run how to go on with it."""
    try:
        yield
    except KeyboardInterrupt:
        if plan.lake.read_json(plan.folder, PLAN) is None:
            raise
        command = shlex.join(["reprise", "resume", plan.run, "--lake", plan.lake.root])
        raise KeyboardInterrupt(f"Stopped; '{command}' goes on from here.") from None


def _title(plan: Plan, number: int, count: int) -> str:
    days = f", {' to '.join(dict.fromkeys(plan.span.days))}" if plan.span.days else ""
    of = f" ({number} of {count})" if count > 1 else ""
    return f"run {plan.run}{of}: {plan.spec['technique']} on {', '.join(plan.streams)}{days}, {plan.span.reason}"


def _published(publication: Publication) -> dict[str, Any]:
    days = publication.days.select(["day", "sealed", "results", "late"]).to_pylist()
    return {"address": publication.address, "days": [{**row, "day": row["day"].isoformat()} for row in days]}
