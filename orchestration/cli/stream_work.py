"""What `reprise streams` does: the calls of replay/ in their order, with a bar, and Spark where there is much to do.

Little work is done in this process, by the very same tasks: starting Spark would take longer. What is shown at the end is in
`showing.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import typer
from pyspark.sql import SparkSession

from assets.profile_pictures import picture_of_profile
from assets.workplace import MUCH_BYTES
from engines.spec import parse_duration
from orchestration.cli.sentences import Told
from orchestration.cli.showing import working
from orchestration.cli.spark import quiet_session
from replay.disorder import Delays
from replay.lake import Lake, LakeError
from replay.log import OWN_COLUMNS, Log
from replay.streams.declaration import Declaration, declaration, declared, load
from replay.streams.disordering import disorder_log, disordered_from
from replay.streams.ingest import Ingested, ingest
from replay.streams.manifest import read_manifest
from replay.streams.parsed import NoFilesError, StreamError
from replay.streams.profile import profile
from replay.streams.provide import ORIGINAL, PASSED_OVER, TwinSettings, generate, made_with, provide, twin_folder
from replay.streams.raw import list_files
from replay.streams.splitting import sizes
from replay.streams.tasks import Advance, InProcess, OnSpark, Tasks
from replay.streams.twins import twin, twins
from replay.streams.twins.parts import check_whole

MUCH_TUPLES = 4_000_000
MUCH_ROWS = 20_000_000
DECLARATIONS = "streams"
"""The folder of a user's own declarations, which need not be there; any other must be."""


def known_streams(lake: str, raw: str, declarations: str) -> list[dict[str, Any]]:
    """A document per stream that is declared or in the lake."""
    rows = []
    place = Lake(lake)
    logs, known = _logs(place), declared(_folders(declarations))
    for name in [*known, *(name for name in logs if name not in known)]:
        content = load(known[name]) if name in known else None
        manifest = read_manifest(place, name)
        days = logs[name].days() if name in logs else []
        rows.append(
            {
                "stream": name,
                "raw_files": _raw_files(content, raw) if content else "none",
                "tuples": logs[name].end if name in logs else None,
                "rejected": manifest.rejected if manifest else None,
                "days": f"{days[0]}..{days[-1]}" if days else "",
                "title": content.title if content else _title(logs[name]),
            }
        )
    return rows


def described(stream: str, lake: str, declarations: str) -> dict[str, Any]:
    """What is declared of a stream, and what its log was made of; of a log that nobody declared, what is in it."""
    known = declared(_folders(declarations))
    if stream not in known and (log := _logs(Lake(lake)).get(stream)) is not None:
        columns = [{"name": column.name, "type": str(column.type)} for column in log.schema if column.name not in OWN_COLUMNS]
        origin = disordered_from(log)
        content = {"title": _title(log), "columns": columns}
        return {"stream": stream, "declared": None, "declaration": content, "origin": origin, "tuples": log.end, "files": []}
    found = declaration(stream, _folders(declarations))
    manifest = read_manifest(Lake(lake), stream)
    return {
        "stream": stream,
        "declared": str(known[stream]),
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
        _wanted(name, raw, settings)
    with _place(master) as place, _stopping("what is missing of the twin is made by the next start"):
        for name in streams or twins():
            wanted = _wanted(name, raw, settings)
            with working(f"making the twin of {name}", wanted.tuples, "tuples") as advance:
                folder = generate(name, raw, wanted, *place.for_twin(wanted, advance))
            files = [path for path in Path(folder.root).iterdir() if path.suffix != ".json"]
            size = sum(path.stat().st_size for path in files)
            done.append({"stream": name, "folder": folder.root, "files": len(files), "bytes": size, **wanted.origin(name)})
    return done


def ingest_streams(
    streams: Sequence[str] | None, lake: str, raw: str, declarations: str, settings: dict[str, Any], master: str | None
) -> list[dict[str, Any]]:
    """Ingest streams, all of whose declarations and settings are read before the first is begun."""
    chosen = [declaration(name, _folders(declarations)) for name in streams or declared(_folders(declarations))]
    wanted = {stream.name: _wanted(stream.name, raw, settings) for stream in chosen if stream.name in twins()}
    done: list[dict[str, Any]] = []
    try:
        with _place(master) as place, _stopping("nothing of this ingestion is stored"):
            for stream in chosen:
                found, why = _ingest(stream, Lake(lake), raw, wanted.get(stream.name), place, asked=bool(settings))
                if settings and why:
                    typer.echo(f"{', '.join(settings)}: given, but not used for {stream.name}, {why}.", err=True)
                done.append(found.document())
    except (Exception, KeyboardInterrupt) as problem:
        if done:  # which is told of them nowhere else
            stored = ", ".join(f"{one['stream']} (version {one['version']}, {one['tuples']:,} tuples)" for one in done)
            problem.add_note(f"Ingested before it: {stored}.")
        raise
    return done


def disorder_stream(
    stream: str, new: str, lake: str, declarations: str, delays: dict[str, Any], scale: str, master: str | None
) -> dict[str, Any]:
    """Write a disordered log, and measure it."""
    if (path := declared(_folders(declarations)).get(new)) is not None:
        raise Told(f"stream: {new!r} given, which is declared in {path} and could not be ingested any more; allowed is a new name.")
    try:
        scale_us = parse_duration(scale)
    except ValueError as problem:
        raise Told(f"scale: {scale!r} given; allowed is {problem}.") from None
    check_whole("seed", delays["seed"], 0, 2**62)
    drawn = Delays(scale_us=scale_us, **delays)
    there = Lake(lake)
    log = Log.open(there, there.address("streams", stream))
    much = log.end > MUCH_ROWS
    with _place(master) as place, _stopping(f"nothing of {new} is stored"):
        with working(f"delaying tuples of {stream}", 2 * log.end, "tuples") as advance:
            disorder_log(there, stream, new, drawn, place.tasks(much, advance))
        return profile(there, new, place.tasks(much)).document()


def profiled(stream: str, lake: str, out: str, master: str | None) -> tuple[dict[str, Any], str]:
    """A stream's profile, and where its picture is."""
    there = Lake(lake)
    log = Log.open(there, there.address("streams", stream))
    with _place(master) as place, working(f"reading the log of {stream}", len(log.paths), "files") as advance:
        found = profile(there, stream, place.tasks(log.end > MUCH_ROWS, advance))
    try:
        Path(out).write_bytes(picture_of_profile(found))
    except OSError as problem:
        raise Told(f"out: {out!r} given; it cannot be written ({problem.strerror}).") from None
    return found.document(), str(Path(out).resolve())


def _ingest(stream: Declaration, lake: Lake, raw: str, wanted: TwinSettings | None, place: _Place, *, asked: bool) -> tuple[Ingested, str]:
    """What was done, and why no twin was."""
    with working(f"looking for raw files of {stream.name}", wanted.tuples if wanted else 1, "tuples") as advance:
        tasks, inside = place.for_twin(wanted or TwinSettings(), advance)
        folder, origin = provide(stream, raw, tasks, wanted, inside, log_in=None if asked else lake)
    if PASSED_OVER in origin:
        typer.echo(f"{stream.name}: the twin is used, for there are {origin[PASSED_OVER]}.", err=True)
    size = sum(sizes(folder, stream, list_files(folder, stream)).values())
    kind = "originals" if origin == ORIGINAL else "twin"
    with working(f"ingesting {stream.name}: the {kind} in {folder.root}", size, "bytes") as advance:
        done = ingest(lake, stream, folder, place.tasks(size > MUCH_BYTES, advance), origin=origin)
    return done, "which has no twin" if wanted is None else "whose originals are read" if origin == ORIGINAL else ""


@dataclass(frozen=True)
class _Place:
    """Where work is done: in this process, or if it is much in a session that is started when it is first needed."""

    spark: Callable[[], SparkSession]
    always: bool
    """Whether a session was asked for, however little there is to do."""

    def tasks(self, much: bool, advance: Advance | None = None) -> Tasks:
        return OnSpark(self.spark(), advance) if much or self.always else InProcess(advance)

    def for_twin(self, wanted: TwinSettings, advance: Advance) -> tuple[Tasks, Advance | None]:
        """The tasks that make a twin, and what is told of its pieces: tasks of Spark can tell of whole files only."""
        if not self.always and wanted.tuples <= MUCH_TUPLES:
            return InProcess(), advance
        # A twin that is not needed starts no session.
        return lambda function, arguments, weigh=None: self.tasks(True, advance)(function, arguments, weigh), None


@contextmanager
def _place(master: str | None) -> Iterator[_Place]:
    with ExitStack() as stack:

        @cache
        def spark() -> SparkSession:
            return stack.enter_context(quiet_session(master or "local[*]"))

        yield _Place(spark, master is not None)


@contextmanager
def _stopping(then: str) -> Iterator[None]:
    """Tell what is left by work that a person stops."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Stopped; {then}.") from None


def _wanted(stream: str, raw: str, settings: dict[str, Any]) -> TwinSettings:
    """The twin that was asked for: what was not said is as it was made before. One that cannot be is refused."""
    wanted = replace(made_with(stream, raw) or TwinSettings(), **settings)
    twin(stream, tuples=wanted.tuples, seed=wanted.seed, **wanted.options)
    return wanted


def _logs(lake: Lake) -> dict[str, Log]:
    """The logs of a lake."""
    found = {}
    for info in lake.files(lake.root).get_file_info(pafs.FileSelector("streams", allow_not_found=True)):
        with suppress(LakeError):  # the tables of rejects, and what else lies beside them
            found[info.base_name] = Log.open(lake, lake.address("streams", info.base_name))
    return dict(sorted(found.items()))


def _title(log: Log) -> str:
    """What a log is that nobody declared."""
    origin = disordered_from(log)
    return f"disordered from {origin}" if origin else "not declared"


def _raw_files(stream: Declaration, raw: str) -> str:
    for folder, kind in ((f"{raw}/{stream.name}", "original"), (str(twin_folder(stream.name, raw)), "twin")):
        try:
            return f"{kind}, {len(list_files(Lake(folder), stream))}"
        except NoFilesError:
            continue
        except StreamError:
            return f"{kind}, cannot be read"
    return "twin, not made yet" if stream.name in twins() else "none"


def _folders(declarations: str) -> list[Path]:
    if declarations.strip() and Path(declarations).is_dir():
        return [Path(declarations)]
    if declarations == DECLARATIONS:
        return []
    raise Told(f"declarations: {declarations!r} given; there is no such folder; allowed is one with files STREAM.stream.yaml.")
