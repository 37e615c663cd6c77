"""Every fault that is put into an engine, or into the late rule, is caught by a check.

A fault is a change of what lift, combine or lower give, or of how tuples are judged, as a mistake in them would make it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engines.contract import BEGINNING, FOREVER
from engines.frames import engine as frames
from engines.slicing import engine as slicing
from engines.state import one_batch
from replay import lifting
from tests.quality.replayed import SECOND, SPECS, red, verified

Partials = Sequence[pa.RecordBatch]


def at_lift(change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Callable[[Any], dict[str, Any]]:
    """A fault in what lift gives."""
    return lambda operator: {"lift": lambda self, tuples, alone: change(operator.lift(self, tuples, alone))}


def at_combine(change: Callable[[Partials], Partials]) -> Callable[[Any], dict[str, Any]]:
    """A fault in what combine takes in."""
    return lambda operator: {"combine": lambda self, state, partials: operator.combine(self, state, change(partials))}


def at_lower(change: Callable[[pa.Table], pa.Table]) -> Callable[[Any], dict[str, Any]]:
    """A fault in what lower gives."""

    def lower(operator: Any) -> Callable[..., Any]:
        return lambda self, state, due, final: {name: change(rows) for name, rows in operator.lower(self, state, due, final).items()}

    return lambda operator: {"lower": lower(operator)}


def with_column(rows: pa.RecordBatch, name: str, change: Callable[[pa.Array], pa.Array]) -> pa.RecordBatch:
    """The rows with another content of a column."""
    at = rows.schema.get_field_index(name)
    return rows.set_column(at, rows.schema.field(at), change(rows.column(at)).cast(rows.schema.field(at).type))


def moved(us: int) -> Callable[[pa.Array], pa.Array]:
    return lambda column: pc.add(column.cast(pa.int64()), us)


def without(number: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Without one row, where there are so many."""
    return lambda rows: rows.filter(pa.array(np.arange(rows.num_rows) != number))


def early(operator: Any) -> dict[str, Any]:
    """Results are taken for due before they are."""
    return {
        "lower": lambda self, state, due, final: operator.lower(
            self, state, min(due + 5 * SECOND, FOREVER), min(final + 5 * SECOND, FOREVER)
        )
    }


def forgetful(operator: Any) -> dict[str, Any]:
    """What only later results need is forgotten with those that are final."""

    def lower(self: Any, state: Any, due: int, final: int) -> Any:
        rows = operator.lower(self, state, due, final)
        (name, *_) = self.tables
        state[name] = state[name].slice(min(2, state[name].num_rows))
        return rows

    return {"lower": lower}


FAULTS: dict[str, dict[str, Callable[[Any], dict[str, Any]]]] = {
    "slicing": {
        "a slice is dropped by lift": at_lift(without(3)),
        "a slice belongs to the next one": at_lift(lambda rows: with_column(rows, "start", moved(3 * SECOND))),
        "a slice belongs to the one before": at_lift(lambda rows: with_column(rows, "start", moved(-3 * SECOND))),
        "partials are added twice": at_combine(lambda partials: [*partials, *partials]),
        "the last partials of a batch are lost": at_combine(lambda partials: [batch.slice(0, batch.num_rows - 1) for batch in partials]),
        "windows are given too early": early,
        "slices are forgotten too early": forgetful,
        "a window is not given": at_lower(without(0)),
        "windows end a microsecond early": at_lower(lambda rows: with_column(rows, "measure_end", moved(-1))),
        "min and max change places": at_lower(lambda rows: with_column(rows, "min_v", lambda _: rows.column("max_v"))),
        "first and last change places": at_lower(lambda rows: with_column(rows, "first_v", lambda _: rows.column("last_v"))),
        "a sum misses a thousandth": at_lower(lambda rows: with_column(rows, "sum_v", lambda column: pc.multiply(column, 1.001))),
    },
    "frames": {
        "a piece is dropped by lift": at_lift(without(5)),
        "a piece begins a microsecond late": at_lift(lambda rows: with_column(rows, "start", moved(1))),
        "the predicate is turned round": at_lift(
            lambda rows: with_column(rows, "satisfied", lambda column: pc.invert(column.cast(pa.bool_())))
        ),
        "pieces are added twice": at_combine(lambda partials: [*partials, *partials]),
        "the last pieces of a batch are lost": at_combine(lambda partials: [batch.slice(0, batch.num_rows - 1) for batch in partials]),
        "frames are decided a microsecond late": at_lower(lambda rows: with_column(rows, "decided", moved(1))),
        "open runs are forgotten": forgetful,
        "a frame is not given": at_lower(without(0)),
        "frames end a microsecond late": at_lower(lambda rows: with_column(rows, "end", moved(1))),
        "frames are one tuple too short": at_lower(lambda rows: with_column(rows, "tuples", moved(-1))),
        "first and last change places": at_lower(lambda rows: with_column(rows, "first_v", lambda _: rows.column("last_v"))),
    },
}


@pytest.mark.parametrize(("technique", "fault"), [(technique, fault) for technique, faults in FAULTS.items() for fault in faults])
def test_a_fault_in_an_engine_is_caught(technique: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = {"slicing": slicing, "frames": frames}[technique].Operator
    whole = type("Whole", (), {name: getattr(kind, name) for name in ("lift", "combine", "lower")})
    for name, faulty in FAULTS[technique][fault](whole).items():
        monkeypatch.setattr(kind, name, faulty)
    found = verified(SPECS[technique])
    assert any(not outcome.passed and outcome.severity == "critical" for outcome in found.outcomes)


def judged(behind: Callable[[int], int], clock: Callable[[int], int] = lambda clock: clock) -> dict[str, Any]:
    """A fault in which tuples are taken for late."""
    whole = lifting.judge
    return {"judge": lambda ts, before, allowed, late: whole(ts, clock(before), behind(allowed), late)}


def told(change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> dict[str, Any]:
    """A fault in how late tuples are told."""
    whole = lifting.with_watermark
    return {"with_watermark": lambda *given: change(whole(*given))}


LATE_FAULTS: dict[str, dict[str, Any]] = {
    "a tuple at the very limit is late": judged(lambda behind: behind - 1),
    "a tuple just behind the limit is not late": judged(lambda behind: behind + 100_000),
    "no tuple is late": judged(lambda behind: 2**60),
    "a tuple is late by the watermark of its batch alone": judged(lambda behind: behind, clock=lambda before: BEGINNING),
    "late tuples are dropped": told(lambda rows: rows.slice(0, 0)),
    "the last late tuple of a batch is dropped": told(lambda rows: rows.slice(0, rows.num_rows - 1)),
    "late tuples are told twice": told(lambda rows: one_batch(pa.Table.from_batches([rows, rows]))),
    "late tuples have the times of others": told(lambda rows: with_column(rows, "ts", lambda column: column[::-1])),
    "late tuples have the keys of others": told(lambda rows: with_column(rows, "key", lambda column: column[::-1])),
    "late tuples have the values of others": told(lambda rows: with_column(rows, "v", lambda column: column[::-1])),
    "the watermark of late tuples is their clock": told(lambda rows: with_column(rows, "watermark", moved(2 * SECOND))),
}


@pytest.mark.parametrize("fault", LATE_FAULTS)
def test_a_fault_in_the_late_rule_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, faulty in LATE_FAULTS[fault].items():
        monkeypatch.setattr(f"replay.lifting.{name}", faulty)
    assert "late_rows_are_equal" in red(verified(SPECS["slicing"], batch_rows=20))
