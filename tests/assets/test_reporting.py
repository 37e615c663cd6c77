"""Reports: one page that needs nothing else, with what is wrong before what is pretty; in a folder and in an object store."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assets.reporting import _rejected, write_report
from assets.workplace import Workplace
from engines import build
from quality.expectations import Outcome
from quality.report import Report, index, page
from replay.lake import Lake

SPEC = {"technique": "frames", "frame": {"kind": "threshold", "where": "speed < 40 and volume > 0"}}
RIGHT = Outcome("times_are_ordered", "A frame starts no later than it ends.", "critical", True, 5, 0)
WRONG = Outcome("values_are_equal", "Values are equal.", "critical", False, 5, 1, examples=("<b>x</b>",))
DOUBTFUL = Outcome("few_are_late", "Few tuples are late.", "warning", False, 5, 1)
START = datetime(2024, 1, 1, 8, 30, tzinfo=UTC)
ROWS = [
    {"key": "a", "start": START, "side": "both", "engine_rows": 1, "oracle_rows": 1, "differ": "v",
     "n__engine": 7, "n__oracle": 7, "v__engine": 0.1 + 0.2, "v__oracle": 0.3},
    {"key": "b", "start": START, "side": "oracle only", "engine_rows": 0, "oracle_rows": 1, "differ": "",
     "n__engine": None, "n__oracle": 4, "v__engine": None, "v__oracle": 1.5},
]  # fmt: skip


class Text(HTMLParser):
    """What a reader sees: the text of each row of a table, and all addresses that a page asks for."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.asked: list[str] = []
        self._cell = False
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.asked += [str(value) for name, value in attrs if name in ("src", "href")]
        assert tag != "script"
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        self._cell = self._cell or tag in ("td", "th")

    def handle_endtag(self, tag: str) -> None:
        self._cell = self._cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._cell:
            self.rows[-1][-1] += data


def report(*outcomes: Outcome, **more: Any) -> Report:
    return Report("frames on <traffic>", "frames", "2024-01-01", {"tuples": 1_234_567}, {"stream": "t"}, "a: 1", outcomes, **more)


@pytest.mark.parametrize(
    ("outcomes", "state", "told"),
    [
        ([RIGHT], "passed", "every check passed"),
        ([RIGHT, DOUBTFUL], "warned", "1 of 2 checks passed"),
        ([WRONG, RIGHT, DOUBTFUL], "failed", "1 of 3 checks passed"),
    ],
)
def test_a_page_asks_for_nothing_and_says_first_what_is_wrong(outcomes: list[Outcome], state: str, told: str) -> None:
    content = page(report(*outcomes, pictures={"Found": b"png", "Compared": b"png"}))
    assert told in content
    assert f'badge {state}">{state}</span></h1>' in content
    assert "frames on &lt;traffic&gt;" in content
    assert "<b>x</b>" not in content
    assert "1,234,567" in content
    assert [address for address in Text(content).asked if not address.startswith("data:")] == ["index.html"]
    assert not re.search(r"url\(|@import", content)
    assert (content.index("Checks</h2>") < content.index("Found</h2>")) == (state != "passed")
    judged = [row[0] for row in Text(content).rows if row[0] in ("passed", "warned", "failed")]
    assert judged == sorted(judged, key=lambda state: state == "passed")


def test_rows_that_differ_stand_side_by_side_to_the_last_digit() -> None:
    rows = Text(page(report(WRONG, worst=ROWS))).rows
    at = rows.index(["key", "start", "", "n", "v"])
    assert rows[at + 1 : at + 5] == [
        ["a", "2024-01-01 08:30:00", "engine", "7", "0.30000000000000004"],
        ["oracle", "7", "0.3"],
        ["b", "2024-01-01 08:30:00", "engine", "has no such row"],
        ["oracle", "4", "1.5"],
    ]


def test_the_index_lists_runs_newest_first_and_knows_those_that_only_checked() -> None:
    replayed = {"title": "old", "name": "a", "at": "2024-01-01", "state": "failed", "tuples": 1000, "tuples/s": 5, "checks": "1 of 2"}
    checked = {"title": "new", "name": "b", "at": "2024-01-02", "state": "passed", "checks": "2 of 2"}
    assert Text(index([replayed, checked])).rows[1:] == [
        ["passed", "new", "2024-01-02", "–", "–", "–", "–", "2 of 2"],
        ["failed", "old", "2024-01-01", "1,000", "5", "–", "–", "1 of 2"],
    ]


@pytest.mark.parametrize("local", [True, False], ids=["a folder", "an object store"])
def test_reports_are_written_through_the_lake(local: bool, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not local: the same files through the client of object stores, which wants folders that are there."""
    for folder in ("reports", "metrics"):
        Path(lake.root, folder).mkdir(parents=True)
    monkeypatch.setattr(Lake, "local", property(lambda self: local))
    workplace = Workplace(lake=lake.root)
    verified = {"outcomes": [RIGHT], "worst": [], "late": [], "days": "none", "dates": [], "sample": "all keys", "picture": b"png"}
    for name, told in (("first", {"tuples": 12, "tuples_per_second": 3.2}), ("second", {})):
        write_report(workplace, name, "traffic", "frames__traffic", SPEC, told, verified)

    def read(name: str) -> str:
        with lake.files(lake.address("reports")).open_input_stream(name) as file:
            return str(file.read().decode())

    listed = Text(read("index.html")).rows[1:]
    assert sorted(row[1] for row in listed) == ["Checks of frames on traffic, none", "frames on traffic, none"]
    assert ["12", "3"] in [row[3:5] for row in listed]
    assert build(SPEC).spec.fingerprint() in read("first.html")
    assert date.today().isoformat()[:4] in read("second.html")


@pytest.mark.parametrize("folder", ["lake", "my lake", "ü"])
def test_reasons_of_rejects_are_counted_without_their_texts(tmp_path: Path, folder: str) -> None:
    lake = Lake(str(tmp_path / folder))
    """The table has nothing but the column that is read: texts of a million rejects would not fit into memory."""
    workplace = Workplace(lake=lake.root)
    assert _rejected(workplace, "calls") == []
    reasons = ["no time", *["cost: -1 is out of range"] * 3, *["a", "b"] * 2, *(f"rare {n}" for n in range(20))]
    pl.DataFrame({"reason": reasons}).write_delta(f"{lake.root}/streams/calls__rejects")
    found = _rejected(workplace, "calls")
    assert found[:3] == [{"records": 3, "reason": "cost: -1 is out of range"}, {"records": 2, "reason": "a"}, {"records": 2, "reason": "b"}]
    assert len(found) == 10


def test_what_was_launched_is_told_from_the_asset_by_its_title_and_rejects_are_those_of_the_stream(lake: Lake) -> None:
    workplace = Workplace(lake=lake.root)
    verified = {"outcomes": [RIGHT], "worst": [], "late": [], "days": "none", "dates": [], "sample": "all keys", "picture": b"png"}
    for publish in ("frames__traffic", "slow__frames__traffic"):
        told = {"rejected": 7, "state_bytes": 9}
        write_report(workplace, publish, "traffic", publish, SPEC, told, verified)
    pages = Path(lake.root, "reports")
    titles = {row[1] for row in Text((pages / "index.html").read_text()).rows[1:]}
    assert titles == {"frames on traffic, none", "frames on traffic as slow__frames__traffic, none"}
    page = (pages / "frames__traffic.html").read_text()
    assert "<b>7</b><span>rejected, of the whole stream</span>" in page
    assert ["state after a batch, at most, in bytes", "9"] in Text(page).rows


def test_a_page_names_the_days_that_were_replayed_and_beside_them_those_that_were_checked(lake: Lake) -> None:
    """A run of the fifth day, with which days that were red before are judged again."""
    verified = {"outcomes": [RIGHT], "worst": [], "late": [], "dates": [], "sample": "all keys", "picture": b"png"}
    told = {"first_day": "2024-01-05", "last_day": "2024-01-05"}
    pages = Path(lake.root, "reports")
    for name, days in (("more", "2024-01-01 to 2024-01-05"), ("same", "2024-01-05")):
        write_report(Workplace(lake=lake.root), name, "traffic", "frames__traffic", SPEC, told, {**verified, "days": days})
        assert "<h1>frames on traffic, 2024-01-05 <" in (pages / f"{name}.html").read_text()
    rows = Text((pages / "more.html").read_text()).rows
    assert rows[rows.index(["days", "2024-01-05"]) + 1] == ["checked", "2024-01-01 to 2024-01-05"]
    assert "checked" not in [row[0] for row in Text((pages / "same.html").read_text()).rows]
