"""Raw files: which there are, in which order, whether they are still the same, and how each is opened.

Names are ordered with their numbers by value, so that `part-10` comes behind `part-9`. Nothing here looks into a file; what is in
its head is read in `layout.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase

import pyarrow as pa
import pyarrow.fs as pafs
from deltalake.exceptions import DeltaError

from replay.lake import Lake
from replay.streams.compressed import Decompressed
from replay.streams.declaration import Declaration
from replay.streams.parsed import NoFilesError, StreamError

COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
CHECKSUM_BYTES = 64 << 20


@dataclass(frozen=True)
class RawFile:
    """A file of a stream."""

    name: str
    """Its path below the stream's folder."""
    size: int
    kind: int
    """Which of the declaration's `files` it is."""


def list_files(folder: Lake, declaration: Declaration) -> list[RawFile]:
    """The stream's files in a folder, in the order in which they are read.

    Raises:
        NoFilesError: there are none.
        StreamError: the folder or a Delta table in it cannot be read.
    """
    files = folder.files(folder.root)
    found: list[RawFile] = []
    try:
        infos = files.get_file_info(pafs.FileSelector("", recursive=True, allow_not_found=True))
        infos = [info for info in infos if not is_set_aside(info.path)]
        tables = sorted({info.path.partition("/_delta_log/")[0] for info in infos if "/_delta_log/" in info.path})
    except OSError as problem:
        raise StreamError(f"stream {declaration.name}: its folder {folder.root} cannot be read ({problem}).") from None
    except UnicodeDecodeError as problem:
        told = problem.object.decode("utf-8", "backslashreplace")
        raise StreamError(f"stream {declaration.name}: its folder {folder.root} has a file {told!r}; allowed are names in UTF-8.") from None
    for kind, form in enumerate(declaration.files):
        if form.format == "delta":
            if any(info.path.startswith("_delta_log/") for info in infos):
                raise StreamError(
                    f"stream {declaration.name}: its folder {folder.root} is itself a Delta table; "
                    "allowed are tables in it, which the setting files.pattern names."
                )
            found += [RawFile(path, _delta_version(folder, path), kind) for path in tables if fnmatchcase(path, form.pattern)]
            continue
        for info in infos:
            if (
                info.type == pafs.FileType.File
                and not info.path.endswith(".part")
                and not any(info.path.startswith(f"{t}/") for t in tables)
            ):
                plain = info.path.removesuffix(_compression(info.path)[0])
                if fnmatchcase(info.path, form.pattern) or fnmatchcase(plain, form.pattern):
                    found.append(RawFile(info.path, info.size, kind))
    if not found:
        patterns = " or ".join(repr(form.pattern) for form in declaration.files)
        raise NoFilesError(f"stream {declaration.name}: no file in {folder.root} matches its setting files.pattern, {patterns}.")
    files_by_name = {file.name: file for file in reversed(found)}
    _check_copies(folder, declaration, files_by_name)
    return sorted(files_by_name.values(), key=lambda file: natural(file.name))


def is_set_aside(path: str) -> bool:
    """Whether a file is none to be read: hidden, such as what editors and file systems put beside it, or of a job that has not ended."""
    return any(part.startswith(".") or part == "_temporary" for part in path.split("/"))


def _check_copies(folder: Lake, declaration: Declaration, names: Iterable[str]) -> None:
    """Refuse a file that is there compressed, too: its records would be there twice."""
    seen: dict[str, str] = {}
    for name in sorted(names):
        other = seen.setdefault(name.removesuffix(_compression(name)[0]), name)
        if other != name:
            raise StreamError(
                f"stream {declaration.name}: {other!r} and {name!r} in its folder {folder.root} are one file, once compressed; "
                "allowed is one of them."
            )


def natural(name: str) -> list[tuple[int, int, str]]:
    """The key by which names are ordered, numbers in them by value.

    >>> sorted(["b", "a10", "a9"], key=natural)
    ['a9', 'a10', 'b']
    """
    parts = re.split(r"(\d+)", name)
    return [(0, int(part), part) if part.isdecimal() else (1, 0, part) for part in parts if part]


@contextmanager
def readable(folder: Lake, name: str) -> Iterator[None]:
    """A file that is gone or cannot be read is told in a sentence."""
    try:
        yield
    except FileNotFoundError:
        raise StreamError(f"file {name}: it is no longer in {folder.root}; nothing was stored.") from None
    except OSError as problem:
        why = problem.strerror or str(problem).splitlines()[0].rstrip(".")
        raise StreamError(f"file {name}: it cannot be read ({why}); nothing was stored.") from None


def open_raw(folder: Lake, name: str) -> pa.NativeFile | Decompressed:
    """A file as a stream of its bytes, decompressed."""
    files, codec = folder.files(folder.root), _compression(name)[1]
    return Decompressed(files, name, codec) if codec else files.open_input_file(name)


def is_compressed(name: str) -> bool:
    """Whether a file can only be read from its beginning."""
    return _compression(name)[1] is not None


def digest(folder: Lake, file: RawFile, block: int) -> str:
    """The checksum of one block of a file, as it lies on the disk."""
    with readable(folder, file.name), folder.files(folder.root).open_input_file(file.name) as opened:
        opened.seek(block * CHECKSUM_BYTES)
        sha = hashlib.sha256()
        for _ in range(CHECKSUM_BYTES >> 20):
            piece = opened.read(1 << 20)
            sha.update(piece)
            if len(piece) < 1 << 20:
                break
        return sha.hexdigest()


def checksum(digests: list[str]) -> str:
    """The checksum of a file by those of its blocks."""
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _compression(name: str) -> tuple[str, str | None]:
    for suffix, codec in COMPRESSED.items():
        if name.endswith(suffix):
            return suffix, codec
    return "", None


def _delta_version(folder: Lake, path: str) -> int:
    try:
        table = folder.table(f"{folder.root}/{path}")
    except DeltaError as problem:  # of a feature that nobody here knows
        raise StreamError(f"file {path}: the Delta table cannot be read ({str(problem).splitlines()[0]}).") from None
    if table is None:
        raise StreamError(f"file {path}: it is not a Delta table, as the setting files.format says.")
    return int(table.version())
