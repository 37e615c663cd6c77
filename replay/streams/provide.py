"""Raw files to ingest: the originals if they are there, else the twin, which is made if need be.

Originals are looked for in `<raw>/<stream>`, twins are kept in `<raw>/<stream>__twin`, beside a note of what they were made with:
another size or seed makes another twin. Which of the two it was goes into the log's manifest.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engines.spec import SpecError
from replay.lake import Lake
from replay.streams.declaration import Declaration
from replay.streams.parsed import StreamError
from replay.streams.raw import list_files
from replay.streams.tasks import Tasks
from replay.streams.twins import Part, Twin, twin, twins, write

NOTE = "twin.json"
ORIGINAL = {"kind": "original"}


@dataclass(frozen=True)
class TwinSettings:
    """What a twin is made with."""

    tuples: int = 100_000
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    def origin(self, stream: str) -> dict[str, Any]:
        """What the manifest says of it."""
        return {"kind": "twin", "stream": stream, "tuples": self.tuples, "seed": self.seed, "options": self.options}


def provide(declaration: Declaration, raw: str, tasks: Tasks, settings: TwinSettings | None = None) -> tuple[Lake, dict[str, Any]]:
    """The folder with a stream's files, and where they come from.

    Args:
        declaration: the stream.
        raw: the folder of all streams' raw files.
        tasks: where a twin is made.
        settings: how large a twin, if one is needed; None: as it was made before, or the default.
    """
    originals = Lake(f"{raw}/{declaration.name}")
    try:
        list_files(originals, declaration)
    except StreamError as problem:
        if declaration.name not in twins():
            raise
        if settings is None and (made := made_with(declaration.name, raw)) is not None:
            settings = made
        try:
            folder = generate(declaration.name, raw, settings or TwinSettings(), tasks)
        except OSError as failed:
            raise StreamError(f"{problem} Nor could its twin be written ({failed}).") from None
        return folder, (settings or TwinSettings()).origin(declaration.name)
    return originals, ORIGINAL


def generate(stream: str, raw: str, settings: TwinSettings, tasks: Tasks) -> Lake:
    """Make a stream's twin, all of it that is not there yet."""
    if stream not in twins():
        raise SpecError(f"stream: {stream!r} given; twins exist of {', '.join(twins())}.")
    made = twin(stream, tuples=settings.tuples, seed=settings.seed, **settings.options)
    folder = twin_folder(stream, raw)
    folder.mkdir(parents=True, exist_ok=True)
    note, wanted = folder / NOTE, settings.origin(stream)
    if made_with(stream, raw) != settings:
        for old in folder.iterdir():
            old.unlink()
        note.write_text(json.dumps(wanted, indent=2))
    missing = [(made, folder, part) for part in made.parts if not (folder / part.name).exists()]
    tasks(_write, missing, lambda task: task[2].tuples)
    return Lake(str(folder))


def made_with(stream: str, raw: str) -> TwinSettings | None:
    """What the twin that is there was made with, or None if there is none."""
    try:
        note = json.loads((twin_folder(stream, raw) / NOTE).read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return TwinSettings(note["tuples"], note["seed"], note["options"])


def twin_folder(stream: str, raw: str) -> Path:
    """Where a stream's twin is kept."""
    return Path(raw) / f"{stream}__twin"


def _write(task: tuple[Twin, Path, Part]) -> None:
    made, folder, part = task
    write(made, folder, part)
