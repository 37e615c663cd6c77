"""Verification can fail: one wrong row among many is found, and every fault that is put into an engine is caught by a check.

A fault is a change of what lift, combine or lower give, as a mistake in them would make it. Where an engine is right the same
streams pass every check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engines import build
from engines.contract import FOREVER, TIMESTAMP
from engines.frames import engine as frames
from engines.slicing import engine as slicing
from quality.expectations import Expected, judge, true
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
    """About three tuples a second of three keys, a fifth of them up to three seconds late: some too late; values in waves."""
    rng = np.random.default_rng(5)
    ts = START + np.arange(tuples) * 300_000 - np.where(rng.random(tuples) < 0.2, rng.integers(0, 3 * SECOND, tuples), 0)
    values = np.round(np.sin(np.arange(tuples) / 40) * 5 + rng.normal(size=tuples), 3)
    return pa.table({"ts": pa.array(ts).view(TIMESTAMP), "key": rng.choice(["a", "b", "c"], tuples), "v": values})


def verified(
    spec: Mapping[str, Any], table: pa.Table | None = None, change: Callable[[pl.DataFrame], pl.DataFrame] | None = None
) -> Verified:
    """A replay of the stream in this process, held against the oracle; `change`: what becomes of its results first."""
    table = stream() if table is None else table
    run = local.run(build(spec), table, batch_rows=400, early=False)
    clock = np.maximum.accumulate(table["ts"].combine_chunks().view(pa.int64()).to_numpy())
    log = pl.from_arrow(table.append_column("arrival", pa.array(np.arange(table.num_rows))).append_column("clock", pa.array(clock)))
    assert isinstance(log, pl.DataFrame)
    results, late = pl.from_arrow(run.final), pl.from_arrow(run.late)
    assert isinstance(results, pl.DataFrame)
    assert isinstance(late, pl.DataFrame)
    days = [date.fromordinal(date(1970, 1, 1).toordinal() + int(day)) for day in np.unique(clock // 86_400_000_000)]
    days = [date.fromordinal(n) for n in range(days[0].toordinal(), days[-1].toordinal() + 1)]
    return verify(spec, log.lazy(), days, change(results) if change else results, late, days)


def red(found: Verified) -> list[str]:
    """The checks that failed, but for the warning that these streams deserve: one tuple in fifteen is late."""
    return [outcome.name for outcome in found.outcomes if not outcome.passed and outcome.name != "late_rows_are_few"]


@pytest.mark.parametrize("technique", SPECS)
def test_an_engine_that_is_right_passes_every_check(technique: str) -> None:
    found = verified(SPECS[technique])
    assert red(found) == []
    assert found.worst.is_empty()
    assert found.joined.height > 40
    assert all(outcome.rows > 0 for outcome in found.outcomes)


def test_one_wrong_row_in_a_million_is_found_and_shown() -> None:
    """Tumbling windows of a second over a million seconds: one sum is off by a millionth of itself."""
    ts = pa.array(START + np.arange(1_000_000) * SECOND).view(TIMESTAMP)
    table = pa.table({"ts": ts, "v": np.arange(1_000_000) % 1000 + 0.5})
    window = {"kind": "tumbling", "length": "1s"}
    spec = {"technique": "slicing", "queries": [{"name": "q", "window": window, "aggregates": [{"kind": "sum", "column": "v"}]}]}

    def spoil(rows: pl.DataFrame) -> pl.DataFrame:
        here = pl.int_range(pl.len()) == 654_321
        return rows.with_columns(sum_v=pl.when(here).then(pl.col("sum_v") * (1 + 1e-6)).otherwise("sum_v"))

    assert red(verified(spec, table)) == []
    found = verified(spec, table, spoil)
    assert [(outcome.name, outcome.wrong) for outcome in found.outcomes if not outcome.passed] == [("sums_agree", 1)]
    (row,) = found.worst.to_dicts()
    assert row["sum_v__engine"] == pytest.approx(row["sum_v__oracle"] * (1 + 1e-6), rel=1e-12)
    assert row["differ"] == "sum_v"


def test_rows_that_are_missing_too_many_or_twice_are_told_apart() -> None:
    spec = SPECS["slicing"]
    for change, name in [
        (lambda rows: rows.slice(1), "every_expected_row_is_there"),
        (lambda rows: pl.concat([rows, rows.slice(7, 1)]), "identities_are_unique"),
        (
            lambda rows: pl.concat([rows, rows.slice(7, 1).with_columns(key=pl.lit("nobody", pl.String))]),
            "no_row_is_there_that_should_not_be",
        ),
    ]:
        assert red(verified(spec, change=change)) == [name]


def test_a_day_with_more_than_one_late_tuple_in_a_hundred_is_a_warning() -> None:
    """Two days of a thousand tuples: ten of the first are late, eleven of the second.

    ts, s    0  86  172  ...           a tuple behind by an hour, where a delay of 2 s is allowed for
    late          x
    """
    step = 86_400 * SECOND // 1000
    ts = START + np.arange(2000) * step
    ts[[*range(100, 110), *range(1500, 1511)]] -= 3600 * SECOND
    found = verified(SPECS["slicing"], pa.table({"ts": pa.array(ts).view(TIMESTAMP), "v": np.ones(2000)}))
    assert found.late["late_share"].to_list() == [0.010, 0.011]
    (warning,) = [outcome for outcome in found.outcomes if not outcome.passed]
    assert (warning.name, warning.severity, warning.rows, warning.wrong) == ("late_rows_are_few", "warning", 2, 1)


def test_an_expectation_that_cannot_be_judged_is_red() -> None:
    frame = pl.DataFrame({"text": ["a"], "right": [True]})
    suite = [
        true("fine", "", "right"),
        true("gone", "", "left"),
        Expected("absurd", "", "ExpectColumnMeanToBeBetween", "text", {"min_value": 0, "max_value": 1}),
    ]
    fine, gone, absurd = judge(frame, suite)
    assert fine.passed
    assert not gone.passed
    assert gone.error == "there is no column 'left'"
    assert not absurd.passed


# ---- faults ----------------------------------------------------------------------------------------------------------

Partials = Sequence[pa.RecordBatch]


def at_lift(change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Callable[[Any], dict[str, Any]]:
    """A fault in what lift gives."""
    return lambda operator: {"lift": lambda self, tuples, alone: change(operator.lift(self, tuples, alone))}


def at_combine(change: Callable[[Partials], Partials]) -> Callable[[Any], dict[str, Any]]:
    """A fault in what combine takes in."""
    return lambda operator: {"combine": lambda self, state, partials: operator.combine(self, state, change(partials))}


def at_lower(change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Callable[[Any], dict[str, Any]]:
    """A fault in what lower gives."""

    def lower(operator: Any) -> Callable[..., Any]:
        return lambda self, state, due, final: {name: change(rows) for name, rows in operator.lower(self, state, due, final).items()}

    return lambda operator: {"lower": lower(operator)}


def with_column(rows: pa.RecordBatch, name: str, change: Callable[[pa.Array], pa.Array]) -> pa.RecordBatch:
    """The rows with another content of a column."""
    at = rows.schema.get_field_index(name)
    columns = list(rows.columns)
    columns[at] = change(columns[at]).cast(rows.schema.field(at).type)
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


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
