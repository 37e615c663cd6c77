"""Large tables of a bucket's state: files in the run's folder, which Spark's state store knows by name.

Spark hands state to Python and back as pickles, at some 60 MB/s each way; with a million keys that was most of a batch. A
file never changes and its name is used once, and the store, which is committed with the batch, says which of them count: a
batch that is run again after a crash begins with the files of the batch before. Small tables stay in the store itself.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from contextlib import suppress

import pyarrow as pa

from replay.plan import Plan

FOLDER = "state_files"
_NAMED = b"file:"
"""How an entry of the store begins that names a file; no Arrow stream does."""
_REPLACED = "replaced files"
"""The entry that lists files that no longer count, with the batch that replaced them."""


class StateFiles:
    """What the store holds of a bucket, with the contents of the files that it names."""

    def __init__(self, plan: Plan, stored: Mapping[str, bytes]) -> None:
        """The entries of the store as they are."""
        self._plan = plan
        self._folder = plan.lake.output(plan.run, FOLDER)
        self._replaced: list[tuple[int, str]] = json.loads(stored.get(_REPLACED, b"[]"))
        self._stored = {name: entry for name, entry in stored.items() if name != _REPLACED}

    def read(self) -> dict[str, bytes | pa.Buffer]:
        """The bucket's tables."""
        return {name: self._content(entry) if _named(entry) else entry for name, entry in self._stored.items()}

    def write(self, dumped: Mapping[str, bytes], batch: int) -> dict[str, bytes]:
        """The entries that the store gets for what has changed; files that an earlier batch replaced are removed.

        A batch begins when the one before is committed, and Spark never goes back behind that.
        """
        entries: dict[str, bytes] = {}
        for name, content in dumped.items():
            before = self._stored.get(name, b"")
            if _named(before):
                self._replaced.append((batch, _name(before)))
            entries[name] = self._kept(name, content) if len(content) > self._plan.inline_state_bytes and name else content
        if self._replaced:
            self._remove([file for replaced, file in self._replaced if replaced < batch])
            entries[_REPLACED] = json.dumps([(at, file) for at, file in self._replaced if at >= batch]).encode()
        return entries

    def _content(self, entry: bytes) -> pa.Buffer:
        with self._plan.lake.files(self._folder).open_input_file(_name(entry)) as file:
            return file.read_buffer()

    def _kept(self, table: str, content: bytes) -> bytes:
        name = f"{table}-{uuid.uuid4()}.arrow"
        self._plan.lake.write(self._folder, name, content)
        return _NAMED + name.encode()

    def _remove(self, names: list[str]) -> None:
        files = self._plan.lake.files(self._folder)
        for name in names:
            with suppress(FileNotFoundError):  # an earlier try at this batch did it
                files.delete_file(name)


def _named(entry: bytes) -> bool:
    return entry.startswith(_NAMED)


def _name(entry: bytes) -> str:
    return entry.removeprefix(_NAMED).decode()
