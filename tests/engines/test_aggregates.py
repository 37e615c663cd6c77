"""Aggregates: what can be asked for, and partials that merge to the same result in whatever order and grouping."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engines.aggregates import layout as layouts
from engines.aggregates.layout import Layout
from engines.aggregates.spec import Aggregate, Aggregates, Count, First, Last, Max, Mean, Min, Sum
from engines.contract import TIMESTAMP
from engines.spec import Model, SpecError, validate

NAN, INF = float("nan"), float("inf")
FLOAT = pa.float64()
LEAST, GREATEST = -(2**63), 2**63 - 1


class Asked(Model):
    """Something with aggregates."""

    aggregates: Aggregates


def stream(values: Sequence[Any], type_: pa.DataType, ts: Sequence[int] | None = None) -> pa.RecordBatch:
    """Tuples with a column v, one a microsecond, in order of arrival."""
    n = len(values)
    times = pa.array(range(n) if ts is None else ts, TIMESTAMP)
    return pa.record_batch({"ts": times, "arrival": pa.array(range(n), pa.int64()), "v": pa.array(values, type_)})


def result(aggregates: Sequence[Aggregate], batch: pa.RecordBatch, *, finite: bool = False) -> list[Any]:
    """The aggregates of all tuples of a batch."""
    layout = Layout(aggregates, batch.schema, finite=finite)
    return [column[0].as_py() for column in layout.lower(layout.lift(np.zeros(batch.num_rows), 1, batch))]


def of(aggregate: Aggregate, values: Sequence[Any], type_: pa.DataType = FLOAT, *, finite: bool = False) -> Any:
    """One aggregate of the column v."""
    return result([aggregate], stream(values, type_), finite=finite)[0]


# What can be asked for


def test_results_are_named_by_kind_and_column_or_as_asked() -> None:
    assert [a.name for a in (Count(), Count("v"), Sum("v"), Mean("v"), Min("v"), Max("v"), First("v"), Last("v"))] == [
        "count", "count_v", "sum_v", "mean_v", "min_v", "max_v", "first_v", "last_v",
    ]  # fmt: skip
    assert Sum("v", rename="total").name == "total"
    asked = validate(Asked, {"aggregates": [{"kind": "sum", "column": "v", "as": "total"}, {"kind": "count"}]})
    assert asked.aggregates == (Sum("v", rename="total"), Count())
    assert asked.model_dump(by_alias=True)["aggregates"][0] == {"kind": "sum", "column": "v", "as": "total"}


@pytest.mark.parametrize(
    ("aggregates", "sentence"),
    [
        ([{"kind": "sum", "column": "v"}] * 2, "^aggregates: the result columns 'sum_v' and 'sum_v' given; .* which 'as' can give"),
        (
            [{"kind": "sum", "column": "v"}, {"kind": "count", "as": "Sum_V"}],
            "the result columns 'sum_v' and 'Sum_V' given; allowed are names",
        ),
        ([{"kind": "summ", "column": "v"}], r"aggregates\[0\]\.kind: 'summ' given; allowed are 'count', 'sum', .*"),
        ([{"kind": "sum"}], r"aggregates\[0\]\.column: this setting is missing"),
        ([{"kind": "sum", "column": "v", "by": 1}], r"aggregates\[0\]\.by: there is no such setting"),
        ([{"kind": "count", "as": ""}], r"aggregates\[0\]\.as: '' given"),
    ],
)
def test_wrong_aggregates_are_refused_in_a_sentence(aggregates: list[Any], sentence: str) -> None:
    with pytest.raises(SpecError, match=rf"{sentence}.*\.$"):
        validate(Asked, {"aggregates": aggregates})


@pytest.mark.parametrize(
    ("aggregate", "sentence"),
    [
        (Sum("x"), r"sum of 'x': the stream has no such column; allowed are integers .* and floats, here arrival, v\."),
        (Mean("b"), r"mean of 'b': the column is of type bool; .*"),
        (Sum("u"), r"sum of 'u': the column is of type uint64; allowed are integers \(of at most 64 bits with a sign\).*"),
        (Min("s"), r"min of 's': the column is of type string; .*, floats, booleans, dates, times and durations, here ts, arrival, v, b\."),
        (Max("u"), r"max of 'u': the column is of type uint64; allowed are integers \(of at most 64 bits with a sign\), floats, .*"),
        (First("a\n"), r"first of 'a\\n': the stream has no such column; .*"),
        (Count("x"), r"count of 'x': the stream has no such column; allowed are columns of any type, here ts, arrival, v, s, b, u\."),
    ],
)
def test_columns_that_do_not_fit_are_refused_in_a_sentence(aggregate: Aggregate, sentence: str) -> None:
    schema = stream([], pa.float64()).schema.append(pa.field("s", pa.string())).append(pa.field("b", pa.bool_()))
    with pytest.raises(SpecError, match=rf"^{sentence}$"):
        Layout([aggregate], schema.append(pa.field("u", pa.uint64())))


# Layout


def test_aggregates_share_what_they_need() -> None:
    schema = stream([], pa.float64()).schema
    layout = Layout([Count(), Sum("v"), Mean("v"), Max("v"), First("v")], schema)
    assert layout.fields.names == [
        "tuples", "count:v", "sum:v", "error:v", "max:v", "first:v", "first_ts:v", "first_arrival:v",
    ]  # fmt: skip
    assert layout.columns == ("v", "arrival")
    assert [field.name for field in layout.outputs] == ["count", "sum_v", "mean_v", "max_v", "first_v"]
    assert Layout([Count()], schema).columns == ()
    assert Layout([Max("ts")], schema).columns == (), "ts is always given"


def test_tuples_without_a_cell_are_left_out_and_cells_may_stay_empty() -> None:
    layout = Layout([Count(), Sum("v")], stream([], pa.int64()).schema)
    partials = layout.lift(np.array([0, -1, 2, 0]), 4, stream([1, 2, 4, 8], pa.int64()))
    assert [column.to_pylist() for column in layout.lower(partials)] == [[2, 0, 1, 0], [9, None, 4, None]]


def test_partials_go_to_arrow_and_back() -> None:
    batch = stream([1.5, None, 2.5], pa.float64())
    layout = Layout([Mean("v"), Last("v")], batch.schema)
    partials = layout.lift(np.array([0, 1, 1]), 2, batch)
    rows = pa.RecordBatch.from_arrays(layout.to_arrow(partials), schema=layout.fields)
    assert [column.tolist() for column in layout.from_arrow(rows)] == [column.tolist() for column in partials]


# Values


def test_null_and_nan_are_skipped_and_nothing_left_is_null() -> None:
    kinds = [Count(), Count("v"), Sum("v"), Mean("v"), Min("v"), Max("v"), First("v"), Last("v")]
    assert result(kinds, stream([None, NAN, 2.0, None, 4.0, NAN], pa.float64())) == [6, 2, 6.0, 3.0, 2.0, 4.0, 2.0, 4.0]
    assert result(kinds, stream([None, 2, 4, None], pa.int32())) == [4, 2, 6, 3.0, 2, 4, 2, 4]
    for nothing in ([], [None], [NAN, None]):
        assert result(kinds, stream(nothing, pa.float64())) == [len(nothing), 0, None, None, None, None, None, None]


def test_infinities_are_values_unless_only_finite_ones_count() -> None:
    values = [1.0, INF, 2.0, NAN, None]
    kinds = [Count("v"), Sum("v"), Mean("v"), Min("v"), Max("v")]
    assert result(kinds, stream(values, pa.float64())) == [3, INF, INF, 1.0, INF]
    assert result(kinds, stream(values, pa.float64()), finite=True) == [2, 3.0, 1.5, 1.0, 2.0]
    assert of(Count("v"), [-INF, 1.0], finite=True) == 1
    assert math.isnan(of(Sum("v"), [INF, 1.0, -INF]))
    assert of(Sum("v"), [-INF, 1e308]) == -INF


def test_counting_a_column_needs_no_numbers() -> None:
    assert of(Count("v"), ["a", None, "b"], pa.string()) == 2
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0]), pa.array(["a", None]))
    batch = pa.record_batch({"ts": pa.array(range(4), TIMESTAMP), "v": encoded})
    assert result([Count("v")], batch) == [2]


@pytest.mark.parametrize("type_", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64()], ids=str)
def test_integers_are_widened(type_: pa.DataType) -> None:
    layout = Layout([Sum("v"), Min("v"), Mean("v")], stream([], type_).schema)
    assert [field.type for field in layout.outputs] == [pa.int64(), pa.int64(), pa.float64()]
    assert result([Sum("v"), Min("v"), Mean("v")], stream([1, 100, 100], type_)) == [201, 1, 67.0]


@pytest.mark.parametrize("type_", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_floats_are_widened(type_: pa.DataType) -> None:
    layout = Layout([Sum("v"), Max("v")], stream([], type_).schema)
    assert [field.type for field in layout.outputs] == [pa.float64(), pa.float64()]
    assert result([Sum("v"), Max("v")], stream([np.float16(1.5), None, np.float16(2)], type_)) == [3.5, 2.0]


@pytest.mark.parametrize(
    ("type_", "low", "high"),
    [
        (pa.bool_(), False, True),
        (pa.date32(), date(1950, 1, 1), date(2020, 1, 1)),
        (pa.date64(), date(1950, 1, 1), date(2020, 1, 1)),
        (pa.time32("ms"), time(1), time(2)),
        (pa.time64("us"), time(1), time(2)),
        (pa.timestamp("us", "UTC"), datetime(1950, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)),
        (pa.timestamp("s", "Europe/Rome"), datetime(1950, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)),
        (pa.duration("us"), timedelta(-1), timedelta(1)),
    ],
    ids=str,
)
def test_min_max_first_and_last_keep_the_type(type_: pa.DataType, low: Any, high: Any) -> None:
    kinds = [Min("v"), Max("v"), First("v"), Last("v")]
    assert [field.type for field in Layout(kinds, stream([], type_).schema).outputs] == [type_] * 4
    assert result(kinds, stream([None, high, low, None], type_)) == [low, high, high, low]
    assert result(kinds, stream([None], type_)) == [None] * 4


def test_a_zero_found_as_extreme_has_no_sign() -> None:
    for values in ([0.0, -0.0], [-0.0, 0.0]):
        assert [math.copysign(1, of(kind, values)) for kind in (Min("v"), Max("v"))] == [1, 1]


def test_extremes_of_integers_may_be_the_neutral_ones() -> None:
    assert of(Min("v"), [GREATEST], pa.int64()) == GREATEST
    assert of(Max("v"), [LEAST, None], pa.int64()) == LEAST


# Sums


def test_integer_sums_are_exact_beyond_64_bits_and_back() -> None:
    assert of(Sum("v"), [GREATEST, GREATEST, LEAST, LEAST, 5], pa.int64()) == 3
    assert of(Sum("v"), [LEAST, -1, 1], pa.int64()) == LEAST
    assert of(Mean("v"), [GREATEST] * 4, pa.int64()) == float(2**63)


def test_an_integer_sum_beyond_int64_is_null_and_counted() -> None:
    batch = stream([GREATEST, 1, LEAST, -1, 7], pa.int64())
    layout = Layout([Sum("v")], batch.schema)
    partials = layout.lift(np.array([0, 0, 1, 1, 2]), 3, batch)
    assert layout.lower(partials)[0].to_pylist() == [None, None, 7]
    assert layout.overflows(partials) == 2


def test_float_sums_keep_what_rounding_would_lose() -> None:
    assert of(Sum("v"), [1e16, 1.0, -1e16]) == 1.0
    assert of(Sum("v"), [0.1] * 10) == 1.0
    assert of(Mean("v"), [1e100, 1.0, -1e100, 1.0]) == 0.5


def test_an_infinite_sum_does_not_become_nan_in_merging() -> None:
    batch = stream([1.0, INF, 2.0], pa.float64())
    layout = Layout([Sum("v"), Mean("v")], batch.schema)
    merged = layout.reduce(layout.lift(np.array([0, 1, 2]), 3, batch), np.array([0]), np.array([3]))
    assert [column[0].as_py() for column in layout.lower(merged)] == [INF, INF]


# Merging


def mixed(rng: np.random.Generator, n: int) -> pa.RecordBatch:
    """Floats of all sizes, integers of 64 bits, times out of order and often equal, nulls."""
    floats = rng.normal(size=n) * 10.0 ** rng.integers(-12, 12, n)
    missing = rng.random(n) < 0.2
    columns = {"v": pa.array(floats, mask=missing), "n": pa.array(rng.integers(LEAST, GREATEST, n), mask=missing)}
    return pa.record_batch({"ts": pa.array(rng.integers(0, 5, n), TIMESTAMP), "arrival": pa.array(np.arange(n)), **columns})


ALL = [Count(), *(kind(column) for column in ("v", "n") for kind in (Count, Sum, Mean, Min, Max, First, Last))]


def by_definition(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Every aggregate of some tuples, the float ones exact."""
    expected: dict[str, Any] = {"count": len(rows)}
    for column in ("v", "n"):
        having = sorted((row for row in rows if row[column] is not None), key=lambda row: (row["ts"], row["arrival"]))
        values = [row[column] for row in having]
        exact = sum(map(Fraction, values), Fraction(0))
        total = (exact if column == "v" else int(exact) if LEAST <= exact <= GREATEST else None) if values else None
        expected |= {f"count_{column}": len(values), f"sum_{column}": total, f"mean_{column}": exact / len(values) if values else None}
        expected |= {f"min_{column}": min(values, default=None), f"max_{column}": max(values, default=None)}
        expected |= {f"first_{column}": values[0] if values else None, f"last_{column}": values[-1] if values else None}
    return expected


def assert_lowered(layout: Layout, partials: Sequence[Any], row: int, tuples: list[dict[str, Any]]) -> None:
    """A partial is what it should be: float sums to 1e-12 of the sum of absolute values, all else to the bit."""
    found = {field.name: column[row].as_py() for field, column in zip(layout.outputs, layout.lower(partials), strict=True)}
    for name, value in by_definition(tuples).items():
        if isinstance(value, Fraction):
            size = sum(abs(Fraction(t[name[-1]])) for t in tuples if t[name[-1]] is not None)
            assert abs(Fraction(found[name]) - value) <= size * Fraction(1, 10**12), name
        else:
            assert found[name] == value, name


@pytest.mark.parametrize("seed", range(20))
def test_any_grouping_and_order_of_merging_gives_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, cells = int(rng.integers(1, 60)), int(rng.integers(1, 12))
    batch = mixed(rng, n)
    layout = Layout(ALL, batch.schema)
    partials = layout.lift(rng.integers(0, cells, n), cells, batch)
    order = rng.permutation(cells)
    partials = [column[order] for column in partials]
    cuts = np.sort(rng.integers(0, cells + 1, 3))
    bounds = np.array([0, *cuts, cells])
    thirds = layout.reduce(partials, bounds[:-1], bounds[1:])
    merged = layout.reduce(thirds, np.array([0]), np.array([len(bounds) - 1]))
    rows = batch.set_column(0, "ts", batch.column("ts").cast(pa.int64())).to_pylist()
    assert_lowered(layout, merged, 0, rows)


@pytest.mark.parametrize("block", [2, 3, 16])
def test_ranges_that_overlap_much_share_blocks_and_change_nothing(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(block)
    batch = mixed(rng, 700)
    rows = batch.set_column(0, "ts", batch.column("ts").cast(pa.int64())).to_pylist()
    layout = Layout(ALL, batch.schema)
    partials = layout.lift(np.arange(700), 700, batch)
    monkeypatch.setattr(layouts, "_BLOCK", block)
    lo = rng.integers(0, 700, 3000)
    hi = np.minimum(lo + rng.integers(0, 500, 3000), 700)
    assert (hi - lo).sum() > block * 3700, "else nothing is shared"
    reduced = layout.reduce(partials, lo, hi)
    for row in range(0, 3000, 150):
        assert_lowered(layout, reduced, row, rows[lo[row] : hi[row]])


def test_an_empty_range_is_neutral() -> None:
    batch = mixed(np.random.default_rng(1), 5)
    layout = Layout(ALL, batch.schema)
    partials = layout.lift(np.arange(5), 5, batch)
    neutral = layout.reduce(partials, np.array([3]), np.array([3]))
    assert_lowered(layout, neutral, 0, [])
    both = [np.concatenate(columns) for columns in zip(neutral, partials, neutral, strict=True)]
    merged = layout.reduce(both, np.array([0]), np.array([7]))
    assert [column.tolist() for column in merged] == [column.tolist() for column in layout.reduce(partials, np.array([0]), np.array([5]))]
    nothing = layout.lift(np.array([], np.int64), 0, batch.slice(0, 0))
    assert [column.tolist() for column in layout.reduce(nothing, np.array([0]), np.array([0]))] == [column.tolist() for column in neutral]
