"""A replay in this process, held against the oracle: what tests of verification, and of faults in engines, begin with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from engines import build
from engines.contract import TIMESTAMP
from quality.oracles.clock import day_of
from quality.verifying import Verified, verify
from replay import local

START = 1_704_067_200_000_000
SECOND = 1_000_000
AGGREGATES = [{"kind": "count"}, *({"kind": kind, "column": "v"} for kind in ("sum", "mean", "min", "max", "first", "last"))]
SPECS: dict[str, dict[str, Any]] = {
    "slicing": {
        "technique": "slicing",
        "delay": "2s",
        "queries": [{"name": "q", "window": {"kind": "sliding", "length": "10s", "slide": "3s"}, "aggregates": AGGREGATES}],
    },
    "frames": {
        "technique": "frames",
        "delay": "2s",
        "frame": {"kind": "threshold", "where": "v > 0", "min_duration": "2s", "min_tuples": 2},
        "aggregates": AGGREGATES,
    },
}


def stream(tuples: int = 3000) -> pa.Table:
    """About three tuples a second of three keys, a fifth of them up to three seconds late: some too late, some just not; in waves."""
    rng = np.random.default_rng(5)
    ts = START + np.arange(tuples) * 300_000 - np.where(rng.random(tuples) < 0.2, rng.integers(0, 30, tuples) * 100_000, 0)
    values = np.round(np.sin(np.arange(tuples) / 40) * 5 + rng.normal(size=tuples), 3)
    return pa.table({"ts": pa.array(ts).view(TIMESTAMP), "key": rng.choice(["a", "b", "c"], tuples), "v": values})


Change = Callable[[pl.DataFrame], pl.DataFrame]


def verified(
    spec: Mapping[str, Any],
    table: pa.Table | None = None,
    change: Change | None = None,
    change_late: Change | None = None,
    recorded: pl.DataFrame | None = None,
    batch_rows: int = 400,
) -> Verified:
    """A replay of the stream in this process, held against the oracle; `change`: what becomes of its rows first."""
    table = stream() if table is None else table
    run = local.run(build(spec), table, batch_rows=batch_rows, early=False)
    clock = np.maximum.accumulate(table["ts"].combine_chunks().view(pa.int64()).to_numpy())
    log = as_frame(table.append_column("arrival", pa.array(np.arange(table.num_rows))).append_column("clock", pa.array(clock)))
    first, last = (date(1970, 1, 1).toordinal() + int(instant) // 86_400_000_000 for instant in (clock[0], clock[-1]))
    days = [date.fromordinal(n) for n in range(first, last + 1)]
    results = as_frame(run.final).drop("revision", "retracted", strict=False).with_columns(day=day_of(days))
    late = as_frame(run.late)
    late = late.with_columns(day=pl.Series(clock[late["arrival"].to_numpy()], dtype=pl.Int64).cast(pl.Datetime("us", "UTC")).dt.date())
    rows = change(results) if change else results
    return verify(spec, log.lazy(), days, rows, change_late(late) if change_late else late, days, recorded)


def as_frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def red(found: Verified) -> list[str]:
    """The checks that failed, but for the warning that these streams deserve: one tuple in fifteen is late."""
    return [outcome.name for outcome in found.outcomes if not outcome.passed and outcome.name != "late_rows_are_few"]


def worst(found: Verified, name: str) -> list[Mapping[str, Any]]:
    """The rows that break an expectation."""
    (outcome,) = [outcome for outcome in found.outcomes if outcome.name == name]
    return list(outcome.worst)
