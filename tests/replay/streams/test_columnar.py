"""Parquet and Delta as raw files: partitions, columns that came later, types that fit and types that never will."""

from __future__ import annotations

import datetime
import decimal
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.transaction import AddAction, create_table_with_add_actions

from replay.lake import Lake
from replay.streams.declaration import NUMBERS, Declaration
from replay.streams.parsed import StreamError
from replay.streams.raw import list_files
from replay.streams.splitting import sizes
from replay.streams.tasks import InProcess
from tests.replay.streams.harness import Place, nothing_but, stream

TIMES = pa.array([5_000_000, 6_000_000, 7_000_000], pa.timestamp("us", tz="UTC"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.raw.mkdir()
    return place


def declared(form: str, *columns: dict[str, Any], **more: Any) -> Declaration:
    settings = {"columns": [{"name": "t", "type": "time"}, *columns], "time": {"column": "t"}, **more}
    return stream(files={"pattern": "a" if form == "delta" else "*.parquet", "format": form}, **settings)


def refused(place: Place, declaration: Declaration) -> str:
    """The sentence with which an ingestion is refused; nothing may have been written."""
    with pytest.raises(StreamError) as caught:
        place.ingest(declaration)
    assert place.is_untouched()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---- Delta ---------------------------------------------------------------------------------------------------------------


def test_a_table_with_partitions_has_their_values_typed_as_declared(place: Place) -> None:
    keys = ["a b", "ü/100%", None]
    days = [datetime.date(2012, 2, 22), datetime.date(2012, 2, 23), None]
    table = pa.table({"t": TIMES, "k": keys, "d": days, "n": pa.array([1, None, 70_000], pa.int32()), "v": [1.5, 2.5, 3.5]})
    write_deltalake(place.raw / "a", table, partition_by=["k", "d", "n"])
    columns = [{"name": "v"}, {"name": "k", "type": "string"}, {"name": "d", "type": "string"}, {"name": "n", "type": "int16"}]
    done = place.ingest(declared("delta", *columns, order="time"))
    assert nothing_but(place.rows(), "ts", "v", "k", "d", "n") == [
        (5_000_000, 1.5, "a b", "2012-02-22", 1), (6_000_000, 2.5, "ü/100%", "2012-02-23", None),
    ]  # fmt: skip
    ((_, _, text, reason),) = place.rejects()
    assert reason == "not a whole number: n" and json.loads(text) == {
        "t": "1970-01-01 00:00:07+00:00", "v": 3.5, "k": None, "d": None, "n": 70_000,
    }  # fmt: skip
    assert done.records == 3


def test_a_table_of_which_only_partitions_are_read(place: Place) -> None:
    write_deltalake(place.raw / "a", pa.table({"t": TIMES, "v": [1, 2, 3]}), partition_by=["t"])
    place.ingest(declared("delta", order="time"))
    assert nothing_but(place.rows(), "ts") == [(5_000_000,), (6_000_000,), (7_000_000,)]


@pytest.mark.parametrize("attempt", range(3))  # the files' names are random, and so is which of them is looked at first
def test_files_that_lack_a_column_of_their_table_have_nulls_there(place: Place, attempt: int) -> None:
    path = place.raw / "a"
    write_deltalake(path, pa.table({"t": TIMES[:1], "gone": [1]}))
    write_deltalake(path, pa.table({"t": TIMES[1:2], "gone": [2], "v": [2.5]}), mode="append", schema_mode="merge")
    write_deltalake(path, pa.table({"t": TIMES[2:], "v": [3.5], "seen": pa.array([8], TIMES.type)}), mode="append", schema_mode="merge")
    place.ingest(declared("delta", {"name": "v"}, {"name": "seen", "type": "time"}, {"name": "gone", "type": "int8"}, order="time"))
    assert nothing_but(place.rows(), "ts", "v", "gone") == [(5_000_000, None, 1), (6_000_000, 2.5, 2), (7_000_000, 3.5, None)]


def test_a_time_that_a_file_lacks_is_missing(place: Place) -> None:
    write_deltalake(place.raw / "a", pa.table({"v": [1.5]}))
    write_deltalake(place.raw / "a", pa.table({"v": [2.5], "t": TIMES[:1]}), mode="append", schema_mode="merge")
    place.ingest(declared("delta", {"name": "v"}))
    assert nothing_but(place.rows(), "ts", "v") == [(5_000_000, 2.5)]
    assert [reason for *_, reason in place.rejects()] == ["missing: t"]


def appended(path: Path, *seconds: int) -> None:
    times = pa.array([second * 1_000_000 for second in seconds], TIMES.type)
    write_deltalake(path, pa.table({"t": times, "v": pa.array(seconds, pa.float64())}), mode="append")


def test_the_files_of_a_table_are_read_in_the_order_of_its_commits_and_an_append_goes_behind(place: Place) -> None:
    declaration = declared("delta", {"name": "v"})
    for n in range(8):
        appended(place.raw / "a", 2 * n, 2 * n + 1)
    place.ingest(declaration)
    assert nothing_but(place.rows(), "v") == [(n,) for n in range(16)]
    for n in range(8, 11):  # the names are random: one alone may be behind by chance
        appended(place.raw / "a", 2 * n, 2 * n + 1)
        assert place.ingest(declaration).changed == 2 * n
    assert nothing_but(place.rows(), "v") == [(n,) for n in range(22)]


def test_files_of_one_commit_are_read_in_the_order_of_the_numbers_in_their_names(place: Place) -> None:
    table = pa.table({"t": TIMES, "h": pa.array([10, 9, 100], pa.int32())})
    write_deltalake(place.raw / "a", table, partition_by=["h"])
    place.ingest(declared("delta", {"name": "h", "type": "int32"}))
    assert nothing_but(place.rows(), "h") == [(9,), (10,), (100,)]


def test_the_files_of_a_table_stay_in_their_order_when_it_forgets_its_commits(place: Place) -> None:
    #   commit 0: part-0, part-1, of which the second was written first;  commit 1: more;  then the log is cleaned up;  commit 2: more
    adds, schema = [], pa.schema([("t", TIMES.type), ("v", pa.float64())])
    (place.raw / "a").mkdir()
    for n, written_ms in enumerate((1_700_000_000_500, 1_700_000_000_100)):
        file = place.raw / "a" / f"part-{n}.parquet"
        pq.write_table(pa.table({"t": TIMES[:1], "v": [float(n)]}, schema=schema), file)
        adds.append(AddAction(file.name, file.stat().st_size, {}, written_ms, True, json.dumps({"numRecords": 1})))
    create_table_with_add_actions(str(place.raw / "a"), Schema.from_arrow(schema), adds, mode="error", partition_by=[])
    declaration = declared("delta", {"name": "v"})
    place.ingest(declaration)
    appended(place.raw / "a", 2)
    DeltaTable(place.raw / "a").create_checkpoint()
    (place.raw / "a" / "_delta_log" / f"{0:020}.json").unlink()  # after 30 days Delta does this by itself
    appended(place.raw / "a", 3)
    assert place.ingest(declaration).changed == 2
    assert nothing_but(place.rows(), "v") == [(0,), (1,), (2,), (3,)]


def test_a_table_that_was_removed_and_written_anew_is_another(place: Place) -> None:
    declaration = declared("delta", {"name": "v"})
    appended(place.raw / "a", 1, 2)
    place.ingest(declaration)
    assert place.ingest(declaration).changed is None
    shutil.rmtree(place.raw / "a")
    appended(place.raw / "a", 3, 4)
    assert place.ingest(declaration).read == ["a"]
    assert nothing_but(place.rows(), "v") == [(3.0,), (4.0,)]


def test_the_size_of_a_table_is_that_of_its_files(place: Place) -> None:
    declaration = declared("delta", {"name": "v"})
    appended(place.raw / "a", 1, 2)
    appended(place.raw / "a", 3)
    size = sum(path.stat().st_size for path in (place.raw / "a").glob("*.parquet"))
    folder = Lake(str(place.raw))
    assert sizes(folder, declaration, list_files(folder, declaration)) == {"a": size}
    assert place.ingest(declaration).manifest.files[0].size == size


def test_progress_is_in_bytes_and_is_told_while_columnar_files_are_read(place: Place) -> None:
    pq.write_table(pa.table({"t": TIMES, "v": [1.5, 2.5, 3.5]}), place.raw / "a.parquet", row_group_size=1)
    told: list[int] = []
    place.ingest(declared("parquet", {"name": "v"}), tasks=InProcess(told.append))
    metadata = pq.ParquetFile(place.raw / "a.parquet").metadata
    groups = [metadata.row_group(n) for n in range(3)]
    assert sum(told) == sum(group.column(n).total_compressed_size for group in groups for n in range(2))
    assert len([part for part in told if part]) == 4  # three row groups are read, one file is written


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_numbers_that_the_nulls_name_are_none(place: Place, form: str) -> None:
    table = pa.table({"t": TIMES, "v": [float("nan"), float("inf"), float("-inf")]})
    if form == "delta":
        write_deltalake(place.raw / "a", table)
    else:
        pq.write_table(table, place.raw / "a.parquet")
    place.ingest(declared(form, {"name": "v"}, nulls=["", "NaN", "inf"]))
    assert nothing_but(place.rows(), "v") == [(None,), (None,)]
    assert [reason for *_, reason in place.rejects()] == ["not a finite number: v"]


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", tz="UTC"), pa.timestamp("ms"), pa.date32()])
def test_the_text_of_a_record_with_a_time_that_python_does_not_have(place: Place, kind: pa.DataType) -> None:
    number = 2**30 if kind == pa.date32() else 2**60
    values = pa.array([1, number], pa.int32() if kind == pa.date32() else pa.int64()).view(kind)
    pq.write_table(pa.table({"t": values, "v": [1.5, 2.5]}), place.raw / "a.parquet", version="2.6")
    done = place.ingest(declared("parquet", {"name": "v"}))
    ((_, _, text, reason),) = place.rejects()
    assert (done.records, reason, json.loads(text)["v"]) == (2, "not a time: t", 2.5)
    assert isinstance(json.loads(text)["t"], int)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_a_time_is_kept_in_nanoseconds_whatever_unit_the_file_has_it_in(place: Place, unit: str) -> None:
    times = (
        pa.array(["2012-02-22 16:46:28.967", "1600-01-01"]).cast(pa.timestamp("ms"))
        if unit != "ns"
        else pa.array(["2012-02-22 16:46:28.967", None])
    )
    pq.write_table(pa.table({"t": times.cast(pa.timestamp(unit))}), place.raw / "a.parquet", version="2.6")
    place.ingest(declared("parquet", time={"column": "t", "keep": "was"}))
    assert nothing_but(place.rows(), "was") == [(1_329_929_188_967_000_000,)]
    assert len(place.rejects()) == 1  # nanoseconds since 1970 do not reach back to 1600


def test_a_column_that_the_table_has_not(place: Place) -> None:
    write_deltalake(place.raw / "a", pa.table({"t": TIMES, "k": ["a", "b", "c"]}), partition_by=["k"])
    assert refused(place, declared("delta", {"name": "v"})) == ("file a: the column 'v' of the setting columns is missing; found are t, k.")


def edited(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """A table whose log says something that only Spark writes."""
    write_deltalake(path, pa.table({"t": TIMES, "v": [1.5, 2.5, 3.5]}))
    log = path / "_delta_log" / "00000000000000000000.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        edit(action)
    log.write_text("\n".join(json.dumps(action) for action in actions))


def with_features(action: dict[str, Any], *features: str) -> None:
    if "protocol" in action:
        action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}


def test_a_table_with_deletion_vectors_is_refused_and_one_that_merely_may_have_some_is_not(place: Place) -> None:
    def edit(action: dict[str, Any]) -> None:
        with_features(action, "deletionVectors")
        if "add" in action:  # the second row is deleted
            bitmap = "^Bg9^0rr910000000000iXQKl0rr91000005c8Xg0rr91"
            action["add"]["deletionVector"] = {"storageType": "i", "pathOrInlineDv": bitmap, "sizeInBytes": 34, "cardinality": 1}

    edited(place.raw / "a", edit)
    assert refused(place, declared("delta", {"name": "v"})) == (
        "file a: the Delta table has deletion vectors; allowed are tables without, such as REORG TABLE ... APPLY (PURGE) leaves."
    )
    edited(place.raw / "may" / "a", lambda action: with_features(action, "deletionVectors"))
    place.ingest(stream(files={"pattern": "may/a", "format": "delta"}, columns=[{"name": "t", "type": "time"}], time={"column": "t"}))
    assert len(place.rows()) == 3


def test_a_table_with_column_mapping_is_refused(place: Place) -> None:
    def edit(action: dict[str, Any]) -> None:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        if "metaData" in action:
            action["metaData"]["configuration"] = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
            schema = json.loads(action["metaData"]["schemaString"])
            for n, field in enumerate(schema["fields"]):
                field["metadata"] = {"delta.columnMapping.id": n + 1, "delta.columnMapping.physicalName": field["name"]}
            action["metaData"]["schemaString"] = json.dumps(schema)

    edited(place.raw / "a", edit)
    assert refused(place, declared("delta", {"name": "v"})) == (
        "file a: the Delta table has column mapping (delta.columnMapping.mode is 'name'); "
        "allowed are tables whose files have the table's own names."
    )


def test_a_table_with_a_feature_that_nobody_knows_is_refused(place: Place) -> None:
    edited(place.raw / "a", lambda action: with_features(action, "timeTravelToTheFuture"))
    told = refused(place, declared("delta", {"name": "v"}))
    assert told.startswith("file a: the Delta table cannot be read (") and "timeTravelToTheFuture" in told


def test_a_file_of_a_table_that_is_gone_is_not_called_something_else(place: Place) -> None:
    write_deltalake(place.raw / "a", pa.table({"t": TIMES, "v": [1.5, 2.5, 3.5]}))
    (gone,) = (place.raw / "a").glob("*.parquet")
    gone.unlink()
    assert refused(place, declared("delta", {"name": "v"})) == f"file a/{gone.name}: it is no longer in {place.raw}."


# ---- types ---------------------------------------------------------------------------------------------------------------

KINDS = {
    "timestamp": TIMES,
    "date": pa.array([1, 2, None], pa.date32()),
    "clock": pa.array([1, 2, None], pa.time64("us")),
    "duration": pa.array([1, 2, None], pa.duration("us")),
    "list": pa.array([[1], [], None]),
    "texts": pa.array([["x"], [], None]),
    "struct": pa.array([{"a": 1}, {"a": None}, None]),
    "map": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())),
    "bool": pa.array([True, False, None]),
    "unsigned": pa.array([1, 2**64 - 1, None], pa.uint64()),
    "double": pa.array([1.5, float("nan"), None]),
    "half": pa.array([1.5, 2.0, None], pa.float16()),
    "decimal": pa.array([decimal.Decimal("1.50"), decimal.Decimal("99999999.99"), None]),
    "large decimal": pa.array([decimal.Decimal("1.5"), decimal.Decimal(10**40), None], pa.decimal256(60, 2)),
    "bytes": pa.array([b"1", b"\xff", None]),
    "large bytes": pa.array([b"1", b"\xff", None], pa.large_binary()),
    "fixed": pa.array([b"12", b"\xff\xff", None], pa.binary(2)),
    "text": pa.array(["1", "x", None]),
    "words": pa.array(["1", "x", None]).dictionary_encode(),
    "null": pa.nulls(3),
}


@pytest.mark.parametrize("kind", KINDS)
def test_any_type_is_read_or_refused_in_a_sentence_whatever_is_declared(tmp_path: Path, kind: str) -> None:
    for type_ in (*NUMBERS, "bool", "string", "time"):
        place = Place(tmp_path / type_)
        place.raw.mkdir(parents=True)
        pq.write_table(pa.table({"t": TIMES, "v": KINDS[kind]}), place.raw / "a.parquet")
        as_time = {"time": {"column": "v"}} if type_ == "time" else {}
        declaration = declared("parquet", {"name": "v", "type": type_}, **as_time)
        try:
            done = place.ingest(declaration)
        except StreamError as told:
            assert place.is_untouched()
            assert str(told).startswith("file a.parquet: its column 'v' is of the type ")
            assert str(told).endswith(f", which cannot be read as {type_}, the setting columns.v.type.")
            assert kind not in ("bool", "double", "unsigned", "text", "words", "null")
            assert type_ == "bool" or kind not in ("decimal", "half")
        else:
            assert done.records == 3 == len(place.rows()) + len(place.rejects())
            assert kind not in ("list", "struct", "map") or type_ == "string"


@pytest.mark.parametrize(("values", "told"), [(TIMES, "timestamp[us, tz=UTC]"), (pa.array([[1], [2], [3]]), "list<element: int64>")])
@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_a_column_that_can_never_be_what_is_declared_is_refused_before_anything_is_written(
    place: Place, form: str, values: pa.Array, told: str
) -> None:
    table = pa.table({"t": TIMES, "w": values})
    if form == "delta":
        write_deltalake(place.raw / "a", table)
    else:
        pq.write_table(table, place.raw / "a.parquet")
    sentence = refused(place, declared(form, {"name": "v", "from": ["u", "w"], "type": "float64"}))
    assert sentence.startswith(f"file a{'.parquet' if form == 'parquet' else ''}: its column 'w' is of the type ")
    assert sentence.replace("item", "element").endswith(f"{told}, which cannot be read as float64, the setting columns.v.type.")


def test_a_partition_that_can_never_be_what_is_declared_is_refused(place: Place) -> None:
    write_deltalake(place.raw / "a", pa.table({"t": TIMES, "v": TIMES}), partition_by=["v"])
    assert refused(place, declared("delta", {"name": "v"})) == (
        "file a: its column 'v' is of the type timestamp[us, tz=UTC], which cannot be read as float64, the setting columns.v.type."
    )


def test_times_that_are_joined_must_be_texts(place: Place) -> None:
    columns = {"columns": [{"name": "d", "type": "time"}, {"name": "c", "type": "time"}], "time": {"column": ["d", "c"]}}
    pq.write_table(pa.table({"d": ["2012-02-22"], "c": ["10:00:00"]}), place.raw / "a.parquet")
    place.ingest(declared("parquet", **columns))
    assert len(place.rows()) == 1
    pq.write_table(pa.table({"d": pa.array([1], pa.date32()), "c": ["10:00:00"]}), place.raw / "b.parquet")
    with pytest.raises(StreamError, match=r"^file b.parquet: its column 'd' is of the type date32\[day\], which cannot be read as time"):
        place.ingest(declared("parquet", **columns))


@pytest.mark.parametrize("type_", ["float64", "float32"])
def test_a_whole_number_that_no_double_is_equal_to_becomes_the_nearest_as_in_text(tmp_path: Path, type_: str) -> None:
    values = [2**24 + 1, 2**53 + 1, 2**53 + 3, 2**60 + 1, 2**62 + 2**9 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
    column = {"name": "v", "type": type_}
    packed, text = Place(tmp_path / "parquet"), Place(tmp_path / "csv")
    packed.raw.mkdir(parents=True)
    pq.write_table(pa.table({"t": pa.array([0] * len(values), TIMES.type), "v": values}), packed.raw / "a.parquet")
    packed.ingest(declared("parquet", column))
    number = {"columns": [{"name": "t", "type": "int64"}, column], "time": {"column": "t", "format": "number"}}
    text.ingest(stream(files={"pattern": "*.csv"}, **number), {"a.csv": "".join(f"0,{value}\n" for value in values)})
    assert packed.rejects() == text.rejects() == []
    assert nothing_but(packed.rows(), "v") == nothing_but(text.rows(), "v")
    if type_ == "float64":
        assert nothing_but(packed.rows(), "v") == [(float(value),) for value in values]


def test_a_number_beyond_all_times_is_no_time(place: Place) -> None:
    pq.write_table(pa.table({"t": pa.array([7, 2**64 - 1], pa.uint64())}), place.raw / "a.parquet")
    place.ingest(declared("parquet"))
    assert nothing_but(place.rows(), "ts") == [(7_000_000,)]
    assert [reason for *_, reason in place.rejects()] == ["not a time: t"]
