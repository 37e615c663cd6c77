"""Claims and interrupts: no two processes write to a folder, a dead one holds nothing, and a publication is whole."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from replay import log_writer, publish
from replay.backfill import plan_days
from replay.claims import claimed
from replay.interrupts import interrupts_noted
from replay.lake import Lake, LakeError
from replay.late import late_of_days
from tests.replay.harness import SPECS, assert_published, in_process, stream

HOLD = """
import sys
from replay.claims import claimed
from replay.lake import Lake
with claimed(Lake(sys.argv[1]), sys.argv[1] + "/results/frames__s"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(lake: Lake) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD, lake.root]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_who_comes_second_is_told_who_was_first_and_a_killed_process_holds_nothing(lake: Lake, holder: subprocess.Popen[str]) -> None:
    address = lake.address("results", "frames__s")
    told = re.compile(rf"results/frames__s: process {holder.pid} on \S+, since .* UTC, is writing there; wait for its end, or stop it\.")
    with pytest.raises(LakeError, match=told), claimed(lake, address):
        pass
    with claimed(lake, lake.address("results", "slicing__s")):
        pass  # other results are free
    holder.kill()
    holder.wait()
    with claimed(lake, address):
        assert f"process {os.getpid()} " in (Path(address) / ".claim").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_waits_for_the_end_of_the_block(number: signal.Signals) -> None:
    before, done = signal.getsignal(number), False
    with pytest.raises(KeyboardInterrupt), interrupts_noted() as interrupted:
        os.kill(os.getpid(), number)
        done = interrupted.wait(5)
    assert done
    assert signal.getsignal(number) is before


def test_in_another_thread_nothing_is_noted_and_no_handler_changed() -> None:
    seen = []

    def block() -> None:
        with interrupts_noted() as interrupted:
            seen.append((signal.getsignal(signal.SIGINT), interrupted.is_set()))

    thread = threading.Thread(target=block)
    thread.start()
    thread.join()
    assert seen == [(signal.getsignal(signal.SIGINT), False)]


def test_a_publication_that_is_interrupted_is_whole(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = stream(5)
    log = log_writer.append(lake, "s", table, file_rows=50)
    plan = plan_days(lake, SPECS["frames"], ["s"], log.days()[0], log.days()[-1])
    in_process(None, plan)

    def interrupted(*given: object) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return late_of_days(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(publish, "late_of_days", interrupted)
    with pytest.raises(KeyboardInterrupt):
        publish.publish(plan)
    assert list(publish.published_days(lake, "frames__s")) == log.days()
    assert_published(lake, "frames__s", SPECS["frames"], table)
