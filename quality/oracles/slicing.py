"""The oracle of windows: every window is aggregated from its own tuples, nothing is shared between windows.

Windows `[s, s + length)` start at `offset + k * slide`, for every whole k. With n = ceil(length / slide), the windows of every n-th k
do not overlap, so that a tuple lies in at most one of them: one `group_by` answers them all, and n of them answer every window. No
partial results are merged, so there is nothing here that could be cut wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from engines.slicing.spec import Query, Sliding, Spec, Tumbling
from quality.oracles import aggregates
from quality.oracles.clock import TIME
from quality.oracles.tuples import in_order, keys_of

IDENTITY = {"results": ["query", "key", "measure_start", "measure_end"]}
MOST_ROWS = 20_000_000
"""Tuples times windows that are held at once."""


def outputs(spec: Spec, accepted: pl.LazyFrame) -> dict[str, pl.DataFrame]:
    """The windows of all queries that hold a tuple, sorted by query, key, end and start."""
    schema = accepted.collect_schema()
    key = "key" if "key" in schema else None
    keys = keys_of(accepted, key)
    wanted = [aggregate for query in spec.queries for aggregate in query.aggregates]
    tuples = in_order(accepted, key, keys, aggregates.values(wanted, schema, infinities=True))
    answers = pl.concat([_answer(query, tuples, schema) for query in spec.queries], how="diagonal")
    start, end = pl.col("measure_start"), pl.col("measure_end")
    computed, scales = aggregates.named(answers.columns)
    before = ["query", "key", "window_start", "window_end", "measure_start", "measure_end"]
    results = (
        answers.join(keys, on="__key", how="left")
        .with_columns(window_start=start.cast(TIME), window_end=end.cast(TIME), decided=(end - 1).cast(TIME))
        .select(*before, *computed, "tuples", "decided", *scales)
        .sort("query", "key", "measure_end", "measure_start")
    )
    return {"results": results}


def summed(spec: Spec) -> dict[str, list[str]]:
    """The aggregates that are judged against a sum of absolute values."""
    names = [name for query in spec.queries for name in aggregates.summed(query.aggregates)]
    return {"results": list(dict.fromkeys(names))}


def lookback(spec: Spec) -> int:
    """A window is as long as it is, and decided at its end."""
    return max(query.window.length for query in spec.queries)


def _answer(query: Query, tuples: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """One query's windows that hold a tuple, with what was asked of them; aggregates of other queries are no columns yet."""
    computed = aggregates.expressions(query.aggregates, schema)
    groups = [
        group.group_by("__key", "measure_start").agg(*computed, tuples=pl.len().cast(pl.Int64)).collect()
        for group in _tuples_of_windows(query.window, tuples)
    ]
    return pl.concat(groups).with_columns(query=pl.lit(query.name), measure_end=pl.col("measure_start") + query.window.length)


def _tuples_of_windows(window: Tumbling | Sliding, tuples: pl.DataFrame) -> Iterator[pl.LazyFrame]:
    """Every window's tuples, once for each window that they are in, a few of the n classes of windows at a time."""
    classes = -(-window.length // window.slide)
    at_once = max(1, MOST_ROWS // max(1, tuples.height))
    # The last window that has begun by ts, and before it the last one of the class.
    latest = (pl.col("ts") - window.offset) // window.slide
    of_class = latest - (latest - pl.col("__class")) % classes
    for first in range(0, classes, at_once):
        some = pl.Series([list(range(first, min(first + at_once, classes)))], dtype=pl.List(pl.Int64))
        yield (
            tuples.lazy()
            .with_columns(pl.lit(some).alias("__class"))
            .explode("__class")
            .with_columns(measure_start=of_class * window.slide + window.offset)
            .filter(pl.col("ts") < pl.col("measure_start") + window.length)
        )
