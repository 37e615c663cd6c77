"""Asset checks: one per expectation of a suite, on every results asset and on what was launched.

A check op verifies the days of its run, or, run alone, every published day; and in either case the days that critical checks have found
red before. What is expected is said in quality/; here it is only brought together with the lake and told in metadata. A check that cannot
be judged is red.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.metadata import picture, preview
from assets.reporting import plainly, report_link, report_name, told_by, write_report
from assets.results import LAUNCHED, results_key
from assets.techniques import technique_modules
from assets.verdicts import Verdict, days_from, last_verdicts, red_of, tell_judged, tell_red
from assets.verification import verify_published
from assets.workplace import Workplace

if TYPE_CHECKING:
    from quality.expectations import Expected, Outcome


@dataclass(frozen=True)
class _Subject:
    """What is judged."""

    spec: Mapping[str, Any]
    stream: str
    publish: str
    address: str
    """Where the results are."""
    days: list[date] | None
    """Those of the run; None: all that are published."""


_What = Callable[[dg.AssetCheckExecutionContext, Workplace], _Subject]
_Judged = tuple["Outcome", Mapping[str, Any]]
"""An outcome, and what is told beside it."""


def results_checks() -> list[dg.AssetChecksDefinition]:
    """The checks of every results asset, and of the one that is launched."""
    from quality.suites.results import suite

    found = []
    for technique, module in technique_modules().items():
        for stream, spec in module.RESULTS.items():
            publish = f"{technique}__{stream}"
            found.append(_checks(results_key(technique, stream), publish, suite(technique), _fixed(spec, stream, publish)))
    return [*found, _checks(LAUNCHED, "launched", _of_any_technique(), _launched)]


def _fixed(spec: Mapping[str, Any], stream: str, publish: str) -> _What:
    def what(context: dg.AssetCheckExecutionContext, workplace: Workplace) -> _Subject:
        from replay.publish import results_address  # brings Spark's libraries

        return _Subject(spec, stream, publish, results_address(workplace.place, publish), _days_of_run(context))

    return what


def _launched(context: dg.AssetCheckExecutionContext, workplace: Workplace) -> _Subject:
    """What the last launch was, as its materialization tells."""
    from replay.publish import results_address

    event = context.instance.get_latest_materialization_event(LAUNCHED)
    if event is None or event.asset_materialization is None:
        raise ValueError("nothing was launched yet; run the job replay first.")
    told = plainly({name: value for name, value in event.asset_materialization.metadata.items() if name != "picture"})
    spec, publish = told["specification"], str(told["published_as"])
    days, address = days_from(str(told["first_day"]), str(told["last_day"])), results_address(workplace.place, publish)
    return _Subject(json.loads(spec) if isinstance(spec, str) else spec, str(told["stream"]), publish, address, days)


def _of_any_technique() -> list["Expected"]:
    """What is expected of the results of some technique; what one name means to each of them, if that differs."""
    from quality.suites.results import suite

    found: defaultdict[str, dict[str, Expected]] = defaultdict(dict)
    for technique in technique_modules():
        for expected in suite(technique):
            found[expected.name][technique] = expected
    joined = []
    for by_technique in found.values():
        first, *others = by_technique.values()
        differs = any(other.description != first.description for other in others)
        told = " ".join(f"{technique.capitalize()}: {expected.description}" for technique, expected in by_technique.items())
        joined.append(replace(first, description=told) if differs else first)
    return joined


def check_specs(key: dg.AssetKey, suite: Sequence["Expected"]) -> list[dg.AssetCheckSpec]:
    """A check per expectation; what builds on the asset waits for the critical ones."""
    return [
        dg.AssetCheckSpec(expected.name, asset=key, description=expected.description, blocking=expected.severity == "critical")
        for expected in suite
    ]


def check_result(key: dg.AssetKey, outcome: "Outcome", metadata: Mapping[str, Any]) -> dg.AssetCheckResult:
    """An outcome as Dagster shows it."""
    severity = dg.AssetCheckSeverity.ERROR if outcome.severity == "critical" else dg.AssetCheckSeverity.WARN
    told = {"rows": outcome.rows, "wrong": outcome.wrong, "told": outcome.told(), **metadata}
    return dg.AssetCheckResult(check_name=outcome.name, asset_key=key, passed=outcome.passed, severity=severity, metadata=told)


def check_results(
    context: dg.AssetCheckExecutionContext,
    key: dg.AssetKey,
    suite: Sequence["Expected"],
    judged: Callable[[], Iterable[_Judged]],
    lost: Callable[[str], Mapping[str, Any]] = lambda name: {},
) -> list[dg.AssetCheckResult]:
    """The checks of a suite that were asked for, all made before the first is told; what cannot be judged is red, whatever the reason.

    Args:
        context: of the op.
        key: the asset that is checked.
        suite: what is expected of it.
        judged: gives the outcome of each expectation, with its metadata.
        lost: gives the metadata of an expectation that could not be judged.
    """
    from quality.expectations import unjudged

    try:
        found = {outcome.name: check_result(key, outcome, metadata) for outcome, metadata in judged()}
    except Exception as problem:
        context.log.exception(f"{'/'.join(key.path)} could not be judged")  # the log of the run has all of it
        reason = str(problem) or type(problem).__name__
        found = {expected.name: check_result(key, unjudged(expected, reason), lost(expected.name)) for expected in suite}
    asked = {one.name for one in context.selected_asset_check_keys}
    return [found[expected.name] for expected in suite if expected.name in asked]


def _checks(key: dg.AssetKey, pool: str, declared: Sequence["Expected"], what: _What) -> dg.AssetChecksDefinition:
    """The checks of an asset, in its own pool: with more runs at a time still nothing is judged while it is written."""

    @dg.multi_asset_check(specs=check_specs(key, declared), name=f"checks_of_{'__'.join(key.path)}", pool=pool, can_subset=True)
    def checks(context: dg.AssetCheckExecutionContext, workplace: Workplace) -> Iterator[dg.AssetCheckResult]:
        from quality.suites.results import suite

        try:
            subject = what(context, workplace)
        except Exception as problem:
            yield from check_results(context, key, declared, _raising(problem))
            return
        # Of what was launched those of its technique alone: those of others are not evaluated, and shown so.
        expected = suite(subject.spec["technique"])
        asked = [one.name for one in context.selected_asset_check_keys]
        at = datetime.now(UTC)  # what is published from now on may not be what is judged
        before = last_verdicts(context.instance, key, asked, subject.address)

        def lost(name: str) -> Mapping[str, Any]:
            return _unjudged(workplace, subject, before.get(name, Verdict()), at)

        def judged() -> Iterator[_Judged]:
            return _judged(context, key, workplace, subject, expected, before, at)

        yield from check_results(context, key, expected, judged, lost)

    return checks


def _judged(
    context: dg.AssetCheckExecutionContext,
    key: dg.AssetKey,
    workplace: Workplace,
    subject: _Subject,
    expected: Sequence["Expected"],
    before: Mapping[str, Verdict],
    at: datetime,
) -> Iterator[_Judged]:
    """Each outcome with what is told beside it, when the report is written."""
    from replay.publish import published_days

    # Days with warnings are not judged again with every run that follows: they have them for good.
    critical = {one.name: before[one.name] for one in expected if one.severity == "critical" and one.name in before}
    verified = verify_published(workplace, subject.spec, subject.stream, subject.publish, subject.days, red_of(critical))
    known = published_days(workplace.place, subject.publish)
    report = _reported(context, key, workplace, subject, verified)
    for outcome in verified["outcomes"]:
        days = {*before.get(outcome.name, Verdict()).stands_for(known), *verified["dates"]}
        metadata = {"days": verified["days"], "sample": verified["sample"], "report": report, **verified["verdicts"][outcome.name]}
        metadata |= tell_judged(subject.address, days, at)
        if outcome.worst:
            metadata["worst"] = preview(outcome.worst, exact=True)
        # Metadata is kept for every check of every run, and a picture has some 30 kB: beside one check, and beside what is red.
        if outcome.name == "every_expected_row_is_there" or not outcome.passed and outcome.severity == "critical":
            metadata["engine_and_oracle"] = picture(verified["picture"])
        yield outcome, metadata


def _unjudged(workplace: Workplace, subject: _Subject, before: Verdict, at: datetime) -> Mapping[str, Any]:
    """What a check tells that could not be judged: the days that it is about are red, as far as it is known which they are."""
    from replay.publish import published_days

    try:
        known = published_days(workplace.place, subject.publish)
    except Exception:  # that is why it could not be judged
        return tell_red({*before.red, *(subject.days or ())}, before.keys) | tell_judged(subject.address, before.judged, before.at)
    days = known.keys() if subject.days is None else subject.days
    return tell_red({*before.red, *days}, before.keys) | tell_judged(subject.address, {*before.stands_for(known), *days}, at)


def _reported(
    context: dg.AssetCheckExecutionContext, key: dg.AssetKey, workplace: Workplace, subject: _Subject, verified: Mapping[str, Any]
) -> dg.MetadataValue:  # type: ignore[type-arg]
    """Write the report; the link to it, or why there is none: a page that cannot be written takes no verdict with it."""
    page = report_name(subject.publish, context.run.run_id)
    try:
        # Checks can run alone: then what the last replay told, perhaps of other days, is no part of their report.
        told = told_by(context.instance, key, context.run.run_id)
        write_report(workplace, page, subject.stream, subject.publish, subject.spec, told, verified)
    except Exception as problem:
        context.log.exception(f"the report {page} could not be written")
        return dg.MetadataValue.text(f"it could not be written: {str(problem) or type(problem).__name__}")
    return report_link(workplace, page)


def _days_of_run(context: dg.AssetCheckExecutionContext) -> list[date] | None:
    """The days that the run materializes, or None if it materializes none."""
    tags = context.run.tags
    if day := tags.get("dagster/partition"):
        return days_from(day, day)
    first, last = tags.get("dagster/asset_partition_range_start"), tags.get("dagster/asset_partition_range_end")
    return days_from(first, last) if first and last else None


def _raising(problem: Exception) -> Callable[[], Iterable[_Judged]]:
    """Judges nothing, but for the reason of that."""

    def judged() -> Iterable[_Judged]:
        raise problem

    return judged
