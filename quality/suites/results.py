"""What is expected of every technique's results: they are those of the oracle, each once, and the counts add up.

The frame is the full outer join of engine and oracle, with a truth value per row for each expectation; a technique adds its own
invariants of the engine's rows.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import polars as pl

from quality.expectations import Expected, at_most, true
from quality.joining import BOTH, ENGINE_ONLY, ORACLE_ONLY

COMMON = (
    true("every_expected_row_is_there", "Every row that the oracle has is among the results.", "is_there"),
    true("no_row_is_there_that_should_not_be", "The results have no row that the oracle has not.", "is_expected"),
    true("identities_are_unique", "No result is there twice.", "is_unique"),
    true("exact_values_are_equal", "Integers, times, keys, min, max, first and last are equal to the bit.", "exact"),
    true("sums_agree", "Float sums, and what is made of them, agree to 1e-9 of the sum of absolute values.", "near"),
    true("counts_add_up", "Tuples read = accepted + late, and the late ones are those of the oracle.", "adds_up"),
    at_most(
        "late_rows_are_few", "On no day more than 1 % of the tuples are late; if so, delay and lateness are short.", "late_share", 0.01
    ),
)


def suite(technique: str) -> list[Expected]:
    """What is expected of a technique's results."""
    return [*COMMON, *invariants(technique).SUITE]


def invariants(technique: str) -> Any:
    """The module with a technique's own invariants: `SUITE`, and `add(rows, spec)`, which adds their columns."""
    return import_module(f"quality.suites.{technique}")


def frame(joined: pl.DataFrame, judged: list[str], late: pl.DataFrame, *, adds_up: bool) -> pl.DataFrame:
    """The joined frame with a truth value for each expectation, null where it says nothing of a row, and below it `late_share` by day."""
    both = pl.col("side") == BOTH
    names = [name.removesuffix("__equal") for name in joined.columns if name.endswith("__equal")]
    exact = [pl.col(f"{name}__equal") for name in names if name not in judged]
    near = [pl.col(f"{name}__equal") for name in names if name in judged]
    framed = joined.with_columns(
        is_there=pl.when(pl.col("side") != ENGINE_ONLY).then(pl.col("side") != ORACLE_ONLY),
        is_expected=pl.when(pl.col("side") != ORACLE_ONLY).then(pl.col("side") != ENGINE_ONLY),
        is_unique=pl.when(pl.col("rows__engine") > 0).then(pl.col("rows__engine") == 1),
        exact=pl.when(both).then(pl.all_horizontal(pl.lit(True), *exact)),
        near=pl.when(both).then(pl.all_horizontal(pl.lit(True), *near)),
        adds_up=pl.lit(None, pl.Boolean),
    )
    # One row more, of the whole: so that counts are judged beside all others, and an empty day is judged, too.
    return pl.concat([framed, pl.DataFrame({"adds_up": [adds_up]}), late.select("late_share")], how="diagonal")
