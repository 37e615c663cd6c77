"""Whatever the bytes are, ingestion neither crashes nor loses a record, and reads what the reference reads.

Every example is an ingestion of a few small files; the seeds are fixed, so that a run is like any other. What is too large
or too rare for this (lines of megabytes, splits) is in `test_splits.py`.
"""

from __future__ import annotations

import bz2
import gzip
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.streams import lines
from replay.streams.declaration import Declaration
from tests.replay.streams import reference
from tests.replay.streams.fuzz_values import REAL, TEXTS, TIMES, TRUTHS, WHOLE
from tests.replay.streams.fuzzing import ENDS, FIXED, NULLS, check_against_reference, check_sanity, mutated, somewhere
from tests.replay.streams.harness import Place, counts, stream
from tests.replay.streams.reference import expected

# ---- delimited text ------------------------------------------------------------------------------------------------------

POOLS = {"i": WHOLE, "n": WHOLE, "f": REAL, "g": REAL, "b": TRUTHS, "s": TEXTS, "t": TIMES, "u": TIMES}
COLUMNS = [
    {"name": "t", "type": "time"},
    {"name": "i", "type": "int8", "range": [-100, 120]},
    {"name": "f", "type": "float64", "range": [None, 1e6]},
    {"name": "s", "type": "string"},
    {"name": "b", "type": "bool"},
    {"name": "n", "type": "int64"},
    {"name": "g", "type": "float32", "required": True},
]
FORMATS = ["number", "iso", "%m/%d/%Y %H:%M:%S"]
ZONED = {"column": "t", "format": FORMATS, "zone": "America/Los_Angeles", "keep": "was"}
GOOD = ["2020-01-01", "1", "1", "a", "1", "1", "1"]

DELIMITED = {
    "comma": stream(files={"pattern": "*.csv"}, columns=COLUMNS, time=ZONED, nulls=NULLS),
    "tab": stream(files={"pattern": "*.csv", "format": "tsv"}, columns=COLUMNS, time=ZONED, nulls=NULLS, order="time", key="s"),
    "semicolons, other quotes": stream(
        files={"pattern": "*.csv", "delimiter": ";", "quote": "'"}, columns=COLUMNS, time=ZONED, nulls=["NA"], order="n"
    ),
    "short": stream(files={"pattern": "*.csv", "short_records": True}, columns=COLUMNS, time=ZONED, nulls=NULLS, max_jump="10d"),
    "glued": stream(
        files={"pattern": "*.csv", "quote": None, "glued_after": 1}, columns=COLUMNS, time=ZONED, nulls=NULLS, key=["s", "b"], max_jump="1d"
    ),
    "no quotes, a range": stream(
        files={"pattern": "*.csv", "quote": None}, columns=COLUMNS, time=ZONED, nulls=NULLS, range=["1970-01-01", "2030-01-01"], key="i"
    ),
    "from start to end": stream(
        files={"pattern": "*.csv"}, columns=[*COLUMNS[:3], {"name": "u", "type": "time"}, *COLUMNS[4:]], nulls=NULLS,
        time={"start": "t", "end": "u", "format": FORMATS}, order="time",
    ),
    "from start, lasting": stream(
        files={"pattern": "*.csv"}, columns=COLUMNS, nulls=NULLS, time={"start": "t", "duration": "n", "unit": "ms", "format": FORMATS}
    ),
    "picoseconds": stream(
        files={"pattern": "*.csv"}, columns=COLUMNS, nulls=NULLS,
        time={"column": "n", "unit": "ps", "format": "number", "origin": "2012-07-11"},
    ),
}  # fmt: skip


def fields(declaration: Declaration) -> st.SearchStrategy[bytes]:
    """A line: fields from the pool of each column, now and then one too few or too many, or another column's."""
    names = [column.name for column in declaration.columns]
    good = dict(zip([column["name"] for column in COLUMNS], GOOD, strict=True)) | {"u": "2020-01-02"}
    usual = st.tuples(*(st.sampled_from([good[name]] * len(POOLS[name]) + POOLS[name]) for name in names))
    odd = st.lists(st.sampled_from([text for name in names for text in POOLS[name]]), min_size=0, max_size=16)
    line = st.one_of(usual, usual, usual, usual.map(lambda cells: cells[:-2]), usual.map(lambda cells: cells + cells[1:]), odd)
    separator = declaration.files[0].separator
    return line.map(lambda cells: separator.join(cells).encode())


@st.composite
def text_files(draw: st.DrawFn, declaration: Declaration) -> dict[str, bytes]:
    """Some files whose first line is right, so that the delimiter is found, and then anything goes."""
    separator = declaration.files[0].separator
    first = separator.join(
        {**dict(zip([c["name"] for c in COLUMNS], GOOD, strict=True)), "u": "2020-01-02"}[c.name] for c in declaration.columns
    )
    contents = {}
    for n in range(draw(st.integers(3, 6))):
        body = b"".join(draw(st.lists(st.tuples(fields(declaration), ENDS).map(b"".join), max_size=8)))
        if draw(st.booleans()):
            body = mutated(draw, body)
        bom = draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"]))
        contents[f"part-{n}.csv"] = bom + first.encode() + draw(ENDS) + body
    return contents


@pytest.mark.parametrize("kind", DELIMITED)
def test_delimited_text_is_read_as_the_reference_reads_it(kind: str) -> None:
    @settings(max_examples=30, **FIXED)
    @given(text_files(DELIMITED[kind]))
    def check(contents: dict[str, bytes]) -> None:
        check_against_reference(DELIMITED[kind], contents)

    check()


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "cp1252"])
def test_bytes_at_random_are_read_as_the_reference_reads_them_in_any_encoding(encoding: str) -> None:
    declaration = stream(
        files={"pattern": "*.csv", "encoding": encoding},
        columns=[{"name": "n", "type": "int64"}, {"name": "s", "type": "string"}, {"name": "w", "type": "string"}],
        time={"column": "n", "format": "number"},
        nulls=NULLS,
    )
    alphabet = st.sampled_from([*b'0123456789,,,,\n\n\n\r"ab\x00\x80\x81\x85\x8d\xa0\xc2\xc3\xa9\xe9\xff \t'])
    body = st.one_of(st.binary(max_size=60), st.lists(alphabet, max_size=60).map(bytes))
    line = st.tuples(st.just(b"7,"), body.map(lambda b: b.replace(b"\n", b"").replace(b"\r", b"")), st.just(b",x\n")).map(b"".join)

    @settings(max_examples=40, **FIXED)
    @given(st.lists(st.one_of(body, line, st.lists(line, max_size=5).map(b"".join)), min_size=1, max_size=4))
    def check(bodies: list[bytes]) -> None:
        check_against_reference(declaration, {f"{n}.csv": b"1,a,b\n" + body for n, body in enumerate(bodies)})

    check()


def test_what_stands_in_front_of_the_records_may_be_anything_too() -> None:
    with_header = stream(files={"pattern": "*.csv", "header": True}, columns=COLUMNS, time=ZONED, nulls=NULLS)
    header = b",".join(column["name"].encode() for column in COLUMNS)

    @settings(max_examples=100, **FIXED)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        head = mutated(data.draw, data.draw(st.sampled_from([b"", header, header + b"\r\n", b"\n\n" + header + b"\n"])))
        check_sanity(with_header, {"a.csv": head + data.draw(st.one_of(st.binary(max_size=40), fields(with_header)))})

    check()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress, ".bz2": bz2.compress, ".zst": lambda content: pa.Codec("zstd").compress(content, asbytes=True),
}  # fmt: skip


def padded(content: bytes) -> bytes:
    """As a tape leaves it: blocks that are filled up with zeros, of which gzip takes no notice."""
    packed = gzip.compress(content)
    return packed + bytes(-len(packed) % 512)


def test_compressed_files_are_read_like_what_is_in_them() -> None:
    @settings(max_examples=15, **FIXED)
    @given(text_files(DELIMITED["comma"]), st.data())
    def check(plain: dict[str, bytes], data: st.DataObject) -> None:
        packed = {name: data.draw(st.sampled_from([*PACKED.items(), (".gz", padded), ("", bytes)])) for name in plain}
        contents = {name + packed[name][0]: packed[name][1](content) for name, content in plain.items()}
        check_against_reference(DELIMITED["comma"], contents, {name + packed[name][0]: content for name, content in plain.items()})

    check()


@pytest.mark.parametrize("zeros", [1, 2, 511, 3_000_000])
def test_zeros_behind_a_gzip_are_no_record_but_what_follows_them_is_told(tmp_path: Path, zeros: int) -> None:
    declaration = stream(files={"pattern": "*.csv"}, columns=[{"name": "t", "type": "int64"}], time={"column": "t", "format": "number"})
    content = gzip.compress(b"".join(b"%d\n" % n for n in range(100_000)))
    place = Place(tmp_path)
    done = place.ingest(declaration, {"a.csv.gz": content + content + bytes(zeros), "b.csv.gz": content + bytes(zeros) + content})
    assert counts(done) == {"a.csv.gz": (200_000, 200_000, 200_000, 0), "b.csv.gz": (100_001, 100_001, 100_000, 1)}


def test_compressed_files_that_are_cut_short_or_broken_lose_no_count() -> None:
    @settings(max_examples=25, **FIXED)
    @given(text_files(DELIMITED["comma"]), st.data())
    def check(plain: dict[str, bytes], data: st.DataObject) -> None:
        contents = {}
        for name, content in plain.items():
            suffix, pack = data.draw(st.sampled_from([*PACKED.items()]))
            contents[name + suffix] = mutated(data.draw, pack(content))
        check_sanity(DELIMITED["comma"], contents)

    check()


def test_a_compressed_file_that_is_cut_short_says_so(tmp_path: Path) -> None:
    place = Place(tmp_path)
    content = gzip.compress(b"".join(b"%d,%d\n" % (n, n * 7919 % 1000) for n in range(200_000)), compresslevel=1)
    declaration = stream(
        files={"pattern": "*.csv"}, columns=[{"name": "t", "type": "int64"}, {"name": "v", "type": "int32"}],
        time={"column": "t", "format": "number"},
    )  # fmt: skip
    done = place.ingest(declaration, {"a.csv.gz": content[: len(content) * 3 // 4], "b.csv": "1,1\n"})
    ((_, records, rows, rejected), _) = counts(done).values()
    assert rejected >= 1 and records == rows + rejected
    assert "compressed data that cannot be read" in place.rejects()[-1][3]
    assert place.rows()[-1]["v"] == 1  # the file behind it is read


def test_quoted_fields_with_line_ends_in_them_lose_no_count() -> None:
    declaration = stream(
        files={"pattern": "*.csv", "line_ends_in_fields": True, "short_records": True},
        columns=[{"name": "n", "type": "int64"}, {"name": "s", "type": "string"}],
        time={"column": "n", "format": "number"},
    )

    @settings(max_examples=50, **FIXED)
    @given(st.lists(st.lists(st.sampled_from([*b'12,,"""\n\n\r\n ab']), max_size=40).map(bytes), min_size=1, max_size=3))
    def check(bodies: list[bytes]) -> None:
        check_sanity(declaration, {f"{n}.csv": b'1,"a\nb"\n' + body for n, body in enumerate(bodies)})

    check()


QUOTED = stream(
    files={"pattern": "*.csv", "line_ends_in_fields": True},
    columns=[{"name": "n", "type": "int64"}, {"name": "s", "type": "string"}],
    time={"column": "n", "format": "number"},
)  # fmt: skip


def check_quoted(contents: Mapping[str, bytes]) -> tuple[int, int]:
    """Rows, counts and rejects are those of the reference, whose texts are not cut; how many rows and rejects there are."""
    with somewhere() as place:
        done, wanted = place.ingest(QUOTED, contents), expected(QUOTED, contents)
        assert counts(done) == wanted.counts
        assert [(row["n"], row["s"]) for row in place.rows()] == [(row["n"], row["s"]) for row in wanted.rows]
        assert [(file, line, reason) for file, line, _, reason in place.rejects()] == [(f, line, why) for f, line, _, why in wanted.rejects]
        return len(wanted.rows), len(wanted.rejects)


@pytest.mark.parametrize("block_bytes", [1, 8, 1000])
def test_quoted_fields_are_the_same_wherever_blocks_end_and_behind_lines_that_are_too_long(
    block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(lines, "LONGEST_BYTES", 40)
    monkeypatch.setattr(lines, "SHOWN_BYTES", 10)
    monkeypatch.setattr(reference, "LONGEST_LINE_BYTES", 40)
    part = st.sampled_from(
        [b"1,", b"2,", b",", b'"', b'"', b'""', b"\n", b"\r", b"\r\n", b"a", b'5" pipe', b'"a\nb"', b"x" * 30, b"\n3,c\n"]
    )
    seen = [0, 0]

    @settings(max_examples=40, **FIXED)
    @given(st.lists(st.lists(part, max_size=25).map(b"".join), min_size=1, max_size=3))
    def check(bodies: list[bytes]) -> None:
        for at, found in enumerate(check_quoted({f"{n}.csv": b'1,"a\nb"\n' + body for n, body in enumerate(bodies)})):
            seen[at] += found

    check()
    assert min(seen) > 50


def test_quoted_files_of_megabytes_are_read_as_the_reference_reads_them() -> None:
    random_ = random.Random(0)
    fields = [b"ok", b'5" pipe', b'"a\nb"', b'"c,""d""\r\n"', b'"' + b"long\n" * 4_000 + b'"', b'"' + b"x\n" * 700_000 + b'"', b'"e"f"g']
    weights = [60, 10, 20, 20, 3, 0.02, 5]
    records = [b"%d,%s" % (n, field) for n, field in enumerate(random_.choices(fields, weights, k=2_000))]
    records.insert(random_.randrange(2_000), b'7,"' + b'""\n' * 400_000 + b'"')  # longer than a record can be
    content = b"\r\n".join(records) + random_.choice([b"", b"\n", b'\n8,"open'])
    rows, rejected = check_quoted({"a.csv": content})
    assert rows > 1_500 and rejected >= 1


def test_a_line_end_between_quotes_belongs_to_the_field_where_the_declaration_says_so(tmp_path: Path) -> None:
    declaration = stream(
        files={"pattern": "*.csv", "header": True, "line_ends_in_fields": True},
        columns=[{"name": "n", "type": "int64"}, {"name": "s", "type": "string"}],
        time={"column": "n", "format": "number"},
    )
    place = Place(tmp_path)
    done = place.ingest(declaration, {"a.csv": 'n,s\n1,"a\nb"\n2,"c\r\n\r\n""d"""\r\n3,e\n4,"f",5\n5,"g\nh'}, split_bytes=3)
    assert [(row["n"], row["s"]) for row in place.rows()] == [(1, "a\nb"), (2, 'c\r\n\r\n"d"'), (3, "e")]
    assert [reason for _, _, _, reason in place.rejects()] == ["3 fields, 2 expected", "cannot be taken apart into fields"]
    assert counts(done)["a.csv"][1:] == (5, 3, 2)


# ---- cnv -----------------------------------------------------------------------------------------------------------------


def test_scans_with_any_bytes_in_them_are_read_as_the_reference_reads_them() -> None:
    declaration = stream(
        files={"pattern": "*.cnv", "format": "cnv"}, order="time", time={"column": "t", "format": "number"}, nulls=["", "x", "123.2"],
        columns=[{"name": "t", "from": "timeS", "type": "time"}, {"name": "f", "from": "flSP"},
                 {"name": "i", "from": "scan", "type": "int32"}],
    )  # fmt: skip
    head = b"\r\n".join([b"* Sea-Bird", b"# name 0 = scan: Scan", b"# name 1 = timeS: Time [s]", b"# name 2 = flSP: Fluorescence",
                         b"# start_time = Jul 11 2012 02:22:32", b"# bad_flag = -9.990e-29", b"*END*", b""])  # fmt: skip
    cell = st.sampled_from(
        ["1", "0.042", "-1.8000", "-9.990e-29", "-9.99e-29", "123.2000", "x", "", "nan", "12345678901", "-1234567.89", "1e3"]
    )
    row = st.tuples(cell, cell, cell).map(lambda cells: "".join(f"{c:>11}" for c in cells).encode())
    line = st.one_of(
        row, row, row, row.map(lambda r: r[:-1]), row.map(lambda r: r + b" "), st.binary(max_size=33), st.binary(min_size=33, max_size=33)
    )

    @settings(max_examples=50, **FIXED)
    @given(st.lists(st.lists(st.tuples(line, ENDS).map(b"".join), max_size=8).map(b"".join), min_size=1, max_size=3))
    def check(bodies: list[bytes]) -> None:
        check_against_reference(declaration, {f"{n}.cnv": head + body for n, body in enumerate(bodies)})

    check()


def test_a_header_of_a_tow_may_be_anything_too() -> None:
    declaration = stream(
        files={"pattern": "*.cnv", "format": "cnv"},
        time={"column": "t", "format": "number"},
        columns=[{"name": "t", "from": "timeS", "type": "time"}],
    )
    head = b"# name 0 = timeS: Time\r\n# start_time = Jul 11 2012 02:22:32\r\n# bad_flag = -9.990e-29\r\n*END*\r\n      0.042\r\n"

    @settings(max_examples=60, **FIXED)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        check_sanity(declaration, {"a.cnv": mutated(data.draw, mutated(data.draw, head))})

    check()


# ---- nothing much --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"\n", b"\r", b"\r\n\r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
@pytest.mark.parametrize("header", [True, False])
def test_a_file_with_nothing_in_it_has_no_records(tmp_path: Path, content: bytes, header: bool) -> None:
    declaration = stream(files={"pattern": "*.csv", "header": header}, columns=COLUMNS, time=ZONED)
    place = Place(tmp_path)
    done = place.ingest(declaration, {"a.csv": content})
    assert counts(done)["a.csv"][1:] == (0, 0, 0)
    assert place.rows() == [] and place.rejects() == []
    assert place.log().end == 0
