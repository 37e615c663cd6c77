"""Raw files to ingest: the originals if they are there, else the twin, which is made if need be.

Originals are looked for in `<raw>/<stream>`, twins are kept in `<raw>/<stream>__twin`, beside a note of what they were made with:
another size or seed makes another twin. Which of the two it was goes into the log's manifest. Originals that are there and cannot be
read are never replaced by a twin, nor are those that are in the log and have gone, unless a twin was asked for.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
from deltalake.exceptions import DeltaError

from engines.spec import SpecError
from replay.lake import Lake
from replay.streams.declaration import Declaration
from replay.streams.manifest import read_manifest
from replay.streams.parsed import NoFilesError, StreamError
from replay.streams.raw import is_set_aside, list_files
from replay.streams.tasks import Advance, Tasks
from replay.streams.twins import Part, Twin, twin, twins, write
from replay.streams.twins.parts import TUPLES_A_BLOCK

NOTE = "twin.json"
ORIGINAL = {"kind": "original"}
PASSED_OVER = "passed_over"
"""What the origin of a twin says of files in the originals' folder that are none."""


@dataclass(frozen=True)
class TwinSettings:
    """What a twin is made with."""

    tuples: int = 100_000
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    def origin(self, stream: str) -> dict[str, Any]:
        """What the manifest says of it."""
        return {"kind": "twin", "stream": stream, "tuples": self.tuples, "seed": self.seed, "options": self.options}


def provide(
    declaration: Declaration,
    raw: str,
    tasks: Tasks,
    settings: TwinSettings | None = None,
    advance: Advance | None = None,
    *,
    log_in: Lake | None = None,
) -> tuple[Lake, dict[str, Any]]:
    """The folder with a stream's files, and where they come from.

    Args:
        declaration: the stream.
        raw: the folder of all streams' raw files.
        tasks: where a twin is made.
        settings: how large a twin, if one is needed; None: as it was made before, or the default.
        advance: told how many tuples of a twin are made, where `tasks` are of this process.
        log_in: the lake with the log, if no twin was asked for: originals that are in it are then not replaced by one.

    Raises:
        StreamError: the originals cannot be read, or there are none and no twin either, or none that may replace them.
    """
    originals = Lake(f"{raw}/{declaration.name}")
    if originals.local and Path(originals.root).is_file():
        raise StreamError(f"stream {declaration.name}: its folder {originals.root} cannot be read (it is a file).")
    try:
        list_files(originals, declaration)
    except NoFilesError as problem:
        if declaration.name not in twins():
            raise
        if log_in is not None and _is_of_originals(log_in, declaration.name):
            raise StreamError(
                f"{str(problem).removesuffix('.')}, but its log was made from original files; "
                "allowed is to put them back, or to ask for a twin by its tuples or its seed."
            ) from None
        if settings is None and (made := made_with(declaration.name, raw)) is not None:
            settings = made
        try:
            folder = generate(declaration.name, raw, settings or TwinSettings(), tasks, advance)
        except StreamError as failed:
            raise StreamError(f"{str(problem).removesuffix('.')}; {str(failed).partition(': ')[2]}") from None
        others = _others(originals)
        told = f"{others} files in {originals.root}, none of which matches the setting files.pattern"
        passed_over = {PASSED_OVER: told} if others else {}
        return folder, (settings or TwinSettings()).origin(declaration.name) | passed_over
    return originals, ORIGINAL


def generate(stream: str, raw: str, settings: TwinSettings, tasks: Tasks, advance: Advance | None = None) -> Lake:
    """Make a stream's twin, all of it that is not there yet; `advance` is told of every piece, where `tasks` are of this process.

    Raises:
        StreamError: it cannot be written.
    """
    if stream not in twins():
        raise SpecError(f"stream: {stream!r} given; twins exist of {', '.join(twins())}.")
    if not Lake(raw).local:
        raise StreamError(f"stream {stream}: its twin cannot be written in {raw}; allowed is a folder of this machine.")
    made = twin(stream, tuples=settings.tuples, seed=settings.seed, **settings.options)
    folder = twin_folder(stream, raw)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if made_with(stream, raw) != settings:
            for old in folder.iterdir():
                old.unlink()
            (folder / NOTE).write_text(json.dumps(settings.origin(stream), indent=2))
        missing = [(made, folder, part, advance) for part in made.parts if not (folder / part.name).exists()]
        if missing:
            tasks(_write, missing, lambda task: task[2].tuples)
    except OSError as problem:
        raise StreamError(f"stream {stream}: its twin cannot be written in {folder} ({problem.strerror or problem}).") from None
    return Lake(str(folder))


def _is_of_originals(lake: Lake, stream: str) -> bool:
    """Whether a log was made from originals."""
    with suppress(DeltaError):  # what is wrong with it is told by its ingestion
        known = read_manifest(lake, stream)
        return known is not None and known.origin == ORIGINAL
    return False


def _others(folder: Lake) -> int:
    """How many files a folder has in which none of the stream's was found."""
    infos = folder.files(folder.root).get_file_info(pafs.FileSelector("", recursive=True, allow_not_found=True))
    return sum(info.type == pafs.FileType.File and not is_set_aside(info.path) for info in infos)


def made_with(stream: str, raw: str) -> TwinSettings | None:
    """What the twin that is there was made with, or None if there is none."""
    try:
        note = json.loads((twin_folder(stream, raw) / NOTE).read_text())
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return None
    return TwinSettings(note["tuples"], note["seed"], note["options"])


def twin_folder(stream: str, raw: str) -> Path:
    """Where a stream's twin is kept."""
    return Path(Lake(f"{raw}/{stream}__twin").root)


def _write(task: tuple[Twin, Path, Part, Advance | None]) -> None:
    made, folder, part, advance = task
    left = part.tuples

    def tell(_: int) -> None:
        nonlocal left
        if advance is not None:
            advance(min(TUPLES_A_BLOCK, left))  # about as many as are in a piece
            left -= min(TUPLES_A_BLOCK, left)

    write(made, folder, part, tell)
