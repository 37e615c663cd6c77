"""Compressed files: their content up to the last byte that can be decompressed.

Arrow decompresses, and a read of it that fails gives nothing, not even what was decompressed already. So at a failure the file is
opened a second time and read to the very byte where it breaks off. What is made of that is decided in `staging.py`.
"""

from __future__ import annotations

import io
import zlib
from contextlib import suppress
from typing import Self

import pyarrow as pa
import pyarrow.fs as pafs

_TAKEN_BYTES = 1 << 16
"""How much of a compressed file Arrow takes at a time; if it fails on that, all of its content is lost."""


class Decompressed:
    """The content of a compressed file. Where it cannot be read on it ends, and `problem` says why."""

    def __init__(self, files: pafs.FileSystem, name: str, codec: str) -> None:
        """Of a file of this name."""
        self._files, self._name, self._codec = files, name, codec
        self._file = files.open_input_file(name)
        self._stream = pa.CompressedInputStream(self._file, codec)
        self._read_bytes = 0
        self._rest: io.BytesIO | None = None
        self.problem: OSError | None = None

    def read(self, size: int) -> bytes:
        """So many bytes; fewer at the end."""
        if self._rest is None:
            try:
                piece: bytes = self._stream.read(size)
            except OSError as problem:
                self._rest = io.BytesIO(self._to_the_last_byte())
                self.problem = None if self._codec == "gzip" and self._is_padded() else problem
            else:
                self._read_bytes += len(piece)
                return piece
        return self._rest.read(size)

    def _is_padded(self) -> bool:
        """Whether a gzip is whole and only zeros follow, as tapes and some disks leave them: gzip itself takes no notice of them."""
        member = zlib.decompressobj(wbits=31)
        with self._files.open_input_file(self._name) as file:
            while piece := file.read(_TAKEN_BYTES):
                while piece and not (member.eof and piece.startswith(b"\0")):
                    member = zlib.decompressobj(wbits=31) if member.eof else member
                    try:
                        member.decompress(piece, _TAKEN_BYTES)
                    except zlib.error:
                        return False
                    piece = member.unused_data if member.eof else member.unconsumed_tail
                if piece:
                    return not piece.strip(b"\0") and all(not more.strip(b"\0") for more in iter(lambda: file.read(_TAKEN_BYTES), b""))
        return False

    def _to_the_last_byte(self) -> bytes:
        """What there is behind what was read."""
        fails_from = self._file.tell() - _TAKEN_BYTES
        rest = b""
        for size in (1 << 16, 1):  # the failing read is lost again: quickly close to the end, then without a loss
            with pa.CompressedInputStream(_InDrops(self._files.open_input_file(self._name), fails_from), self._codec) as stream:
                skip(stream, self._read_bytes + len(rest))
                pieces: list[bytes] = []
                with suppress(OSError):
                    while piece := stream.read(size):
                        pieces.append(piece)
                rest += b"".join(pieces)
        return rest

    def __enter__(self) -> Self:
        """To be closed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._stream.close()
        self._file.close()


class _InDrops:
    """A file that gives itself away byte by byte from some place on, so that Arrow fails on a single byte only.

    It is read in large pieces there, too: in an object store each read is a request.
    """

    closed = False

    def __init__(self, file: pa.NativeFile, drops_from: int) -> None:
        self._file, self._drops_from = file, drops_from
        self._drops: io.BytesIO | None = None

    def read(self, size: int) -> bytes:
        if self._drops is None and self._file.tell() + size <= self._drops_from:
            piece: bytes = self._file.read(size)
            return piece
        drop = self._drops.read(1) if self._drops else b""
        if not drop:
            self._drops = io.BytesIO(self._file.read(_TAKEN_BYTES))
            drop = self._drops.read(1)
        return drop

    def close(self) -> None:
        self._file.close()


def problem_of(opened: pa.NativeFile | Decompressed) -> OSError | None:
    """Why a file could not be read to its end, if it is a compressed one and was read that far."""
    return opened.problem if isinstance(opened, Decompressed) else None


def skip(opened: pa.NativeFile | Decompressed, count: int) -> None:
    """Go so many bytes into a file that was just opened."""
    if isinstance(opened, pa.NativeFile) and opened.seekable():
        opened.seek(count)
        return
    while count:
        count -= len(opened.read(min(count, 1 << 20))) or count
