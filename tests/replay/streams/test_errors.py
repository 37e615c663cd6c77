"""What a stream's files or its declaration get wrong is told in one sentence, before anything is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from engines.spec import SpecError
from replay.streams.declaration import declaration, load
from replay.streams.parsed import StreamError
from tests.replay.streams.harness import Place, stream

COLUMNS = [{"name": "t", "type": "time"}, {"name": "v", "type": "int32"}]
HEADED: dict[str, Any] = {"files": {"pattern": "*.csv", "header": True}, "columns": COLUMNS, "time": {"column": "t"}}
PLAIN: dict[str, Any] = {**HEADED, "files": {"pattern": "*.csv"}}


@pytest.mark.parametrize(
    ("settings", "files", "sentence"),
    [
        (HEADED, {"a.txt": "t,v\n"}, r"stream s: no file in \S+raw matches its setting files.pattern, '\*.csv'\."),
        (HEADED, {"a.csv": "t,w\n1,2\n"}, r"file a.csv: the column 'v' of the setting columns is missing; found are t, w\."),
        (HEADED, {"a.csv": "t;v\n1;2\n"}, r"file a.csv: its header 't;v' has no ',', the setting files.delimiter\."),
        (PLAIN, {"a.csv": "1;2\n3;4\n"}, r"file a.csv: its first record '1;2' has no ',', the setting files.delimiter\."),
        (
            {**PLAIN, "files": {"pattern": "*.csv", "format": "parquet"}},
            {"a.csv": "1,2\n"},
            r"file a.csv: it is not Parquet, as files.format says",
        ),
        (
            {**PLAIN, "files": {"pattern": "*.csv", "format": "cnv"}},
            {"a.csv": "1,2\n"},
            r"file a.csv: no header with '# name' and '\*END\*' found",
        ),
        (
            {**HEADED, "columns": [*COLUMNS, {"name": "tow", "type": "string", "from_file": "(tow[0-9]+)"}]},
            {"a.csv": "t,v\n"},
            r"file a.csv: the setting columns.tow.from_file, '\(tow\[0-9\]\+\)', finds nothing in its name\.",
        ),
    ],
)
def test_files_that_are_not_what_is_declared(settings: dict[str, Any], files: dict[str, str], sentence: str, tmp_path: Path) -> None:
    place = Place(tmp_path)
    with pytest.raises(StreamError, match=sentence) as told:
        place.ingest(stream(**settings), files)
    assert "\n" not in str(told.value)
    assert place.is_untouched()


def test_one_wrong_file_among_good_ones_leaves_all_of_them_out(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with pytest.raises(StreamError, match="file b.csv: the column 'v'"):
        place.ingest(stream(**HEADED), {"a.csv": "t,v\n2020-01-01,1\n", "b.csv": "t\n1\n"})
    assert place.is_untouched()


def test_a_log_that_was_written_by_hand_is_not_taken_over(tmp_path: Path) -> None:
    import pyarrow as pa

    from engines.contract import TIMESTAMP
    from replay.log_writer import append

    place = Place(tmp_path)
    append(place.lake, "s", pa.table({"ts": pa.array([1], TIMESTAMP)}))
    with pytest.raises(StreamError, match=r"stream s: the log \S+ was not made from raw files; allowed is a name without one\."):
        place.ingest(stream(**HEADED), {"a.csv": "t,v\n2020-01-01,1\n"})
    assert len(place.rows()) == 1


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"key": "w"}, "key: 'w' given; allowed are the columns t, v"),
        ({"order": "w"}, "order: 'w' given; allowed are the columns t, v"),
        ({"time": {"column": "w"}}, "time: 'w' given; allowed are the columns t, v"),
        ({"time": {"column": "t", "zone": "Mars/Olympus"}}, "zone: 'Mars/Olympus' given; allowed are names such as UTC"),
        ({"time": {"column": "t", "start": "v", "end": "v"}}, "allowed are column, or start with end, or start with duration"),
        ({"time": {"column": "t", "format": "fast"}}, "format: 'fast' given; allowed are iso, number and patterns"),
        ({"columns": [{"name": "t", "type": "text"}]}, "columns[0].type: 'text' given"),
        (
            {"columns": [*COLUMNS, {"name": "arrival", "type": "int32"}]},
            "allowed as names are letters, digits and '_', but not the log's own",
        ),
        ({"columns": [*COLUMNS, {"name": "v"}]}, "columns: 'v' given twice; allowed is a name for each"),
        (
            {"files": {"pattern": "*", "encoding": "utf-16"}},
            "encoding: 'utf-16' given; allowed are those in which ASCII characters take one byte",
        ),
        ({"files": {"pattern": "*", "delimiter": "ab"}}, "files.delimiter: 'ab' given"),
        ({"max_jump": "-1s"}, "max_jump: '-1s' given; allowed is a positive duration"),
        ({"range": ["yesterday", "2020-01-01"]}, "range[0]: 'yesterday' given; allowed is a date or a time"),
        ({"colour": "red"}, "colour: there is no such setting"),
    ],
)
def test_a_declaration_that_cannot_be_meant(changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError, match=re.escape(sentence)) as told:
        stream(**{**HEADED, **changed})
    assert "\n" not in str(told.value)


def test_a_file_that_is_no_declaration(tmp_path: Path) -> None:
    for name, content, sentence in [
        ("a.stream.yaml", "title: [", "it is not YAML"),
        ("b.stream.yaml", "- 1", "list given; allowed is a mapping of settings"),
        ("c d.stream.yaml", "{}", "the stream would be called 'c d'; allowed are letters, digits and single '_'"),
        ("e.stream.yaml", "title: x", "files: this setting is missing and has no default"),
    ]:
        path = tmp_path / name
        path.write_text(content)
        with pytest.raises(SpecError, match=re.escape(sentence)) as told:
            load(path)
        assert str(told.value).startswith(f"declaration {path}: ")
    with pytest.raises(SpecError, match="there is no such file"):
        load(tmp_path / "none.stream.yaml")
    with pytest.raises(SpecError, match="stream: 'none' given; declared are debs2012"):
        declaration("none")
