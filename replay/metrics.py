"""Metrics: one row per micro-batch, added up over its buckets.

The columns are the same for every technique; an engine's own counters travel beside them as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from engines.contract import BEGINNING, FOREVER, TIMESTAMP

_SUMS = ("tuples", "late", "partials", "results", "state_rows", "state_bytes", "lift_seconds", "combine_seconds", "lower_seconds")
SCHEMA = pa.schema([
    ("batch", pa.int64()),
    *[(name, pa.float64() if name.endswith("seconds") else pa.int64()) for name in _SUMS],
    ("watermark", TIMESTAMP),
    ("final_watermark", TIMESTAMP),
    ("counters", pa.string()),
])  # fmt: skip


def metrics_table(steps: Iterable[Mapping[str, Any]]) -> pa.Table:
    """A row per batch from the numbers of each bucket's step.

    >>> metrics_table([{"batch": 0, "tuples": 3, "due": 5, "final": 5}, {"batch": 0, "tuples": 0, "due": 5, "final": 5}])["tuples"]
    <pyarrow.lib.ChunkedArray object at ...>
    [
      [
        3
      ]
    ]
    """
    rows: dict[int, dict[str, Any]] = {}
    for step in steps:
        row = rows.setdefault(step["batch"], {"batch": step["batch"], **dict.fromkeys(_SUMS, 0), "counters": {}})
        for name, number in step.items():
            if name in _SUMS:
                row[name] += number
            elif name not in ("batch", "due", "final"):
                row["counters"][name] = row["counters"].get(name, 0) + number
        row["watermark"], row["final_watermark"] = _instant(step["due"]), _instant(step["final"])
    for row in rows.values():
        row["counters"] = json.dumps(row["counters"], sort_keys=True)
    return pa.Table.from_pylist([rows[batch] for batch in sorted(rows)], schema=SCHEMA)


def _instant(event_time: int) -> int | None:
    """Nothing for the ends of time, which no timestamp can show."""
    return event_time if BEGINNING < event_time < FOREVER else None
