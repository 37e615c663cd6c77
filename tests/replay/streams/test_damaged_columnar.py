"""Parquet files that are not what they seem: texts that are no text, pages that are damaged, rows that are large."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replay.streams import columnar
from replay.streams.declaration import Declaration
from replay.streams.parsed import StreamError
from tests.replay.streams.harness import Place, nothing_but, stream

TIMES = pa.array([5_000_000, 6_000_000, 7_000_000], pa.timestamp("us", tz="UTC"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.raw.mkdir()
    return place


def declared(*columns: dict[str, Any], **more: Any) -> Declaration:
    settings = {"columns": [{"name": "t", "type": "time"}, *columns], "time": {"column": "t"}, **more}
    return stream(files={"pattern": "*.parquet", "format": "parquet"}, **settings)


def test_a_text_that_is_no_text_is_rejected_and_told_as_it_can_be_read(place: Place) -> None:
    texts = pa.array([b"a", b"\xff\xfe", "é".encode(), b"5\xff"], pa.binary())
    names = pa.Array.from_buffers(pa.string(), 4, texts.buffers())
    times = pa.array([*TIMES.to_pylist(), None], TIMES.type)
    pq.write_table(pa.table({"t": times, "k": names, "w": names}), place.raw / "a.parquet", write_statistics=False)
    place.ingest(declared({"name": "k", "type": "string"}, key="k"))
    assert nothing_but(place.rows(), "ts", "key") == [(5_000_000, "a"), (7_000_000, "é")]
    assert [(line, json.loads(text)["k"], reason) for _, line, text, reason in place.rejects()] == [
        (2, "\\xff\\xfe", "not text in the declared encoding: k"), (4, "5\\xff", "not text in the declared encoding: k"),
    ]  # fmt: skip
    for kind, reason in (("int32", "not a whole number: w"), ("time", "not text in the declared encoding: w")):
        as_time = {"time": {"column": "w"}} if kind == "time" else {}
        place.ingest(declared({"name": "w", "type": kind}, **as_time))
        assert place.rows() == [] and reason in {reason for *_, reason in place.rejects()}


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip"])
def test_a_damaged_file_is_read_or_refused_in_a_sentence(tmp_path: Path, compression: str) -> None:
    random_ = random.Random(compression)
    table = pa.table({"t": pa.array(range(300), TIMES.type), "k": [f"k{n % 7}" for n in range(300)], "v": [n * 0.37 for n in range(300)]})
    pq.write_table(table, tmp_path / "whole", compression=compression, row_group_size=100)
    whole, refusals = (tmp_path / "whole").read_bytes(), 0
    for n in range(25):
        place, content = Place(tmp_path / str(n)), bytearray(whole)
        for _ in range(random_.choice([1, 3, 20])):
            content[random_.randrange(4, len(content) - 8)] ^= 1 << random_.randrange(8)
        place.write({"a.parquet": bytes(content)})
        try:
            done = place.ingest(declared({"name": "k", "type": "string"}, {"name": "v"}))
        except StreamError as told:
            assert str(told).startswith("file a.parquet: ") and "\n" not in str(told) and place.is_untouched()
            refusals += 1
        else:
            assert done.records == len(place.rows()) + len(place.rejects())
    assert refusals > 5


def test_large_rows_are_taken_few_at_a_time(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar, "BATCH_BYTES", 100_000)
    texts, numbers = [f"{n:04d}" * 500 for n in range(1_000)], list(range(1_000))
    pq.write_table(pa.table({"t": pa.array(numbers, TIMES.type), "s": texts}), place.raw / "a.parquet", use_dictionary=False)
    seen: list[int] = []
    parsed = columnar.Columnar._parsed
    monkeypatch.setattr(columnar.Columnar, "_parsed", lambda self, batch, first: seen.append(batch.num_rows) or parsed(self, batch, first))
    place.ingest(declared({"name": "s", "type": "string"}))
    assert [row["s"] for row in place.rows()] == texts
    assert sum(seen) == 1_000 and max(seen) <= 50
    seen.clear()
    place.ingest(declared())  # of which only the times are read
    assert seen == [1_000]
