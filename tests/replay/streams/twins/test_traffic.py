"""The loop detectors: the clock, missing intervals, rush hours, congestion and quality flags, measured on lines split at commas."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from zoneinfo import ZoneInfo

import pytest

from tests.replay.streams.twins.making import text_of

ZONE = ZoneInfo("America/Los_Angeles")
HEADER = "detectorid,starttime,volume,speed,occupancy,status,dqflags"


@dataclass(frozen=True)
class Row:
    detector: int
    local: str
    at: datetime
    volume: int | None
    speed: int | None
    occupancy: int | None
    status: int
    flags: int


def number(field: str) -> int | None:
    return int(field) if field else None


def rows_of(text: str) -> list[Row]:
    rows = []
    for line in text.splitlines():
        if line != HEADER:
            detector, local, volume, speed, occupancy, status, flags = line.split(",")
            at = datetime.fromisoformat(local + ":00").astimezone(UTC)
            rows.append(Row(int(detector), local, at, number(volume), number(speed), number(occupancy), int(status), int(flags)))
    return rows


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return rows_of(text_of("traffic", 200_000))


def of_detectors(rows: list[Row]) -> list[list[Row]]:
    return [list(group) for _, group in groupby(rows, lambda row: row.detector)]


def test_every_file_begins_with_the_header() -> None:
    assert text_of("traffic", 1).startswith(f"{HEADER}\n1345,2011-09-15 00:00:00-07,")


def test_rows_are_grouped_by_detector_and_rise_in_steps_of_20_seconds(rows: list[Row]) -> None:
    detectors = of_detectors(rows)
    assert [group[0].detector for group in detectors] == sorted({row.detector for row in rows})
    assert len(detectors) == 4
    for group in detectors:
        steps = {(b.at - a.at).total_seconds() for a, b in zip(group, group[1:], strict=False)}
        assert min(steps) == 20
        assert all(step % 20 == 0 for step in steps)
        assert group[0].at == datetime(2011, 9, 15, 7, tzinfo=UTC)
        assert group[-1].at - group[0].at > timedelta(days=11)


def test_intervals_are_missing_alone_and_together(rows: list[Row]) -> None:
    #   20 s   | | | |   | | | | | .......... | | |
    missing = [(b.at - a.at) // timedelta(seconds=20) - 1 for group in of_detectors(rows) for a, b in zip(group, group[1:], strict=False)]
    assert 0.004 < sum(missing) / len(rows) < 0.007  # 23 in 4,320
    assert {1, 2, 3, 15} <= set(missing)


def test_speed_is_empty_where_no_vehicle_passed(rows: list[Row]) -> None:
    nothing = [row for row in rows if row.volume is None]
    assert all(row.speed is None and row.occupancy is None for row in nothing)
    assert 0.0005 < len(nothing) / len(rows) < 0.01
    without = [row for row in rows if row.volume == 0]
    assert sum(row.speed is not None for row in without) < 0.01 * len(without)
    assert all(row.speed is not None for row in rows if row.volume)


def test_flags_say_what_is_odd_about_the_values(rows: list[Row]) -> None:
    seen = 0
    for row in rows:
        volume, speed, occupancy = row.volume or 0, -1 if row.speed is None else row.speed, row.occupancy or 0
        odd = [volume > 17, occupancy > 95, speed > 100, 0 <= speed < 5, speed == 0 < volume, speed > 0 == volume, occupancy > 0 == volume]
        assert row.flags == sum(1 << bit for bit, is_so in enumerate(odd) if is_so)
        assert row.status in ({0} if row.flags == 0 and row.volume == 0 else {2, 3} if row.volume is not None else {0, 4, 5})
        seen |= row.flags
    assert seen & (4 | 8 | 16 | 32 | 64) == 4 | 8 | 16 | 32 | 64
    assert sum(row.flags > 0 for row in rows) < 0.02 * len(rows)


def test_workdays_have_rush_hours(rows: list[Row]) -> None:
    by_hour = defaultdict(list)
    for row in rows:
        local = row.at.astimezone(ZONE)
        if local.weekday() < 5 and row.volume is not None:
            by_hour[local.hour].append(row.volume)
    means = {hour: sum(volumes) / len(volumes) for hour, volumes in by_hour.items()}
    assert all(means[hour] > 10 * means[3] for hour in (7, 8, 16, 17))
    assert max(means[hour] for hour in (21, 22, 23)) < 0.5 * means[8]


def runs_under_40(rows: list[Row]) -> list[list[Row]]:
    """Runs of rows under 40 mph, over single rows without speed; ends on a row with one."""
    runs: list[list[Row]] = []
    now: list[Row] = []
    for row in rows:
        broken = bool(now) and row.at - now[-1].at > timedelta(seconds=400)
        if (row.speed is not None and row.speed >= 40) or broken:
            runs, now = [*runs, now] if now else runs, []
        if row.speed is not None and row.speed < 40:
            now.append(row)
    return runs


def test_congestion_lasts_minutes_to_hours_and_holds_single_empty_speeds(rows: list[Row]) -> None:
    #   40 mph  ..........\__ ___ ______/..........   at least 3 minutes: the frames paper's episodes
    lengths, short, inside, pairs, workdays = [], 0, 0, 0, 0
    for group in of_detectors(rows):
        place = {row.at: i for i, row in enumerate(group)}
        workdays += len({row.at.astimezone(ZONE).date() for row in group if row.at.astimezone(ZONE).weekday() < 5})
        for run in runs_under_40(group):
            length = run[-1].at - run[0].at + timedelta(seconds=20)
            if length < timedelta(minutes=3):
                short += 1
                continue
            lengths.append(length)
            empty = [group[i].speed is None for i in range(place[run[0].at], place[run[-1].at] + 1)]
            inside += sum(empty)
            pairs += sum(a and b for a, b in zip(empty, empty[1:], strict=False))
    assert 1 <= len(lengths) / workdays <= 3  # a morning, an evening, now and then an incident
    assert min(lengths) < timedelta(minutes=15)
    assert max(lengths) > timedelta(hours=2)
    assert sum(timedelta(minutes=20) < length < timedelta(hours=2) for length in lengths) / len(lengths) > 0.1
    assert short > len(lengths)  # dips that a minimum duration must leave out
    assert inside > len(lengths)
    assert pairs <= 0.05 * inside  # single ones, but for a detector that says nothing beside one


def test_free_flow_is_noisy_and_around_60_mph(rows: list[Row]) -> None:
    free = [row.speed for row in rows if row.speed is not None and row.volume and 40 <= row.speed <= 100]
    mean = sum(free) / len(free)
    assert 55 < mean < 65
    assert 3 < (sum((speed - mean) ** 2 for speed in free) / len(free)) ** 0.5 < 8


@pytest.mark.parametrize("start", ["2011-11-05", "2012-03-10"])
def test_the_offset_is_that_of_los_angeles_when_clocks_change(start: str) -> None:
    #   November   01:00-07 .. 01:59-07 | 01:00-08 .. 01:59-08 | 02:00-08     an hour twice
    #   March      01:00-08 .. 01:59-08 | 03:00-07                            an hour never
    rows = rows_of(text_of("traffic", 3 * 4297, detectors=1, start=start))
    for row in rows:
        assert row.local == row.at.astimezone(ZONE).strftime("%Y-%m-%d %H:%M:%S%z")[:22]
    sunday = [row.local for row in rows if row.at.astimezone(ZONE).weekday() == 6]
    hours = {(local[11:13], local[-3:]) for local in sunday}
    if start == "2011-11-05":
        assert {("01", "-07"), ("01", "-08")} <= hours
        assert len({local[:19] for local in sunday}) < len(sunday)
    else:
        assert not [hour for hour in hours if hour[0] == "02"]
        assert {("01", "-08"), ("03", "-07")} <= hours


def test_a_spreadsheet_writes_the_same_rows_with_its_own_times() -> None:
    #   2011-09-15 00:00:00-07   ->   9/15/2011 0:00:00
    portal, sheet = (text_of("traffic", 20_000, form=form).splitlines() for form in ("portal", "spreadsheet"))
    assert sheet[1].split(",")[1] == "9/15/2011 0:00:00"
    for a, b in zip(portal[1:], sheet[1:], strict=True):
        detector, local, rest = a.split(",", 2)
        at = datetime.fromisoformat(local[:19])
        assert b == f"{detector},{at.month}/{at.day}/{at.year} {at.hour}:{at:%M:%S},{rest}"


def test_small_twins_have_few_detectors_and_several_days() -> None:
    for tuples, detectors in ((50_000, 2), (300_000, 5)):
        found = of_detectors(rows_of(text_of("traffic", tuples)))
        assert len(found) == detectors
        assert all(group[-1].at - group[0].at > timedelta(days=5) for group in found)
