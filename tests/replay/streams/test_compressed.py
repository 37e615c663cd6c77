"""A compressed file that breaks off loses nothing that can be decompressed: compared with zlib and bz2, byte by byte."""

from __future__ import annotations

import bz2
import gzip
import io
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from replay.streams.compressed import Decompressed
from replay.streams.declaration import Declaration, declaration
from tests.replay.streams.harness import Place, counts, nothing_but, stream

SMALL = b"".join(b"%d,%d\n" % (n, n * 7919 % 1000) for n in range(300))
LARGE = b"".join(b"%d,%d\n" % (n, n * 7919 % 1000) for n in range(500_000))  # more than a block of lines, and than a block of bz2
TORN = "cut short where compressed data cannot be read on"


def numbers(**files: object) -> Declaration:
    return stream(
        files={"pattern": "*.csv", **files}, columns=[{"name": "t", "type": "int64"}, {"name": "v", "type": "int32"}],
        time={"column": "t", "format": "number"},
    )  # fmt: skip


def readable(decompressor: Callable[[bytes], bytes], data: bytes, errors: type[Exception] = OSError) -> bytes:
    """All that a decompressor gives of data, fed byte by byte, up to its error."""
    out = []
    try:
        for at in range(len(data)):
            out.append(decompressor(data[at : at + 1]))
    except errors:
        pass
    return b"".join(out)


def check(place: Place, name: str, packed: bytes, content: bytes) -> None:
    """Of a file every whole line is stored; what is left of a line, and that it cannot be read on, are rejected."""
    done = place.ingest(numbers(), {name: packed})
    *whole, torn = content.split(b"\n")
    assert nothing_but(place.rows(), "t", "v") == [tuple(map(int, line.split(b","))) for line in whole]
    *lines, last = place.rejects()
    assert lines == ([(name, len(whole) + 1, torn.decode(), TORN)] if torn else [])
    assert last[:3] == (name, len(whole) + len(lines) + 1, "") and last[3].startswith("compressed data that cannot be read (")
    assert counts(done) == {name: (len(whole) + len(lines) + 1, len(whole) + len(lines) + 1, len(whole), len(lines) + 1)}


@pytest.mark.parametrize("at", [1, 11, 40, 0.3, 0.5, 0.9, -9, -8, -1])
def test_of_a_small_gzip_cut_anywhere_every_line_is_stored_that_zlib_gives(tmp_path: Path, at: float) -> None:
    packed = gzip.compress(SMALL)
    cut = packed[: int(at * len(packed)) if isinstance(at, float) else at]
    content = zlib.decompressobj(31).decompress(cut)
    assert content or at in (1, 11)  # its head is all that is left of the file
    check(Place(tmp_path), "a.csv.gz", cut, content)


@pytest.mark.parametrize("share", [0.35, 0.6, 0.97])
def test_of_a_large_gzip_cut_anywhere_every_line_is_stored_that_zlib_gives(tmp_path: Path, share: float) -> None:
    packed = gzip.compress(LARGE, compresslevel=1)
    cut = packed[: int(share * len(packed))]
    check(Place(tmp_path), "a.csv.gz", cut, zlib.decompressobj(31).decompress(cut))


class Counted(io.BytesIO):
    """A file that counts how often it is read: in an object store each time is a request."""

    reads = 0

    def read(self, size: int | None = -1) -> bytes:
        Counted.reads += 1
        return super().read(size)


@pytest.mark.parametrize("share", [0.35, 0.97])
def test_a_file_that_breaks_off_is_read_in_pieces_to_its_last_byte(share: float) -> None:
    packed = gzip.compress(LARGE, compresslevel=1)
    cut = packed[: int(share * len(packed))]

    class Store:
        def open_input_file(self, _: str) -> pa.NativeFile:
            return pa.PythonFile(Counted(cut), mode="r")

    Counted.reads = 0
    with Decompressed(Store(), "a.csv.gz", "gzip") as opened:
        content = b"".join(iter(lambda: opened.read(1 << 20), b""))
    assert content == zlib.decompressobj(31).decompress(cut)
    assert 3 < Counted.reads < 5 * (len(cut) // (1 << 16) + 2)  # four times at most, 64 KiB at a time


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_of_a_bz2_cut_anywhere_every_whole_block_is_stored(tmp_path: Path, share: float) -> None:
    packed = bz2.compress(LARGE)
    cut = packed[: int(share * len(packed))]
    content = bz2.BZ2Decompressor().decompress(cut)
    assert len(content) > 800_000  # bz2 gives a block of 900 kB at once
    check(Place(tmp_path), "a.csv.bz2", cut, content)


def test_of_a_zst_cut_in_its_second_frame_the_first_is_stored(tmp_path: Path) -> None:
    half = LARGE.index(b"\n", len(LARGE) // 2) - 3  # within a line
    first, second = (pa.Codec("zstd").compress(part, asbytes=True) for part in (LARGE[:half], LARGE[half:]))
    check(Place(tmp_path), "a.csv.zst", first + second[:12], LARGE[:half])


def test_of_a_gzip_with_wrong_bytes_in_it_all_that_comes_before_the_error_is_read(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(SMALL))
    packed[-6] ^= 1  # the checksum: all of it can be decompressed
    assert readable(zlib.decompressobj(31).decompress, bytes(packed), zlib.error) == SMALL
    check(Place(tmp_path / "checksum"), "a.csv.gz", bytes(packed), SMALL)
    packed = bytearray(gzip.compress(SMALL) + gzip.compress(SMALL))
    packed[len(packed) // 2 + 10] = 0xFF  # the first block of the second part: none of its kind exists
    check(Place(tmp_path / "block"), "a.csv.gz", bytes(packed), SMALL)


def test_what_is_not_compressed_at_all_is_one_reject(tmp_path: Path) -> None:
    check(Place(tmp_path), "a.csv.gz", b"1,2\n3,4\n", b"")


def test_with_other_line_ends_the_last_line_is_known_as_cut_too(tmp_path: Path) -> None:
    place = Place(tmp_path)
    text = "1,10\r2,20\r3,3é0\r4,40\r".encode("latin-1")
    packed = zlib.compressobj(wbits=31)
    cut = packed.compress(text[:14]) + packed.flush(zlib.Z_SYNC_FLUSH)  # behind the letter
    place.ingest(numbers(encoding="latin-1"), {"a.csv.gz": cut})
    assert nothing_but(place.rows(), "t", "v") == [(1, 10), (2, 20)]
    assert [(line, text) for _, line, text, _ in place.rejects()] == [(3, "3,3é"), (4, "")]


def test_a_header_that_is_cut_is_no_header_and_one_that_is_whole_is(tmp_path: Path) -> None:
    def cut(text: bytes) -> bytes:
        packed = zlib.compressobj(wbits=31)
        return packed.compress(text) + packed.flush(zlib.Z_SYNC_FLUSH)

    place = Place(tmp_path)
    place.ingest(numbers(header=True), {"a.csv.gz": cut(b"\n\nt,"), "b.csv.gz": cut(b"v,t\n7,1\n8,"), "c.csv.gz": cut(b"")})
    assert nothing_but(place.rows(), "t", "v") == [(1, 7)]
    assert [(file, line, text) for file, line, text, _ in place.rejects()] == [
        ("a.csv.gz", 3, "t,"), ("a.csv.gz", 4, ""), ("b.csv.gz", 3, "8,"), ("b.csv.gz", 4, ""), ("c.csv.gz", 1, ""),
    ]  # fmt: skip


def test_a_tow_that_is_cut_keeps_its_scans(tmp_path: Path) -> None:
    names = "# name 0 = scan: Scan\r\n# name 1 = timeS: Time\r\n# name 2 = flSP: Fluorescence\r\n"
    header = f"{names}# start_time = Jul 11 2012 02:22:32\r\n*END*\r\n"
    scans = "".join(f"{n:>11}{n / 24:>11.3f}{n % 7:>11}\r\n" for n in range(200))
    packed = gzip.compress((header + scans).encode())
    cut = packed[: len(packed) * 2 // 3]
    whole = zlib.decompressobj(31).decompress(cut).count(b"\r\n") - 5
    place = Place(tmp_path)
    place.ingest(declaration("dye"), {"tow4.cnv.gz": cut})
    assert 50 < whole < 200 and nothing_but(place.rows("dye"), "scan") == [(n,) for n in range(whole)]
    assert [line for _, line, _, _ in place.rejects("dye")] == [whole + 6, whole + 7]
