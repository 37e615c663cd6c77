"""Schedules: one day after the other is replayed until the history is done, and the last days are looked at again.

A tick picks the oldest day that is missing, failed, stale, red, unchecked, or provisional with a grown log, so that the state of the day
before is there. If there is none, the tick says precisely why. A day that is red is replayed once more: whoever replays it a second time,
from the same tuples with the same specification, gets the same. So is one that was published and not checked since: its run was stopped
in between, or somebody has published it from the command line.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import dagster as dg

from assets.results import results_key
from assets.streams import make_days_known, stream_key
from assets.techniques import technique_modules
from assets.verdicts import last_told, last_verdicts, tell_few_days
from assets.workplace import Workplace

RECHECKED_DAYS = 3
RED = "reprise/red"
"""The tag of a run of a day because it is red, or unchecked: the day, and all that its results hang on."""
WHY = "reprise/why"
"""The tag of a run that tells why it was asked for."""
_ENDED = {dg.DagsterRunStatus.FAILURE: "failed", dg.DagsterRunStatus.CANCELED: "was cancelled", dg.DagsterRunStatus.SUCCESS: ""}


def schedules() -> list[dg.ScheduleDefinition]:
    """For every results asset: the next day, and the last days again."""
    found = []
    for technique, module in technique_modules().items():
        for stream, spec in module.RESULTS.items():
            found += [_next_day(technique, stream, spec), _last_days(technique, stream, spec)]
    return found


def _next_day(technique: str, stream: str, spec: Mapping[str, Any]) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=f"next_day_of_{technique}__{stream}",
        cron_schedule="*/10 * * * *",
        target=dg.AssetSelection.assets(results_key(technique, stream)),
        description=f"Replays the oldest day of {technique} on {stream} that is missing, failed, stale, red, unchecked, or outdated.",
    )
    def next_day(context: dg.ScheduleEvaluationContext, workplace: Workplace) -> dg.RunRequest | dg.SkipReason:
        days, reason = days_to_replay(workplace, technique, stream, spec)
        left, again = list[RedDay](), None
        for one in red_days(context.instance, workplace, technique, stream, spec, days):
            if one.replayed_by is None:
                again = one
                break  # there may be thousands, and for each of them the runs are looked through
            left.append(one)
        if not days and again is None:
            return dg.SkipReason(" ".join([reason, *_left(left)]))
        if held_up := _under_way(context.instance, technique, stream) or _red_stream(context.instance, workplace, stream):
            return dg.SkipReason(held_up)
        make_days_known(context.instance, stream, all_days(workplace, stream))
        if again and (not days or again.day < days[0]):
            day, why, tags = again.day.isoformat(), f"{again.day} {again.why}", {RED: again.tag}
        else:
            day, why, tags = days[0].isoformat(), reason, {}
        tags[WHY] = why + _tried(context.instance, technique, stream, day)
        return dg.RunRequest(partition_key=day, asset_selection=[results_key(technique, stream)], tags=tags)

    return next_day


def _last_days(technique: str, stream: str, spec: Mapping[str, Any]) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=f"last_days_of_{technique}__{stream}",
        cron_schedule="5 4 * * *",  # at no minute of the other schedule: neither would see the other's run yet
        target=dg.AssetSelection.assets(results_key(technique, stream)),
        description=f"Replays the last {RECHECKED_DAYS} published days of {technique} on {stream} again, and with them their checks.",
    )
    def last_days(context: dg.ScheduleEvaluationContext, workplace: Workplace) -> dg.RunRequest | dg.SkipReason:
        from replay.publish import published_days
        from replay.span import neighbours

        published = published_days(workplace.place, f"{technique}__{stream}").keys()
        if not published:
            return dg.SkipReason(f"No day of {technique} on {stream} is published yet.")
        if workplace.place.table(workplace.place.address("streams", stream)) is None:
            return dg.SkipReason(f"The log of {stream} is gone.")
        if held_up := _under_way(context.instance, technique, stream) or _red_stream(context.instance, workplace, stream):
            return dg.SkipReason(held_up)
        there = all_days(workplace, stream)
        make_days_known(context.instance, stream, there)
        if not published & set(there):
            return dg.SkipReason(f"No published day of {technique} on {stream} is in the log any more.")
        first, last = neighbours([day for day in there if day in published])[-1]
        first = max(first, last - timedelta(days=RECHECKED_DAYS - 1))
        why = f"the last days that are published, {first} to {last}, again"
        return dg.RunRequest(asset_selection=[results_key(technique, stream)], tags={**of_range(first, last), WHY: why})

    return last_days


def days_to_replay(workplace: Workplace, technique: str, stream: str, spec: Mapping[str, Any]) -> tuple[list[date], str]:
    """The days that do not stand, oldest first, and the reason for that, or for there being none."""
    from engines import build
    from replay.backfill import stands
    from replay.log import Log
    from replay.publish import published_days

    lake = workplace.place
    if lake.table(lake.address("streams", stream)) is None:
        return [], f"The stream {stream} is not ingested yet."
    log = Log.open(lake, lake.address("streams", stream))
    known, engine = published_days(lake, f"{technique}__{stream}"), build(spec)
    missing = [day for day in log.days() if not stands(engine, {stream: log}, known.get(day))]
    if not missing:
        days = log.days()
        return (
            [],
            f"All {len(days)} days of {stream}, {days[0]} to {days[-1]}, are published and stand." if days else f"{stream} has no tuples.",
        )
    day = missing[0]
    record = known.get(day)
    if record is None:
        return missing, f"{day} is not published yet"
    if record["fingerprint"] != engine.spec.fingerprint():
        return missing, f"{day} was published with another specification"
    return missing, f"{day} was {'published from tuples that have changed' if record['sealed'] else 'provisional, and the log has grown'}"


@dataclass(frozen=True)
class RedDay:
    """A published day that stands, and is red, or was not checked since it was published."""

    day: date
    checks: str
    """Those that are red; none: it is unchecked."""
    tag: str
    replayed_by: str | None
    """The run that has replayed it because of that, to no avail."""

    @property
    def why(self) -> str:
        """What is said of it."""
        return f"is red ({self.checks})" if self.checks else "was not checked since it was published"


def red_days(
    instance: dg.DagsterInstance, workplace: Workplace, technique: str, stream: str, spec: Mapping[str, Any], missing: list[date]
) -> Iterator[RedDay]:
    """The days whose last critical verdict is red, and those without one, oldest first; not those that are to be replayed anyway."""
    from engines import build
    from quality.suites.results import suite
    from replay.publish import published_days, results_address

    lake, publish = workplace.place, f"{technique}__{stream}"
    if lake.table(lake.address("streams", stream)) is None:
        return
    critical = [expected.name for expected in suite(technique) if expected.severity == "critical"]
    verdicts = last_verdicts(instance, results_key(technique, stream), critical, results_address(lake, publish))
    known, engine = published_days(lake, publish), build(spec)
    judged = {name: verdicts[name].stands_for(known) if name in verdicts else set() for name in critical}
    for day in sorted(known.keys() & set(all_days(workplace, stream)) - set(missing)):
        red = [name for name in critical if day in judged[name] and day in verdicts[name].red]
        if not red and all(day in days for days in judged.values()):
            continue
        record = known[day]
        arrivals = json.loads(str(record["arrivals"]))[stream][1]
        tag = f"{day} {engine.spec.fingerprint()[:8]}.{engine.version} {arrivals}{'' if red else ' unchecked'}"
        runs = instance.get_run_records(dg.RunsFilter(tags={RED: tag}), limit=20)
        # A run that failed before it has published anything has not replayed it. And what others have published later was never checked.
        done = [one.dagster_run.run_id[:8] for one in runs if one.create_timestamp < record["published"] and (red or _lived(one, record))]
        yield RedDay(day, ", ".join(red), tag, done[0] if done else None)


def _lived(run: dg.RunRecord, record: Mapping[str, Any]) -> bool:
    """Whether a run was under way when a day was published."""
    return run.end_time is None or run.end_time >= record["published"].timestamp()


def _left(red: list[RedDay]) -> list[str]:
    """What is told of days that are red, or unchecked, and stay so."""
    told = []
    for some, is_so, are_so in (
        ([one for one in red if one.checks], "is red", "are red"),
        ([one for one in red if not one.checks], "is unchecked", "are unchecked"),
    ):
        if some:
            checks = ", ".join(dict.fromkeys(name for one in some if one.checks for name in one.checks.split(", ")))
            was = f"{is_so}, and was" if len(some) == 1 else f"{are_so}, and were"
            by = f"run {some[0].replayed_by}{f': {checks}' if checks else ''}"
            days = tell_few_days([one.day for one in some])
            told.append(f"But {days} {was} replayed again to no avail ({by}); remove the cause, then replay by hand.")
    return told


def all_days(workplace: Workplace, stream: str) -> list[date]:
    """Every day of a stream's log."""
    from replay.log import Log

    return Log.open(workplace.place, workplace.place.address("streams", stream)).days()


def of_range(first: date, last: date) -> dict[str, str]:
    """The tags of a run of neighbouring days."""
    return {"dagster/asset_partition_range_start": first.isoformat(), "dagster/asset_partition_range_end": last.isoformat()}


def _under_way(instance: dg.DagsterInstance, technique: str, stream: str) -> str | None:
    """Which run writes these results, or is about to, if there is one."""
    statuses = [status for status in dg.DagsterRunStatus if status not in _ENDED]
    runs = _runs_of(instance, technique, stream, dg.RunsFilter(statuses=statuses))
    return f"Run {runs[0].run_id[:8]} of {technique} on {stream} is {runs[0].status.value.lower()}." if runs else None


def _red_stream(instance: dg.DagsterInstance, workplace: Workplace, stream: str) -> str | None:
    """Why nothing is replayed of a log that is not what its declaration promises, if it is not."""
    from quality.suites.streams import suite

    critical = [one.expected.name for one in suite() if one.expected.severity == "critical"]
    address = workplace.place.address("streams", stream)
    verdicts = {name: last_told(instance, dg.AssetCheckKey(stream_key(stream), name), address) for name in critical}
    red = ", ".join(name for name, told in verdicts.items() if told and not told["passed"])
    return f"The stream {stream} is red ({red}); remove the cause, then ingest it again, or run its checks." if red else None


def _tried(instance: dg.DagsterInstance, technique: str, stream: str, day: str) -> str:
    """How the last run of a day ended, if it came to no good end."""
    runs = _runs_of(instance, technique, stream, dg.RunsFilter(tags={"dagster/partition": day}, statuses=list(_ENDED)), limit=20)
    return f"; run {runs[0].run_id[:8]} of it {_ENDED[runs[0].status]}" if runs and _ENDED[runs[0].status] else ""


def _runs_of(
    instance: dg.DagsterInstance, technique: str, stream: str, chosen: dg.RunsFilter, limit: int | None = None
) -> list[dg.DagsterRun]:
    """Those of the chosen runs that materialize these results, the last one first: schedules and the UI say what is selected."""
    key = results_key(technique, stream)
    return [run for run in instance.get_runs(chosen, limit=limit) if run.asset_selection and key in run.asset_selection]
