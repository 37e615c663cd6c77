"""The football match: rates, gaps, pauses, outages and motion, measured on lines split at commas."""

from __future__ import annotations

from collections import defaultdict
from math import dist, hypot
from statistics import median

import pytest

from replay.streams.twins import twin
from tests.replay.streams.twins.making import text_of

BALLS = {4, 8, 10, 12}
SECOND = 10**12


def rows_of(text: str) -> list[list[int]]:
    return [[int(field) for field in line.split(",")] for line in text.splitlines()]


@pytest.fixture(scope="module")
def few() -> list[list[int]]:
    return rows_of(text_of("debs2013", 300_000))


@pytest.fixture(scope="module")
def field() -> list[list[int]]:
    return rows_of(text_of("debs2013", 400_000, sensors="all"))


def by_sensor(rows: list[list[int]]) -> dict[int, list[list[int]]]:
    found = defaultdict(list)
    for row in rows:
        found[row[0]].append(row)
    return found


def intervals(rows: list[list[int]]) -> list[int]:
    return [b[1] - a[1] for a, b in zip(rows, rows[1:], strict=False)]


def test_every_line_is_thirteen_integers_and_time_always_rises(field: list[list[int]], few: list[list[int]]) -> None:
    assert min(intervals(few)) > 0
    assert {len(row) for row in field} == {13}
    assert min(intervals(field)) > 0
    assert 10_629_342_490_369_879 <= field[0][1] < 10_629_342_490_369_879 + SECOND
    assert {len(str(row[1])) for row in field} == {17}


def test_the_whole_field_has_some_13000_records_a_second(field: list[list[int]]) -> None:
    sensors = set(by_sensor(field))
    assert sensors >= BALLS
    assert len(sensors & {97, 98, 99, 100, 105, 106}) >= 5  # gloves and referee, of whom one may be out
    # 15,600 a second while there are records, and gaps of 2 s in every 12 s.
    seconds = (field[-1][1] - field[0][1]) / SECOND
    assert 11_500 < len(field) / seconds < 14_500


def test_balls_tick_every_511_996_ns_and_shoes_206_times_a_second(field: list[list[int]]) -> None:
    for sensor, rows in by_sensor(field).items():
        gaps = intervals(rows)
        if sensor in BALLS:
            assert 511_994_000 <= median(gaps) <= 511_998_000
            assert sum(511_990_000 <= gap <= 512_002_000 for gap in gaps) > 0.999 * len(gaps)  # the histogram of the original
        else:
            assert 204 < SECOND / median(gaps) < 208


def test_gaps_of_all_sensors_come_five_times_a_minute(few: list[list[int]]) -> None:
    #   records   ####--########--###-----######      a gap is 1 to 3 s without any record; what is longer is a pause
    gaps = [gap for gap in intervals(few) if SECOND <= gap < 3 * SECOND]
    minutes = (few[-1][1] - few[0][1]) / (60 * SECOND)
    assert minutes > 2
    assert abs(len(gaps) - 5 * minutes) <= 1  # one more or less at the ends
    assert len({gap // (SECOND // 100) for gap in gaps}) > len(gaps) / 2  # of all lengths
    sessions = intervals([row for row, gap in zip(few[1:], intervals(few), strict=True) if gap >= SECOND])
    assert min(sessions) < 9 * SECOND < 15 * SECOND < max(sessions)


def test_without_gaps_no_second_is_silent() -> None:
    rows = rows_of(text_of("debs2013", 300_000, gaps=False))
    assert max(intervals(rows)) < SECOND // 100


def test_sensors_drop_out_for_moments_and_one_for_a_minute(field: list[list[int]]) -> None:
    #   a ball    ||||||||||||    ||||||||||     out for tens to hundreds of milliseconds
    #   a shoe    |  |  |  |                     out for all five stretches of a minute: 41 of 42 sensors are there
    sensors = by_sensor(field)
    moments = [gap for ball in BALLS for gap in intervals(sensors[ball]) if SECOND // 100 < gap < SECOND]
    assert 3 <= len(moments) <= 8  # two in each of 2.6 stretches
    assert len(sensors) == 41
    made = twin("debs2013", tuples=1_000_000, sensors="all")
    assert len({line.split(b",", 1)[0] for block in made.blocks(made.parts[0]) for line in block.splitlines()}) == 42


def test_half_time_lasts_as_long_as_in_the_match() -> None:
    #   stretches   0..9 | 10 .. 157       |          | 158 .. 303
    #                    kick-off      ... pause ...  second half, known to the picosecond
    made = twin("debs2013", tuples=8_000_000, sensors="few")
    part = made.parts[4]
    times = [int(line.split(",")[1]) for block in made.blocks(part) for line in block.decode().splitlines()]
    gap, after = max((b - a, b) for a, b in zip(times, times[1:], strict=False))
    assert 525 * SECOND < gap < 535 * SECOND
    assert 0 <= after - 13_086_639_146_403_495 < SECOND


def test_the_game_is_interrupted_once_in_the_first_half() -> None:
    made = twin("debs2013", tuples=8_000_000, sensors="few")
    longest = []
    for part in made.parts[:4]:
        times = [int(line.split(",", 2)[1]) for block in made.blocks(part) for line in block.decode().splitlines()]
        longest += [b - a for a, b in zip(times, times[1:], strict=False) if b - a > 20 * SECOND]
    assert len(longest) == 1
    assert 28 * SECOND < longest[0] < 31 * SECOND


def test_speed_and_direction_are_those_of_the_way(few: list[list[int]]) -> None:
    rows = [row for row in few if row[0] == 4]
    steps = [(a, b) for a, b in zip(rows, rows[20:], strict=False) if b[1] - a[1] < SECOND // 50]
    off = []
    for a, b in steps[::500]:
        way_mm, seconds = dist(a[2:5], b[2:5]), (b[1] - a[1]) / SECOND
        off.append(abs(way_mm / seconds - (a[5] + b[5]) / 2000))  # |v| is in um/s
    # Over 10 ms, with places in whole millimetres: half a millimetre at each end is 0.1 m/s; the ball does some 7 m/s.
    assert median(off) < 150
    for row in rows[::1000]:
        assert abs(hypot(*row[7:10]) - 10_000) < 3
        assert abs(hypot(*row[10:13]) - 10_000) < 3


def test_shoes_are_as_fast_as_in_the_sample_and_places_may_be_off_the_field(field: list[list[int]]) -> None:
    shoes = [row for row in field if row[0] not in BALLS]
    assert 0.5e6 < median(row[5] for row in shoes) < 1.5e6  # 0.84 m/s in the original
    assert 3e6 < median(row[6] for row in shoes) < 10e6  # 5.7 m/s^2
    assert any(not (0 <= row[2] <= 52_483 and -33_960 <= row[3] <= 33_965) for row in field)
    assert all(abs(row[2]) < 80_000 and abs(row[3]) < 60_000 for row in field)
