"""Which files of a folder are a stream's: no copies, and nothing that is set aside."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from replay.lake import Lake
from replay.streams.declaration import Declaration
from replay.streams.parsed import StreamError
from replay.streams.raw import list_files
from tests.replay.streams.harness import Place, stream


def csv(pattern: str = "*.csv") -> Declaration:
    columns = [{"name": "t", "type": "int64"}, {"name": "v", "type": "int64"}]
    return stream(files={"pattern": pattern}, columns=columns, time={"column": "t", "format": "number"})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize(("one", "other"), [("a.csv", "a.csv.gz"), ("in/a.csv.bz2", "in/a.csv.zst")])
def test_a_file_that_is_there_compressed_too(place: Place, one: str, other: str) -> None:
    place.write({"b.csv.gz": gzip.compress(b"1,2\n")})
    with pytest.raises(StreamError) as caught:
        place.ingest(csv(), {one: b"1,2\n", other: b"1,2\n"})
    assert place.is_untouched() and str(caught.value) == (
        f"stream s: '{one}' and '{other}' in its folder {place.raw} are one file, once compressed; allowed is one of them."
    )


def test_only_files_that_match_the_pattern_are_copies(place: Place) -> None:
    declaration = csv("*.csv.gz")
    place.ingest(declaration, {"a.csv": b"2,2\n", "a.csv.gz": gzip.compress(b"1,2\n")})
    assert [row["t"] for row in place.rows()] == [1]


def test_hidden_files_and_those_of_a_job_that_has_not_ended_are_not_read(place: Place) -> None:
    content = b"1,2\n"
    aside = (".ipynb_checkpoints/sept-checkpoint.csv", "._sept.csv", "in/.hidden/b.csv", "_temporary/0/part-0.csv", "in/_temporary/b.csv")
    place.write({name: b"\0\5\x16\7" if "._" in name else content for name in aside})
    write_deltalake(place.raw / ".trash" / "table.csv", pa.table({"t": [1], "v": [1]}))
    place.ingest(csv(), {"sept.csv": content, "in/_b.csv": content})
    assert [file.name for file in list_files(Lake(str(place.raw)), csv())] == ["in/_b.csv", "sept.csv"]
    assert [row["t"] for row in place.rows()] == [1, 1] and place.rejects() == []
