"""Where windows begin and end, and where time is cut: floor division against going through every microsecond."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest

from engines.contract import BEGINNING, FOREVER
from engines.slicing.spec import Sliding, Tumbling
from engines.slicing.windows import Shape, Slicing, shape_of

SHAPES = {
    "tumbling": [Shape(5, 5, 0)],
    "offset": [Shape(5, 5, 3)],
    "one grid": [Shape(12, 4, 1)],
    "two grids": [Shape(10, 3, 0)],
    "gaps": [Shape(3, 8, 2)],
    "gaps, closed by another": [Shape(3, 8, 2), Shape(7, 7, 0)],
    "gaps twice": [Shape(1, 6, 2), Shape(2, 9, 0)],
    "on a finer grid": [Shape(6, 6, 0), Shape(2, 2, 0), Shape(10, 4, 2)],
    "many": [Shape(length, length, 0) for length in range(2, 12)],
    "every microsecond": [Shape(7, 1, 0)],
}
every_shape = pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)


def windows_at(shapes: Sequence[Shape], t: int) -> list[tuple[int, int]]:
    """The windows that hold an instant, by looking at all near it."""
    starts = ((s.offset + k * s.slide, s.length) for s in shapes for k in range((t - s.length) // s.slide - 1, t // s.slide + 1))
    return [(start, start + length) for start, length in starts if start <= t < start + length]


def cut(shapes: Sequence[Shape], ts: np.ndarray) -> list[int | None]:
    """The start of each tuple's slice, None in no window."""
    found = Slicing(shapes).cut(ts)
    slices = np.zeros(len(ts), np.int32)
    found.place(ts, slices, 0)
    assert (np.diff(found.starts) > 0).all()
    return [None if place < 0 else int(found.starts[place]) for place in slices]


@every_shape
@pytest.mark.parametrize("copies", [1, 100], ids=["fewer tuples than edges", "more tuples than edges"])
def test_slices_are_the_longest_stretches_without_an_edge(shapes: Sequence[Shape], copies: int) -> None:
    reach = 3000 if copies == 1 else 300
    ts = np.random.default_rng(0).permutation(np.repeat(np.arange(-reach, reach, 1 if copies > 1 else 5), copies))
    starts = dict(zip(ts.tolist(), cut(shapes, ts), strict=True))
    edges = {edge for t in range(-reach - 30, reach) for window in windows_at(shapes, t) for edge in window}
    for t in starts:
        assert starts[t] == (max(edge for edge in range(t - 20, t + 1) if edge in edges) if windows_at(shapes, t) else None)


@every_shape
def test_few_tuples_far_apart_are_cut_like_many(shapes: Sequence[Shape]) -> None:
    far = 10 * 365 * 86_400_000_000
    ts = np.array([3, far, -far, far + 1, 4, 0, -1, 2 * far, far])
    assert cut(shapes, ts) == [cut(shapes, ts[i : i + 1])[0] for i in range(len(ts))]


def test_memory_follows_tuples_and_not_time() -> None:
    ts = np.array([0, 10 * 365 * 86_400_000_000])
    slicing = Slicing([Shape(1, 1, 0), Shape(10, 3, 0)])
    tracemalloc.start()
    slicing.cut(ts)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_no_tuples_have_no_slices() -> None:
    found = Slicing([Shape(10, 3, 0)]).cut(np.array([], np.int64))
    found.place(np.array([], np.int64), np.array([], np.int32), 0)
    assert len(found.starts) == 0


def test_equal_windows_have_one_shape() -> None:
    assert shape_of(Tumbling("10s")) == shape_of(Sliding("10s", "10s")) == shape_of(Tumbling("10s", offset="-30s"))
    assert shape_of(Sliding("10s", "3s", offset="4s")) == shape_of(Sliding("10s", "3s", offset="-2s"))


@every_shape
def test_windows_are_found_by_when_they_are_decided(shapes: Sequence[Shape]) -> None:
    for shape in shapes:
        for instant in range(-40, 40):
            first = shape.first_decided_from(instant)
            decided = [shape.offset + k * shape.slide + shape.length - 1 for k in (first - 1, first)]
            assert decided[0] < instant <= decided[1]


@pytest.mark.parametrize("shape", [Shape(2**61, 2**61, 2**61 - 1), Shape(1, 1, 0), Shape(2**61, 2**42, 5)])
def test_the_ends_of_time_fit_in_64_bits(shape: Shape) -> None:
    for instant in (BEGINNING, FOREVER):
        first = shape.first_decided_from(instant)
        assert all(abs(shape.offset + k * shape.slide + edge) < 2**63 for k in (first - 1, first) for edge in (0, shape.length))


@every_shape
def test_a_slice_is_needed_while_its_last_window_is_open(shapes: Sequence[Shape]) -> None:
    starts = np.array(sorted({start for start in cut(shapes, np.arange(-50, 50)) if start is not None}))
    for instant in range(-60, 60, 7):
        for shape in shapes:
            expected = [any(end - 1 >= instant for _, end in windows_at([shape], int(start))) for start in starts]
            assert shape.needed(starts, instant).tolist() == expected
