"""Streams and frames as ASCII timelines, and an operator driven by hand over them.

One character is one second: `#` a tuple that satisfies `v > 0`, `.` one that does not, `?` one without a value, a space
none. Frames are drawn below: `[--]` from first to last tuple, `|` where both are one instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from engines import build
from engines.contract import FOREVER, NOWHERE, TIMESTAMP, Interval, Operator
from engines.state import State
from tests.comparing import rows_of

SECOND = 1_000_000
VALUES = {"#": 1.0, ".": -1.0, "?": None}
SCHEMA = pa.schema([("ts", TIMESTAMP), ("key", pa.string()), ("v", pa.float64()), ("arrival", pa.int64())])

Tuple = tuple[int, str | None, float | None]


def spec(**settings: Any) -> dict[str, Any]:
    frame = {"kind": "threshold", "where": "v > 0", **settings.pop("frame", {})}
    return {"technique": "frames", "frame": frame, **settings}


def operator(**settings: Any) -> Operator:
    return build(spec(**settings)).on(SCHEMA)


def batch(tuples: Iterable[Tuple], *, first: int = 0) -> pa.RecordBatch:
    """Tuples (microseconds, key, value) as lift gets them; the first has this arrival."""
    rows = [(ts, key, v, first + i) for i, (ts, key, v) in enumerate(tuples)]
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(SCHEMA)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def drawn(*lines: str, key: str | None = "a") -> list[Tuple]:
    """The tuples of some lines, line after line: a line below arrives later."""
    return [(at * SECOND, key, VALUES[mark]) for line in lines for at, mark in enumerate(line) if mark != " "]


def frames_of(line: str) -> list[tuple[int, int]]:
    """First and last second of each frame that is drawn."""
    starts, ends = ([at for at, mark in enumerate(line) if mark in marks] for marks in ("[|", "]|"))
    return list(zip(starts, ends, strict=True))


def lowered(operator: Operator, state: State, due: float, final: float | None = None) -> list[dict[str, Any]]:
    """The rows that lower gives, with seconds for times."""
    due_us, final_us = (bound if bound == FOREVER else round(bound * SECOND) for bound in (due, due if final is None else final))
    rows = operator.lower(state, int(due_us), int(final_us))["results"]
    assert rows.schema.equals(operator.outputs["results"])
    state.due, state.final = int(due_us), int(final_us)
    found = rows_of(rows)
    return [{**row, **{name: row[name] and row[name] / SECOND for name in ("start", "end", "decided")}} for row in found]


def replay(tuples: Sequence[Tuple], *, alone: Interval = NOWHERE, **settings: Any) -> list[dict[str, Any]]:
    """All frames of some tuples, in one batch, with the flush."""
    by = operator(**settings)
    state = State(by.tables)
    by.combine(state, [by.lift(batch(tuples), alone)])
    return lowered(by, state, FOREVER)


def extents(rows: Iterable[dict[str, Any]]) -> list[tuple[float, float]]:
    return [(row["start"], row["end"]) for row in rows]
