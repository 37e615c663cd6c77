"""A sensor for raw files: where files of a stream have come or changed, the stream is ingested.

Nothing is asked for while a file is still being written, nor when all files of a stream are gone: its log stays as it is, and is
not replaced by a twin. An ingestion that failed is asked for again, but not for ever: the files may be at fault.
"""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import dagster as dg

from assets.streams import stream_key
from assets.workplace import Workplace
from orchestration.failures import reason_of
from orchestration.schedules import WHY

SETTLED_SECONDS = 10
"""A file that was changed no longer ago than this is taken for one that is still being written."""
MOST_TRIES = 3
"""So often the same files are asked for; then somebody has to look."""
FILES = "reprise/files"
"""The tag of a run that tells which files it was asked to ingest."""
_FAILED = {dg.DagsterRunStatus.FAILURE: "failed", dg.DagsterRunStatus.CANCELED: "was cancelled"}


@dataclass(frozen=True)
class _Found:
    """What is in the folder of a stream."""

    files: str | None = None
    """A hash of names, sizes, versions and times of change; None: there are none."""
    changed: float = 0.0
    """When the last of them changed."""
    problem: str | None = None
    """Why nothing is known of them."""


def raw_files_sensor(streams: Sequence[str]) -> dg.SensorDefinition:
    """Watches the folders of these streams."""

    @dg.sensor(
        name="raw_files",
        target=dg.AssetSelection.assets(*(stream_key(stream) for stream in streams)),
        minimum_interval_seconds=30,
        description="Ingests a stream when original files of it have come or changed, and are not being written any more.",
    )
    def raw_files(context: dg.SensorEvaluationContext, workplace: Workplace) -> dg.SensorResult | dg.SkipReason:
        # Which files of a stream were asked for, and when; earlier versions have not noted when.
        cursor = json.loads(context.cursor or "{}")
        asked: dict[str, tuple[str, float]] = {name: (was, 0.0) if isinstance(was, str) else was for name, was in cursor.items()}
        kept, reasons, told = dict[str, tuple[str, float]](), {}, []
        for stream in streams:
            found, (before, since) = _found(workplace, stream), asked.get(stream, ("", 0.0))
            if found.problem:
                told.append(found.problem)
                kept[stream] = before, since
            elif found.files is None:
                told += [f"All original files of {stream} are gone; what was ingested of them stays."] if before else []
            elif found.files != before and 0 <= time.time() - found.changed < SETTLED_SECONDS:
                told.append(f"Files of {stream} are still being written.")
                kept[stream] = before, since
            elif found.files != before:
                reasons[stream] = f"original files of {stream} have {'changed' if before else 'come'}"
                kept[stream] = found.files, time.time()
            else:
                again, why = _failed(context.instance, stream, before, since)
                reasons |= {stream: why} if again else {}
                told += [why] if why and not again else []
                kept[stream] = before, since
        context.update_cursor(json.dumps({stream: files for stream, files in kept.items() if files[0]}))
        if not reasons:
            return dg.SkipReason(" ".join(dict.fromkeys(told)) or f"No original file of {', '.join(streams)} has come or changed.")
        # Without a run key, for files may come back as they were; the cursor knows what was asked for.
        return dg.SensorResult(
            run_requests=[
                dg.RunRequest(asset_selection=[stream_key(stream)], tags={WHY: why, FILES: _tag(stream, kept[stream][0])})
                for stream, why in reasons.items()
            ]
        )

    return raw_files


def _failed(instance: dg.DagsterInstance, stream: str, files: str, since: float) -> tuple[bool, str]:
    """Whether files are to be asked for again, because the ingestion that was asked for has failed; and why, or why no longer."""
    runs = instance.get_run_records(dg.RunsFilter(tags={FILES: _tag(stream, files)}), limit=MOST_TRIES)
    if runs and runs[0].dagster_run.status not in _FAILED:
        return False, ""
    last = instance.get_latest_materialization_event(stream_key(stream))
    if last is not None and last.timestamp > (runs[0].create_timestamp.timestamp() if runs else since):
        return False, ""  # they are ingested: only a check has failed, or somebody has materialized the stream since
    if not runs:
        return True, f"original files of {stream} are not ingested yet, and the run that they were asked for with is gone"
    run = runs[0].dagster_run
    events = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    reason = reason_of(entry.dagster_event for entry in events if entry.dagster_event)
    ended = f"run {run.run_id[:8]} {_FAILED[run.status]}{f' ({reason})' if reason else ''}"
    if len(runs) < MOST_TRIES or any(one.dagster_run.status not in _FAILED for one in runs):
        return True, f"original files of {stream} are not ingested yet: {ended}"
    return False, f"Original files of {stream} were asked for {MOST_TRIES} times, and {ended}; put them right, or materialize the stream."


def _tag(stream: str, files: str) -> str:
    return f"{stream} {files}"


def _found(workplace: Workplace, stream: str) -> _Found:
    """The original files of a stream."""
    from engines.spec import SpecError
    from replay.lake import Lake, LakeError
    from replay.streams.parsed import NoFilesError, StreamError
    from replay.streams.raw import list_files

    try:
        folder = Lake(f"{workplace.raw}/{stream}")
        files = list_files(folder, workplace.declaration(stream))
    except NoFilesError:
        return _Found()
    except (StreamError, SpecError, LakeError) as problem:  # what cannot be read may be there all the same
        return _Found(problem=str(problem))
    info = folder.files(folder.root).get_file_info([file.name for file in files])
    told = [(*astuple(file), str(one.mtime_ns)) for file, one in zip(files, info, strict=True)]
    hashed = hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]
    return _Found(hashed, max(one.mtime_ns or 0 for one in info) / 1e9)
