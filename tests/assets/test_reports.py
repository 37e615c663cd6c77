"""The asset of the reports: the index of the pages that are there, with a link to it, and the last of them."""

from __future__ import annotations

from pathlib import Path

from assets.reports import REPORTS
from tests.assets.test_reporting import Text
from tests.orchestration.driving import FRAMES, Platform, failure, metadata


def test_the_index_is_of_the_pages_that_are_there(tmp_path: Path) -> None:
    """Two replays and a check leave three pages; one of them is removed."""
    platform = Platform(tmp_path)

    def listed() -> tuple[int, list[str]]:
        done = platform.run([REPORTS])
        assert done.success
        told = metadata(done)
        titles = [row[1] for row in Text(platform.report(told["report"]).read_text()).rows[1:]]
        for title in titles:
            assert f"| {title} | " in str(told["preview"].value)
        return int(told["pages"].value), titles

    assert listed() == (0, [])
    platform.month(2)
    first, second = platform.days
    pages = [platform.report(metadata(platform.replay(day))["report"]) for day in platform.days]
    platform.checks(FRAMES)
    replays = [f"frames on traffic, {day}" for day in (first, second)]
    count, titles = listed()
    assert (count, sorted(titles)) == (3, sorted([*replays, f"Checks of frames on traffic, {first} to {second}"]))
    pages[0].unlink()
    count, titles = listed()
    assert (count, replays[0] in titles, replays[1] in titles) == (2, False, True)


def test_an_index_that_cannot_be_written_anywhere_is_a_sentence(tmp_path: Path) -> None:
    refused = Platform(tmp_path).run([REPORTS], run_config={"resources": {"workplace": {"config": {"lake": ""}}}})
    assert failure(refused) == "lake: '' given; allowed is a folder, or an object store's prefix."
