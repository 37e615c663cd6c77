"""Claims: no two processes write to the same folder of a lake at the same time.

A claim is the lock of a file that the operating system gives back when its holder ends, however it ends: a killed run leaves
nothing that someone would have to clear away. An object store has no such locks; there it is up to whoever launches runs.
"""

from __future__ import annotations

import fcntl
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from replay.lake import Lake, LakeError

CLAIM = ".claim"
"""Readers of Delta tables, and what removes their old files, leave such a name alone."""


@contextmanager
def claimed(lake: Lake, address: str) -> Iterator[None]:
    """Hold a folder of the lake for the time of a block, or tell who holds it.

    >>> from tempfile import mkdtemp
    >>> lake = Lake(mkdtemp())
    >>> with claimed(lake, lake.address("results", "frames__s")), claimed(lake, lake.address("results", "frames__s")):
    ...     pass
    Traceback (most recent call last):
    replay.lake.LakeError: results/frames__s: process ... is writing there; wait for its end, or stop it.
    """
    if not lake.local:
        yield
        return
    lake.make_folder(address)
    with (Path(address) / CLAIM).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read() or "another process"
            place = address.removeprefix(f"{lake.root}/")
            raise LakeError(f"{place}: {holder} is writing there; wait for its end, or stop it.") from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC,")
        file.flush()
        yield
