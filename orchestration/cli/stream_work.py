"""What `reprise streams` does: the calls of replay/ in their order, with a bar, and Spark where there is much to do.

Little work is done in this process, by the very same tasks: starting Spark would take longer. What is shown at the end is in
`showing.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from assets.profile_pictures import picture_of_profile
from assets.workplace import MUCH_BYTES
from engines.spec import parse_duration
from orchestration.cli.sentences import Told
from orchestration.cli.showing import working
from orchestration.cli.spark import quiet_session
from replay.disorder import Delays
from replay.lake import Lake
from replay.log import Log
from replay.streams.declaration import Declaration, declaration, declared, load
from replay.streams.disordering import disorder_log
from replay.streams.ingest import Ingested, ingest
from replay.streams.manifest import read_manifest
from replay.streams.parsed import StreamError
from replay.streams.profile import profile
from replay.streams.provide import ORIGINAL, TwinSettings, generate, made_with, provide, twin_folder
from replay.streams.raw import list_files
from replay.streams.tasks import InProcess, OnSpark, Tasks
from replay.streams.twins import twins

MUCH_TUPLES = 4_000_000
MUCH_ROWS = 20_000_000

Start = Callable[[Callable[[int], None] | None], Tasks]


def known_streams(lake: str, raw: str, declarations: str) -> list[dict[str, Any]]:
    """A document per stream that is declared or in the lake."""
    rows = []
    place = Lake(lake)
    for name, path in declared(_folders(declarations)).items():
        manifest = read_manifest(place, name)
        days = Log.open(place, place.address("streams", name)).days() if manifest and manifest.rows else []
        rows.append(
            {
                "stream": name,
                "raw_files": _raw_files(load(path), raw),
                "tuples": f"{manifest.rows:,}" if manifest else "",
                "rejected": f"{manifest.rejected:,}" if manifest else "",
                "days": f"{days[0]}..{days[-1]}" if days else "",
                "title": load(path).title,
            }
        )
    return rows


def described(stream: str, lake: str, declarations: str) -> dict[str, Any]:
    """What is declared of a stream, and what its log was made of."""
    found = declaration(stream, _folders(declarations))
    manifest = read_manifest(Lake(lake), stream)
    return {
        "stream": stream,
        "declared": str(declared(_folders(declarations))[stream]),
        "declaration": found.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        "origin": manifest.origin if manifest else None,
        "files": [
            {name: getattr(entry, name) for name in ("name", "size", "lines", "records", "rows", "rejected")} for entry in manifest.files
        ]
        if manifest
        else [],
    }


def generate_twins(streams: Sequence[str] | None, raw: str, settings: dict[str, Any], master: str | None) -> list[dict[str, Any]]:
    """Make twins, and tell where they are."""
    done = []
    for name in streams or twins():
        if name not in twins():
            raise Told(f"stream: {name!r} given; twins exist of {', '.join(twins())}.")
    with _tasks(master) as start:
        for name in streams or twins():
            wanted = _wanted(name, raw, settings)
            with working(f"making the twin of {name}", wanted.tuples, "tuples") as advance:
                folder = generate(name, raw, wanted, start(wanted.tuples > MUCH_TUPLES)(advance))
            files = [path for path in Path(folder.root).iterdir() if path.suffix != ".json"]
            size = sum(path.stat().st_size for path in files)
            done.append({"stream": name, "folder": folder.root, "files": len(files), "bytes": size, **wanted.origin(name)})
    return done


def ingest_streams(
    streams: Sequence[str] | None, lake: str, raw: str, declarations: str, settings: dict[str, Any], master: str | None
) -> list[dict[str, Any]]:
    """Ingest streams, all of whose declarations are read before the first is begun."""
    chosen = [declaration(name, _folders(declarations)) for name in streams or declared(_folders(declarations))]
    done = []
    with _tasks(master) as start:
        for stream in chosen:
            done.append(_ingest(stream, Lake(lake), raw, settings, start).document())
    return done


def disorder_stream(stream: str, new: str, lake: str, delays: dict[str, Any], scale: str, master: str | None) -> dict[str, Any]:
    """Write a disordered log, and measure it."""
    try:
        scale_us = parse_duration(scale)
    except ValueError as problem:
        raise Told(f"scale: {scale!r} given; allowed is {problem}.") from None
    place = Lake(lake)
    log = Log.open(place, place.address("streams", stream))
    with _tasks(master) as start:
        tasks = start(log.end > MUCH_ROWS)
        with working(f"delaying tuples of {stream}", 2 * len(log.paths), "files") as advance:
            disorder_log(place, stream, new, Delays(scale_us=scale_us, **delays), tasks(advance))
        return profile(place, new, tasks(None)).document()


def profiled(stream: str, lake: str, out: str, master: str | None) -> tuple[dict[str, Any], str]:
    """A stream's profile, and where its picture is."""
    place = Lake(lake)
    log = Log.open(place, place.address("streams", stream))
    with _tasks(master) as start, working(f"reading the log of {stream}", len(log.paths), "files") as advance:
        found = profile(place, stream, start(log.end > MUCH_ROWS)(advance))
    try:
        Path(out).write_bytes(picture_of_profile(found))
    except OSError as problem:
        raise Told(f"out: {out!r} given; it cannot be written ({problem.strerror}).") from None
    return found.document(), str(Path(out).resolve())


def _ingest(stream: Declaration, lake: Lake, raw: str, settings: dict[str, Any], start: Any) -> Ingested:
    wanted = _wanted(stream.name, raw, settings) if stream.name in twins() else None
    with working(f"looking for raw files of {stream.name}", wanted.tuples if wanted else 1, "tuples") as advance:
        folder, origin = provide(stream, raw, start(wanted is not None and wanted.tuples > MUCH_TUPLES)(advance), wanted)
    size = sum(file.size for file in list_files(folder, stream))
    kind = "originals" if origin == ORIGINAL else "twin"
    with working(f"ingesting {stream.name}: the {kind} in {folder.root}", size, "bytes") as advance:
        return ingest(lake, stream, folder, start(size > MUCH_BYTES)(advance), origin=origin)


@contextmanager
def _tasks(master: str | None) -> Iterator[Callable[[bool], Start]]:
    """Tasks for much or little work: in this process, or in a session that is started when it is first needed."""
    with ExitStack() as stack:

        @cache
        def spark() -> SparkSession:
            return stack.enter_context(quiet_session(master or "local[*]"))

        yield lambda much: partial(OnSpark, spark()) if much or master else InProcess


def _wanted(stream: str, raw: str, settings: dict[str, Any]) -> TwinSettings:
    """The twin that was asked for: what was not said is as it was made before."""
    made = made_with(stream, raw) or TwinSettings()
    return replace(made, **settings)


def _raw_files(stream: Declaration, raw: str) -> str:
    for folder, kind in ((Path(raw) / stream.name, "original"), (twin_folder(stream.name, raw), "twin")):
        try:
            return f"{kind}, {len(list_files(Lake(str(folder)), stream))}"
        except StreamError:
            continue
    return "twin, not made yet" if stream.name in twins() else "none"


def _folders(declarations: str) -> list[Path]:
    return [Path(declarations)] if Path(declarations).is_dir() else []
