"""Threshold frames of a stream, by definition: instants first, then gaps and islands.

The predicate is given as a function of a tuple that is True, False or None (unknown), so no parser is shared with the
engine. Other kinds of frames belong here when there are engines for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from engines.spec import parse_duration
from tests.reference import Row, Spec
from tests.reference.aggregates import aggregated
from tests.reference.clock import accepted

IDENTITY = ("key", "start")

Predicate = Callable[[Row], bool | None]


def results(rows: Sequence[Row], spec: Spec, where: Predicate) -> list[dict[str, Any]]:
    """The row of every frame, open ones too."""
    by = spec.get("key", "key")
    tuples = accepted(rows, spec)
    keys = dict.fromkeys(row.get(by) for row in tuples)
    return [frame for key in keys for frame in _frames([row for row in tuples if row.get(by) == key], key, spec, where)]


def is_value(value: Any) -> bool:
    """Null, NaN and infinities are nulls."""
    return value is not None and not (isinstance(value, float) and not math.isfinite(value))


def candidates(rows: Sequence[Row], spec: Spec, where: Predicate, key: Any) -> set[tuple[int, int]]:
    """Every interval from one tuple of a key to another in which all tuples satisfy the predicate and that reaches the minima.

    Section 3 of the paper, by brute force: frames are the maximal ones among these.
    """
    frame = spec["frame"]
    min_duration, min_tuples = parse_duration(frame.get("min_duration", "0s")), frame.get("min_tuples", 1)
    tuples = [row for row in accepted(rows, spec) if row.get(spec.get("key", "key")) == key]
    if frame.get("unknown") == "skip":
        tuples = [row for row in tuples if where(row) is not None]
    found = set()
    for start in {row["ts"] for row in tuples}:
        for end in {row["ts"] for row in tuples}:
            inside = [row for row in tuples if start <= row["ts"] <= end]
            if end - start >= min_duration and len(inside) >= min_tuples and all(where(row) is True for row in inside):
                found.add((start, end))
    return found


def _frames(tuples: Sequence[Row], key: Any, spec: Spec, where: Predicate) -> Iterator[dict[str, Any]]:
    """The frames of one key: maximal runs of instants whose tuples all satisfy the predicate, if they reach the minima."""
    frame = spec["frame"]

    def satisfies(row: Row) -> bool:
        return where(row) is True

    min_duration, min_tuples = parse_duration(frame.get("min_duration", "0s")), frame.get("min_tuples", 1)
    if frame.get("unknown") == "skip":
        tuples = [row for row in tuples if where(row) is not None]
    instants = [list(instant) for _, instant in groupby(tuples, key=lambda row: row["ts"])]
    islands = [(satisfied, list(island)) for satisfied, island in groupby(instants, key=lambda instant: all(map(satisfies, instant)))]
    for i, (satisfied, island) in enumerate(islands):
        members = [row for instant in island for row in instant]
        start, end = members[0]["ts"], members[-1]["ts"]
        if not satisfied:
            continue
        if end - start < min_duration or len(members) < min_tuples:
            continue
        yield {
            "frame_id": f"{_named(key)}@{start}",
            "key": key,
            "kind": "frame",
            "start": start,
            "end": end,
            "tuples": len(members),
            **aggregated(members, spec.get("aggregates", []), is_value=is_value),
            "open": i == len(islands) - 1,
            "decided": islands[i + 1][1][0][0]["ts"] if i < len(islands) - 1 else None,
        }


def _named(key: Any) -> str:
    """The key in a frame's id: null is nothing, and a text that is empty or begins with a quote stands in quotes."""
    if key is None:
        return ""
    return f'"{key}"' if str(key)[:1] in ("", '"') else str(key)
