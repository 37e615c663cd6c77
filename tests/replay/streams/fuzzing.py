"""What files at random are held to: the slow reader's answer, or at least that nothing is lost and nothing is stored half."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck
from hypothesis import strategies as st

from replay.streams.declaration import Declaration
from replay.streams.parsed import StreamError
from tests.replay.streams.harness import Place, assert_equals, counts
from tests.replay.streams.reference import expected

NULLS = ["", "NA", "-99"]
ENDS = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\r", b"\n\n", b"\r\r\n", b"\n\r"])
FIXED = {"derandomize": True, "deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}


@contextmanager
def somewhere() -> Iterator[Place]:
    """A fresh place for every example: pytest's own folder is one for all of a test's."""
    with tempfile.TemporaryDirectory() as folder:
        yield Place(Path(folder))


def check_against_reference(declaration: Declaration, contents: Mapping[str, bytes], plain: Mapping[str, bytes] | None = None) -> None:
    """Ingest the files, in splits of 100 bytes, and compare; `plain`: what is in them, if they are compressed."""
    with somewhere() as place:
        assert_equals(place, place.ingest(declaration, contents, split_bytes=100, file_rows=50), expected(declaration, plain or contents))


def check_sanity(declaration: Declaration, contents: Mapping[str, bytes]) -> Place | None:
    """Rows in = rows stored + rows rejected, by file; or one sentence, and nothing was written."""
    with somewhere() as place:
        try:
            done = place.ingest(declaration, contents, file_rows=5)
        except StreamError as problem:
            assert str(problem).endswith(".") and "\n" not in str(problem)
            assert any(name in str(problem) for name in contents)
            assert place.is_untouched()
            return None
        rows, rejects = place.rows(), place.rejects()
        assert [row["arrival"] for row in rows] == list(range(len(rows)))
        assert sum(stored for _, _, stored, _ in counts(done).values()) == len(rows)
        for name, (lines, records, stored, rejected) in counts(done).items():
            assert records == stored + rejected
            mine = [line for file, line, _, _ in rejects if file == name]
            assert len(mine) == rejected and all(1 <= line <= lines for line in mine)
        return place


def mutated(draw: st.DrawFn, body: bytes) -> bytes:
    """Bytes cut off, put in, or changed, as broken disks and wrong encodings do."""
    at = draw(st.integers(0, len(body)))
    what = draw(st.sampled_from(["cut", "insert", "change", "drop"]))
    if what == "cut":
        return body[:at]
    some = draw(st.one_of(st.binary(max_size=5), st.sampled_from([b'"', b"\xff", b"\xc3", b"\x00", b"\x85", "é".encode("latin-1"), b"\r"])))
    return body[:at] + some + body[at + (0 if what == "insert" else 1 if what == "drop" else len(some)) :]
