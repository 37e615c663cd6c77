"""The telephony events: rate, durations, order of arrival and fields, measured on lines split at commas."""

from __future__ import annotations

from datetime import datetime
from itertools import accumulate

import pytest

from replay.streams.twins import twin
from tests.replay.streams.twins.making import quantile, text_of


def events_of(text: str) -> tuple[list[str], list[tuple[int, int]]]:
    """The header, and start and stop in microseconds."""
    header, *lines = text.splitlines()
    epoch = datetime.fromisoformat("2020-01-01T00:00:00+00:00")

    def us(field: str) -> int:
        since = datetime.fromisoformat(field) - epoch
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds

    return header.split(","), [(us(start), us(stop)) for start, stop in (line.split(",", 2)[:2] for line in lines)]


@pytest.fixture(scope="module")
def events() -> list[tuple[int, int]]:
    return events_of(text_of("ss7", 200_000))[1]


def test_events_last_16_seconds_on_average_and_up_to_hours(events: list[tuple[int, int]]) -> None:
    seconds = [(stop - start) / 1e6 for start, stop in events]
    assert min(seconds) > 0
    # The deviation is about 90 s, so the mean of 200,000 is good to 0.2 s; three of them are allowed.
    assert abs(sum(seconds) / len(seconds) - 16) < 0.6
    assert quantile(seconds, 0.5) < 6
    assert 3_600 < max(seconds) <= 9_000
    assert 0.0005 < sum(s > 600 for s in seconds) / len(seconds) < 0.0015


def test_lines_are_in_the_order_of_stop_but_for_the_share_that_is_late(events: list[tuple[int, int]]) -> None:
    #   stop    1 2 3 4 2' 5 6 7 5' 8        2' and 5' were written up to two seconds after they stopped
    stops = [stop for _, stop in events]
    clock = list(accumulate(stops, max))
    behind = [now - stop for now, stop in zip(clock, stops, strict=True)]
    assert 0.018 < sum(delay > 0 for delay in behind) / len(behind) < 0.022
    assert 1_800_000 < max(behind) < 2_100_000  # two seconds, and what lies between two events


def test_the_share_of_disorder_can_be_set() -> None:
    for share in (0.0, 0.5):
        stops = [stop for _, stop in events_of(text_of("ss7", 50_000, disordered=share))[1]]
        late = sum(stop < now for now, stop in zip(accumulate(stops, max), stops, strict=True)) / len(stops)
        assert abs(late - share) < 0.02


def test_small_twins_take_ten_minutes_and_full_ones_have_3_2_million_a_minute(events: list[tuple[int, int]]) -> None:
    assert 590 < (max(stop for _, stop in events) - events[0][1]) / 1e6 < 610
    made = twin("ss7", tuples=3_200_000, disordered=0.0)
    last = made.parts[-1]
    *_, block = made.blocks(last)
    end = block.decode().splitlines()[-1].split(",")[1]
    assert "2020-03-02T08:00:59.999" < end < "2020-03-02T08:01:00.000001Z"


def test_one_event_per_chronon_with_normal_durations_in_the_synthetic_variant() -> None:
    #   chronons   0   1   2   3            an event stops at each of them
    #            |-----|
    #        |-----------|
    events = events_of(text_of("ss7", 50_000, variant="synthetic", mean=120))[1]
    assert {b[1] - a[1] for a, b in zip(events, events[1:], strict=False)} == {1_000}
    chronons = [(stop - start) / 1_000 for start, stop in events]
    mean = sum(chronons) / len(chronons)
    deviation = (sum((c - mean) ** 2 for c in chronons) / len(chronons)) ** 0.5
    assert abs(mean - 120) < 0.2  # four times 10 over the root of 50,000
    assert abs(deviation - 10) < 0.2
    within = sum(abs(c - 120) <= 10 for c in chronons) / len(chronons)
    assert 0.66 < within < 0.73  # 0.706 for whole numbers


def test_a_short_mean_never_gives_an_event_without_length() -> None:
    events = events_of(text_of("ss7", 5_000, variant="synthetic", mean=5))[1]
    assert min(stop - start for start, stop in events) == 1_000


@pytest.mark.parametrize("fields", [2, 12, 119])
def test_events_have_as_many_fields_as_asked_for(fields: int) -> None:
    header, *lines = text_of("ss7", 2_000, fields=fields).splitlines()
    assert header.split(",")[:2] == ["start", "stop"]
    assert len(set(header.split(","))) == fields
    assert {line.count(",") for line in lines} == {fields - 1}
    assert all(field == "" or field.isdigit() for line in lines for field in line.split(",")[2:])
