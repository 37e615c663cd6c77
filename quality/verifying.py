"""Verification: published results of some days against the oracle, as outcomes and as the rows that differ.

Reads the log at the version that was replayed, lets the oracle compute the whole of it and looks at the days in question. Where
results and logs are, and who asks, is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import polars as pl

from quality.expectations import Outcome, judge
from quality.joining import compared, worst
from quality.oracles import float_columns, identity, of_days, oracle, specification
from quality.suites.results import frame, invariants, suite

WORST = 10
_OF_PUBLISHING = ("day",)


@dataclass(frozen=True)
class Verified:
    """What was found."""

    outcomes: list[Outcome]
    joined: pl.DataFrame
    """Engine and oracle side by side."""
    worst: pl.DataFrame
    """The rows that differ most."""
    late: pl.DataFrame
    """The tuples of each day, and the share that is late."""


def verify(
    spec: Mapping[str, Any], log: pl.LazyFrame, log_days: Sequence[date], results: pl.DataFrame, late: pl.DataFrame, days: Sequence[date]
) -> Verified:
    """Compare what was published for some days with what the oracle says.

    Args:
        spec: the specification that was replayed.
        log: the log, at the version that was replayed.
        log_days: its days.
        results: what was published for these days.
        late: the late tuples that were published for these days.
        days: which ones, neighbours.
    """
    expected = oracle(spec, log)
    first, last = min(days), max(days)
    wanted = of_days(expected["results"], first, last, log_days)
    judged = list(float_columns(spec)["results"])
    found = results.drop(_OF_PUBLISHING, strict=False)
    joined = compared(found.select([c for c in wanted.columns if c in found.columns]), wanted, identity(spec)["results"], judged)
    tuples = _tuples(log, first, last)
    of_these = expected["late"].join(tuples, on="arrival", how="semi")
    is_late = pl.col("arrival").is_in(late["arrival"].implode())
    shares = tuples.with_columns(late=is_late).group_by("day").agg(tuples=pl.len(), late_share=pl.col("late").mean()).sort("day")
    framed = frame(joined, judged, shares, adds_up=sorted(of_these["arrival"].to_list()) == sorted(late["arrival"].to_list()))
    own = invariants(spec["technique"])
    settings = specification(spec)
    common = judge(framed, [one for one in suite(spec["technique"]) if one not in own.SUITE])
    return Verified([*common, *judge(own.add(found, settings), own.SUITE)], joined, worst(joined, WORST), shares)


def _tuples(log: pl.LazyFrame, first: date, last: date) -> pl.DataFrame:
    """The arrivals of some days of the clock."""
    day = pl.col("clock").cast(pl.Datetime("us", "UTC")).dt.date()
    return log.filter(day.is_between(first, last)).select("arrival", day=day).collect()
