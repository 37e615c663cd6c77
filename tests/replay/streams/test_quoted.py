"""Lines that hold line ends: a quote opens the field that it begins, and only that; whatever stands in it belongs to it.

Where blocks end, and lines that are too long, make no difference: that is tried at random in `test_fuzz.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.streams import delimited
from tests.replay.streams.harness import Place, assert_equals, stream
from tests.replay.streams.reference import expected

QUOTED = stream(
    files={"pattern": "*.csv", "line_ends_in_fields": True},
    columns=[{"name": "t", "type": "time"}, {"name": "s", "type": "string"}],
    time={"column": "t", "format": "number"},
)  # fmt: skip


def test_a_quote_within_a_field_is_text_and_opens_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    contents = {"a.csv": b'1,5" pipe\n2,"6"" pipe\nlong"\n3,"a"b"c\n4, "d\n5,e\n'}
    done = place.ingest(QUOTED, contents)
    assert [row["s"] for row in place.rows()] == ['5" pipe', '6" pipe\nlong', 'ab"c', ' "d', "e"]
    assert_equals(place, done, expected(QUOTED, contents))


def test_a_line_that_is_too_long_is_one_reject_whatever_line_ends_it_holds(tmp_path: Path) -> None:
    # The quotes of a block alone do not tell what is inside: the one that opens the field is two blocks back.
    begins = [b"2," + b'"' + b"x" * 2000, b'2,"x\n']
    for n, (begin, middle) in enumerate((begin, middle) for begin in begins for middle in (b"x\n", b'x,""\r\n')):
        long, shorter = (begin + middle * (size // len(middle)) + b'"' for size in (9_000_000, 2_000_000))
        place = Place(tmp_path / str(n))
        done = place.ingest(QUOTED, {"a.csv": b"1,a\n" + long + b'\n3,"b\nc"\n' + shorter + b"\n4,d\n"})
        assert [(row["ts"], row["s"]) for row in place.rows()] == [(1_000_000, "a"), (3_000_000, "b\nc"), (4_000_000, "d")]
        assert [(line, text[:3], reason) for _, line, text, reason in place.rejects()] == [
            (2, '2,"', "longer than a record can be"), (4, '2,"', "longer than a record can be"),
        ]  # fmt: skip
        (entry,) = done.manifest.files
        assert (entry.lines, entry.records, entry.rows, entry.rejected) == (5, 5, 3, 2)


def test_lines_whose_quotes_do_not_close_are_set_aside_and_all_others_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, read_csv = [], delimited.csv.read_csv
    monkeypatch.setattr(delimited.csv, "read_csv", lambda *given: calls.append(1) or read_csv(*given))
    columns = [{"name": "t", "type": "int64"}, {"name": "v"}, {"name": "s", "type": "string"}]
    declaration = stream(files={"pattern": "*.csv"}, columns=columns, time={"column": "t", "format": "number"})
    odd = {100: '"100","1.5","te', 101: '"101","1.5,a', 700: '700,"x"y,1"', 1999: '"1999","1.5","a""'}
    contents = {"a.csv": "".join(odd.get(n, f'"{n}","1.5","5"" pipe"') + "\n" for n in range(2000)).encode()}
    place = Place(tmp_path)
    done = place.ingest(declaration, contents)
    assert_equals(place, done, expected(declaration, contents))
    assert [line for _, line, *_ in place.rejects()] == [n + 1 for n in odd]
    assert len(calls) < 20  # of 2000 lines


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_header_may_hold_line_ends_too(tmp_path: Path, encoding: str) -> None:
    files = {"pattern": "*.csv", "line_ends_in_fields": True, "header": True, "encoding": encoding}
    columns = [{"name": "t", "from": "the\ntime", "type": "time"}, {"name": "s", "type": "string"}]
    declaration = stream(files=files, columns=columns, time={"column": "t", "format": "number"})
    place = Place(tmp_path)
    done = place.ingest(declaration, {"a.csv": '"a ""t""\r\nof day",s,"the\ntime"\nx,"é\n",1\n'.encode(encoding)})
    assert [(row["ts"], row["s"]) for row in place.rows()] == [(1_000_000, "é\n")]
    (entry,) = done.manifest.files
    assert (entry.lines, entry.records) == (2, 1)
