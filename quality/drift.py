"""Drift: how far a column's distribution has moved from one day to the next, and whether its scale has.

The distance is that of Kolmogorov and Smirnov: the largest difference between two days' distribution functions, between 0 and 1.
What moves within the day anyway, as a counter does, may move about as far between days; what is too far is decided in the suite.
"""

from __future__ import annotations

import polars as pl

__all__ = ["distances", "drift", "scales"]

FEWEST = 100
"""Distributions of fewer values are not compared: chance alone would set them 0.2 apart."""
_QUARTILES = (0.25, 0.5, 0.75)


def drift(sample: pl.DataFrame, column: str) -> pl.DataFrame:
    """How far a column has moved, by day: from the day before, and from the first to the second half of either day.

    `drift` and `drift_within` are distances of distributions, `moved` and `moved_within` those of medians.

    >>> sample = pl.DataFrame({"day": [1] * 200 + [2] * 200, "arrival": range(400), "v": [1, 2] * 100 + [2, 3] * 100})
    >>> drift(sample, "v").rows()
    [(1, None, 0.0, None, 0.0), (2, 0.5, 0.0, 1.0, 0.0)]

    Args:
        sample: `day`, `arrival` and values; its days are neighbours, whatever lies between them.
        column: the values.
    """
    days = sample.select("day").unique().sort("day").with_row_index("pair")
    values = sample.select("day", "arrival", value=pl.col(column).cast(pl.Float64)).drop_nulls().join(days, on="day")
    # A day is compared twice: with the one before it, and with the one after it.
    both = pl.concat([values.with_columns(second=True), values.with_columns(pl.col("pair") + 1, second=False)], how="vertical_relaxed")
    halves = values.with_columns(second=pl.col("arrival") > pl.col("arrival").median().over("day"))
    within = distances(halves).rename({"distance": "drift_within", "medians": "moved_within"})
    found = days.join(distances(both), on="pair", how="left").join(within, on="pair", how="left").sort("pair")
    either = [pl.max_horizontal(name, pl.col(name).shift(1)) for name in ("drift_within", "moved_within")]
    return found.select("day", pl.col("distance").alias("drift"), either[0], pl.col("medians").alias("moved"), either[1])


def distances(values: pl.DataFrame) -> pl.DataFrame:
    """The `distance` between the two samples of each `pair`, those values that are `second` and those that are not, and of their `medians`.

    >>> pairs = pl.DataFrame({"pair": [1] * 400, "second": [False, True] * 200, "value": [0.0, 3.0] * 200})
    >>> distances(pairs).rows()
    [(1, 1.0, 3.0)]
    """
    second = pl.col("second")
    of_both = pl.min_horizontal(second.sum().over("pair"), (~second).sum().over("pair"))
    enough = values.filter(of_both >= FEWEST)
    side = pl.when(second).then(1.0).otherwise(-1.0)  # as an integer -1 divided by an unsigned count would be null
    weighed = enough.select("pair", "value", weight=side / pl.len().over("pair", "second"))
    # Equal values are one step of both functions.
    steps = weighed.group_by("pair", "value").agg(pl.col("weight").sum()).sort("pair", "value")
    apart = steps.select("pair", apart=pl.col("weight").cum_sum().over("pair").abs())
    medians = [pl.col("value").filter(which).median() for which in (second, ~second)]
    moved = enough.group_by("pair").agg(medians=(medians[0] - medians[1]).abs())
    return apart.group_by("pair").agg(distance=pl.col("apart").max().round(9)).join(moved, on="pair").sort("pair")


def scales(sample: pl.DataFrame, column: str) -> pl.DataFrame:
    """For each day of a sample the `factor` by which all quartiles of the sizes of its values differ from the day before, at least.

    Another unit moves all of them by the same factor. It is 1 or more, whichever day has the larger values.

    >>> sample = pl.DataFrame({"day": [1] * 200 + [2] * 200, "v": [1.0, 2, 3, 4] * 50 + [1000.0, 2000, 3000, 9000] * 50})
    >>> scales(sample, "v").rows()
    [(1, None), (2, 1000.0)]
    """
    size = pl.col(column).cast(pl.Float64).abs()
    quartiles = [size.quantile(q).alias(f"q{at}") for at, q in enumerate(_QUARTILES)]
    by_day = sample.group_by("day").agg(*quartiles, values=pl.col(column).count()).sort("day")
    enough = (pl.col("values") >= FEWEST) & (pl.col("values").shift(1) >= FEWEST)
    logs = [(pl.col(f"q{at}") / pl.col(f"q{at}").shift(1)).log() for at in range(len(_QUARTILES))]
    up, down = pl.min_horizontal(logs), -pl.max_horizontal(logs)
    known = enough & pl.all_horizontal(log.is_finite() for log in logs)
    return by_day.select("day", factor=pl.when(known).then(pl.max_horizontal(up, down, 0.0).exp().round(9)))
