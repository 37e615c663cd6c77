"""Asset checks: one per expectation of a suite, on every results asset and on what was launched.

A check op verifies the days of its run, or, run alone, every published day. What is expected is said in quality/; here it is
only brought together with the lake and told in metadata. A check that cannot be judged is red.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import dagster as dg
import polars as pl

from assets.metadata import picture, preview
from assets.reporting import plainly, report_link, report_name, write_report
from assets.results import LAUNCHED, results_key
from assets.techniques import technique_modules
from assets.workplace import Workplace

MOST_TUPLES = 10_000_000
"""Of longer logs only some keys or some days are verified, and the check says so."""


def results_checks() -> list[dg.AssetChecksDefinition]:
    """The checks of every results asset, and of the one that is launched."""
    from quality.suites.results import suite

    found = []
    for technique, module in technique_modules().items():
        for stream, spec in module.RESULTS.items():
            found.append(_checks(results_key(technique, stream), suite(technique), _fixed(technique, stream, spec)))
    names = {expected.name: expected for technique in technique_modules() for expected in suite(technique)}
    return [*found, _checks(LAUNCHED, list(names.values()), _launched)]


def _fixed(technique: str, stream: str, spec: Mapping[str, Any]) -> Any:
    return lambda context: (spec, stream, f"{technique}__{stream}", _days_of_run(context))


def _launched(context: dg.AssetCheckExecutionContext) -> tuple[Mapping[str, Any], str, str, list[date]]:
    """What the last launch was, as its materialization tells."""
    event = context.instance.get_latest_materialization_event(LAUNCHED)
    if event is None or event.asset_materialization is None:
        raise dg.Failure(description="Nothing was launched yet: run the job replay first.", allow_retries=False)
    told = event.asset_materialization.metadata
    spec = told["specification"].value
    days = _range(str(told["first_day"].value), str(told["last_day"].value))
    return json.loads(spec) if isinstance(spec, str) else spec, str(told["stream"].value), str(told["published_as"].value), days  # type: ignore[return-value]


def check_specs(key: dg.AssetKey, suite: Sequence[Any]) -> list[dg.AssetCheckSpec]:
    """A check per expectation; what builds on the asset waits for the critical ones."""
    return [
        dg.AssetCheckSpec(expected.name, asset=key, description=expected.description, blocking=expected.severity == "critical")
        for expected in suite
    ]


def check_result(key: dg.AssetKey, outcome: Any, metadata: Mapping[str, Any]) -> dg.AssetCheckResult:
    """An outcome as Dagster shows it."""
    severity = dg.AssetCheckSeverity.ERROR if outcome.severity == "critical" else dg.AssetCheckSeverity.WARN
    told = {"rows": outcome.rows, "wrong": outcome.wrong, "told": outcome.told(), **metadata}
    return dg.AssetCheckResult(check_name=outcome.name, asset_key=key, passed=outcome.passed, severity=severity, metadata=told)


def check_results(
    context: dg.AssetCheckExecutionContext,
    key: dg.AssetKey,
    suite: Sequence[Any],
    judged: Callable[[], Iterable[tuple[Any, Mapping[str, Any]]]],
) -> list[dg.AssetCheckResult]:
    """The checks of a suite that were asked for, all made before the first is told; what cannot be judged is red, whatever the reason.

    Args:
        context: of the op.
        key: the asset that is checked.
        suite: what is expected of it.
        judged: gives the outcome of each expectation, with its metadata.
    """
    from quality.expectations import unjudged

    try:
        found = {outcome.name: check_result(key, outcome, metadata) for outcome, metadata in judged()}
    except Exception as problem:
        context.log.exception(f"{'/'.join(key.path)} could not be judged")  # the log of the run has all of it
        reason = str(problem) or type(problem).__name__
        found = {expected.name: check_result(key, unjudged(expected, reason), {}) for expected in suite}
    asked = {one.name for one in context.selected_asset_check_keys}
    return [found[expected.name] for expected in suite if expected.name in asked]


def _checks(key: dg.AssetKey, declared: Sequence[Any], what: Any) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(specs=check_specs(key, declared), name=f"checks_of_{'__'.join(key.path)}", pool="checks", can_subset=True)
    def checks(context: dg.AssetCheckExecutionContext, workplace: Workplace) -> Iterator[dg.AssetCheckResult]:
        from quality.suites.results import suite

        spec, stream, publish, days = what(context)

        def judged() -> Iterator[tuple[Any, dict[str, Any]]]:
            verified = verify_published(workplace, spec, stream, publish, days)
            report = _reported(context, key, workplace, spec, stream, publish, verified)
            for outcome in verified["outcomes"]:
                metadata: dict[str, Any] = {"days": verified["days"], "sample": verified["sample"], "report": report}
                if not outcome.passed:
                    metadata["worst"] = preview(verified["late_shares" if outcome.name == "late_rows_are_few" else "worst"])
                if outcome.name == "every_expected_row_is_there":
                    metadata["engine_and_oracle"] = picture(verified["picture"])
                yield outcome, metadata

        # Of what was launched those of its technique alone: those of others are not evaluated, and shown so.
        yield from check_results(context, key, suite(spec["technique"]), judged)

    return checks


def _reported(
    context: dg.AssetCheckExecutionContext,
    key: dg.AssetKey,
    workplace: Workplace,
    spec: Mapping[str, Any],
    stream: str,
    publish: str,
    verified: Mapping[str, Any],
) -> dg.MetadataValue:  # type: ignore[type-arg]
    """Write the report; the link to it, or why there is none: a page that cannot be written takes no verdict with it."""
    last, page = context.instance.get_latest_materialization_event(key), report_name(publish, context.run.run_id)
    # Checks can run alone: then what the last replay told, perhaps of other days, is no part of their report.
    of_this_run = last is not None and last.run_id == context.run.run_id and last.asset_materialization is not None
    try:
        told = plainly(last.asset_materialization.metadata) if of_this_run else {}  # type: ignore[union-attr]
        write_report(workplace, page, stream, publish, spec, told, verified)
    except Exception as problem:
        context.log.exception(f"the report {page} could not be written")
        return dg.MetadataValue.text(f"it could not be written: {str(problem) or type(problem).__name__}")
    return report_link(workplace, page)


def verify_published(
    workplace: Workplace, spec: Mapping[str, Any], stream: str, publish: str, days: Sequence[date] | None
) -> dict[str, Any]:
    """Verify published days (None: all), each at the version of the log that it was replayed from."""
    from assets.pictures import picture_of_comparison
    from replay.publish import published_days, results_address

    lake = workplace.place
    known = published_days(lake, publish)
    chosen = sorted(day for day in known if days is None or day in days)
    if not chosen:
        raise ValueError(f"results/{publish}: none of these days is published; replay them first.")
    rows, late = (_published(lake, results_address(lake, publish, output), chosen) for output in ("results", "late"))
    found, samples = [], []
    for log, of_log in _logs(lake, stream, known, chosen):
        tuples = pl.scan_delta(log.address, version=log.version, storage_options=lake.options())
        sampled = _sampled(log, tuples, spec, stream, of_log)
        found += _verified(log, tuples, spec, sampled, rows, late)
        samples.append(sampled.told)
    joined = pl.concat([part.joined for part in found])
    late_shares = [share for part in found for share in part.late.to_dicts()]
    return {
        "outcomes": [_together(parts) for parts in zip(*(part.outcomes for part in found), strict=True)],
        "days": f"{chosen[0]} to {chosen[-1]}" if len(chosen) > 1 else str(chosen[0]),
        "dates": chosen,
        "late": late.drop("arrival", "day", strict=False).head(10).to_dicts(),
        "sample": "; ".join(dict.fromkeys(samples)),
        "worst": [row for part in found for row in part.worst.to_dicts()][:10],
        "late_shares": sorted(late_shares, key=lambda day: -day["late_share"])[:10],
        "joined": joined,
        "picture": picture_of_comparison(joined),
    }


def _logs(lake: Any, stream: str, known: Mapping[date, Mapping[str, Any]], chosen: Sequence[date]) -> list[tuple[Any, list[date]]]:
    """The log at each version that some of the days were replayed from, and these days.

    Sealed days whose tuples have not changed since go with the newest of these versions, which gives the same and saves work.
    """
    from replay.log import Log

    address = lake.address("streams", stream)
    versions = {day: int(json.loads(known[day]["log_versions"])[stream]) for day in chosen}
    newest = Log.open(lake, address, max(versions.values()))
    for day in chosen:
        if json.loads(known[day].get("log_ids") or "{}").get(stream, newest.id) != newest.id:
            raise ValueError(f"streams/{stream}: {day} was replayed from a log that is gone; replay it from the one that is there now.")
    changed = {version: newest.first_changed_since(version) for version in set(versions.values()) - {newest.version}}
    days = defaultdict(list)
    for day, version in versions.items():
        stands = version in changed and known[day]["sealed"] and json.loads(known[day]["arrivals"])[stream][1] <= changed[version]
        days[newest.version if stands else version].append(day)
    return [(newest if version == newest.version else Log.open(lake, address, version), days[version]) for version in sorted(days)]


def _verified(log: Any, tuples: pl.LazyFrame, spec: Mapping[str, Any], sampled: "_Sampled", *published: pl.DataFrame) -> list[Any]:
    """What is found of the sampled days, neighbours together."""
    from quality.verifying import verify
    from replay.span import neighbours

    if sampled.keys is not None:
        tuples, published = tuples.filter(sampled.keys), tuple(frame.filter(sampled.keys) for frame in published)
    found = []
    for first, last in neighbours(sampled.days):
        needed = tuples if sampled.reach is None else tuples.filter(_within(log, first, last, *sampled.reach))
        results, late = (frame.filter(pl.col("day").is_between(first, last)) for frame in published)
        found.append(verify(spec, needed, log.days(), results, late, [day for day in sampled.days if first <= day <= last]))
    return found


def _published(lake: Any, address: str, days: Sequence[date]) -> pl.DataFrame:
    table = pl.scan_delta(address, storage_options=lake.options())
    return table.filter(pl.col("day").is_in(list(days))).collect()


@dataclass(frozen=True)
class _Sampled:
    """What is verified of a log, and how that is told."""

    days: Sequence[date]
    told: str
    keys: pl.Expr | None = None
    """Which keys; None: all."""
    reach: tuple[int, int] | None = None
    """How far before a day its tuples may lie, and how far behind it they may come, in microseconds; None: all of the log is read."""


def _sampled(log: Any, tuples: pl.LazyFrame, spec: Mapping[str, Any], stream: str, chosen: Sequence[date]) -> _Sampled:
    """Some keys of a long log; if it has none, some days, where results hang on no more than a stretch of the log."""
    from engines import build
    from replay.log import day_of

    if log.end <= MOST_TUPLES:
        return _Sampled(chosen, "all keys")
    if "key" in log.schema.names:
        of = -(-log.end // MOST_TUPLES)
        # Of one type on both sides: published keys may be read as wider numbers than those of the log.
        key = pl.col("key").cast(pl.from_arrow(log.schema.empty_table()).schema["key"])  # type: ignore[union-attr]
        # Those with tuples of these days come first: of others there may be nothing to compare.
        found = tuples.group_by(key).agg(here=pl.col("day").is_in(list(chosen)).any())
        keys = found.sort(~pl.col("here"), key.hash(seed=0), key).collect(engine="streaming")["key"]
        some = keys.head(-(-keys.len() // of))
        told = f"{some.len():,} of {keys.len():,} keys: the log has {log.end:,} tuples"
        return _Sampled(chosen, told, keys=key.is_in(some.implode(), nulls_equal=True))
    engine = build(spec)
    lookback = engine.lookback()
    if lookback is None:
        return _Sampled(chosen, "all of it: there are no keys, and results may hang on any tuple before them")
    of_days = sum(int(rows) for clock, rows in zip(log.clock, log.rows, strict=True) if day_of(int(clock)) in set(chosen))
    of = max(-(-of_days // MOST_TUPLES), 1)
    told = f"one day in {of}: the log has {log.end:,} tuples" if of > 1 else "all keys"
    return _Sampled(list(chosen)[::-of][::-1], told, reach=(lookback, engine.clock(stream).behind_us))


def _within(log: Any, first: date, last: date, lookback_us: int, behind_us: int) -> pl.Expr:
    """The tuples that results of these days hang on; those of the log's last day, on all that follow."""
    from replay.log import day_end, day_start

    clock = pl.col("clock")
    until = pl.lit(True) if last == log.days()[-1] else clock < day_end(last) + behind_us
    return (clock > day_start(first) - lookback_us) & until


def _together(parts: Sequence[Any]) -> Any:
    """The same expectation of several ranges as one outcome."""
    from dataclasses import replace

    return replace(
        parts[0],
        passed=all(part.passed for part in parts),
        rows=sum(part.rows for part in parts),
        wrong=sum(part.wrong for part in parts),
        examples=tuple(example for part in parts for example in part.examples)[:5],
        error=next((part.error for part in parts if part.error), None),
    )


def _days_of_run(context: dg.AssetCheckExecutionContext) -> list[date] | None:
    """The days that the run materializes, or None if it materializes none."""
    tags = context.run.tags
    if day := tags.get("dagster/partition"):
        return [date.fromisoformat(day)]
    first, last = tags.get("dagster/asset_partition_range_start"), tags.get("dagster/asset_partition_range_end")
    if not first or not last:
        return None
    return _range(first, last)


def _range(first: str, last: str) -> list[date]:
    begin, end = date.fromisoformat(first), date.fromisoformat(last)
    return [date.fromordinal(n) for n in range(begin.toordinal(), end.toordinal() + 1)]
