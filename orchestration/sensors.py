"""A sensor for raw files: where files of a stream have come or changed, the stream is ingested.

Nothing is asked for while a file is still being written, nor when all files of a stream are gone: its log stays as it is, and is
not replaced by a twin.
"""

import hashlib
import json
import time
from collections.abc import Sequence

import dagster as dg

from assets.streams import stream_key
from assets.workplace import Workplace
from orchestration.schedules import WHY

SETTLED_SECONDS = 10
"""A file that was changed no longer ago than this is taken for one that is still being written."""


def raw_files_sensor(streams: Sequence[str]) -> dg.SensorDefinition:
    """Watches the folders of these streams."""

    @dg.sensor(
        name="raw_files",
        target=dg.AssetSelection.assets(*(stream_key(stream) for stream in streams)),
        minimum_interval_seconds=30,
        description="Ingests a stream when original files of it have come or changed, and are not being written any more.",
    )
    def raw_files(context: dg.SensorEvaluationContext, workplace: Workplace) -> dg.SensorResult | dg.SkipReason:
        seen: dict[str, str] = json.loads(context.cursor) if context.cursor else {}
        looked = {stream: _found(workplace, stream) for stream in streams}
        now = {stream: found for stream, (found, _) in looked.items() if found}
        changed = {stream: "changed" if stream in seen else "come" for stream in now if now[stream] != seen.get(stream)}
        writing = [stream for stream in changed if 0 <= time.time() - looked[stream][1] < SETTLED_SECONDS]
        # Without a run key, for files may come back as they were; the cursor knows what was asked for.
        requests = [
            dg.RunRequest(asset_selection=[stream_key(stream)], tags={WHY: f"original files of {stream} have {how}"})
            for stream, how in changed.items()
            if stream not in writing
        ]
        cursor = json.dumps({stream: found for stream in now if (found := seen.get(stream) if stream in writing else now[stream])})
        if requests:
            return dg.SensorResult(run_requests=requests, cursor=cursor)
        context.update_cursor(cursor)
        gone = [stream for stream in seen if stream not in now]
        told = [f"Files of {', '.join(writing)} are still being written."] if writing else []
        told += [f"All original files of {', '.join(gone)} are gone; what was ingested of them stays."] if gone else []
        return dg.SkipReason(" ".join(told) or f"No original file of {', '.join(streams)} has come or changed.")

    return raw_files


def _found(workplace: Workplace, stream: str) -> tuple[str | None, float]:
    """A hash of the stream's original files (names, sizes and times of change), and when the last of them changed."""
    from replay.lake import Lake
    from replay.streams.parsed import StreamError
    from replay.streams.raw import list_files

    folder = Lake(f"{workplace.raw}/{stream}")
    try:
        files = list_files(folder, workplace.declaration(stream))
    except StreamError:
        return None, 0.0
    info = folder.files(folder.root).get_file_info([file.name for file in files])
    told = [(file.name, file.size, str(one.mtime_ns)) for file, one in zip(files, info, strict=True)]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16], max(one.mtime_ns or 0 for one in info) / 1e9
