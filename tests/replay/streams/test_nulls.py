"""What stands for no value does so in every format: a number however it is written, a text whatever blanks are around it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from replay.streams.declaration import Declaration
from tests.replay.streams.harness import Place, assert_equals, nothing_but, stream
from tests.replay.streams.reference import expected

NULLS = ["", "NA", "-999", "-99.9", "NaN"]
KINDS = {"i": "int16", "n": "int64", "f": "float32", "d": "float64"}


def declared(form: str, nulls: list[str] = NULLS) -> Declaration:
    columns = [{"name": "t", "type": "int64"}, *({"name": name, "type": kind} for name, kind in KINDS.items())]
    time = {"column": "t", "format": "number"}
    return stream(files={"pattern": "a" if form == "delta" else "*", "format": form}, columns=columns, time=time, nulls=nulls)


def write(place: Place, form: str, rows: list[tuple[Any, ...]]) -> None:
    place.raw.mkdir(parents=True)
    table = pa.table({name: pa.array(values) for name, values in zip(["t", *KINDS], zip(*rows, strict=True), strict=True)})
    if form == "csv":
        place.write({"a": "".join(",".join("" if v is None else str(v) for v in row) + "\n" for row in rows)})
    elif form == "json":
        place.write({"a": "".join(json.dumps(row) + "\n" for row in table.to_pylist())})
    elif form == "parquet":
        # A sentinel of 32 bits is none of the doubles that its text is nearest to.
        at = table.schema.get_field_index("d")
        pq.write_table(table.set_column(at, "d", table["d"].cast(pa.float32())), place.raw / "a")
    else:
        write_deltalake(place.raw / "a", table)


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "delta"])
def test_a_number_stands_for_none_in_every_format_however_it_is_written(tmp_path: Path, form: str) -> None:
    rows = [(1, 1, 1, 1.5, 1.5), (2, -999, -999, -999.0, -999.0), (3, -99, -998, -99.9, -99.9), (4, None, None, float("nan"), -99.5)]
    place = Place(tmp_path)
    write(place, form, rows)
    place.ingest(declared(form))
    assert nothing_but(place.rows(), "ts", *KINDS) == [
        (1_000_000, 1, 1, 1.5, 1.5), (2_000_000, None, None, None, None), (3_000_000, -99, -998, None, None),
        (4_000_000, None, None, None, -99.5),
    ]  # fmt: skip
    assert place.rejects() == []


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "delta"])
def test_a_whole_number_may_be_named_with_decimals_to_its_last_digit(tmp_path: Path, form: str) -> None:
    place = Place(tmp_path)
    write(place, form, [(1, -999, 2**53 + 1, 0.5, 1.5), (2, -998, 2**53, 0.25, 1.5)])
    place.ingest(declared(form, ["-999.0", str(2**53 + 1), "0.5"]))
    assert nothing_but(place.rows(), *KINDS) == [(None, None, None, 1.5), (-998, 2**53, 0.25, 1.5)]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.int16(), pa.int64(), pa.decimal128(10, 2), pa.string()])
def test_a_number_of_any_type_of_parquet_stands_for_none(tmp_path: Path, kind: pa.DataType) -> None:
    place = Place(tmp_path)
    place.raw.mkdir()
    numbers = pa.array(["1", "-999", None]).cast(pa.int16())
    values = numbers.cast(pa.float32()).cast(kind) if kind == pa.float16() else numbers.cast(kind)
    pq.write_table(pa.table({"t": [1, 2, 3], "v": values, "w": pa.array(values.to_pylist(), kind).dictionary_encode()}), place.raw / "a")
    columns = [{"name": "t", "type": "int64"}, {"name": "v"}, {"name": "w", "type": "float32"}]
    place.ingest(
        stream(files={"pattern": "*", "format": "parquet"}, columns=columns, time={"column": "t", "format": "number"}, nulls=NULLS)
    )
    assert nothing_but(place.rows(), "v", "w") == [(1.0, 1.0), (None, None), (None, None)]


MIXED = stream(
    files={"pattern": "*.csv"}, nulls=["", "NA", "-9"], time={"column": "t", "format": "number"},
    columns=[{"name": "t", "type": "time"}, {"name": "f"}, {"name": "i", "type": "int32"}, {"name": "b", "type": "bool"},
             {"name": "s", "type": "string"}],
)  # fmt: skip


@pytest.mark.parametrize("others", [0, 200], ids=["alone", "among plain lines"])
def test_blanks_around_what_stands_for_none_make_no_difference_but_in_texts(tmp_path: Path, others: int) -> None:
    odd = "1, NA,4,1,a\n2, ,5,NA ,b\n3,-9.0,\t-9\t, , NA\n4,1,-09,1,NA\n"
    odd += ' NA,1,1,1,c\n -9 ,1,1,1,d\n5,N A,1,1,e\n6," NA"," ",""," "\n'
    contents = {"a.csv": (odd + "".join(f"{n},1,1,1,x\n" for n in range(others))).encode()}
    place = Place(tmp_path)
    assert_equals(place, place.ingest(MIXED, contents), expected(MIXED, contents))
    assert nothing_but(place.rows()[:5], "f", "i", "b", "s") == [
        (None, 4, True, "a"), (None, 5, None, "b"), (None, None, None, " NA"), (1.0, None, True, None), (None, None, None, " "),
    ]  # fmt: skip
    assert [reason for *_, reason in place.rejects()] == ["missing: t", "missing: t", "not a number: f"]


def test_texts_of_parquet_and_json_stand_for_none_with_blanks_around_them(tmp_path: Path) -> None:
    texts = [" NA", "-9.0", " 1", " "]
    columns = [{"name": "t", "type": "int64"}, {"name": "v"}, {"name": "s", "type": "string"}]
    for form, wanted in (("parquet", [None, None, 1.0, None]), ("json", [None, None])):
        place = Place(tmp_path / form)
        place.raw.mkdir(parents=True)
        table = pa.table({"t": [1, 2, 3, 4], "v": texts, "s": texts})
        if form == "parquet":
            pq.write_table(table, place.raw / "a")
        else:
            place.write({"a": "".join(json.dumps(row) + "\n" for row in table.to_pylist())})
        time = {"column": "t", "format": "number"}
        place.ingest(stream(files={"pattern": "*", "format": form}, columns=columns, time=time, nulls=["", "NA", "-9"]))
        assert nothing_but(place.rows(), "v") == [(value,) for value in wanted]
        assert [row["s"] for row in place.rows()] == (texts if form == "parquet" else [" NA", " "])
        # A text is no number in JSON, so it is none of those that stand for none.
        assert [reason for *_, reason in place.rejects()] == ([] if form == "parquet" else ["not a number: v"] * 2)


def test_cells_of_a_tow_may_be_blank_or_stand_for_none(tmp_path: Path) -> None:
    columns = [{"name": "t", "from": "timeS", "type": "time"}, {"name": "v", "from": "flSP"}]
    tow = stream(
        files={"pattern": "*.cnv", "format": "cnv"}, columns=columns, time={"column": "t", "format": "number"}, nulls=["", "NaN", "-5"],
    )  # fmt: skip
    head = ["# name 0 = timeS: Time [s]", "# name 1 = flSP: Fluorescence", "# start_time = Jul 11 2012 02:22:32", "*END*"]
    scans = [f"{t:>11}{v:>11}" for t, v in ((0, "27.8"), (1, ""), (2, "NaN"), (3, "-5.00"), (4, "x"), ("", "1"))]
    place = Place(tmp_path)
    place.ingest(tow, {"a.cnv": "\r\n".join([*head, *scans]) + "\r\n"})
    assert nothing_but(place.rows(), "v") == [(27.8,), (None,), (None,), (None,)]
    assert [reason for *_, reason in place.rejects()] == ["not a number: v", "missing: t"]
