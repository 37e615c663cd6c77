"""Verification: published results of some days against the oracle, as outcomes and as the rows that are wrong.

Lets the oracle compute what it is given of the log, at the version that was replayed, and looks at the days in question. Where
results and logs are, and who asks, is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import polars as pl

from quality.expectations import Expected, Outcome, judge
from quality.joining import compared, scaled, worst
from quality.oracles import clock, float_columns, identity, oracle, specification
from quality.suites.results import COMPARED, DAYS, LATE, OWN, by_table, invariants, of_compared, of_days, of_late

WORST = 10


@dataclass(frozen=True)
class Verified:
    """What was found."""

    outcomes: list[Outcome]
    """With the rows that break each, worst first."""
    joined: pl.DataFrame
    """Engine and oracle side by side."""
    days: pl.DataFrame
    """The counts of each day, and the share of its tuples that is late."""
    red: dict[str, list[date]]
    """For each expectation that has failed, the days that it failed for."""


def verify(
    spec: Mapping[str, Any],
    log: pl.LazyFrame,
    log_days: Sequence[date],
    results: pl.DataFrame,
    late: pl.DataFrame,
    days: Sequence[date],
    recorded: pl.DataFrame | None = None,
) -> Verified:
    """Compare what was published for some days with what the oracle says.

    Args:
        spec: the specification that was replayed.
        log: the log, at the version that was replayed: all of it, or at least what the results of these days hang on.
        log_days: its days.
        results: what was published for these days, with the `day` of each row.
        late: the late tuples that were published for these days, with the `day` of each.
        days: which ones.
        recorded: how many `results` and `late` tuples each `day` has, as it was recorded; None: nobody knows.
    """
    settings, expected = specification(spec), oracle(spec, log)
    chosen = pl.col("day").is_in(list(days))
    wanted = expected["results"].with_columns(day=clock.day_of(log_days)).filter(chosen)
    judged = scaled(wanted, float_columns(spec)["results"])
    joined = compared(results, wanted, identity(spec)["results"], judged)
    tuples = log.with_columns(day=pl.col("clock").cast(clock.TIME).dt.date()).filter(chosen)
    clock_of_late = pl.col("watermark").dt.timestamp("us") + settings.delay
    wanted_late = expected["late"].with_columns(day=clock_of_late.cast(clock.TIME).dt.date()).filter(chosen)
    technique = str(spec["technique"])
    tables = {
        COMPARED: of_compared(joined, judged),
        LATE: of_late(compared(late, wanted_late, identity(spec)["late"], [])),
        DAYS: of_days(_counted(tuples, clock.split(tuples, settings)[0], results, late, days, recorded)),
        OWN: invariants(technique).add(results, settings),
    }
    outcomes, red = _judged(tables, by_table(technique), days)
    return Verified(outcomes, joined, tables[DAYS], red)


def _counted(
    tuples: pl.LazyFrame,
    accepted: pl.LazyFrame,
    results: pl.DataFrame,
    late: pl.DataFrame,
    days: Sequence[date],
    recorded: pl.DataFrame | None,
) -> pl.DataFrame:
    """What is counted of each day, silent ones too."""
    counted = pl.DataFrame({"day": sorted(days)}, schema={"day": pl.Date})
    for name, rows in (("tuples", tuples), ("accepted", accepted), ("late", late.lazy()), ("results", results.lazy())):
        counts = rows.group_by("day").agg(pl.len().cast(pl.Int64).alias(name)).collect()
        counted = counted.join(counts, on="day", how="left").with_columns(pl.col(name).fill_null(0))
    known = recorded if recorded is not None else pl.DataFrame(schema={"day": pl.Date, "late": pl.Int64, "results": pl.Int64})
    return counted.join(known.select("day", late_recorded="late", results_recorded="results"), on="day", how="left")


def _judged(
    tables: Mapping[str, pl.DataFrame], suites: Mapping[str, Sequence[Expected]], days: Sequence[date]
) -> tuple[list[Outcome], dict[str, list[date]]]:
    """The outcome of each expectation with the rows that break it, and the days of those that have failed."""
    of_table = {expected.name: name for name, some in suites.items() for expected in some}
    expectations = [expected for some in suites.values() for expected in some]
    framed = pl.concat(
        [table.select([one.column for one in suites[name] if one.column in table.columns]) for name, table in tables.items()],
        how="diagonal",
    )
    outcomes, red = [], {}
    for expected, outcome in zip(expectations, judge(framed, expectations), strict=True):
        if outcome.error is not None:
            red[expected.name] = list(days)
        elif not outcome.passed:
            name = of_table[expected.name]
            wrong = tables[name].filter(expected.broken())
            red[expected.name] = _days(wrong, days)
            shown = wrong.drop([one.column for one in suites[name] if one is not expected], strict=False)
            outcome = replace(outcome, worst=tuple(_worst(shown, expected.column, side_by_side=name in (COMPARED, LATE)).to_dicts()))
        outcomes.append(outcome)
    return outcomes, red


def _worst(wrong: pl.DataFrame, column: str, *, side_by_side: bool) -> pl.DataFrame:
    """The rows that are worst: side by side those that differ most, else by how much they are over."""
    if side_by_side:
        return worst(wrong.drop(column), WORST)
    if wrong.schema[column] == pl.Boolean:
        return wrong.drop(column).head(WORST)
    return wrong.sort(column, descending=True).head(WORST)


def _days(wrong: pl.DataFrame, days: Sequence[date]) -> list[date]:
    """The days of these rows; a row that is published under another day than it should be is wrong on both."""
    found = {day for name in ("day", "day__engine", "day__oracle") if name in wrong.columns for day in wrong[name]}
    return sorted(found & set(days))
