"""What cannot be ingested is refused in one sentence that names the file and the setting, before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from engines.spec import SpecError
from replay.lake import Lake, LakeError
from replay.log_writer import append
from replay.streams import ingest as ingesting
from replay.streams.declaration import Declaration, declaration, load
from replay.streams.ingest import ingest
from replay.streams.parsed import StreamError
from replay.streams.raw import list_files
from replay.streams.tasks import InProcess
from tests.replay.streams.harness import Place, stream

COLUMNS = [{"name": "t", "type": "int64"}, {"name": "k", "type": "string"}, {"name": "v", "type": "float64"}]
NUMBER = {"column": "t", "format": "number"}


def csv(**more: Any) -> Declaration:
    return stream(
        files={"pattern": "*.csv", "header": True} | more.pop("files", {}), columns=more.pop("columns", COLUMNS), time=NUMBER, **more
    )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def refused(place: Place, declaration: Declaration, contents: dict[str, bytes | str]) -> str:
    """The sentence with which an ingestion is refused; nothing may have been written."""
    place.raw.mkdir(parents=True, exist_ok=True)
    with pytest.raises(StreamError) as caught:
        place.ingest(declaration, contents, split_bytes=100)
    assert place.is_untouched(declaration.name)
    return str(caught.value)


# ---- files ---------------------------------------------------------------------------------------------------------------


def test_no_file_that_matches_the_pattern(place: Place) -> None:
    assert refused(place, csv(), {"a.txt": "t,k,v\n1,a,1\n"}) == (
        f"stream s: no file in {place.raw} matches its setting files.pattern, '*.csv'."
    )


def test_of_several_patterns_all_are_named(place: Place) -> None:
    assert refused(place, declaration("dye"), {}) == (
        f"stream dye: no file in {place.raw} matches its setting files.pattern, '*.cnv' or '*.csv'."
    )


def test_a_folder_that_is_not_there(place: Place) -> None:
    with pytest.raises(StreamError, match=r"no file in .*/nowhere matches its setting files.pattern, '\*.csv'\.$"):
        ingest(place.lake, csv(), Lake(str(place.root / "nowhere")), InProcess())
    assert place.is_untouched()


def test_a_file_that_goes_away_while_it_is_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write({"a.csv": "t,k,v\n1,a,1\n", "b.csv": "t,k,v\n1,a,1\n"})
    listed = list_files(Lake(str(place.raw)), csv())
    (place.raw / "b.csv").unlink()
    monkeypatch.setattr(ingesting, "list_files", lambda *_: listed)
    assert refused(place, csv(), {}) == f"file b.csv: it is no longer in {place.raw}; nothing was stored."


def test_a_file_that_cannot_be_read(place: Place) -> None:
    place.write({"a.csv": "t,k,v\n1,a,1\n"})
    (place.raw / "b.csv").symlink_to("/proc/self/mem")  # which a test that runs as root cannot read either
    assert refused(place, csv(), {}).startswith("file b.csv: it cannot be read (")


@pytest.mark.parametrize("pattern", ["*", "raw"])
def test_a_delta_table_in_the_place_of_the_folder_of_tables(place: Place, pattern: str) -> None:
    write_deltalake(place.raw, pa.table({"t": [1], "k": ["a"], "v": [1.0]}))
    declaration = csv(files={"pattern": pattern, "header": False, "format": "delta"})
    assert refused(place, declaration, {}) == (
        f"stream s: its folder {place.raw} is itself a Delta table; allowed are tables in it, which the setting files.pattern names."
    )


def test_a_log_that_was_not_made_from_files_is_not_overwritten(place: Place) -> None:
    append(place.lake, "s", pa.table({"ts": pa.array([1], pa.timestamp("us", tz="UTC")), "v": [1.0]}))
    with pytest.raises(StreamError, match=r"^stream s: the log .*/streams/s was not made from raw files; allowed is a name without one\.$"):
        place.ingest(csv(), {"a.csv": "t,k,v\n1,a,1\n"})
    assert len(place.rows()) == 1


# ---- delimiters and columns ----------------------------------------------------------------------------------------------


def test_a_delimiter_that_is_part_of_a_character_delimits_nothing(place: Place) -> None:
    text = "ポート"  # of which Shift_JIS writes the first as 0x83 0x7C, and 0x7C is the bar
    assert b"|" in text.encode("shift_jis")
    columns = [{"name": "t", "type": "int64"}, {"name": "s", "type": "string"}, {"name": "v", "type": "int64"}]
    files = {"pattern": "*.csv", "delimiter": "|", "encoding": "shift_jis", "quote": None}
    declaration = stream(files=files, columns=columns, time={"column": "t", "format": "number"})
    place.ingest(declaration, {"a.csv": "".join(f"{n}|{text}|{n}\n" for n in range(4)).encode("shift_jis")})
    assert [(row["t"], row["s"], row["v"]) for row in place.rows()] == [(n, text, n) for n in range(4)]
    with pytest.raises(StreamError, match="^file b.csv: its first record '1,ポート,1' has no '|', the setting files.delimiter.$"):
        place.ingest(declaration, {"b.csv": "".join(f"1,{text},1\n" for n in range(4)).encode("shift_jis")})


def test_a_header_with_another_delimiter(place: Place) -> None:
    assert refused(place, csv(), {"a.csv": "t;k;v\n1;a;1\n"}) == "file a.csv: its header 't;k;v' has no ',', the setting files.delimiter."


def test_records_with_another_delimiter(place: Place) -> None:
    found = refused(place, csv(files={"header": False, "format": "tsv"}), {"a.csv": "\n\n1,a,1\n2,b,2\n"})
    assert found == "file a.csv: its first record '1,a,1' has no '\\t', the setting files.delimiter."


def test_records_all_of_which_have_the_delimiter_for_something_else(place: Place) -> None:
    lines = "".join(f"{n};a;{n},5\n" for n in range(3))
    assert refused(place, csv(files={"header": False}), {"a.csv": lines}) == (
        "file a.csv: its first 3 records, such as '0;a;0,5', have 2 fields between ',', the setting files.delimiter; "
        "allowed are 3, as the setting columns says."
    )
    place.ingest(csv(files={"header": False}), {"a.csv": lines + "3,b,1\n", "b.csv": "7;a,5\n"})
    assert len(place.rows()) == 1 and len(place.rejects()) == 4


def test_one_record_without_the_delimiter_among_others_is_only_a_reject(place: Place) -> None:
    place.ingest(csv(files={"header": False}), {"a.csv": "oops\n1,a,1\n"})
    assert place.rejects() == [("a.csv", 1, "oops", "1 field, 3 expected")]


def test_a_column_that_is_not_in_the_header(place: Place) -> None:
    assert refused(place, csv(), {"a.csv": "t,K,v\n1,a,1\n"}) == (
        "file a.csv: the column 'k' of the setting columns is missing; found are t, K, v."
    )


def test_a_column_under_none_of_its_names(place: Place) -> None:
    columns = [*COLUMNS[:2], {"name": "v", "from": ["speed", "velocity"]}]
    assert refused(place, csv(columns=columns), {"a.csv": "t,k,v\n1,a,1\n"}) == (
        "file a.csv: the column 'speed' or 'velocity' of the setting columns is missing; found are t, k, v."
    )


def test_an_optional_column_may_be_missing(place: Place) -> None:
    place.ingest(csv(columns=[*COLUMNS, {"name": "w", "type": "int32", "optional": True}]), {"a.csv": "t,k,v\n1,a,1\n"})
    assert place.rows()[0]["w"] is None


def test_the_second_of_two_files_is_refused_before_the_first_is_stored(place: Place) -> None:
    found = refused(place, csv(), {"a.csv": "t,k,v\n1,a,1\n", "b.csv": "t,v\n1,1\n"})
    assert found.startswith("file b.csv: the column 'k' of the setting columns is missing")


def test_a_new_file_that_is_refused_leaves_the_log_as_it_was(place: Place) -> None:
    place.ingest(csv(), {"a.csv": "t,k,v\n1,a,1\nx,a,1\n"})
    before = place.log().version, place.rows(), place.rejects()
    with pytest.raises(StreamError, match="^file b.csv: its header"):
        place.ingest(csv(), {"b.csv": "t v\n1 2\n"})
    assert (place.log().version, place.rows(), place.rejects()) == before
    (place.raw / "b.csv").unlink()
    assert place.ingest(csv()).changed is None


def test_a_first_line_of_megabytes_is_no_header_and_told_in_one_short_sentence(place: Place) -> None:
    found = refused(place, csv(), {"a.csv": b"x" * (3 << 20) + b"\n1,a,1\n"})
    assert found.startswith("file a.csv: its first line 'xxx") and "files.header" in found and len(found) < 300
    found = refused(place, csv(), {"a.csv": b"x," * (3 << 19) + b"\n1,a,1\n"})
    assert found.startswith("file a.csv: the column 't' of the setting columns is missing") and len(found) < 1200


@pytest.mark.parametrize("content", ["", "no header at all\n", "# name 0 = timeS: Time\r\n      0.042\r\n", "*END*\r\n      0.042\r\n"])
def test_a_tow_without_a_header(place: Place, content: str) -> None:
    assert refused(place, declaration("dye"), {"tow4.cnv": content}) == (
        "file tow4.cnv: no header with '# name' and '*END*' found, which files.format 'cnv' has."
    )


def test_a_tow_whose_header_lacks_a_column(place: Place) -> None:
    found = refused(place, declaration("dye"), {"tow4.cnv": "# name 0 = scan: Scan\r\n# name 1 = timeS: Time\r\n*END*\r\n"})
    assert found == (
        "file tow4.cnv: the column 'wetCDOM' or 'flSP' or 'fluorescence' of the setting columns is missing; found are scan, timeS."
    )


def test_a_file_name_in_which_the_key_is_not_found(place: Place) -> None:
    columns = [*COLUMNS, {"name": "tow", "type": "int32", "from_file": "tow([0-9a-z]+)"}]
    assert refused(place, csv(columns=columns), {"4.csv": "t,k,v\n1,a,1\n"}) == (
        "file 4.csv: the setting columns.tow.from_file, 'tow([0-9a-z]+)', finds nothing in its name."
    )
    (place.raw / "4.csv").unlink()
    found = refused(place, csv(columns=columns), {"tow4b.csv": "t,k,v\n1,a,1\n"})
    assert (
        found.startswith("file tow4b.csv: the setting columns.tow.from_file, 'tow([0-9a-z]+)', finds '4b' in its name") and "int32" in found
    )


def test_what_is_not_parquet(place: Place) -> None:
    declaration = csv(files={"pattern": "*.parquet", "header": False, "format": "parquet"})
    found = refused(place, declaration, {"a.parquet": "t,k,v\n1,a,1\n"})
    assert found.startswith("file a.parquet: it is not Parquet, as files.format says (")


def test_parquet_with_a_column_twice(place: Place) -> None:
    declaration = csv(files={"pattern": "*.parquet", "header": False, "format": "parquet"})
    place.raw.mkdir()
    pq.write_table(
        pa.Table.from_arrays([pa.array([1]), pa.array(["a"]), *[pa.array([1.0])] * 2], ["t", "k", "v", "v"]), place.raw / "a.parquet"
    )
    assert refused(place, declaration, {}) == "file a.parquet: the column 'v' of the setting columns is there 2 times; allowed is once."


def test_a_header_with_a_declared_column_twice_and_one_that_nobody_reads(place: Place) -> None:
    assert refused(place, csv(), {"a.csv": "t,k,v,k,k\n1,a,1,b,c\n"}) == (
        "file a.csv: the column 'k' of the setting columns is there 3 times; allowed is once."
    )
    place.ingest(csv(), {"a.csv": "t,k,v,x,x\n1,a,1,b,c\n"})
    assert len(place.rows()) == 1


TOW = "# name 0 = scan: Scan\r\n# name 1 = timeS: Time\r\n# name 2 = flSP: F\r\n{}*END*\r\n" + f"{1:>11}{0.25:>11}{1.5:>11}\r\n"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("", "no start_time"),
        ("# start_time = 11 Jul 2012 02:22:32\r\n", "start_time '11 Jul 2012 02:22:32', which is not"),
        ("# start_time = Jul 32 2012 02:22:32\r\n", "start_time 'Jul 32 2012 02:22:32', which is not"),
    ],
)
def test_a_tow_that_does_not_say_when_it_began(place: Place, line: str, found: str) -> None:
    assert refused(place, declaration("dye"), {"tow4.cnv": TOW.format(line)}) == (
        f"file tow4.cnv: its header has {found} such as 'Jul 11 2012 02:22:32', to count times from; "
        "allowed is one, or the setting time.origin."
    )
    dye = declaration("dye")
    place.ingest(dye.model_copy(update={"time": dye.time.model_copy(update={"origin": 0})}))
    assert [row["ts"] for row in place.rows("dye")] == [250_000]


def json(**column: Any) -> Declaration:
    columns = [{"name": "t", "type": "int64"}, {"name": "v", **column}]
    return stream(files={"pattern": "*", "format": "json"}, columns=columns, time=NUMBER)


def test_json_lines_without_a_column(place: Place) -> None:
    assert refused(place, json(**{"from": ["sped", "velocity"]}), {"a": '{"t":1,"speed":3}\n\n{"t":2}\n'}) == (
        "file a: the column 'sped' or 'velocity' of the setting columns is missing in its first 2 records; "
        "found are t, speed; one that few records have is allowed if it is optional."
    )


def test_json_lines_with_a_column_in_one_record_or_an_optional_one_in_none(place: Place) -> None:
    place.ingest(json(), {"a": '{"t":1}\nnot JSON\n{"t":2,"v":0.5}\n'})
    assert [row["v"] for row in place.rows()] == [None, 0.5]
    place.ingest(json(optional=True), {"a": '{"t":1}\n'})
    assert [row["v"] for row in place.rows()] == [None]


@pytest.mark.parametrize("content", ["t,v\n1,2\n", "[1]\n5\n", '[\n  {"t": 1,\n  "v": 2}\n]\n'])
def test_json_lines_none_of_which_is_an_object(place: Place, content: str) -> None:
    first = content.splitlines()[0]
    assert refused(place, json(), {"a": content}) == (
        f"file a: its first record {first!r} is no JSON object, nor is one behind it, as files.format says."
    )


def test_a_lake_that_cannot_be_made(place: Place) -> None:
    place.write({"a.csv": "t,k,v\n1,a,1\n"})
    (place.root / "lake").write_text("a file")
    with pytest.raises(LakeError) as caught:
        place.ingest(csv())
    lake = str(place.root / "lake")
    assert str(caught.value) == f"lake: {lake!r} given; it cannot be written (Not a directory); allowed is a folder that can."


def test_parquet_without_a_column(place: Place) -> None:
    declaration = csv(files={"pattern": "*.parquet", "header": False, "format": "parquet"})
    place.raw.mkdir()
    pq.write_table(pa.table({"t": [1], "v": [1.0]}), place.raw / "a.parquet")
    assert refused(place, declaration, {}) == "file a.parquet: the column 'k' of the setting columns is missing; found are t, v."


# ---- declarations --------------------------------------------------------------------------------------------------------

GOOD: dict[str, Any] = {"files": {"pattern": "*.csv"}, "columns": COLUMNS, "time": NUMBER}


def with_column(**column: Any) -> dict[str, Any]:
    return {"columns": [*COLUMNS, {"name": "w", **column}]}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"key": "nope"}, "key: 'nope' given; allowed are the columns t, k, v"),
        ({"time": {"column": "nope"}}, "time: 'nope' given; allowed are the columns t, k, v"),
        ({"order": "nope"}, "order: 'nope' given; allowed are the columns t, k, v"),
        ({"order": "k"}, "order: 'k' given, a column of type string; allowed are whole numbers and times"),
        ({"key": "w", **with_column(type="time")}, "key: 'w' given, a column of type time; allowed are columns with values"),
        ({"key": "w", **with_column(type="skip")}, "key: 'w' given; allowed are the columns t, k, v"),
        ({"time": {"column": "t", "zone": "Mars/Phobos"}}, "zone: 'Mars/Phobos' given; allowed are names such as UTC"),
        ({"time": {"column": "t", "start": "t", "end": "t"}}, "allowed are column, or start with end, or start with duration"),
        ({"time": {"start": "t"}}, "allowed are column, or start with end, or start with duration"),
        ({"time": {"start": "t", "end": "t", "duration": "t"}}, "allowed are column, or start with end, or start with duration"),
        ({"time": {"start": "t", "duration": "k"}}, "time.duration: 'k' given, a column of type string; allowed are numbers"),
        ({"time": {"column": ["t", "k"]}}, "time: 't' given, a column of type int64; allowed are time, string"),
        ({"time": {"column": "w"}, **with_column(type="bool")}, "time: 'w' given, a column of type bool; allowed are time, string, int8"),
        ({"time": {"column": "w"}, **with_column(type="float32")}, "'w' given, a column of type float32; allowed are time, string, int8"),
        ({"time": {"column": "t", "format": "tomorrow"}}, "format: 'tomorrow' given; allowed are iso, number and patterns"),
        ({"time": {"column": "t", "format": "%S.%f"}}, "format: '%f' in '%S.%f' given; allowed are %%, %A, %B, %H"),
        ({"time": {"column": "t", "format": "%F %T"}}, "format: '%F' in '%F %T' given; allowed are %%, %A, %B, %H"),
        ({"time": {"column": "t", "format": "%d.%m.%Y %Z"}}, "format: '%Z' in '%d.%m.%Y %Z' given; allowed are %%, %A, %B, %H"),
        ({"time": {"column": "t", "format": "%d.%m.%Y %"}}, "format: '%' in '%d.%m.%Y %' given; allowed are %%, %A, %B, %H"),
        ({"time": {"column": "t", "format": []}}, "allowed are iso, number and patterns"),
        ({"time": {"column": "t", "unit": "min"}}, "time.unit: 'min' given"),
        ({"time": {"column": "t", "keep": "k"}}, "time.keep: 'k' given, which is a column; allowed is a new name"),
        ({"time": {"column": "t", "keep": "arrival"}}, "keep: 'arrival' given"),
        ({"time": {"start": "t", "end": "t", "keep": "was"}}, "keep: allowed with column only"),
        (with_column(type="int128"), "columns[3].type: 'int128' given"),
        ({"columns": [*COLUMNS, {"name": "clock"}]}, "but not the log's own arrival, arrived, clock"),
        ({"columns": [*COLUMNS, {"name": "Clock"}]}, "but not the log's own arrival, arrived, clock"),
        ({"columns": [*COLUMNS, {"name": "V"}]}, "columns: 'V' given beside 'v'; allowed are names that differ in more than case"),
        ({"time": {"column": "t", "keep": "K"}}, "columns: 'K' given beside 'k'; allowed are names that differ in more than case"),
        ({"columns": [*COLUMNS, {"name": "a b"}]}, "allowed as names are letters, digits and '_'"),
        ({"columns": [*COLUMNS, COLUMNS[0]]}, "columns: 't' given twice; allowed is a name for each"),
        ({"columns": []}, "columns: [] given"),
        (with_column(type="string", range=[1, 2]), "range: given for a column of type string; allowed for numbers only"),
        (with_column(range=[2, 1]), "range: allowed is the smallest value, then the largest"),
        (with_column(range=[float("nan"), 2]), "range: allowed are finite numbers, and null where there is no bound"),
        (with_column(range=[1, float("inf")]), "range: allowed are finite numbers, and null where there is no bound"),
        (with_column(from_file="tow"), "from_file: allowed is a regular expression with a group"),
        (with_column(from_file="("), "from_file: allowed is a regular expression with a group"),
        ({"files": {"pattern": "*", "format": "xlsx"}}, "files.format: 'xlsx' given"),
        ({"files": {"pattern": "*", "delimiter": "::"}}, "files.delimiter: '::' given"),
        ({"files": {"pattern": "*", "delimiter": '"'}}, "delimiter, quote: allowed are two different ASCII characters"),
        ({"files": {"pattern": "*", "delimiter": "\n"}}, "delimiter, quote: allowed are two different ASCII characters"),
        ({"files": {"pattern": "*", "encoding": "klingon"}}, "encoding: 'klingon' given; allowed are names such as utf-8 and latin-1"),
        ({"files": {"pattern": "*", "encoding": "utf-16"}}, "encoding: 'utf-16' given; allowed are those in which ASCII"),
        (
            {"files": {"pattern": "*", "encoding": "hz"}},
            "allowed are those in which ASCII characters take one byte, and others need no escapes",
        ),
        ({"files": {"pattern": "*", "quote": None, "line_ends_in_fields": True}}, "line_ends_in_fields: allowed with quote only"),
        ({"files": []}, "files: [] given"),
        ({"range": ["2012-01-02", "2012-01-01"]}, "range: allowed is the first time, then one behind the last"),
        ({"range": ["yesterday", "2012-01-01"]}, "range[0]: 'yesterday' given; allowed is a date or a time such as 2012-02-22"),
        ({"max_jump": "0s"}, "max_jump: '0s' given"),
        ({"delimeter": ";"}, "delimeter: there is no such setting"),
    ],
)
def test_a_bad_declaration_is_refused_with_the_setting_and_what_is_allowed(change: dict[str, Any], told: str) -> None:
    stream(**GOOD)  # without the change it is right
    with pytest.raises(SpecError) as caught:
        stream(**{**GOOD, **change})
    assert told in str(caught.value)


def test_a_declaration_file_is_named_in_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.stream.yaml"
    with pytest.raises(SpecError, match=r"^declaration .*/mine.stream.yaml: there is no such file\.$"):
        load(path)
    for text, told in [
        ("a: [", "it is not YAML"),
        ("- a\n- b\n", "list given; allowed is a mapping of settings"),
        ("name: other\ntitle: x\n", "name: 'other' given; allowed is none, for the file's name is the stream's."),
        ("files: {pattern: '*.csv'}\ncolumns: [{name: t, type: int64}]\ntime: {column: x}\n", "time: 'x' given; allowed are the columns t"),
    ]:
        path.write_text(text)
        with pytest.raises(SpecError, match=r"^declaration .*/mine.stream.yaml: ") as caught:
            load(path)
        assert told in str(caught.value)
    (tmp_path / "folder.stream.yaml").mkdir()
    with pytest.raises(SpecError, match=r"^declaration .*/folder.stream.yaml: it cannot be read \(Is a directory\)\.$"):
        load(tmp_path / "folder.stream.yaml")
    bad = tmp_path / "my__own.stream.yaml"
    bad.write_text("{}")
    with pytest.raises(SpecError, match=r"the stream would be called 'my__own'; allowed are letters, digits and single '_'\.$"):
        load(bad)


def test_a_stream_that_nobody_declared() -> None:
    with pytest.raises(SpecError, match=r"^stream: 'trafic' given; declared are debs2012, debs2013, dye, intel_lab, ss7, traffic\.$"):
        declaration("trafic")
