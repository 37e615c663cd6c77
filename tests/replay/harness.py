"""The real parts of a replay, driven in this process instead of by Spark, for tests that need hundreds of runs.

Source, buckets, state as bytes, sink and publishing are those of a run on Spark; only what carries envelopes between them
is replaced. That Spark carries them in the same way is what `test_spark.py` is for.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from engines import build
from engines.contract import TIMESTAMP
from replay import local
from replay.bucket import Bucket
from replay.envelope import Envelope
from replay.lake import Lake
from replay.outputs import create_tables
from replay.placement import labels
from replay.plan import Plan
from replay.progress import Progress
from replay.runs import Replayed
from replay.sink import Writer, commit_batch
from replay.source import LogReader
from replay.state_files import StateFiles
from tests.comparing import assert_same_rows, rows_of

HOUR = 3_600_000_000
DAY = 24 * HOUR
START = 19_723 * DAY  # 2024-01-01


def in_process(spark: object, plan: Plan, *, on_progress: object = None) -> Replayed:
    """Carry a plan out as `replay.runs.execute` does."""
    create_tables(plan)
    reader = LogReader(Plan.from_json(plan.to_json()))
    stored: dict[int, dict[str, bytes]] = {place: {} for place in labels(plan.buckets)}
    offset, batch, tuples = reader.initialOffset(), 0, 0
    while (end := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
        parts = [rows for partition in reader.partitions(offset, end) for rows in reader.read(partition)]
        random.Random(batch).shuffle(parts)  # a shuffle brings envelopes in any order
        messages = []
        for place, state in stored.items():
            bucket = Bucket(plan.engine, plan.operator, list(plan.streams), plan.span.emission(early=plan.early))
            files = StateFiles(plan, state)
            if state:
                bucket.load(files.read())
            writer = Writer(plan.lake, plan.run)
            mine = (Envelope(*row.values()) for rows in parts for row in rows.to_pylist() if row["bucket"] == place)
            step = bucket.step(mine, writer.take)
            state |= files.write(bucket.dump(), bucket.batch)
            messages.append(writer.message(step))
            tuples += step.metrics.get("tuples", 0)
        commit_batch(plan.lake, plan.run, batch, messages)
        if batch % 7 == 0:
            commit_batch(plan.lake, plan.run, batch, messages)  # as after a crash between the commit and its record
        offset, batch = end, batch + 1
    return Replayed(plan, Progress(batch - 1, tuples, tuples, 0, 0, None, None, 0.0))


def stream(seed: int, *, tuples: int = 300, days: float = 6, behind_us: int = 0, keys: int = 3) -> pa.Table:
    """Some days of a stream: bursts and silences (some of days), equal times, disorder up to and beyond what is accepted.

    Values are small multiples of a quarter, so that every sum is exact and rows can be compared to the bit.
    """
    rng = np.random.default_rng(seed)
    steps = rng.choice([0, 1, 60_000_000, HOUR // 3, 5 * HOUR, 40 * HOUR], tuples, p=[0.15, 0.15, 0.3, 0.3, 0.08, 0.02])
    ts = np.cumsum(steps * rng.uniform(0.2, 1.0, tuples)).astype(np.int64)
    ts = START + (ts * min(1.0, days * DAY / max(ts[-1], 1))).astype(np.int64)
    back = np.where(rng.random(tuples) < 0.3, rng.uniform(0, 1.3, tuples) * max(behind_us, 60_000_000), 0).astype(np.int64)
    names = np.array(["a", "b", "c", "d", "e"])[rng.integers(0, keys, tuples)]
    levels = rng.integers(-8, 9, tuples)[np.cumsum(rng.random(tuples) < 0.2)] / 4
    values = pa.array(levels, mask=rng.random(tuples) < 0.05)
    key = pa.array(names, mask=rng.random(tuples) < 0.05)
    return pa.table({"ts": pa.array(np.where(back > 0, ts - back, ts), TIMESTAMP), "key": key, "v": values})


def published(lake: Lake, name: str, output: str = "results") -> pa.Table:
    """A published table as polars reads it, without its days."""
    address = lake.address("results", name if output == "results" else f"{name}__{output}")
    return pl.read_delta(address).drop("day").to_arrow()


def assert_published(lake: Lake, name: str, spec: Mapping[str, Any], table: pa.Table) -> None:
    """What is published equals one continuous replay of the table, row for row."""
    engine = build(spec)
    whole = local.run(engine, table, early=False)
    identity = whole.operator.identity["results"]
    expected = [{k: v for k, v in row.items() if k not in ("revision", "retracted")} for row in rows_of(whole.final)]
    assert_same_rows(published(lake, name), expected, identity)
    assert_same_rows(published(lake, name, "late"), rows_of(whole.late), ["arrival"], what="late")


SPECS: dict[str, dict[str, Any]] = {
    "short windows": {"technique": "slicing", "queries": [
        {"name": "hours", "window": {"kind": "sliding", "length": "5h", "slide": "2h"}, "aggregates": [
            {"kind": k, "column": "v"} for k in ("sum", "count", "min", "max", "first", "last", "mean")]},
        {"name": "days", "window": {"kind": "tumbling", "length": "1d"}, "aggregates": [{"kind": "count"}]}]},
    "windows of days": {"technique": "slicing", "queries": [
        {"name": "long", "window": {"kind": "sliding", "length": "50h", "slide": "7h", "offset": "90m"}, "aggregates": [
            {"kind": "sum", "column": "v"}]},
        {"name": "rare", "window": {"kind": "sliding", "length": "3h", "slide": "31h"}, "aggregates": [{"kind": "last", "column": "v"}]}]},
    "frames": {"technique": "frames", "frame": {"kind": "threshold", "where": "v > 0"}, "aggregates": [
        {"kind": k, "column": "v"} for k in ("sum", "count", "min", "max", "first", "last", "mean")]},
    "long frames": {"technique": "frames", "frame": {
        "kind": "threshold", "where": "v > -1 or v is null", "min_duration": "10h", "min_tuples": 3}},
}  # fmt: skip
CLOCKS = {"in order": ("0s", "0s"), "an hour": ("20m", "40m"), "more than a day": ("9h", "21h")}


ONE_OF_EACH = {spec["technique"]: spec for spec in reversed(SPECS.values())}
"""The first specification of every technique: what takes long is tested with these."""


def with_clock(spec: Mapping[str, Any], clock: str) -> dict[str, Any]:
    delay, lateness = CLOCKS[clock]
    return {**spec, "delay": delay, "lateness": lateness}
