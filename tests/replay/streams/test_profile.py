"""The profile of a stream, counted again the long way."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engines.contract import TIMESTAMP
from replay.lake import Lake
from replay.log_writer import append
from replay.streams import profile as module
from replay.streams.profile import BINS, POWERS, Profile, profile
from replay.streams.tasks import InProcess

SECOND = 1_000_000


def stream() -> pa.Table:
    """Two keys, a silence of an hour, a tuple that is late by 30 s, values that are missing.

    s     0 1 2 3 ...        299 |      an hour      | 3900 ...  4199
                 ^ 30 s late                            every second, keys in turn
    """
    seconds = np.concatenate((np.arange(300), np.arange(3900, 4200)))
    ts = seconds * SECOND
    ts[100] -= 30 * SECOND
    values = [None if i % 4 == 0 else float(i) for i in range(600)]
    return pa.table({"ts": pa.array(ts).view(TIMESTAMP), "key": pa.array(["a", "b"] * 300), "v": pa.array(values), "w": np.arange(600)})


@pytest.fixture(params=[50, 600])
def found(lake: Lake, request: pytest.FixtureRequest) -> Profile:
    append(lake, "s", stream(), file_rows=request.param)
    return profile(lake, "s", InProcess())


def test_tuples_are_counted_by_event_time(found: Profile) -> None:
    ts = stream()["ts"].cast(pa.int64()).to_numpy()
    assert len(found.counts) == BINS
    edges = found.begin_us + found.bin_us * np.arange(BINS + 1)
    assert found.counts == np.histogram(ts, edges)[0].tolist()
    assert (found.tuples, found.keys) == (600, 2)


def test_the_share_that_is_missing_is_told_by_column(found: Profile) -> None:
    assert found.missing == {"ts": 0.0, "key": 0.0, "v": 0.25, "w": 0.0}


def test_silences_are_found_across_files(found: Profile) -> None:
    assert found.longest[0] == (299 * SECOND, 3601 * SECOND)
    assert {length for _, length in found.longest[1:]} == {2 * SECOND, SECOND}


def test_gaps_and_delays_are_counted_by_powers_of_two(found: Profile) -> None:
    ts = stream()["ts"].cast(pa.int64()).to_numpy()
    clock = np.maximum.accumulate(ts)
    for counted, values in ((found.gaps, np.diff(clock, prepend=clock[0])), (found.delays, clock - ts)):
        for place, count in enumerate(counted):
            low, high = (0, 1) if place == 0 else (2 ** (place - 1), 2**place)
            assert count == sum(low <= value < high for value in values.tolist())
    assert found.out_of_order == pytest.approx(1 / 600)
    assert found.largest_delay_us == 29 * SECOND  # the clock stood at 99 s


@pytest.mark.parametrize("file_rows", [1, 7, 50, 600])
def test_intervals_are_those_of_a_key_in_whatever_file_its_tuples_are(lake: Lake, file_rows: int) -> None:
    append(lake, "s", stream().sort_by("ts"), file_rows=file_rows)
    expected = [0] * POWERS
    for key in set(stream()["key"].to_pylist()):
        times = sorted(stream().filter(pc.field("key") == key)["ts"].cast(pa.int64()).to_pylist())
        for earlier, later in pairwise(times):
            expected[(later - earlier).bit_length()] += 1
    assert profile(lake, "s", InProcess()).intervals == expected


def test_a_late_tuple_at_the_beginning_of_a_file_is_no_silence(lake: Lake) -> None:
    times = [0, 1, 2, 3, 4, 5, 1, 6, 7, 8]
    append(lake, "s", pa.table({"ts": pa.array([t * SECOND for t in times], TIMESTAMP)}), file_rows=6)
    assert profile(lake, "s", InProcess()).intervals[SECOND.bit_length() + 1 :] == [0] * (POWERS - SECOND.bit_length() - 1)


def test_the_inversion_rate_is_left_out_where_it_would_take_too_much_memory(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    append(lake, "s", stream())
    assert profile(lake, "s", InProcess()).inversion_rate == pytest.approx(30 / (600 * 599 / 2), rel=0.1)
    monkeypatch.setattr(module, "ORDER_ROWS", 100)
    assert profile(lake, "s", InProcess()).inversion_rate is None


def test_where_files_have_too_many_keys_to_hold_them_all_their_number_is_left_out(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    append(lake, "s", stream(), file_rows=50)
    assert profile(lake, "s", InProcess()).keys == 2
    monkeypatch.setattr(module, "MOST_EDGES", 23)  # of twelve files: one key of each
    found = profile(lake, "s", InProcess())
    assert found.keys is None and sum(found.intervals) > 500  # those within a file are counted
