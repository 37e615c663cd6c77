"""The lake: which folders can be one, and which names lead where."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from engines.contract import TIMESTAMP
from replay import log_writer
from replay.lake import Lake, LakeError

TUPLES = pa.table({"ts": pa.array([1, 2], TIMESTAMP), "v": [3, 4]})


@pytest.mark.parametrize("name", ["a b", "a#b", "a?b", "ü", "a[b]", "a{b,c}", "a*b", "a<b", "a`b", "a'b", 'a"b', "a:b", "a+b"])
def test_any_folder_can_be_a_lake(tmp_path: Path, name: str) -> None:
    lake = Lake(str(tmp_path / name / "lake"))
    log = log_writer.append(lake, "s", TUPLES)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert Lake(f"file://{tmp_path}/{name}/lake") == lake
    table = lake.table(log.address)
    assert table is not None
    assert pl.scan_delta(table).filter(pl.col("v") > 3).select("arrival", "v").collect().rows() == [(1, 4)]
    assert pl.read_delta(log.address, use_pyarrow=True)["v"].to_list() == [3, 4]  # as the README tells


@pytest.mark.parametrize("character", ["%", "=", "\\"])
def test_folders_that_a_reader_of_tables_takes_for_something_else_are_refused(tmp_path: Path, character: str) -> None:
    with pytest.raises(LakeError) as refused:
        Lake(str(tmp_path / f"a{character}20b"))
    told = f"lake: '{tmp_path}/a{character}20b' given; allowed are folders without '{character}', which "
    assert str(refused.value).startswith(told)


@pytest.mark.parametrize("path", ["../outside", "/etc", "streams/../../x"])
def test_a_path_out_of_the_lake_is_refused(lake: Lake, path: str) -> None:
    with pytest.raises(LakeError, match=r"leads out of the lake .*; allowed are paths inside it\."):
        lake.inside(path)
    with pytest.raises(LakeError, match="not a place in the lake"):
        lake.address("streams", path)


@pytest.mark.parametrize("name", ["2024-01-01T10:00", "t=10", ""])
def test_names_that_make_a_table_unreadable_are_refused(lake: Lake, name: str) -> None:
    """A run's name is a value of the column by which the metrics of all runs are kept apart."""
    with pytest.raises(LakeError, match=r"allowed are names of letters, digits, '_', '-' and '\.'\.$"):
        lake.address("runs", name)
    assert lake.address("runs", "a.b-c_1").endswith("/runs/a.b-c_1")
