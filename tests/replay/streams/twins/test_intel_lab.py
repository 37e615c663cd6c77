"""The lab's motes: what is in the lines and what goes wrong with them, measured on lines split at every single space."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from replay.streams.twins import twin
from tests.replay.streams.twins.making import quantile, text_of

ZONE = ZoneInfo("America/Los_Angeles")
START = datetime(2004, 2, 28, 0, 58, 15, tzinfo=ZONE).astimezone(UTC)
MOTES = {str(mote) for mote in range(1, 55)}


@dataclass(frozen=True)
class Line:
    text: str
    fields: list[str]
    at: datetime

    @property
    def mote(self) -> str:
        return self.fields[3] if len(self.fields) > 3 else ""


def lines_of(text: str) -> list[Line]:
    lines = []
    for line in text.splitlines():
        fields = line.split(" ")
        lines.append(
            Line(line, fields, datetime.fromisoformat(f"{fields[0]} {fields[1].ljust(15, '0') if '.' in fields[1] else fields[1]}"))
        )
    return lines


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    return lines_of(text_of("intel_lab", 200_000))


def by_mote(lines: list[Line]) -> dict[str, list[Line]]:
    found = defaultdict(list)
    for line in lines:
        if line.mote in MOTES:
            found[line.mote].append(line)
    return found


def test_a_line_has_eight_fields_with_single_spaces_or_is_cut_short(lines: list[Line]) -> None:
    counts = Counter(len(line.fields) for line in lines)
    assert set(counts) == {3, 4, 5, 6, 7, 8}
    assert 0.001 < 1 - counts[8] / len(lines) < 0.003
    for line in lines:
        assert line.text == line.text.strip() or "" in line.fields
        assert all(field == "" or abs(float(field)) < 70_000 for field in line.fields[2:])


def test_lines_are_grouped_by_mote_and_every_mote_has_days(lines: list[Line]) -> None:
    seen = [line.mote for line in lines if line.mote in MOTES]
    order = [mote for mote, before in zip(seen, ["", *seen], strict=False) if mote != before]
    assert order == [str(mote) for mote in range(1, 16)]  # as many motes as days, and half as many again
    days = [
        (quantile([line.at.timestamp() for line in found], 0.9) - found[0].at.timestamp()) / 86_400 for found in by_mote(lines).values()
    ]
    assert min(days) > 8


def test_all_54_motes_run_for_37_days_at_the_original_size() -> None:
    made = twin("intel_lab", tuples=2_313_000)
    assert next(made.blocks(made.parts[0])).startswith(b"2004-02-28 00:58:1")
    text = b"".join(made.blocks(made.parts[-1])).decode()
    ends = lines_of(text[-5_000:].partition("\n")[2])[-1]
    assert ends.mote == "54"
    assert datetime(2004, 4, 4) < ends.at < datetime(2004, 4, 6)
    # On 4 April the lab's clocks went from 01:59 to 03:00.
    assert [text.count(f"2004-04-04 {hour}:") > 0 for hour in ("01", "02", "03")] == [True, False, True]


def test_intervals_are_about_31_seconds_with_missing_epochs_and_outages(lines: list[Line]) -> None:
    #   epochs   x x x . x x . . x x ............... x x x     the original: median 32 s, nine in ten up to 89 s
    gaps = []
    for found in by_mote(lines).values():
        gaps += [(b.at - a.at).total_seconds() for a, b in zip(found, found[1:], strict=False) if abs(b.at - a.at) < timedelta(days=2)]
    assert 30 < quantile(gaps, 0.5) < 34
    assert 80 < quantile(gaps, 0.9) < 100
    assert 0.005 < sum(gap > 600 for gap in gaps) / len(gaps) < 0.03
    for found in by_mote(lines).values():
        epochs = [(line.at, int(line.fields[2])) for line in found]
        ahead = [at - timedelta(seconds=31 * epoch) for at, epoch in epochs]
        near = sum(abs((a - ahead[0]).total_seconds()) < 5 for a in ahead)
        assert near > 0.8 * len(ahead)  # the epoch counts the time, where the clock is right


def test_rows_are_repeated_and_swapped(lines: list[Line]) -> None:
    pairs = list(zip(lines, lines[1:], strict=False))
    repeated = sum(a.text == b.text for a, b in pairs) / len(lines)
    assert 0.003 < repeated < 0.005
    back = sum(timedelta() < a.at - b.at < timedelta(hours=3) and a.mote == b.mote for a, b in pairs) / len(lines)
    assert 0.001 < back < 0.003


def test_some_clocks_are_a_month_ahead_for_some_hours(lines: list[Line]) -> None:
    #   clock   ------------+               +---------
    #                       +---------------+           31 days later, for four chunks of 80 minutes
    wrong = [line for found in by_mote(lines).values() for line in found if line.at > datetime(2004, 3, 25)]
    assert 0.003 < len(wrong) / len(lines) < 0.03
    assert all(line.at < datetime(2004, 4, 25) for line in wrong)
    for line in wrong:
        expected = START + timedelta(seconds=31 * (int(line.fields[2]) - 2), days=31)
        assert abs((line.at - expected.astimezone(ZONE).replace(tzinfo=None)).total_seconds()) < 5


def test_seconds_have_none_to_six_decimals(lines: list[Line]) -> None:
    decimals = Counter(len(line.fields[1].partition(".")[2]) for line in lines)
    assert set(decimals) == set(range(7))
    assert decimals[6] > 0.85 * len(lines)
    assert not [
        line for line in lines if line.fields[1].endswith((".", "0")) and "." in line.fields[1]
    ]  # as the original: no zero at the end


def test_some_mote_ids_are_garbage(lines: list[Line]) -> None:
    garbage = [line for line in lines if line.mote not in MOTES | {""}]
    assert 0.0003 < len(garbage) / len(lines) < 0.0015
    assert "65407" in {line.mote for line in garbage}
    assert all(line.fields[5:7] == ["", ""] for line in garbage if len(line.fields) == 8)


def test_fields_are_empty_now_and_then_and_light_for_motes_without_that_sensor(lines: list[Line]) -> None:
    full = {mote: [line.fields for line in found if len(line.fields) == 8] for mote, found in by_mote(lines).items()}
    for mote in ("7", "14"):
        assert all(fields[6] == "" for fields in full[mote])
        assert sum(fields[7] != "" for fields in full[mote]) > 0.99 * len(full[mote])
    for column in (4, 5, 6, 7):
        share = sum(fields[column] == "" for fields in full["1"] + full["2"] + full["3"]) / sum(len(full[mote]) for mote in "123")
        assert 0.0003 < share < 0.002


def test_batteries_die_with_122_degrees_and_negative_humidity(lines: list[Line]) -> None:
    #   C   20 ~~~~~~~~~~~~~~~~~~~~~/^^^^^^^^^ 122.153      when the voltage has fallen
    complete = [
        line.fields
        for line in lines
        if len(line.fields) == 8 and line.mote in MOTES and "" not in (line.fields[4], line.fields[5], line.fields[7])
    ]
    outside = [fields for fields in complete if not 0 <= float(fields[4]) <= 50]
    assert 0.1 < len(outside) / len(complete) < 0.3  # 18 % in the original
    stuck = [fields for fields in complete if fields[4] == "122.153"]
    assert len(stuck) > 0.8 * len(outside)
    assert sum(float(fields[5]) < 0 for fields in stuck) > 0.9 * len(stuck)
    assert max(float(fields[7]) for fields in stuck) < 2.5 < quantile([float(fields[7]) for fields in complete], 0.5)
    drifting = [fields for fields in outside if fields[4] != "122.153"]
    assert len({fields[4] for fields in drifting}) > 50


def test_days_are_warmer_and_lighter_than_nights(lines: list[Line]) -> None:
    sane = [
        line
        for line in by_mote(lines)["1"]
        if len(line.fields) == 8 and line.fields[4] and line.fields[6] and 0 < float(line.fields[4]) < 50
    ]
    for column, least in ((4, 2.0), (6, 50.0)):
        day = [float(line.fields[column]) for line in sane if 12 <= line.at.hour < 16]
        night = [float(line.fields[column]) for line in sane if 2 <= line.at.hour < 5]
        assert sum(day) / len(day) > sum(night) / len(night) + least
