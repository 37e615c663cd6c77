"""Ingestions that end early or meet another: log, manifest and rejects stay those of one ingestion, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError

from replay.claims import claimed
from replay.lake import LakeError
from replay.log_writer import append
from replay.streams import ingest as ingesting
from replay.streams import staged_files
from replay.streams.declaration import Declaration
from replay.streams.parsed import StreamError
from tests.replay.streams.harness import Place, counts, nothing_but, stream


def declared(kind: str = "int64", *more: dict[str, Any]) -> Declaration:
    columns = [{"name": "t", "type": "time"}, {"name": "v", "type": kind}, *more]
    return stream(files={"pattern": "*.csv", "short_records": True}, columns=columns, time={"column": "t", "format": "number"})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.ingest(declared(), {"a.csv": "1,1\nx,2\n3,3\n"})
    return place


def stopped_before_the_log_is_written(place: Place, contents: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(ingesting, "commit", stop)
        place.ingest(declared(), contents)


# ---- interrupted between the rejects and the log -------------------------------------------------------------------------


def test_a_file_that_was_about_to_come_and_is_gone_again_leaves_no_rejects(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped_before_the_log_is_written(place, {"b.csv": "5,1\ny,2\n"}, monkeypatch)
    (place.raw / "b.csv").unlink()
    assert place.ingest(declared()).changed is None
    assert place.rejects() == [("a.csv", 2, "x,2", "not a time: t")]


def test_a_file_that_was_about_to_change_and_is_as_it_was_has_its_rejects_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped_before_the_log_is_written(place, {"a.csv": "1,1\ny,2\n3,3\n"}, monkeypatch)  # as many, but others
    done = place.ingest(declared(), {"a.csv": "1,1\nx,2\n3,3\n"})
    assert done.changed is None and counts(done) == {"a.csv": (3, 3, 2, 1)}
    assert place.rejects() == [("a.csv", 2, "x,2", "not a time: t")]
    again = place.ingest(declared())
    assert (again.read, again.version) == ([], done.version)


def test_the_first_ingestion_of_all_may_be_interrupted_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path)
    stopped_before_the_log_is_written(place, {"a.csv": "x,1\n", "b.csv": "y,1\n2,2\n"}, monkeypatch)
    (place.raw / "a.csv").unlink()
    place.ingest(declared())
    assert place.rejects() == [("b.csv", 1, "y,1", "not a time: t")]


def test_rejects_that_were_vacuumed_still_stand(place: Place) -> None:
    table = place.lake.table(place.lake.address("streams", "s__rejects"))
    assert table is not None
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert place.ingest(declared()).read == []


def test_a_log_that_was_vacuumed_is_brought_up_to_date_as_any_other(place: Place) -> None:
    place.ingest(declared(), {"a.csv": "1,1\n"})  # leaves a file that the log no longer has
    table = place.lake.table(place.lake.address("streams", "s"))
    assert table is not None and table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert place.ingest(declared()).read == []
    done = place.ingest(declared(), {"b.csv": "4,4\n"})
    assert done.read == ["b.csv"] and done.changed == len(place.rows()) - 1
    assert nothing_but(place.rows(), "v")[-1] == (4,)


def test_a_log_that_others_wrote_to_is_left_alone(place: Place) -> None:
    append(place.lake, "s", pa.table({"ts": pa.array([5], pa.timestamp("us", tz="UTC")), "v": [4]}))
    with pytest.raises(StreamError, match=r"^stream s: the log .*/streams/s was not made from raw files; allowed is a name without one\.$"):
        place.ingest(declared(), {"b.csv": "4,4\n"})
    assert len(place.rows()) == 3


def test_what_a_killed_ingestion_has_staged_is_removed_by_the_next(place: Place) -> None:
    left = place.root / "lake" / "staging" / "s" / "20240101T000000-0badcafe"
    other = place.root / "lake" / "staging" / "other" / "20240101T000000-0badcafe"
    for folder in (left, other):
        folder.mkdir(parents=True)
        (folder / "00000000-0000.arrow").write_bytes(b"x")
    place.ingest(declared())
    assert not left.exists() and other.exists()


# ---- two at once ---------------------------------------------------------------------------------------------------------


def test_of_two_at_once_one_is_told_who_is_at_it(place: Place) -> None:
    with claimed(place.lake, place.lake.address("staging", "s")), pytest.raises(LakeError) as caught:
        place.ingest(declared(), {"b.csv": "4,4\n"})
    assert str(caught.value).startswith("staging/s: process ") and str(caught.value).endswith("wait for its end, or stop it.")
    assert len(place.rows()) == 2


@pytest.mark.parametrize("at", ["read_manifest", "replace_rejects", "commit"])
def test_a_table_that_cannot_be_read_or_written_is_told_in_a_sentence(place: Place, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Callable[[], None]:
        raise DeltaError("Metadata changed since last commit.\nand more")

    monkeypatch.setattr(ingesting, at, fail)
    with pytest.raises(StreamError) as caught:
        place.ingest(declared(), {"b.csv": "4,4\n"})
    assert str(caught.value) == (
        f"stream s: its tables in {place.lake.root} cannot be read or written (Metadata changed since last commit.); "
        "nothing of this ingestion is stored."
    )
    assert len(place.rows()) == 2 and not place.staged()


def test_a_disk_that_is_full_is_told_in_a_sentence(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(staged_files.StageWriter, "add", full)
    with pytest.raises(
        StreamError, match=r"cannot be read or written \(\[Errno 28\] No space left on device\); nothing of this ingestion is"
    ):
        place.ingest(declared(), {"b.csv": "4,4\n"})
    assert len(place.rows()) == 2 and not place.staged()


# ---- a log without tuples ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["", "1,2.5,a\n"])
def test_a_log_without_tuples_gets_the_columns_of_a_corrected_declaration(tmp_path: Path, content: str) -> None:
    place = Place(tmp_path)
    place.ingest(declared("int64", {"name": "w", "type": "int32"}), {"a.csv": content})
    assert place.log().end == 0
    place.ingest(declared("float64", {"name": "w", "type": "string"}), {"a.csv": "1,2.5,a\n"})
    log = place.log()
    assert [str(log.schema.field(name).type) for name in ("v", "w")] == ["double", "string"]
    assert nothing_but(place.rows(), "v", "w") == [(2.5, "a")] and place.rejects() == []
