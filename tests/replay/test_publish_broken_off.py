"""Publications that come to no good end: whatever stopped them, the next one makes it good, or nothing was changed.

Driven in this process, with real Delta tables; processes that are really killed are in test_kill.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replay import log_writer, publish
from replay.backfill import backfill
from replay.lake import Lake
from tests.replay.harness import HOUR, SPECS, assert_published, in_process, stream, with_clock

FRAMES = with_clock(SPECS["frames"], "an hour")


@pytest.fixture(autouse=True)
def _in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay.backfill.execute", in_process)


def replay(lake: Lake, spec: dict[str, Any]) -> None:
    backfill(None, lake, spec, ["s"])  # type: ignore[arg-type]


class CrashError(Exception):
    """The process is gone."""


@pytest.mark.parametrize("other", [False, True], ids=["the log has grown", "another specification"])
@pytest.mark.parametrize("at", range(6))
def test_a_crash_at_any_table_of_a_publication_is_made_good_by_the_next_one(
    lake: Lake, at: int, other: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    #   prepare | late, state, results, days | done
    table = stream(5, behind_us=HOUR)
    log_writer.append(lake, "s", table.slice(0, 200), file_rows=50)
    replay(lake, FRAMES)
    log_writer.append(lake, "s", table.slice(200), file_rows=50)
    spec = with_clock(SPECS["long frames"], "an hour") if other else FRAMES
    calls: list[str] = []

    def crashing(real: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            if len(calls) == at:
                raise CrashError
            calls.append(real.__name__)
            return real(*given, **named)

        return called

    with monkeypatch.context() as patch:
        for name in ("_prepare", "_replace"):
            patch.setattr(publish, name, crashing(getattr(publish, name)))
        if at < 5:
            with pytest.raises(CrashError):
                replay(lake, spec)
        else:
            replay(lake, spec)
            assert calls == ["_prepare", *["_replace"] * 4]
    replay(lake, spec)
    assert_published(lake, "frames__s", spec, table)
    replay(lake, FRAMES)
    assert_published(lake, "frames__s", FRAMES, table)


@pytest.mark.parametrize("at", range(3))
def test_a_disk_that_is_full_while_files_are_written_leaves_what_another_specification_has_published(
    lake: Lake, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    #   files of late, state, results | prepare, ...
    log_writer.append(lake, "s", stream(5, behind_us=HOUR), file_rows=50)
    replay(lake, FRAMES)
    before = {output: lake.table(publish.results_address(lake, "frames__s", output)) for output in ("results", "late", "state", "days")}
    with monkeypatch.context() as patch:
        left, real = [at], publish._written

        def full(*given: Any) -> Any:
            if not left[0]:
                raise OSError(28, "No space left on device")
            left[0] -= 1
            return real(*given)

        patch.setattr(publish, "_written", full)
        with pytest.raises(OSError, match="No space left"):
            replay(lake, with_clock(SPECS["long frames"], "an hour"))
    for output, table in before.items():
        now = lake.table(publish.results_address(lake, "frames__s", output))
        assert table is not None and now is not None and now.version() == table.version(), output
