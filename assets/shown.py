"""Published results as a picture shows them: how many there are of each key, and rows of the keys with most of them.

All rows are counted, and only those that are drawn are read: a published table is clustered by key, so its first rows are of few keys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from replay.lake import Lake
from replay.publish import results_address

MOST_KEYS = 5
"""Of so many keys lines can be told apart in one picture."""
MOST_ROWS = 20_000
"""About so many rows are read at most: of more, every second, third, ..."""


@dataclass(frozen=True)
class Shown:
    """Results of some days."""

    rows: pa.Table
    """Rows of the keys with most results, in order of `decided`."""
    counts: pl.DataFrame
    """How many `results` there are of each `key`, by `query` where there are queries; the most first. All of them are counted."""

    def total(self, query: str | None = None) -> int:
        """How many results there are, of one query or of all."""
        return int(self._of(query)["results"].sum())

    def keys(self, query: str | None = None) -> list[Any]:
        """The keys, those with most results first."""
        return self._of(query)["key"].to_list()

    def of_key(self, key: Any, query: str | None = None) -> pa.Table:
        """The rows of a key."""
        column = self.rows["key"]
        same = pc.is_null(column) if key is None else pc.equal(column, pa.scalar(key, column.type))
        return self.rows.filter(same if query is None else pc.and_(same, pc.equal(self.rows["query"], query)))

    def by_key(self, query: str | None = None) -> Iterator[tuple[Any, pa.Table]]:
        """The rows of each key that is shown, those with most results first."""
        for key in self.keys(query)[:MOST_KEYS]:
            yield key, self.of_key(key, query)

    def _of(self, query: str | None) -> pl.DataFrame:
        return self.counts if query is None else self.counts.filter(pl.col("query") == query)


def counted(results: pl.LazyFrame) -> pl.DataFrame:
    """How many results there are of each key, by query where there are queries; the most first."""
    names = [name for name in ("query", "key") if name in results.collect_schema()]
    counts = results.group_by(names).agg(results=pl.len()).collect(engine="streaming")
    return counts.sort("results", *names, descending=[True, *[False] * len(names)])


def shown_results(lake: Lake, publish: str, days: Collection[date]) -> Shown:
    """Published results of these days, as far as a picture shows them."""
    address = results_address(lake, publish)
    if lake.table(address) is None:
        return Shown(pa.table({"key": pa.array([], pa.string())}), pl.DataFrame(schema={"key": pl.String, "results": pl.UInt32}))
    results = pl.scan_delta(lake.table(address)).filter(pl.col("day").is_in(list(days)))
    counts = counted(results)
    most = counts.group_by("query", maintain_order=True).head(MOST_KEYS) if "query" in counts.columns else counts.head(MOST_KEYS)
    drawn = pl.col("key").is_in(most["key"].unique().implode(), nulls_equal=True)
    step = -(-int(counts.filter(drawn)["results"].sum()) // MOST_ROWS) or 1
    rows = results.filter(drawn).gather_every(step).sort("decided").collect(engine="streaming")
    return Shown(rows.to_arrow(compat_level=pl.CompatLevel.oldest()), counts)
