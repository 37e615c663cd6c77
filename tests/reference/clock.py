"""The clock of a stream, by definition: what each tuple finds when it arrives, and whether it comes too late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engines.spec import parse_duration
from tests.reference import Row, Spec


@dataclass(frozen=True)
class Tick:
    """The clock around the arrival of one tuple; before the first tuple there is no watermark."""

    clock: int
    watermark: int
    final_watermark: int
    watermark_before: int | None
    late: bool


def ticks(times: Sequence[int], delay: int, lateness: int) -> list[Tick]:
    """C(i) = max(ts of 0..i), W(i) = C(i) - delay, V(i) = W(i) - lateness; tuple i is late iff ts(i) < V(i)."""
    found: list[Tick] = []
    for i, ts in enumerate(times):
        clock = max(times[: i + 1])
        watermark = clock - delay
        before = found[-1].watermark if found else None
        found.append(Tick(clock, watermark, watermark - lateness, before, late=ts < watermark - lateness))
    return found


def delays(spec: Spec) -> tuple[int, int]:
    """The delay and the lateness of a specification, in microseconds."""
    return parse_duration(spec.get("delay", "0s")), parse_duration(spec.get("lateness", "0s"))


def accepted(rows: Sequence[Row], spec: Spec) -> list[Row]:
    """The tuples that are not late, in order of (ts, arrival)."""
    judged = zip(rows, ticks([row["ts"] for row in rows], *delays(spec)), strict=True)
    return sorted((row for row, tick in judged if not tick.late), key=lambda row: row["ts"])


def late(rows: Sequence[Row], spec: Spec) -> list[Row]:
    """The tuples that are late, as they came, each with its arrival and the watermark that it found."""
    judged = enumerate(zip(rows, ticks([row["ts"] for row in rows], *delays(spec)), strict=True))
    return [{**row, "arrival": i, "watermark": tick.watermark_before} for i, (row, tick) in judged if tick.late]


def given(results: Sequence[Row], rows: Sequence[Row], spec: Spec, *, early: bool, flush: bool) -> list[Row]:
    """Those results that a replay of the rows has given at its end: all of them if it flushes, else those decided before W (or V)."""
    if flush:
        return list(results)
    if not rows:
        return []
    last = ticks([row["ts"] for row in rows], *delays(spec))[-1]
    before = last.watermark if early else last.final_watermark
    return [result for result in results if result["decided"] is not None and result["decided"] < before]
