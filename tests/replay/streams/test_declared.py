"""The streams of the papers as they are declared: one wrong timestamp is one reject, and does not make late what comes behind it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from replay.streams.declaration import declaration
from tests.replay.streams.harness import Place
from tests.replay.streams.twins.making import text_of

HOUR_US = 3_600_000_000
APART = 40
"""Lines from one wrong one to the next."""


def doubled(text: str, at: int) -> str:
    """A text with one of its characters twice."""
    return text[: at + 1] + text[at:]


def changed(lines: list[str], first: int, wrong: Callable[[str, int], str], times: int) -> list[int]:
    """Make so many lines wrong, each in its own way; their numbers in the file."""
    places = [first + APART * n for n in range(times)]
    for n, place in enumerate(places):
        lines[place] = wrong(lines[place], n)
    return [place + 1 for place in places]


def latest_us(place: Place, stream: str, moves: str) -> int:
    """By how much the latest tuple is behind the clock."""
    return max(row["clock"] - row[moves] for row in place.rows(stream))


def test_a_doubled_digit_of_a_game_is_one_reject(tmp_path: Path) -> None:
    #   ps    10629342490369879 ... 106293424903698799 ... 10629342490999901       a day ahead, whichever digit it is
    lines = text_of("debs2013", 2_000).splitlines()

    def wrong(line: str, digit: int) -> str:
        sensor, ps, rest = line.split(",", 2)
        return f"{sensor},{doubled(ps, digit)},{rest}"

    numbers = changed(lines, 300, wrong, 17)
    place = Place(tmp_path)
    place.ingest(declaration("debs2013"), {"full-game": "\n".join(lines) + "\n"}, split_bytes=10_000)
    assert [(line, reason) for _, line, _, reason in place.rejects("debs2013")] == [
        (number, "more than 1h ahead of its neighbours") for number in numbers
    ]
    assert latest_us(place, "debs2013", "ts") == 0


@pytest.mark.parametrize(
    ("right", "wrong"), [("2020-", "2120-"), ("2020-", "2029-"), ("-03-", "-04-"), ("-02T", "-12T"), ("T08:", "T18:"), ("T08:", "T088:")]
)
def test_a_wrong_digit_of_a_stop_is_one_reject(tmp_path: Path, right: str, wrong: str) -> None:
    lines = text_of("ss7", 2_000).splitlines()
    at = next(n for n in range(1_000, 2_000) if lines[n].split(",")[1].startswith("2020-03-02T08:"))
    start, stop, rest = lines[at].split(",", 2)
    lines[at] = f"{start},{stop.replace(right, wrong, 1)},{rest}"
    place = Place(tmp_path)
    place.ingest(declaration("ss7"), {"ss7.csv": "\n".join(lines) + "\n"}, split_bytes=10_000)
    assert [line for _, line, _, _ in place.rejects("ss7")] == [at + 1]
    assert latest_us(place, "ss7", "end") <= 2_100_000  # its own disorder


def test_events_as_long_as_they_get_are_none_in_files_in_the_order_of_starts(tmp_path: Path) -> None:
    #   start   8:00:00 8:00:01 8:00:02        every tenth event lasts for two and a half hours, those around it for half an hour
    minutes = [(f"{n // 60:02}:{n % 60:02}Z", f"{30 + n // 60}:{n % 60:02}Z", 10 if n % 10 == 5 else 8) for n in range(300)]
    lines = [f"2020-03-02T08:{start},2020-03-02T{hour:02}:{stop}" for start, stop, hour in minutes]
    place = Place(tmp_path)
    place.ingest(declaration("ss7"), {"ss7.csv": "\n".join(["start,stop", *lines]) + "\n"})
    assert len(place.rows("ss7")) == 300


def test_a_doubled_digit_of_a_scan_is_one_reject_and_tows_may_be_days_apart(tmp_path: Path) -> None:
    #   s    11.958 12.000 112.042 12.083       of the digits that matter: a hundred seconds ahead at least
    head = "# name 0 = scan: Scan\n# name 1 = timeS: Time\n# name 2 = flSP: Fluorescence\n# start_time = Jul {} 2012 02:22:32\n*END*\n"
    tows = {}
    for day in (11, 19):
        lines = [f"{n:>11}{n / 24:>11.3f}{n % 7:>11}" for n in range(2_000)]
        if day == 11:
            changed(lines, 300, lambda line, digit: f"{line[:11]}{doubled(line[11:22].strip(), digit):>11}{line[22:]}", 2)
        tows[f"tow{day}.cnv"] = head.format(day) + "\n".join(lines) + "\n"
    place = Place(tmp_path)
    place.ingest(declaration("dye"), tows, split_bytes=10_000)
    assert [(file, line) for file, line, _, _ in place.rejects("dye")] == [("tow11.cnv", 306), ("tow11.cnv", 346)]
    times = [row["ts"] for row in place.rows("dye") if row["key"] == "tow11"]
    assert len(times) == 1_998 and max(times) - min(times) == 83_292_000  # the 1,999th scan's, which is the last
    assert len(place.rows("dye")) == 3_998
