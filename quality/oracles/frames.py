"""The oracle of frames: instants, then gaps and islands.

The tuples of one key and one ts are an instant, which satisfies the predicate if they all do. Islands are the maximal runs of instants
that do; a frame is an island that is long enough, and it is closed by the instant after it, if there is one.
"""

from __future__ import annotations

import polars as pl

from engines.expressions.tree import columns, parse
from engines.frames.spec import Spec
from quality.oracles import aggregates
from quality.oracles.clock import TIME
from quality.oracles.predicates import holds
from quality.oracles.tuples import in_order, keys_of

IDENTITY = {"results": ["key", "start"]}
"""What the frame's id is made of."""


def outputs(spec: Spec, accepted: pl.LazyFrame) -> dict[str, pl.DataFrame]:
    """The frames of all keys, sorted by key and start."""
    schema = accepted.collect_schema()
    key = spec.key or ("key" if "key" in schema else None)
    keys = keys_of(accepted, key)
    tuples = _judged(spec, accepted, key, keys, schema)
    # Sorted by key, then time: a run of equal (key, instant satisfies) is an island, or a stretch between islands.
    satisfied = pl.col("__holds").all().over("__key", "ts")
    tuples = tuples.sort("__key", maintain_order=True).with_columns(satisfied.alias("__holds"))
    tuples = tuples.with_columns(__run=pl.struct("__key", "__holds").rle_id())
    runs = tuples.group_by("__run").agg(
        pl.col("__key", "__holds").first(),
        *aggregates.expressions(spec.aggregates, schema),
        start=pl.col("ts").min(),
        end=pl.col("ts").max(),
        tuples=pl.len().cast(pl.Int64),
    )
    closed = runs.sort("__run").with_columns(decided=pl.col("start").shift(-1).over("__key"))
    long_enough = pl.col("end") - pl.col("start") >= spec.frame.min_duration
    frames = closed.filter(pl.col("__holds") & long_enough & (pl.col("tuples") >= spec.frame.min_tuples))
    return {"results": _named(frames.join(keys, on="__key", how="left"))}


def summed(spec: Spec) -> dict[str, list[str]]:
    """The aggregates that are judged against a sum of absolute values."""
    return {"results": aggregates.summed(spec.aggregates)}


def lookback(spec: Spec) -> None:
    """A frame may be of any length."""


def _judged(spec: Spec, accepted: pl.LazyFrame, key: str | None, keys: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """The tuples that take part, in order, with whether each of them `holds`; an unknown one does not, or is left out."""
    where = parse(spec.frame.where)
    seen = [pl.col(column).alias(f"seen: {column}") for column in columns(where)]
    values = aggregates.values(spec.aggregates, schema, infinities=False)
    tuples = in_order(accepted, key, keys, [*seen, *values])
    of_where = tuples.select(pl.col(f"seen: {column}").alias(column) for column in columns(where))
    # A predicate without columns, such as `true`, still has a value for each tuple.
    of_where = of_where if of_where.width else tuples.select("ts")
    tuples = tuples.drop(f"seen: {column}" for column in columns(where)).with_columns(holds(where, of_where).alias("__holds"))
    if spec.frame.unknown == "skip":
        return tuples.filter(pl.col("__holds").is_not_null())
    return tuples.with_columns(pl.col("__holds").fill_null(False))


def _named(frames: pl.DataFrame) -> pl.DataFrame:
    """The frames as rows of results."""
    computed, scales = aggregates.named(frames.columns)
    text = pl.col("__text")
    quoted = pl.col("key").is_not_null() & ((text == "") | text.str.starts_with('"'))
    return frames.select(
        pl.format("{}@{}", pl.when(quoted).then(pl.format('"{}"', text)).otherwise(text), "start").alias("frame_id"),
        "key",
        pl.lit("frame").alias("kind"),
        pl.col("start", "end").cast(TIME),
        "tuples",
        *computed,
        pl.col("decided").is_null().alias("open"),
        pl.col("decided").cast(TIME),
        *scales,
    ).sort("key", "start")
