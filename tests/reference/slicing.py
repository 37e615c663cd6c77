"""Windows of a stream, by definition: every window is enumerated, and every tuple put into each that it lies in.

Tumbling and sliding windows on time; what other kinds of windows are belongs here when there are engines for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from engines.spec import parse_duration
from tests.reference import Row, Spec
from tests.reference.aggregates import aggregated, name
from tests.reference.clock import accepted

IDENTITY = ("query", "key", "measure_start", "measure_end")


def results(rows: Sequence[Row], spec: Spec) -> list[dict[str, Any]]:
    """The row of every window that holds a tuple."""
    columns = [name(aggregate) for query in spec["queries"] for aggregate in query["aggregates"]]
    return [row for query in spec["queries"] for row in _windows(accepted(rows, spec), query, columns)]


def is_value(value: Any) -> bool:
    """Null and NaN are skipped; infinities are values."""
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def slices(rows: Sequence[Row], spec: Spec) -> set[tuple[Any, int]]:
    """The stretches between neighbouring edges, of any query, that got a tuple: each as its key and where it begins."""
    grids = [_grid(query["window"]) for query in spec["queries"]]
    found = set()
    for row in accepted(rows, spec):
        starts = [offset + (row["ts"] - offset) // slide * slide for _, slide, offset in grids]
        ends = [offset + length + (row["ts"] - offset - length) // slide * slide for length, slide, offset in grids]
        found.add((row.get("key"), max(starts + ends)))
    return found


def in_some_window(row: Row, spec: Spec) -> bool:
    """Whether any window of any query holds the tuple; between windows that slide further than they are long there are tuples in none."""
    return any(list(_starts(row["ts"], *_grid(query["window"]))) for query in spec["queries"])


def _windows(tuples: Sequence[Row], query: Spec, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    length, slide, offset = _grid(query["window"])
    inside: dict[tuple[Any, int], list[Row]] = {}
    for row in tuples:
        for start in _starts(row["ts"], length, slide, offset):
            inside.setdefault((row.get("key"), start), []).append(row)
    for (key, start), members in inside.items():
        yield {
            "query": query["name"],
            "key": key,
            "window_start": start,
            "window_end": start + length,
            "measure_start": start,
            "measure_end": start + length,
            **dict.fromkeys(columns),
            **aggregated(members, query["aggregates"], is_value=is_value),
            "tuples": len(members),
            "decided": start + length - 1,
        }


def _grid(window: Spec) -> tuple[int, int, int]:
    """Length, slide and offset; a tumbling window slides by its length."""
    length = parse_duration(window["length"])
    slide = parse_duration(window["slide"]) if window["kind"] == "sliding" else length
    return length, slide, parse_duration(window.get("offset", "0s"))


def _starts(ts: int, length: int, slide: int, offset: int) -> Iterator[int]:
    """The starts s = offset + k * slide with s <= ts < s + length, the latest first."""
    start = offset + (ts - offset) // slide * slide
    while ts < start + length:
        yield start
        start -= slide
