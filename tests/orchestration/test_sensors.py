"""The sensor asks for ingestions when files have come or changed: once, again if that failed, and not for ever."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from replay.lake import Lake
from tests.orchestration.driving import TRAFFIC, Platform, failure
from tests.orchestration.month import write_month


class Sensor:
    """The sensor, with what it remembers from tick to tick."""

    def __init__(self, platform: Platform) -> None:
        self.platform, self.cursor = platform, None
        (self.sensor,) = platform.defs.sensors or []

    def tick(self) -> Any:
        given = {"workplace": self.platform.workplace}
        with dg.build_sensor_context(instance=self.platform.instance, cursor=self.cursor, resources=given) as context:
            found = self.sensor(context)
            self.cursor = context.cursor
            return found

    def asked(self) -> dict[str, str]:
        (request,) = self.tick().run_requests
        assert request.asset_selection == [TRAFFIC]
        return dict(request.tags)

    def requested(self) -> str:
        """Why a run is asked for, which is made, as the daemon does; it has not begun."""
        tags = self.asked()
        self.platform.instance.create_run_for_job(self.platform.defs.resolve_implicit_global_asset_job_def(), tags=tags)
        return tags["reprise/why"]


def test_a_new_file_starts_an_ingestion_by_the_sensor_once_it_is_written(tmp_path: Path) -> None:
    platform = Platform(tmp_path)
    sensor = Sensor(platform)
    tick, asked = sensor.tick, sensor.requested

    assert "No original file" in tick().skip_message
    file = Path(platform.workplace.raw) / "traffic" / "a.csv"
    file.parent.mkdir(parents=True)
    file.write_text("detectorid,starttime,volume,speed,occupancy,status,dqflags\n1,2011-09-15 00:00:00-07,3,35,1,2,0\n")
    assert tick().skip_message == "Files of traffic are still being written."
    os.utime(file, (1e9, 1e9))
    assert asked() == "original files of traffic have come"
    assert "No original file" in tick().skip_message
    platform.ingest()
    assert platform.days == ["2011-09-15"]
    os.utime(file, (2e9, 1.1e9))
    assert asked() == "original files of traffic have changed"
    os.utime(file, (4e9, 4e9))  # copied from a machine whose clock is ahead: nobody writes it
    assert asked() == "original files of traffic have changed"
    # The log is not replaced by a twin's when the files are put away, and files that come back as they were are files that come.
    away = file.rename(file.with_suffix(".away"))
    assert tick().skip_message == "All original files of traffic are gone; what was ingested of them stays."
    away.rename(file)
    assert asked() == "original files of traffic have come"


def test_an_ingestion_that_failed_is_asked_for_again_until_it_is_clear_that_the_files_are_at_fault(tmp_path: Path) -> None:
    """A file without its header: asked for three times, then no more until it is put right; a failed check is no failed ingestion.

    tick  1    2    3    4              5        put right   6
          run  run  run  nothing more   nothing              run, whose check fails: nothing more
    """
    platform = Platform(tmp_path)
    sensor = Sensor(platform)
    file = Path(platform.workplace.raw) / "traffic" / "a.csv"
    file.parent.mkdir(parents=True)
    file.write_text("1,2011-09-15 00:00:00-07,3,35,1,2,0\n")
    os.utime(file, (1e9, 1e9))
    why = "original files of traffic have come"
    for _ in range(3):
        tags = sensor.asked()
        assert tags["reprise/why"] == why
        done = platform.run([TRAFFIC], tags=tags)
        assert not done.success
        why = f"original files of traffic are not ingested yet: run {done.run_id[:8]} failed ({failure(done)})"
    for _ in range(2):
        told = sensor.tick().skip_message
        assert told.startswith(f"Original files of traffic were asked for 3 times, and run {done.run_id[:8]} failed (")
        assert told.endswith("; put them right, or materialize the stream.")
    write_month(Path(platform.workplace.raw), 3)
    file.unlink()
    os.utime(file.with_name("month.csv"), (1.1e9, 1.1e9))
    tags = sensor.asked()
    assert tags["reprise/why"] == "original files of traffic have changed"
    run = platform.instance.create_run_for_job(platform.defs.resolve_implicit_global_asset_job_def(), tags=tags)
    platform.ingest()
    platform.instance.report_run_failed(run)
    assert "No original file" in sensor.tick().skip_message


def test_files_that_were_never_ingested_are_asked_for_again_if_their_failed_run_is_deleted(tmp_path: Path) -> None:
    """Somebody tidies up the list of runs; files that are older than the last ingestion have come all the same."""
    platform = Platform(tmp_path)
    platform.month(1)
    sensor = Sensor(platform)
    file = Path(platform.workplace.raw) / "traffic" / "a.csv"
    file.write_text("1,2011-09-15 00:00:00-07,3,35,1,2,0\n")
    for one in file.parent.iterdir():
        os.utime(one, (1e9, 1e9))
    failed = platform.run([TRAFFIC], tags=sensor.asked())
    assert not failed.success
    platform.instance.delete_run(failed.run_id)
    tags = sensor.asked()
    assert tags["reprise/why"] == "original files of traffic are not ingested yet, and the run that they were asked for with is gone"
    file.unlink()
    os.utime(file.with_name("month.csv"), (1.1e9, 1.1e9))
    sensor.asked()
    platform.ingest()  # by hand, and not by the run that was asked for
    assert "No original file" in sensor.tick().skip_message


def test_a_folder_that_cannot_be_read_is_told_and_not_taken_for_an_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    platform = Platform(tmp_path)
    sensor = Sensor(platform)
    file = write_month(Path(platform.workplace.raw), 1)
    os.utime(file, (1e9, 1e9))
    sensor.requested()

    def closed(selected: Any) -> None:
        raise PermissionError("Permission denied")

    there = Lake.files
    with monkeypatch.context() as patch:
        # Whoever runs the tests may be allowed to read everything.
        patch.setattr(Lake, "files", lambda lake, at: SimpleNamespace(get_file_info=closed) if at == str(file.parent) else there(lake, at))
        assert sensor.tick().skip_message == f"stream traffic: its folder {file.parent} cannot be read (Permission denied)."
    assert "No original file" in sensor.tick().skip_message  # nothing has come


def test_a_stream_whose_declaration_is_gone_keeps_no_other_from_being_ingested(tmp_path: Path) -> None:
    declared = tmp_path / "streams" / "calls.stream.yaml"
    declared.parent.mkdir()
    declared.write_text("files: {pattern: '*.csv', header: true}\ncolumns: [{name: when, type: time}]\ntime: {column: when}\n")
    platform = Platform(tmp_path, declarations=str(declared.parent))
    sensor = Sensor(platform)
    assert "No original file of calls, " in sensor.tick().skip_message
    declared.unlink()
    assert sensor.tick().skip_message.startswith("stream: 'calls' given; declared are ")
    os.utime(write_month(Path(platform.workplace.raw), 1), (1e9, 1e9))
    assert sensor.asked()["reprise/why"] == "original files of traffic have come"
