"""JSON lines: what stands for no value in objects, and what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replay.streams import jsonlines
from replay.streams.declaration import Declaration
from tests.replay.streams.harness import Place, assert_equals, nothing_but, stream
from tests.replay.streams.reference import expected


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def json_lines(**more: Any) -> Declaration:
    columns = [{"name": "t", "type": "int64"}, {"name": "v", "type": "float64"}, {"name": "b", "type": "bool"}]
    return stream(files={"pattern": "*", "format": "json"}, columns=columns, time={"column": "t", "format": "number"}, **more)


def test_texts_and_numbers_that_mean_none_are_none_in_objects_too(place: Place) -> None:
    values = [(1, '"NA"'), (2, '""'), (3, "NaN"), (4, "Infinity"), (5, "null"), (6, "0.1"), (7, '"1.5"'), (8, "-Infinity")]
    text = "".join(f'{{"t":{t},"v":{v},"b":{b},"x":{{"v":"NA"}}}}\n' for (t, v), b in zip(values, ["true"] * 5 + ['"NA"'] * 3, strict=True))
    place.ingest(json_lines(nulls=["", "NA", "NaN", "inf"]), {"a": text})
    assert nothing_but(place.rows(), "t", "v", "b") == [*((t, None, True) for t in range(1, 6)), (6, 0.1, None)]
    assert [(line, reason) for _, line, _, reason in place.rejects()] == [(7, "not a number: v"), (8, "not a finite number: v")]
    assert place.rejects()[0][2] == text.splitlines()[6]  # as it stands in the file


def test_texts_that_nobody_declared_to_mean_none_are_rejected(place: Place) -> None:
    place.ingest(json_lines(nulls=["NA"]), {"a": '{"t":1,"v":"","b":true}\n{"t":2,"v":NaN,"b":true}\n{"t":3,"v":1,"b":"NA"}\n'})
    assert nothing_but(place.rows(), "t", "v", "b") == [(3, 1.0, None)]
    assert [reason for *_, reason in place.rejects()] == ["not a number: v", "not a finite number: v"]


def test_a_member_may_be_two_columns_each_as_its_type_has_it(place: Place) -> None:
    columns = [{"name": "t", "type": "int64"}, {"name": "about", "from": "t", "type": "float64"},
               {"name": "v", "type": "string"}, {"name": "w", "from": ["v", "other"], "type": "int8"}]  # fmt: skip
    declaration = stream(files={"pattern": "*", "format": "json"}, columns=columns, time={"column": "t", "format": "number", "unit": "ns"})
    place.ingest(declaration, {"a": '{"t":9007199254740993,"other":5}\n{"t":2,"v":""}\n{"t":3,"v":"x"}\n{"t":4.5}\n'})
    assert nothing_but(place.rows(), "t", "about", "v", "w") == [(2**53 + 1, 2.0**53, None, 5), (2, 2.0, None, None)]
    assert [reason for *_, reason in place.rejects()] == ["not a whole number: w", "not a whole number: t"]


def test_lines_that_cannot_be_read_are_found_without_reading_the_others_again_and_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, read_json = [], jsonlines.json.read_json
    monkeypatch.setattr(jsonlines.json, "read_json", lambda *given: calls.append(1) or read_json(*given))
    odd = [
        '{"t":"x","v":1}',
        "{",
        "[1]",
        '{"t":1,"v":"NA"}',
        '{"t":9223372036854775808}',
        '{"t":1.5}',
        '{"t":3,"v":1e400}',
        '{"t":2,"b":0}',
    ]
    lines = [odd[n // 100 % len(odd)] if n % 100 == 50 else f'{{"t":{n},"v":0.5,"b":true}}' for n in range(6_000)]
    contents = {"a": "".join(f"{line}\n" for line in lines).encode()}
    done = place.ingest(json_lines(nulls=["", "NA"]), contents)
    assert_equals(place, done, expected(json_lines(nulls=["", "NA"]), contents))
    assert len(place.rejects()) > 50
    assert len(calls) < 250  # that 60 of 6,000 lines are wrong is found by halving in 690
