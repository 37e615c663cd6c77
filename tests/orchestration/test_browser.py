"""A newcomer's path in a real browser: the graph, a stream, a replay with another threshold, its checks, picture and report.

Dagster runs as `make ui` starts it, with ports and folders of the test's own. With REPRISE_PICTURES=<folder> the steps leave their pictures
there: `REPRISE_PICTURES=docs/pictures make test ARGS=tests/orchestration/test_browser.py` makes those of the README and the tour.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import polars as pl
import psutil
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect, sync_playwright

from quality.suites.results import suite

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]
ROOT = Path(__file__).parents[2]
TUPLES = 40_000  # five days at two detectors
SECONDS = 60  # what is waited for on a page takes one or two; a machine that does other things at the same time takes many
RUN_SECONDS = 500
WIDTH, HEIGHT = 1400, 900
GRAPH = (1600, 1640)  # the UI fits the graph to the width of the page: wide enough for what assets tell, and a step out, for all of them
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@dataclass(frozen=True)
class UI:
    """Where everything of the test is."""

    address: str
    reports: str
    lake: Path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def answers(address: str) -> bool:
    try:
        with urlopen(address, timeout=5):  # noqa: S310 - an address of this machine
            return True
    except (URLError, OSError):
        return False


@pytest.fixture
def ui(tmp_path: Path) -> Iterator[UI]:
    """`make ui`, until the test ends; then nothing of it is left."""
    port, reports = free_port(), free_port()
    lake, streams = tmp_path / "lake", tmp_path / "streams"
    streams.mkdir()
    given = {
        "PORT": port, "REPORTS_PORT": reports, "DAGSTER_HOME": tmp_path / "dagster", "REPRISE_LAKE": lake, "REPRISE_RAW": tmp_path / "raw",
        "REPRISE_STREAMS": streams, "REPRISE_TWIN_TUPLES": TUPLES, "REPRISE_MASTER": "local[2]",
    }  # fmt: skip
    environment = {**os.environ, **{name: str(value) for name, value in given.items()}}
    environment.pop("REPRISE_REPORTS", None)
    found = UI(f"http://127.0.0.1:{port}", f"http://127.0.0.1:{reports}", lake)
    log = tmp_path / "ui.log"
    with log.open("w") as out:
        started = psutil.Popen(["scripts/ui.sh"], cwd=ROOT, env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        end = time.monotonic() + SECONDS
        while not (answers(f"{found.address}/server_info") and answers(found.reports)):
            assert started.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.2)
        assert f"{found.address}/asset-groups" in log.read_text()
        yield found
    finally:
        tree = [started, *started.children(recursive=True)]
        started.terminate()
        _, left = psutil.wait_procs(tree, timeout=60)
        for process in left:
            process.kill()
    assert not answers(found.reports)
    assert not answers(f"{found.address}/server_info")


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[BrowserContext]:
    """A fresh one, with nothing remembered."""
    found = filter(None, map(shutil.which, ("google-chrome", "chromium")))
    # A snap sees no folder of this test; without a path Playwright takes its own build. `make test` installs one or the other.
    path = next((path for path in found if Path(path).resolve().name != "snap"), None)
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path / "profile",
            executable_path=path,
            args=FLAGS,
            viewport={"width": WIDTH, "height": HEIGHT},
            locale="en-US",
            timezone_id="UTC",
        )
        context.set_default_timeout(SECONDS * 1000)
        expect.set_options(timeout=SECONDS * 1000)
        yield context
        context.close()


def keep(page: Page, name: str, tmp_path: Path, width: int = WIDTH, height: int = HEIGHT) -> None:
    """A picture of what is to be seen now."""
    folder = Path(os.environ.get("REPRISE_PICTURES") or tmp_path / "pictures")
    page.set_viewport_size({"width": width, "height": height})
    page.screenshot(path=folder / f"{name}.png", animations="disabled")
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})


def succeeded(page: Page) -> None:
    """The run on this page has come to a good end."""
    ended = page.get_by_text(re.compile("^(Success|Failure|Canceled)$")).first
    expect(ended).to_be_visible(timeout=RUN_SECONDS * 1000)
    assert ended.inner_text() == "Success", page.inner_text("body")[-3000:]


def type_at_end_of(page: Page, line: str, erase: int, text: str) -> None:
    """Put the cursor behind a line of the editor, take some characters away and type others."""
    page.locator(".CodeMirror").evaluate(
        """(editor, line) => {
            const text = editor.CodeMirror, at = text.getValue().split("\\n").findIndex(found => found.trim() === line);
            text.focus();
            text.setCursor({line: at, ch: text.getLine(at).length});
        }""",
        line,
    )
    for _ in range(erase):
        page.keyboard.press("Backspace")
    page.keyboard.type(text)


def row(page: Page, key: str) -> Locator:
    """A row of an asset's metadata."""
    return page.get_by_role("row", name=re.compile(f"^{key} "))


def width(image: Locator) -> int:
    """Of a picture that the browser could read."""
    return int(image.evaluate("image => image.decode().then(() => image.naturalWidth)"))


def test_a_newcomer_replays_with_another_threshold_and_sees_its_checks_its_picture_and_its_report(
    ui: UI, browser: BrowserContext, tmp_path: Path
) -> None:
    page = browser.pages[0]

    # The graph has every group; a stream is ingested with one click.
    page.goto(f"{ui.address}/asset-groups")
    for group in ("experiments", "frames", "reports", "slicing", "streams"):
        expect(page.locator("foreignObject").get_by_text(group, exact=True)).to_be_visible()
    page.goto(f"{ui.address}/assets/streams/traffic")
    page.get_by_role("button", name=re.compile(r"\bMaterialize$")).click()
    page.get_by_role("region", name=re.compile("^Notifications")).get_by_role("link", name="View").click()
    succeeded(page)
    page.goto(f"{ui.address}/assets/streams/traffic")
    expect(row(page, "tuples").get_by_role("cell", name=str(TUPLES), exact=True)).to_be_visible()
    page.set_viewport_size({"width": GRAPH[0], "height": GRAPH[1]})
    page.goto(f"{ui.address}/asset-groups")
    expect(page.locator("foreignObject").get_by_text("streams", exact=True)).to_be_visible()
    page.keyboard.press("Alt+e")  # expands all groups
    expect(page.locator("foreignObject").get_by_text("Materialized", exact=True)).to_be_visible()
    page.get_by_role("button", name="zoom_out").click()
    for group in ("experiments", "reports"):
        expect(page.locator("foreignObject").get_by_text(group, exact=True)).to_be_in_viewport()
    keep(page, "graph", tmp_path, *GRAPH)

    # A replay of frames with another threshold, typed in the Launchpad.
    page.goto(f"{ui.address}/locations/reprise/jobs/replay/playground")
    expect(page.locator(".CodeMirror-line", has_text="technique:")).to_be_visible()
    type_at_end_of(page, "where: speed < 40", 2, "30")
    expect(page.locator(".CodeMirror-line", has_text="where: speed < 30")).to_be_visible()
    expect(page.get_by_text("What every tuple of a frame satisfies")).to_be_attached()  # the settings are described beside the editor
    expect(page.get_by_text("No errors")).to_be_visible()
    launch = page.get_by_role("button", name="Launch Run")
    expect(launch).to_be_enabled()
    keep(page, "launchpad", tmp_path, height=830)
    launch.click()
    page.wait_for_url("**/runs/*")
    succeeded(page)
    keep(page, "run", tmp_path)
    page.get_by_placeholder("Filter…").fill("batch 0:")
    expect(page.get_by_text(re.compile(rf"^batch 0: {TUPLES:,} of {TUPLES:,} tuples")).first).to_be_visible()

    # Every check of frames is green, and none is of anything else.
    page.goto(f"{ui.address}/assets/experiments/replay?view=checks")
    expect(page.get_by_text("Succeeded", exact=True)).to_have_count(len(suite("frames")))
    expect(page.get_by_text("Failed", exact=True)).to_have_count(0)
    page.get_by_text("every_expected_row_is_there").first.click()
    expect(page.get_by_text("Passed", exact=True)).to_be_visible()
    keep(page, "checks", tmp_path)

    # The picture, and the report behind its link.
    page.goto(f"{ui.address}/assets/experiments/replay")
    row(page, "picture").get_by_text("[Show Markdown]").click()
    assert width(page.get_by_role("dialog").locator("img")) > 800
    keep(page, "picture", tmp_path)
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    asked: list[str] = []
    browser.on("request", lambda request: asked.append(request.url))
    with browser.expect_page() as opened:
        row(page, "report").get_by_role("link", name=f"{ui.reports}/launched__frames__traffic-").click()
    report = opened.value
    expect(report.get_by_role("heading", name="frames on traffic", exact=False).first).to_contain_text("passed")
    expect(report.get_by_text("where: speed < 30")).to_be_visible()
    assert all(width(image) > 800 for image in report.locator("img").all())
    assert report.evaluate("document.documentElement.scrollWidth") <= WIDTH
    assert [url for url in asked if not url.startswith((ui.reports, ui.address, "data:"))] == []
    keep(report, "report", tmp_path)
    report.get_by_role("link", name="all runs").click()
    expect(report.get_by_role("link", name="frames on traffic", exact=False)).to_have_count(1)

    found = pl.read_delta(str(ui.lake / "results/launched__frames__traffic"))
    assert found.height > 3
    assert found["mean_speed"].max() < 30  # type: ignore[operator]
