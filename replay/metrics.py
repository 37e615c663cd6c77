"""Metrics: one row per micro-batch, added up over its buckets, and how those of a run are read back.

The columns are the same for every technique; an engine's own counters travel beside them as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engines.contract import TIMESTAMP
from replay.files import read_file
from replay.lake import Lake
from replay.log import FIRST_US, LAST_US

_SUMS = ("tuples", "late", "partials", "results", "state_rows", "state_bytes", "lift_seconds", "combine_seconds", "lower_seconds")
SCHEMA = pa.schema([
    ("batch", pa.int64()),
    *[(name, pa.float64() if name.endswith("seconds") else pa.int64()) for name in _SUMS],
    ("clock", TIMESTAMP),
    ("watermark", TIMESTAMP),
    ("final_watermark", TIMESTAMP),
    ("counters", pa.string()),
])  # fmt: skip


def metrics_table(steps: Iterable[Mapping[str, Any]]) -> pa.Table:
    """A row per batch from the numbers of each bucket's step.

    >>> step = {"batch": 0, "tuples": 3, "clock": 7, "due": 5, "final": 5}
    >>> metrics_table([step, {**step, "tuples": 0}])["tuples"]
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
            elif name not in ("batch", "clock", "due", "final"):
                row["counters"][name] = row["counters"].get(name, 0) + number
        row |= {"clock": _instant(step["clock"]), "watermark": _instant(step["due"]), "final_watermark": _instant(step["final"])}
    for row in rows.values():
        row["counters"] = json.dumps(row["counters"], sort_keys=True)
    return pa.Table.from_pylist([rows[batch] for batch in sorted(rows)], schema=SCHEMA)


def metrics_of(lake: Lake, *runs: str) -> pa.Table:
    """A row per batch of these runs, in order of run and batch.

    Their files are picked by Delta's actions: a scan of the table would look at every batch of every run that there ever was.
    """
    rows = [pa.schema([*SCHEMA, ("run", pa.string())]).empty_table()]
    table = lake.table(lake.metrics)
    if table is None:
        return rows[0]
    actions, files = pa.table(table.get_add_actions(flatten=True)), lake.files(lake.metrics)
    mine = actions.filter(pc.is_in(actions["partition.run"].cast(pa.string()), pa.array(runs, pa.string())))
    for path, run in zip(mine["path"].to_pylist(), mine["partition.run"].to_pylist(), strict=True):
        batches = read_file(files, path)
        rows.append(batches.append_column("run", pa.array([str(run)] * batches.num_rows, pa.string())))
    return pa.concat_tables(rows, promote_options="default").sort_by([("run", "ascending"), ("batch", "ascending")])


def _instant(event_time: int) -> int | None:
    """Nothing outside of the years 1 to 9999: no date can show the ends of time, nor a watermark that stays behind by millennia."""
    return event_time if FIRST_US <= event_time <= LAST_US else None
