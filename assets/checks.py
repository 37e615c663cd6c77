"""Asset checks: one per expectation of a suite, on every results asset and on what was launched.

A check op verifies the days of its run, or, run alone, every published day. What is expected is said in quality/; here it is
only brought together with the lake and told in metadata. A check that cannot be judged is red.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
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


def _checks(key: dg.AssetKey, suite: Sequence[Any], what: Any) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(specs=check_specs(key, suite), name=f"checks_of_{'__'.join(key.path)}", pool="checks", can_subset=True)
    def checks(context: dg.AssetCheckExecutionContext, workplace: Workplace) -> Iterator[dg.AssetCheckResult]:
        spec, stream, publish, days = what(context)
        verified = verify_published(workplace, spec, stream, publish, days)
        outcomes = {outcome.name: outcome for outcome in verified["outcomes"]}
        last, page = context.instance.get_latest_materialization_event(key), report_name(publish, context.run.run_id)
        # Checks can run alone: then what the last replay told, perhaps of other days, is no part of their report.
        of_this_run = last is not None and last.run_id == context.run.run_id and last.asset_materialization is not None
        told = plainly(last.asset_materialization.metadata) if of_this_run else {}  # type: ignore[union-attr]
        write_report(workplace, page, stream, publish, spec, told, verified)
        for expected in suite:
            if dg.AssetCheckKey(key, expected.name) not in context.selected_asset_check_keys:
                continue
            if key == LAUNCHED and expected.name not in outcomes:
                continue  # of another technique than the one that was launched: not evaluated, and shown so
            outcome = outcomes[expected.name]
            metadata: dict[str, Any] = {
                "days": verified["days"],
                "sample": verified["sample"],
                "report": report_link(workplace, page),
            }
            if not outcome.passed:
                metadata["worst"] = preview(verified["late_shares" if expected.name == "late_rows_are_few" else "worst"])
            if expected.name == "every_expected_row_is_there":
                metadata["engine_and_oracle"] = picture(verified["picture"])
            yield check_result(key, outcome, metadata)

    return checks


def verify_published(
    workplace: Workplace, spec: Mapping[str, Any], stream: str, publish: str, days: Sequence[date] | None
) -> dict[str, Any]:
    """Verify published days (None: all) at the version of the log that they were replayed from."""
    from assets.pictures import picture_of_comparison
    from quality.verifying import verify
    from replay.log import Log
    from replay.publish import published_days, results_address
    from replay.span import neighbours

    lake = workplace.place
    known = published_days(lake, publish)
    chosen = sorted(day for day in known if days is None or day in days)
    if not chosen:
        raise dg.Failure(description=f"results/{publish}: none of these days is published; replay them first.", allow_retries=False)
    version = max(json.loads(str(known[day]["log_versions"]))[stream] for day in chosen)
    log = Log.open(lake, lake.address("streams", stream), version)
    tuples = pl.scan_delta(log.address, version=version, storage_options=lake.options())
    rows, late = (_published(lake, results_address(lake, publish, output), chosen) for output in ("results", "late"))
    sampled = _sampled(log, spec, stream, chosen)
    if sampled.keys is not None:
        tuples, rows, late = tuples.filter(sampled.keys), rows.filter(sampled.keys), late.filter(sampled.keys)
    outcomes, joined, worst, late_shares = [], [], [], []
    for first, last in neighbours(sampled.days):
        days_of_range = [day for day in sampled.days if first <= day <= last]
        needed = tuples if sampled.reach is None else tuples.filter(_within(log, first, last, *sampled.reach))
        found = verify(
            spec, needed, log.days(), *(frame.filter(pl.col("day").is_between(first, last)) for frame in (rows, late)), days_of_range
        )
        outcomes.append(found.outcomes)
        joined.append(found.joined)
        worst += found.worst.to_dicts()
        late_shares += found.late.to_dicts()
    return {
        "outcomes": [_together(parts) for parts in zip(*outcomes, strict=True)],
        "days": f"{chosen[0]} to {chosen[-1]}" if len(chosen) > 1 else str(chosen[0]),
        "dates": chosen,
        "late": late.drop("arrival", "day", strict=False).head(10).to_dicts(),
        "sample": sampled.told,
        "worst": worst[:10],
        "late_shares": sorted(late_shares, key=lambda day: -day["late_share"])[:10],
        "joined": pl.concat(joined),
        "picture": picture_of_comparison(pl.concat(joined)),
    }


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


def _sampled(log: Any, spec: Mapping[str, Any], stream: str, chosen: Sequence[date]) -> _Sampled:
    """Some keys of a long log; if it has none, some days, where results hang on no more than a stretch of the log."""
    from engines import build
    from replay.log import day_of

    if log.end <= MOST_TUPLES:
        return _Sampled(chosen, "all keys")
    if "key" in log.schema.names:
        of = -(-log.end // MOST_TUPLES)
        # Of one type on both sides: no promise is made that equal keys of two types have equal hashes.
        kind = pl.from_arrow(log.schema.empty_table()).schema["key"]  # type: ignore[union-attr]
        keep = pl.col("key").cast(kind).hash(seed=0) % of == 0
        return _Sampled(chosen, f"about one key in {of}: the log has {log.end:,} tuples", keys=keep)
    engine = build(spec)
    lookback = engine.lookback()
    if lookback is None:
        return _Sampled(chosen, "all of it: there are no keys, and results may hang on any tuple before them")
    tuples = sum(int(rows) for clock, rows in zip(log.clock, log.rows, strict=True) if day_of(int(clock)) in set(chosen))
    of = max(-(-tuples // MOST_TUPLES), 1)
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
