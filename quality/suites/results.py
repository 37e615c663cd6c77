"""What is expected of every technique's results: they are those of the oracle, each once, and the counts add up.

Each expectation is of the rows of one table: engine and oracle side by side, the late tuples of both, the days, or the engine's rows
alone, of which a technique has invariants of its own. Here is said what is expected and how it is told of a row; `verifying.py` has the
tables.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import polars as pl

from quality.expectations import Expected, at_most, true
from quality.joining import BOTH, ENGINE_ONLY, ORACLE_ONLY, equalities

COMPARED, LATE, DAYS, OWN = "compared", "late", "days", "own"
"""The tables."""
COMMON: dict[str, tuple[Expected, ...]] = {
    COMPARED: (
        true("every_expected_row_is_there", "Every row that the oracle has is among the results.", "is_there"),
        true("no_row_is_there_that_should_not_be", "The results have no row that the oracle has not.", "is_expected"),
        true("identities_are_unique", "No result is there twice.", "is_unique"),
        true("exact_values_are_equal", "Integers, times, days, keys, min, max, first and last are equal to the bit.", "exact"),
        true("sums_agree", "Float sums, and what is made of them, agree to 1e-9 of the sum of absolute values.", "near"),
    ),
    LATE: (
        true(
            "late_rows_are_equal", "The late tuples are those of the oracle, each once and equal in every column.", "late_equal",
            unit="late row",
        ),
    ),
    DAYS: (
        true(
            "counts_add_up",
            "Of every day the tuples in the log are those that the oracle accepts and those that are published as late, and as many results"
            " and late tuples are there as were recorded.",
            "adds_up", unit="day",
        ),
        at_most(
            "late_rows_are_few", "On no day more than 1 % of the tuples are late; if so, delay and lateness are short.", "late_share", 0.01,
            unit="day",
        ),
    ),
}  # fmt: skip


def suite(technique: str) -> list[Expected]:
    """What is expected of a technique's results."""
    return [expected for some in by_table(technique).values() for expected in some]


def by_table(technique: str) -> dict[str, tuple[Expected, ...]]:
    """What is expected of a technique's results, by the table that it is about."""
    return {**COMMON, OWN: invariants(technique).SUITE}


def invariants(technique: str) -> Any:
    """The module with a technique's own invariants: `SUITE`, and `add(rows, spec)`, which adds their columns."""
    return import_module(f"quality.suites.{technique}")


def of_compared(joined: pl.DataFrame, judged: list[str]) -> pl.DataFrame:
    """Results of engine and oracle with a truth value for each expectation, null where it says nothing of a row.

    Args:
        joined: as `joining.compared` gives them.
        judged: the columns that need only agree.
    """
    both = pl.col("side") == BOTH
    equal = equalities(joined)
    exact = [column for name, column in equal.items() if name not in judged]
    near = [column for name, column in equal.items() if name in judged]
    return joined.with_columns(
        is_there=pl.when(pl.col("side") != ENGINE_ONLY).then(pl.col("side") != ORACLE_ONLY),
        is_expected=pl.when(pl.col("side") != ORACLE_ONLY).then(pl.col("side") != ENGINE_ONLY),
        is_unique=pl.when(pl.col("engine_rows") > 0).then(pl.col("engine_rows") == 1),
        exact=pl.when(both).then(pl.all_horizontal(pl.lit(True), *exact)),
        near=pl.when(both).then(pl.all_horizontal(*near)) if near else pl.lit(None, pl.Boolean),
    )


def of_late(joined: pl.DataFrame) -> pl.DataFrame:
    """Late tuples of engine and oracle with the truth of their expectation."""
    once = (pl.col("side") == BOTH) & (pl.col("engine_rows") == 1)
    return joined.with_columns(late_equal=once & pl.all_horizontal(pl.lit(True), *equalities(joined).values()).fill_null(False))


def of_days(days: pl.DataFrame) -> pl.DataFrame:
    """Days with the truth of their expectations.

    Args:
        days: `tuples` of the log, `accepted` by the oracle, `late` and `results` that are published, and `late_recorded` and
            `results_recorded`, null where that is not known.
    """
    counted = pl.col("tuples") == pl.col("accepted") + pl.col("late")
    recorded = [(pl.col(name) == pl.col(f"{name}_recorded")).fill_null(True) for name in ("late", "results")]
    share = pl.when(pl.col("tuples") > 0).then(pl.col("late") / pl.col("tuples"))
    return days.with_columns(adds_up=pl.all_horizontal(counted, *recorded), late_share=share)
