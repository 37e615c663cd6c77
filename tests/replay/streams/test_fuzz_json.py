"""JSON lines at random, and nested beyond all measure, against the slow reader."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.replay.streams.fuzzing import ENDS, FIXED, NULLS, check_against_reference, check_sanity, mutated
from tests.replay.streams.harness import Place, counts, stream

MEMBERS = {
    "t": ['"2020-01-01"', '"2020-01-01T00:00:00.5Z"', '"soon"', "5", "null", '""', "true", "[1]", '" NA"', '" -99"'],
    "i": ["1", "-5", "128", "1.0", "1e2", '"1"', "null", "true", "9223372036854775808", "{}", '"NA"', '" NA"', "-0", "-99", "-99.0", "NaN"],
    "f": [
        "1",
        "1.5",
        "-0.0",
        "1e400",
        "-1e400",
        "NaN",
        "Infinity",
        '"1"',
        "null",
        "false",
        "123456789012345678901234567890",
        "1E-5",
        "-99",
        "-9.9e1",
        '"NA "',
        '"\\tNA"',
        '" "',
    ],
    "b": ["true", "false", "1", "0", '"true"', "null", '"NA"', '" NA"'],
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
