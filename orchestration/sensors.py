"""A sensor for raw files: where files of a stream have come, changed or gone, the stream is ingested."""

import hashlib
import json
from collections.abc import Sequence

import dagster as dg

from assets.streams import stream_key
from assets.workplace import Workplace


def raw_files_sensor(streams: Sequence[str]) -> dg.SensorDefinition:
    """Watches the folders of these streams."""

    @dg.sensor(
        name="raw_files",
        target=dg.AssetSelection.assets(*(stream_key(stream) for stream in streams)),
        minimum_interval_seconds=30,
        description="Ingests a stream when original files of it have come, changed or gone.",
    )
    def raw_files(context: dg.SensorEvaluationContext, workplace: Workplace) -> dg.SensorResult | dg.SkipReason:
        seen: dict[str, str] = json.loads(context.cursor) if context.cursor else {}
        now = {stream: found for stream in streams if (found := _found(workplace, stream))}
        changed = [stream for stream in streams if now.get(stream) != seen.get(stream)]
        if not changed:
            return dg.SkipReason(f"No original file of {', '.join(streams)} has come or changed.")
        requests = [
            dg.RunRequest(run_key=f"{stream}-{now.get(stream, 'gone')}", asset_selection=[stream_key(stream)]) for stream in changed
        ]
        return dg.SensorResult(run_requests=requests, cursor=json.dumps(now))

    return raw_files


def _found(workplace: Workplace, stream: str) -> str | None:
    """A hash of the stream's original files: names, sizes and times of change."""
    from replay.lake import Lake
    from replay.streams.parsed import StreamError
    from replay.streams.raw import list_files

    folder = Lake(f"{workplace.raw}/{stream}")
    try:
        files = list_files(folder, workplace.declaration(stream))
    except StreamError:
        return None
    info = folder.files(folder.root).get_file_info([file.name for file in files])
    told = [(file.name, file.size, str(one.mtime_ns)) for file, one in zip(files, info, strict=True)]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]
