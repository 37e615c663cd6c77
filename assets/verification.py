"""Verification of what is published: each day against the log that it was replayed from, days that were red before among them.

Finds the tables in the lake and the versions that belong together; what is compared, and what is expected, is in quality/. Who asks
does not matter here.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import polars as pl

from assets.sampling import Sample, sampled
from assets.verdicts import NOTHING, Red, tell_few_days, tell_red
from assets.workplace import Workplace

if TYPE_CHECKING:
    from quality.expectations import Outcome
    from quality.verifying import Verified
    from replay.lake import Lake
    from replay.log import Log

_WORST = 10


def verify_published(
    workplace: Workplace, spec: Mapping[str, Any], stream: str, publish: str, days: Sequence[date] | None, red: Red = NOTHING
) -> dict[str, Any]:
    """Verify published days, each at the version of the log that it was replayed from.

    Args:
        workplace: where the lake is.
        spec: the specification that they should have been replayed with.
        stream: what was replayed.
        publish: what the results are published as.
        days: which ones; None: all that are published.
        red: what was found wrong before, and is looked at again.

    Raises:
        ValueError: in one sentence, if days cannot be judged.
    """
    from assets.pictures import picture_of_comparison
    from replay.log import Log
    from replay.publish import published_days, results_address

    lake = workplace.place
    known = published_days(lake, publish)
    chosen = _chosen(known, spec, publish, days, red)
    rows, late = (_published(lake, results_address(lake, publish, output), chosen) for output in ("results", "late"))
    found, samples, verdicts = [], [], defaultdict[str, dict[str, Any]](lambda: {"days": set(), "keys": set()})
    for log, of_log in _logs(lake, stream, known, chosen):
        tuples = pl.scan_delta(lake.table(log.address, log.version))
        sample = sampled(log, tuples, spec, of_log, red)
        samples.append(sample.told)
        for part in _verified(log, tuples, spec, sample, known, rows, late):
            found.append(part)
            for outcome in part.outcomes:
                verdicts[outcome.name]["days"].update(part.red.get(outcome.name, []))
                verdicts[outcome.name]["keys"].update(sample.keys.hashes(outcome.worst) if sample.keys else ())
    joined = pl.concat([part.joined for part in found])
    outcomes = [_together(parts) for parts in zip(*(part.outcomes for part in found), strict=True)]
    holes = [day for day in Log.open(lake, lake.address("streams", stream)).days() if day not in known] if days is None else []
    return {
        "outcomes": outcomes,
        "verdicts": {name: tell_red(**found) for name, found in verdicts.items()},
        "days": tell_few_days(chosen) + (f" (not published: {tell_few_days(holes)})" if holes else ""),
        "dates": chosen,
        "late": late.drop("arrival", "day", strict=False).head(_WORST).collect().to_dicts(),
        "sample": "; ".join(dict.fromkeys(samples)),
        "worst": _differing(outcomes, joined),
        "joined": joined,
        "picture": picture_of_comparison(joined),
    }


def _chosen(
    known: Mapping[date, Mapping[str, Any]], spec: Mapping[str, Any], publish: str, days: Sequence[date] | None, red: Red
) -> list[date]:
    """The days that are judged: those asked for, and those that were red and are still published."""
    from engines import build

    if missing := [day for day in days or () if day not in known]:
        it = "is not published; replay it" if len(missing) == 1 else "are not published; replay them"
        raise ValueError(f"results/{publish}: {tell_few_days(missing)} {it} first.")
    if not known:
        raise ValueError(f"results/{publish}: no day is published; replay some first.")
    chosen = sorted({*(known if days is None else days), *(red.days.keys() & known.keys())})
    fingerprint = build(spec).spec.fingerprint()
    if other := [day for day in chosen if known[day]["fingerprint"] != fingerprint]:
        it = (
            "was published with another specification; replay it"
            if len(other) == 1
            else "were published with another specification; replay them"
        )
        raise ValueError(f"results/{publish}: {tell_few_days(other)} {it}.")
    return chosen


def _logs(lake: Lake, stream: str, known: Mapping[date, Mapping[str, Any]], chosen: Sequence[date]) -> list[tuple[Log, list[date]]]:
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


def _published(lake: Lake, address: str, days: Sequence[date]) -> pl.LazyFrame:
    table = lake.table(address)
    if table is None:
        raise ValueError(f"{address}: there is no such table any more; replay the days that were published.")
    return pl.scan_delta(table).filter(pl.col("day").is_in(list(days)))


def _verified(
    log: Log,
    tuples: pl.LazyFrame,
    spec: Mapping[str, Any],
    sample: Sample,
    known: Mapping[date, Mapping[str, Any]],
    rows: pl.LazyFrame,
    late: pl.LazyFrame,
) -> list[Verified]:
    """What is found of the days of a sample; of what is published no more is read than that."""
    from quality.verifying import verify

    recorded = pl.DataFrame(
        [{name: known[day][name] for name in ("day", "results", "late")} for day in sample.days],
        schema={"day": pl.Date, "results": pl.Int64, "late": pl.Int64},
    )
    if sample.keys is not None:
        of_results, of_late = sample.keys.among("key"), sample.keys.among(sample.keys.column)
        recorded = _without(_without(recorded, "results", rows.filter(~of_results)), "late", late.filter(~of_late))
        rows, late = rows.filter(of_results), late.filter(of_late)
    found = []
    for days, needed in sample.parts(log, tuples):
        of_days = pl.col("day").is_in(days)
        found.append(verify(spec, needed, log.days(), rows.filter(of_days).collect(), late.filter(of_days).collect(), days, recorded))
    return found


def _without(recorded: pl.DataFrame, name: str, others: pl.LazyFrame) -> pl.DataFrame:
    """What was recorded of all keys, without the rows of those that are not verified: they are counted, and not read."""
    counts = others.group_by("day").agg(others=pl.len().cast(pl.Int64)).collect(engine="streaming")
    return recorded.join(counts, on="day", how="left").with_columns(pl.col(name) - pl.col("others").fill_null(0)).drop("others")


def _together(parts: Sequence[Outcome]) -> Outcome:
    """The same expectation of several parts as one outcome."""
    return replace(
        parts[0],
        passed=all(part.passed for part in parts),
        rows=sum(part.rows for part in parts),
        wrong=sum(part.wrong for part in parts),
        examples=tuple(example for part in parts for example in part.examples)[:5],
        error=next((part.error for part in parts if part.error), None),
        worst=tuple(row for part in parts for row in part.worst)[:_WORST],
    )


def _differing(outcomes: Sequence[Outcome], joined: pl.DataFrame) -> list[Mapping[str, Any]]:
    """Results of engine and oracle that any expectation shows, each once."""
    names = {name for name in joined.columns if not name.endswith("__equal")} | {"differ"}
    # By their texts: NaN is not equal to itself.
    return list({repr(row): row for outcome in outcomes for row in outcome.worst if row.keys() == names}.values())
