"""Whatever the bytes are, ingestion neither crashes nor loses a record, and reads what the reference reads.

Every example is an ingestion of a few small files; the seeds are fixed, so that a run is like any other. What is too large
or too rare for this (lines of megabytes, splits) is in `test_splits.py`.
"""

from __future__ import annotations

import bz2
import gzip
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.streams.declaration import Declaration
from replay.streams.parsed import StreamError
from tests.replay.streams.fuzz_values import REAL, TEXTS, TIMES, TRUTHS, WHOLE
from tests.replay.streams.harness import Place, assert_equals, counts, stream
from tests.replay.streams.reference import expected

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


# ---- delimited text ------------------------------------------------------------------------------------------------------

NULLS = ["", "NA"]
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


ENDS = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\r", b"\n\n", b"\r\r\n", b"\n\r"])


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


def mutated(draw: st.DrawFn, body: bytes) -> bytes:
    """Bytes cut off, put in, or changed, as broken disks and wrong encodings do."""
    at = draw(st.integers(0, len(body)))
    what = draw(st.sampled_from(["cut", "insert", "change", "drop"]))
    if what == "cut":
        return body[:at]
    some = draw(st.one_of(st.binary(max_size=5), st.sampled_from([b'"', b"\xff", b"\xc3", b"\x00", b"\x85", "é".encode("latin-1"), b"\r"])))
    return body[:at] + some + body[at + (0 if what == "insert" else 1 if what == "drop" else len(some)) :]


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


def test_compressed_files_are_read_like_what_is_in_them() -> None:
    @settings(max_examples=15, **FIXED)
    @given(text_files(DELIMITED["comma"]), st.data())
    def check(plain: dict[str, bytes], data: st.DataObject) -> None:
        packed = {name: data.draw(st.sampled_from([(".gz", gzip.compress), (".bz2", bz2.compress), ("", bytes)])) for name in plain}
        contents = {name + packed[name][0]: packed[name][1](content) for name, content in plain.items()}
        check_against_reference(DELIMITED["comma"], contents, {name + packed[name][0]: content for name, content in plain.items()})

    check()


def test_compressed_files_that_are_cut_short_or_broken_lose_no_count() -> None:
    @settings(max_examples=25, **FIXED)
    @given(text_files(DELIMITED["comma"]), st.data())
    def check(plain: dict[str, bytes], data: st.DataObject) -> None:
        contents = {}
        for name, content in plain.items():
            suffix, pack = data.draw(st.sampled_from([(".gz", gzip.compress), (".bz2", bz2.compress)]))
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


# ---- JSON lines ----------------------------------------------------------------------------------------------------------

MEMBERS = {
    "t": ['"2020-01-01"', '"2020-01-01T00:00:00.5Z"', '"soon"', "5", "null", '""', "true", "[1]"],
    "i": ["1", "-5", "128", "1.0", "1e2", '"1"', "null", "true", "9223372036854775808", "{}", '"NA"', "-0"],
    "f": ["1", "1.5", "-0.0", "1e400", "-1e400", "NaN", "Infinity", '"1"', "null", "false", "123456789012345678901234567890", "1E-5"],
    "b": ["true", "false", "1", "0", '"true"', "null"],
    "s": ['"a"', '"é"', '"\\u00e9"', '"\\ud83d\\ude00"', '"\\ud800"', '"NA"', '""', "null", "1", "[]", '{"a": 1}', '"a\\nb"', '"}{"'],
    "x": ["1", '"y"', '{"t": 5}', "[[]]", "null"],
}
JSON = stream(
    files={"pattern": "*.json", "format": "json"}, nulls=NULLS, order="time", time={"column": "t"},
    columns=[{"name": "t", "type": "time"}, *({"name": name, "type": kind, "optional": True} for name, kind in
             (("i", "int8"), ("f", "float64"), ("b", "bool"), ("s", "string")))],
)  # fmt: skip
FIRST = b'{"t":"2020-01-01"}\n'
"""A file whose first records are no objects, or have no time, is refused as a whole: that is tested elsewhere."""


def objects() -> st.SearchStrategy[bytes]:
    member = {name: st.sampled_from([pool[0]] * len(pool) + pool) for name, pool in MEMBERS.items()}
    some = st.fixed_dictionaries({"t": member["t"]}, optional={name: member[name] for name in MEMBERS if name != "t"})
    space = st.sampled_from(["", "", " ", "\t"])
    return st.builds(
        lambda values, a, b: (b + "{" + ",".join(f'{a}"{name}"{a}:{b}{text}' for name, text in values.items()) + a + "}" + b).encode(),
        some, space, space,
    )  # fmt: skip


def test_json_lines_are_read_as_the_reference_reads_them() -> None:
    odd = st.sampled_from([b"{}", b"[]", b"null", b"5", b'"x"', b"{", b"}", b'{"t":', b'{"t":"2020-01-01"}}',
                           b'{"t":"2020-01-01"}{"t":"2020-01-01"}', b'{"t":"2020-01-01",}', b"{'t':1}", b"   ",
                           b'{"t":"2020-01-01","s":"a\tb"}', b'{"t":"2020-01-01"} x'])  # fmt: skip

    @st.composite
    def files(draw: st.DrawFn) -> dict[str, bytes]:
        contents = {}
        for n in range(draw(st.integers(3, 6))):
            lines = draw(st.lists(st.tuples(st.one_of(objects(), objects(), objects(), odd), ENDS).map(b"".join), max_size=10))
            contents[f"part-{n}.json"] = draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + FIRST + b"".join(lines)
        return contents

    @settings(max_examples=40, **FIXED)
    @given(files())
    def check(contents: dict[str, bytes]) -> None:
        check_against_reference(JSON, contents)

    check()


def test_json_lines_with_any_bytes_in_them_lose_no_count() -> None:
    @settings(max_examples=50, **FIXED)
    @given(st.lists(st.tuples(objects(), ENDS).map(b"".join), max_size=6).map(b"".join), st.data())
    def check(body: bytes, data: st.DataObject) -> None:
        check_sanity(JSON, {"a.json": FIRST + mutated(data.draw, body), "b.json": FIRST + data.draw(st.binary(max_size=40))})

    check()


@pytest.mark.parametrize(
    "deep", [b'{"t":"2020-01-01","x":' + b"[" * 100_000, b'{"t":"2020-01-01","x":' + b"[" * 50_000 + b"]" * 50_000 + b"}", b"[" * 200_000]
)
def test_json_nested_a_hundred_thousand_deep_is_at_most_a_reject(tmp_path: Path, deep: bytes) -> None:
    place = Place(tmp_path)
    done = place.ingest(JSON, {"a.json": deep + b'\n{"t":"2020-01-01"}\n'})
    (_, records, rows, rejected) = counts(done)["a.json"]
    assert (records, rows + rejected) == (2, 2) and rows >= 1


# ---- cnv -----------------------------------------------------------------------------------------------------------------


def test_scans_with_any_bytes_in_them_are_read_as_the_reference_reads_them() -> None:
    declaration = stream(
        files={"pattern": "*.cnv", "format": "cnv"}, order="time", time={"column": "t", "format": "number"},
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
