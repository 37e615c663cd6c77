"""The lake: where everything is kept, and the only place that turns names into addresses.

A lake is a folder or an object store's prefix; its storage options go to whoever opens a table. Names that would lead out
of it are refused. What the tables mean is told where they are written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from deltalake.fs import DeltaStorageHandler

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*")
"""Names are values of partitions, too: with ':' Spark cannot read such a table, and with '=' polars cannot."""
_NO_FOLDERS = {"%": "Delta takes for part of an address", "=": "polars takes for a column", "\\": "Delta takes for a '/'"}


class LakeError(ValueError):
    """Something of the lake that is missing, or not what it should be, told in one sentence."""


@dataclass(frozen=True)
class Lake:
    """A lake by its address.

    >>> Lake("/data/lake").address("streams", "traffic")
    '/data/lake/streams/traffic'
    """

    root: str
    storage_options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """A local lake is told by its absolute path, so that every process finds the same one."""
        if "://" not in self.root or self.root.startswith("file://"):
            object.__setattr__(self, "root", str(Path(self.root.removeprefix("file://")).resolve()))
            for character, reason in _NO_FOLDERS.items():
                if character in self.root:
                    raise LakeError(f"lake: '{self.root}' given; allowed are folders without '{character}', which {reason}.")

    @property
    def local(self) -> bool:
        """Whether the lake is a folder of this machine."""
        return "://" not in self.root

    def address(self, *names: str) -> str:
        """The address of something in the lake."""
        for name in names:
            for part in name.split("/"):
                if not _NAME.fullmatch(part):
                    raise LakeError(
                        f"'{'/'.join(names)}': not a place in the lake {self.root}; allowed are names of letters, digits, '_', '-' and '.'."
                    )
        return "/".join([self.root.rstrip("/"), *names])

    def output(self, run: str, output: str) -> str:
        """Where a run keeps one of its outputs."""
        return self.address("runs", run, output)

    @property
    def metrics(self) -> str:
        """Where the metrics of all runs are kept."""
        return self.address("metrics")

    def inside(self, path: str) -> str:
        """The address of a path given by a person: relative to the lake, or absolute and inside it."""
        base = self.root.rstrip("/") + "/"
        full = str((Path(self.root) / path).resolve()) if self.local else path if path.startswith(base) else base + path
        if not full.startswith(base) or ".." in full.split("/"):
            raise LakeError(f"'{path}': leads out of the lake {self.root}; allowed are paths inside it.")
        return full

    def options(self) -> dict[str, str] | None:
        """The storage options as deltalake wants them."""
        return dict(self.storage_options) or None

    def table(self, address: str, version: int | None = None) -> DeltaTable | None:
        """The Delta table at an address of the lake, or None."""
        try:
            return Table(address, version=version, storage_options=self.options())
        except TableNotFoundError:
            return None

    def files(self, address: str) -> pafs.FileSystem:
        """A file system rooted at an address, for whoever writes or reads files beneath it."""
        if self.local:
            return pafs.SubTreeFileSystem(address, pafs.LocalFileSystem())
        return pafs.PyFileSystem(_Store(address, self.options()))

    def make_folder(self, address: str) -> None:
        """Make a folder ready for files; an object store knows none."""
        if self.local:
            Path(address).mkdir(parents=True, exist_ok=True)

    def folders(self, *names: str) -> list[str]:
        """The names of the folders at an address; what somebody else has put beside them is passed over."""
        there = self.files(self.root).get_file_info(pafs.FileSelector("/".join(names), allow_not_found=True))
        return sorted(info.base_name for info in there if info.type != pafs.FileType.File and _NAME.fullmatch(info.base_name))

    def remove_folder(self, address: str) -> None:
        """Remove a folder of the lake with all that is in it, if it is there."""
        parent, _, name = address.rpartition("/")
        with suppress(FileNotFoundError):
            self.files(parent).delete_dir(name)

    def write_json(self, address: str, name: str, content: Mapping[str, Any]) -> None:
        """A small document, whole or not at all."""
        self.write(address, name, json.dumps(content, indent=2).encode())

    def write(self, address: str, name: str, content: bytes) -> None:
        """A file, whole or not at all."""
        self.make_folder(address)
        files = self.files(address)
        with files.open_output_stream(f"{name}.part") as out:
            out.write(content)
        files.move(f"{name}.part", name)

    def read_json(self, address: str, name: str) -> dict[str, Any] | None:
        """A document, or None if there is none."""
        try:
            with self.files(address).open_input_stream(name) as document:
                content: dict[str, Any] = json.loads(document.read())
                return content
        except FileNotFoundError:
            return None
        except ValueError as problem:
            raise LakeError(f"{address}/{name}: it is not the document that was written there ({problem}); remove that folder.") from None

    def to_json(self) -> dict[str, Any]:
        """What another process needs to open this lake."""
        return {"root": self.root, "storage_options": dict(self.storage_options)}


class Table(DeltaTable):
    """A Delta table that polars reads wherever it is."""

    def file_uris(self, *given: Any, **named: Any) -> list[str]:
        """Where the files are: deltalake writes a space in the name of a folder as in a URL, and polars takes it at its word."""
        return [uri if "://" in uri else unquote(uri) for uri in super().file_uris(*given, **named)]


class _Store(DeltaStorageHandler):
    """An object store that Arrow can write to."""

    def open_output_stream(self, path: str, metadata: dict[str, str] | None = None) -> pa.PythonFile:
        """A stream that takes whatever holds bytes: the client's own takes nothing but `bytes`, and Arrow writes buffers."""
        stream = self._handler.open_output_stream(path, metadata)
        return pa.PythonFile(_Stream(stream), mode="w")


class _Stream:
    """A stream of the client of object stores."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.closed = False

    def write(self, content: Any) -> int:
        return int(self._stream.write(bytes(content)))

    def flush(self) -> None:
        self._stream.flush()

    def tell(self) -> int:
        return int(self._stream.tell())

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            self.closed = True
