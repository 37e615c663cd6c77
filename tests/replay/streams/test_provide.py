"""Where raw files come from: originals before twins, twins made once and made anew when something else is asked for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from engines.spec import SpecError, validate
from replay.lake import Lake
from replay.streams.declaration import Declaration, declaration, declared
from replay.streams.ingest import ingest
from replay.streams.manifest import read_manifest
from replay.streams.parsed import StreamError
from replay.streams.provide import PASSED_OVER, TwinSettings, generate, provide, twin_folder
from replay.streams.rejects import read_rejects
from replay.streams.tasks import InProcess

TUPLES = 20_000
REJECTED = {"intel_lab": {"out of range: mote", "missing: mote"}}
"""What is wrong in a twin because it is wrong in the original."""


@pytest.mark.parametrize("stream", declared())
def test_a_twin_passes_through_the_reader_of_the_original(stream: str, lake: Lake, tmp_path: Path) -> None:
    found = declaration(stream)
    folder, origin = provide(found, str(tmp_path / "raw"), InProcess(), TwinSettings(TUPLES))
    done = ingest(lake, found, folder, InProcess(), origin=origin)
    assert done.records == TUPLES == done.manifest.rows + done.rejected
    assert origin == {"kind": "twin", "stream": stream, "tuples": TUPLES, "seed": 0, "options": {}}
    manifest = read_manifest(lake, stream)
    assert manifest is not None
    assert manifest.origin == origin
    reasons = Counter(read_rejects(lake, stream)["reason"].to_pylist())
    assert reasons.keys() == REJECTED.get(stream, set())
    assert sum(reasons.values()) < 0.01 * TUPLES


def test_originals_come_before_the_twin(tmp_path: Path) -> None:
    found = declaration("traffic")
    provide(found, str(tmp_path), InProcess(), TwinSettings(1000))
    original = tmp_path / "traffic" / "sept.csv"
    original.parent.mkdir()
    original.write_text("detectorid,starttime,volume,speed,occupancy,status,dqflags\n1,2011-09-15 00:00:00-07,3,55,1,2,0\n")
    folder, origin = provide(found, str(tmp_path), InProcess(), TwinSettings(1000))
    assert (folder.root, origin) == (str(original.parent), {"kind": "original"})


def test_originals_that_cannot_be_read_are_not_replaced_by_a_twin(tmp_path: Path) -> None:
    (tmp_path / "traffic").write_text("a file, where a folder should be")
    with pytest.raises(StreamError, match=rf"^stream traffic: its folder {tmp_path}/traffic cannot be read \(it is a file\)\.$"):
        provide(declaration("traffic"), str(tmp_path), InProcess(), TwinSettings(1000))
    assert not twin_folder("traffic", str(tmp_path)).exists()


def test_a_folder_of_originals_that_is_closed_is_not_replaced_by_a_twin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(pafs.FileSystemHandler):  # a test that runs as root can read every folder
        def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
            raise PermissionError(13, "Permission denied")

    Closed.__abstractmethods__ = frozenset()
    monkeypatch.setattr(Lake, "files", lambda *_: pafs.PyFileSystem(Closed()))
    with pytest.raises(StreamError, match=r"^stream traffic: its folder .* cannot be read \(.*Permission denied.*\)\.$"):
        provide(declaration("traffic"), str(tmp_path), InProcess(), TwinSettings(1000))
    assert not twin_folder("traffic", str(tmp_path)).exists()


def test_a_twin_that_cannot_be_written_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "raw").write_text("a file")
    with pytest.raises(StreamError) as told:
        generate("traffic", str(tmp_path / "raw"), TwinSettings(1000), InProcess())
    why = f"its twin cannot be written in {tmp_path}/raw/traffic__twin (Not a directory)."
    assert str(told.value) == f"stream traffic: {why}"
    (tmp_path / "traffic__twin" / "mine").mkdir(parents=True)
    with pytest.raises(StreamError) as told:
        provide(declaration("traffic"), str(tmp_path), InProcess())
    assert str(told.value) == (
        f"stream traffic: no file in {tmp_path}/traffic matches its setting files.pattern, '*.csv'; "
        f"its twin cannot be written in {tmp_path}/traffic__twin (Is a directory)."
    )


def test_a_twin_is_not_made_in_an_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StreamError) as told:
        generate("traffic", "s3://bucket/raw", TwinSettings(10), InProcess())
    assert str(told.value) == "stream traffic: its twin cannot be written in s3://bucket/raw; allowed is a folder of this machine."
    assert list(tmp_path.iterdir()) == []
    assert generate("traffic", f"file://{tmp_path}", TwinSettings(10), InProcess()).root == f"{tmp_path}/traffic__twin"


def test_files_that_are_no_originals_are_passed_over_and_told(tmp_path: Path) -> None:
    folder = tmp_path / "traffic"
    folder.mkdir()
    _, origin = provide(declaration("traffic"), str(tmp_path), InProcess(), TwinSettings(1000))
    assert PASSED_OVER not in origin
    (folder / "sept.dat").write_text("x")
    (folder / ".hidden").write_text("x")
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "part-0.csv").write_text("x")
    _, origin = provide(declaration("traffic"), str(tmp_path), InProcess(), TwinSettings(1000))
    assert origin["kind"] == "twin"
    assert origin[PASSED_OVER] == f"1 files in {folder}, none of which matches the setting files.pattern"


def test_every_piece_of_a_twin_is_told_and_together_they_are_its_tuples(tmp_path: Path) -> None:
    told: list[int] = []
    generate("debs2013", str(tmp_path), TwinSettings(100_000), InProcess(), told.append)
    assert sum(told) == 100_000 and len([part for part in told if part]) > 2
    generate("debs2013", str(tmp_path), TwinSettings(100_000), InProcess(), told.append)
    assert sum(told) == 100_000  # it is there


def test_changing_from_the_twin_to_originals_replaces_the_log(lake: Lake, tmp_path: Path) -> None:
    found = declaration("traffic")
    folder, origin = provide(found, str(tmp_path), InProcess(), TwinSettings(1000))
    ingest(lake, found, folder, InProcess(), origin=origin)
    original = tmp_path / "traffic" / "sept.csv"
    original.parent.mkdir()
    original.write_text("detectorid,starttime,volume,speed,occupancy,status,dqflags\n1,2011-09-15 00:00:00-07,3,55,1,2,0\n")
    folder, origin = provide(found, str(tmp_path), InProcess())
    done = ingest(lake, found, folder, InProcess(), origin=origin)
    assert (done.manifest.rows, done.manifest.origin, done.changed) == (1, {"kind": "original"}, 0)


def test_a_twin_that_is_there_is_kept_and_what_is_missing_of_it_is_made(tmp_path: Path) -> None:
    folder = Path(generate("dye", str(tmp_path), TwinSettings(1000), InProcess()).root)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    kept, lost = sorted(folder.glob("*.cnv"))
    lost.unlink()
    changed = kept.stat().st_mtime_ns
    generate("dye", str(tmp_path), TwinSettings(1000), InProcess())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert kept.stat().st_mtime_ns == changed


@pytest.mark.parametrize("other", [TwinSettings(1200), TwinSettings(1000, seed=1), TwinSettings(1000, options={"form": "spreadsheet"})])
def test_another_size_seed_or_option_makes_another_twin(other: TwinSettings, tmp_path: Path) -> None:
    folder = Path(generate("traffic", str(tmp_path), TwinSettings(1000), InProcess()).root)
    before = (folder / "traffic-0001.csv").read_bytes()
    generate("traffic", str(tmp_path), other, InProcess())
    assert (folder / "traffic-0001.csv").read_bytes() != before


def test_a_twin_stays_as_it_was_made_unless_something_else_is_asked_for(tmp_path: Path) -> None:
    generate("traffic", str(tmp_path), TwinSettings(1234, seed=7), InProcess())
    _, origin = provide(declaration("traffic"), str(tmp_path), InProcess())
    assert (origin["tuples"], origin["seed"]) == (1234, 7)


def test_both_forms_of_traffic_are_the_same_stream(lake: Lake, tmp_path: Path) -> None:
    """But for the hour that occurs twice, which a spreadsheet does not tell apart: this week is before it."""
    logs = []
    for form in ("portal", "spreadsheet"):
        raw = str(tmp_path / form)
        folder = generate("traffic", raw, TwinSettings(5000, options={"form": form}), InProcess())
        place = Lake(f"{lake.root}-{form}")
        ingest(place, declaration("traffic"), folder, InProcess())
        table = place.table(place.address("streams", "traffic"))
        assert table is not None
        logs.append(table.to_pyarrow_table().sort_by("arrival"))
    assert logs[0].equals(logs[1])


def test_a_stream_without_files_or_a_twin_is_told(tmp_path: Path) -> None:
    calls = validate(Declaration, {
        "name": "calls", "files": {"pattern": "*.csv", "header": True}, "columns": [{"name": "t", "type": "time"}], "time": {"column": "t"},
    })  # fmt: skip
    with pytest.raises(StreamError, match=r"stream calls: no file in .*calls matches its setting files.pattern, '\*\.csv'\."):
        provide(calls, str(tmp_path), InProcess())
    with pytest.raises(SpecError, match="stream: 'calls' given; twins exist of ss7"):
        generate("calls", str(tmp_path), TwinSettings(), InProcess())
    assert not twin_folder("calls", str(tmp_path)).exists()
