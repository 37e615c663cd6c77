"""Disorder: seeded by arrival, measured as the papers do."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from engines.contract import TIMESTAMP
from engines.spec import SpecError
from replay.disorder import Delays, disordered, measure


def ordered(n: int, step_us: int = 1000) -> pa.Table:
    return pa.table({"ts": pa.array(np.arange(n) * step_us, TIMESTAMP), "v": np.arange(n)})


@pytest.mark.parametrize(("kind", "mean", "deviation"), [("uniform", 1e6, 2e6 / 12**0.5), ("exponential", 2e6, 2e6), ("gaussian", 0, 2e6)])
def test_delays_have_the_distribution_that_was_asked_for(kind: str, mean: float, deviation: float) -> None:
    drawn = Delays(fraction=1, kind=kind, scale_us=2_000_000, seed=5).draw(np.arange(200_000))  # type: ignore[arg-type]
    assert abs(drawn.mean() - mean) < 0.01 * deviation + 0.01 * abs(mean)
    assert abs(drawn.std() - deviation) < 0.01 * deviation


def test_a_fraction_is_delayed_and_another_seed_chooses_others() -> None:
    first, second = (Delays(seed=seed).draw(np.arange(100_000)) for seed in (1, 2))
    assert abs((first > 0).mean() - 0.2) < 0.01
    assert ((first > 0) != (second > 0)).mean() > 0.3


def test_tuples_come_in_order_of_arrived_and_none_is_lost() -> None:
    table = disordered(ordered(10_000), Delays())
    arrived = table["arrived"].to_numpy()
    assert (np.diff(arrived) >= 0).all()
    assert (arrived >= table["ts"].combine_chunks().view(pa.int64()).to_numpy()).all()
    assert sorted(table["v"].to_pylist()) == list(range(10_000))


def test_measures_agree_with_all_pairs() -> None:
    table = disordered(ordered(300), Delays(fraction=0.5, scale_us=40_000))
    ts = table["ts"].combine_chunks().view(pa.int64()).to_pylist()
    found = measure(table)
    pairs = [(i, j) for i in range(len(ts)) for j in range(i + 1, len(ts))]
    assert found.inversion_rate == sum(ts[i] > ts[j] for i, j in pairs) / len(pairs)
    assert found.out_of_order == sum(t < max(ts[: i + 1]) for i, t in enumerate(ts)) / len(ts)
    assert found.largest_delay_us == max(max(ts[: i + 1]) - t for i, t in enumerate(ts))


def test_an_ordered_stream_has_none() -> None:
    assert measure(ordered(1000)).inversion_rate == measure(ordered(1000)).out_of_order == 0
    assert measure(ordered(1)).inversion_rate == 0


def test_events_that_last_are_disordered_by_their_end() -> None:
    ends = pa.table({"start": pa.array([0, 1, 2], TIMESTAMP), "end": pa.array([9, 5, 7], TIMESTAMP)})
    assert measure(ends).largest_delay_us == 4
    assert disordered(ends, Delays(fraction=0))["arrived"].to_pylist() == [5, 7, 9]


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (pa.table({"v": [1]}), r"ts: the stream has no such column; there are v\."),
        (pa.table({"ts": ["noon"]}), r"ts: the column is string; allowed is timestamp\[us, tz=UTC\]\."),
        (
            pa.Table.from_arrays([pa.array([1], TIMESTAMP)] * 2, names=["ts", "ts"]),
            r"columns: 'ts' given 2 times; allowed is a name for each\.",
        ),
    ],
    ids=["no time", "text", "twice"],
)
def test_what_has_no_times_cannot_be_disordered(table: pa.Table, sentence: str) -> None:
    with pytest.raises(SpecError, match=f"^{sentence}$"):
        measure(table)
    with pytest.raises(SpecError, match=f"^{sentence}$"):
        disordered(table, Delays())


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"fraction": 1.5}, "fraction: 1.5 given; allowed is a share from 0 to 1."),
        ({"scale_us": -1}, "scale_us: -1 given"),
        ({"kind": "x"}, "kind: 'x' given"),
        ({"seed": -1}, "seed: -1 given; allowed is a whole number from 0 to 18446744073709551615."),
    ],
)
def test_impossible_delays_are_refused(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        Delays(**wrong)  # type: ignore[arg-type]
