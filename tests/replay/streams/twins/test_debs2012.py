"""The manufacturing equipment: columns, intervals, gaps of all sizes, glued lines and jumps, measured on lines split at tabs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from replay.streams.twins import twin
from tests.replay.streams.twins.making import quantile, text_of

TIME = re.compile(r"2012-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}\+00:00")


@dataclass(frozen=True)
class Record:
    ts: int
    """In 100 ns."""
    fields: list[str]


def parse(fields: list[str]) -> Record:
    assert TIME.fullmatch(fields[0])
    whole = datetime.fromisoformat(fields[0][:19]).replace(tzinfo=UTC)
    return Record(int(whole.timestamp()) * 10_000_000 + int(fields[0][20:27]), fields)


def records_of(lines: list[str]) -> list[Record]:
    records = []
    for line in lines:
        fields = line.split("\t")
        while len(fields) > 56:  # the 56th is one digit, and the next record's time is glued to it
            records.append(parse([*fields[:55], fields[55][0]]))
            fields = [fields[55][1:], *fields[56:]]
        records.append(parse(fields))
    return records


@pytest.fixture(scope="module")
def lines() -> list[str]:
    *lines, rest = text_of("debs2012", 300_000).split("\r\n")
    assert rest == ""
    return lines


@pytest.fixture(scope="module")
def records(lines: list[str]) -> list[Record]:
    return records_of(lines)


@pytest.fixture(scope="module")
def intervals_ms(records: list[Record]) -> list[float]:
    return [(b.ts - a.ts) / 10_000 for a, b in zip(records, records[1:], strict=False)]


def test_a_record_has_56_columns_as_the_original(records: list[Record]) -> None:
    for number, record in enumerate(records):
        assert len(record.fields) == 56
        assert int(record.fields[1]) == 2_556_001 + number
        assert all(len(field) == 4 and field.isdigit() for field in record.fields[5:12])
        assert all(field in ("0", "1") for field in record.fields[12:])
    assert records[0].fields[0].startswith("2012-02-22T16:46:28.9")
    assert all(len({record.fields[column] for record in records}) == 2 for column in range(12, 18))


def test_some_lines_hold_two_records(lines: list[str], records: list[Record]) -> None:
    glued = [line for line in lines if line.count("\t") != 55]
    assert len(lines) + len(glued) == len(records) == 300_000
    assert {line.count("\t") for line in glued} == {110}
    assert 0.0001 < len(glued) / len(records) < 0.0004


def test_intervals_lie_around_10_ms_as_in_the_original(intervals_ms: list[float]) -> None:
    #   share of intervals up to    1 %     5 %      25 %     75 %     95 %     99 %
    #   original, ms                9.883   9.9683   9.9958   10.0041  10.0335  10.12
    within = [interval for interval in intervals_ms if 0 < interval < 40]
    for share, original, tolerance in ((0.01, 9.883, 0.1), (0.05, 9.9683, 0.01), (0.25, 9.9958, 0.002), (0.5, 10.0002, 0.0005)):
        assert abs(quantile(within, share) - original) < tolerance
    for share, original, tolerance in ((0.75, 10.0041, 0.002), (0.95, 10.0335, 0.01), (0.99, 10.12, 0.1)):
        assert abs(quantile(within, share) - original) < tolerance
    late = sum(19.9 < interval < 24 for interval in within) / len(within)
    assert 0.002 < late < 0.004  # 0.27 % in the original
    assert sum(2 <= interval <= 24 for interval in within) > 0.999 * len(within)


def test_clusters_are_separated_by_gaps_of_seconds_minutes_and_hours(intervals_ms: list[float]) -> None:
    #   ####### ########    #####      ############                                #######
    #          s        min      min              hours: gaps are nine tenths of the time, in a few intervals
    gaps = [interval / 1000 for interval in intervals_ms if interval > 300]
    assert 20 < sum(0.3 < gap < 10 for gap in gaps) < 60
    assert 2 <= sum(20 < gap < 600 for gap in gaps) <= 8
    hours = [gap for gap in gaps if gap > 3600]
    assert len(gaps) < 100
    assert len(hours) <= 1
    assert sum(gaps) > 0.2 * sum(intervals_ms) / 1000
    assert len({round(gap, 3) for gap in gaps}) == len(gaps)


def test_the_original_number_of_tuples_ends_on_20_march() -> None:
    made = twin("debs2012", tuples=32_390_000)
    *_, last = made.blocks(made.parts[-1])
    assert last.rstrip().rpartition(b"\n")[2].startswith(b"2012-03-20T")


def test_some_times_repeat_or_go_back(intervals_ms: list[float]) -> None:
    n = len(intervals_ms)
    assert 0.0001 < sum(interval == 0 for interval in intervals_ms) / n < 0.0004
    assert 0.0001 < sum(interval < 0 for interval in intervals_ms) / n < 0.0004
    assert min(intervals_ms) > -50


def test_mf01_jumps_and_the_other_phases_do_not(records: list[Record]) -> None:
    for column, jumps in ((2, True), (3, False), (4, False)):
        values = [int(record.fields[column]) for record in records]
        steps = [abs(b - a) for a, b in zip(values, values[1:], strict=False)]
        assert quantile([float(step) for step in steps], 0.5) <= 3  # the grain of the sensor
        large = sum(step > 500 for step in steps)
        assert 100 < large < 500 if jumps else large == 0  # one in 700 records, where the level is a new one
    assert len({int(record.fields[2]) // 1000 for record in records}) >= 4


def test_a_valve_follows_the_additive_half_a_second_later(records: list[Record]) -> None:
    #   bm05  ____|~~~~~~~|_____
    #   bm08  ______|~~~~~~~|___     50 records later
    for chemical in range(3):
        sensed, valve = ([record.fields[12 + chemical + 3 * kind] for record in records] for kind in (0, 1))
        assert sensed[:-50] == valve[50:]
        assert 0.1 < sensed.count("1") / len(sensed) < 0.3
