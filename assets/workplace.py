"""The workplace of all assets: where the lake and the raw files are, and a Spark session that is there when it is needed.

Nothing is opened or started when definitions are loaded. A session is started by the first step that asks for it and stopped
when the run ends; steps of a run share it, so runs use the in-process executor.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field, PrivateAttr

from engines.spec import SpecError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replay.lake import Lake
    from replay.streams.declaration import Declaration
    from replay.streams.tasks import Tasks

MUCH_BYTES = 256 << 20
"""From so many bytes of raw files on Spark is used for them; less is read in this process, by the same tasks."""
_PLACES = ("lake", "raw", "declarations")
_NUMBERS = ("buckets", "tasks", "twin_tuples")


class Workplace(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Where everything is."""

    lake: str = Field(default="lake", description="The lake: a folder, or an object store's prefix.")
    raw: str = Field(default="raw", description="Raw files: originals in <raw>/<stream>, twins in <raw>/<stream>__twin.")
    declarations: str = Field(default="streams", description="The folder of your own declarations.")
    reports: str = Field(
        default="http://127.0.0.1:3001", description="Where a browser finds the lake's reports; `make ui` serves them there."
    )
    master: str = Field(default="local[*]", description="Where Spark runs, such as local[*] or spark://host:7077.")
    batch_tuples: int = Field(default=25_000_000, description="The most tuples of a micro-batch.")
    buckets: int | None = Field(
        default=None, description="Into how many parts keys are divided; as many as this machine has cores, if not given."
    )
    tasks: int | None = Field(
        default=None, description="The most tasks that read a stream's part of a batch; as many as this machine has cores, if not given."
    )
    twin_tuples: int = Field(default=100_000, description="How many tuples a twin has, unless an asset says otherwise.")

    _spark: SparkSession | None = PrivateAttr(default=None)

    @classmethod
    def here(cls) -> Workplace:
        """The workplace that the environment names: REPRISE_LAKE, ..._RAW, _STREAMS, _REPORTS, _MASTER, _BUCKETS, _TASKS, _TWIN_TUPLES."""
        named = {
            "lake": "REPRISE_LAKE", "raw": "REPRISE_RAW", "declarations": "REPRISE_STREAMS", "reports": "REPRISE_REPORTS",
            "master": "REPRISE_MASTER",
        }  # fmt: skip
        given = {setting: os.environ[name] for setting, name in named.items() if name in os.environ}
        for setting in _NUMBERS:
            name = f"REPRISE_{setting.upper()}"
            if number := os.environ.get(name):
                if not number.isdecimal():
                    raise SpecError(f"{name}: {number!r} given; allowed is a whole number from 1.")
                given[setting] = number
        return cls(**given)  # type: ignore[arg-type]

    @property
    def place(self) -> Lake:
        """The lake."""
        from replay.lake import Lake

        self._refuse_nowhere()
        return Lake(self.lake)

    @property
    def spark(self) -> SparkSession:
        """The session, started when it is first asked for."""
        if self._spark is None:
            from replay.session import session

            try:
                self._spark = session(self.master)
            except Exception as problem:
                raise dg.Failure(description=not_started(self.master, problem), allow_retries=False) from problem
        return self._spark

    def folders(self) -> list[Path]:
        """Folders of declarations beside the built-in ones; a named one has to be there, or its streams would silently be left out."""
        if Path(self.declarations).is_dir():
            return [Path(self.declarations)]
        if self.declarations == Workplace.model_fields["declarations"].default:
            return []
        given = f"declarations: {self.declarations!r} given; there is no such folder"
        raise SpecError(f"{given}; allowed is one with files STREAM.stream.yaml.")

    def declaration(self, stream: str) -> Declaration:
        """What is declared of a stream."""
        from replay.streams.declaration import declaration

        self._refuse_nowhere()
        return declaration(stream, self.folders())

    @property
    def sizes(self) -> dict[str, int]:
        """How large batches are and into how many parts work is divided, as far as it is given."""
        given = {"batch_tuples": self.batch_tuples, "buckets": self.buckets, "tasks": self.tasks}
        return {name: number for name, number in given.items() if number is not None}

    def ingesting(self, raw_bytes: int, advance: Callable[[int], None] | None = None) -> Tasks:
        """Where ingestion runs: on Spark if there is much to read."""
        from replay.streams.tasks import InProcess, OnSpark

        return OnSpark(self.spark, advance) if raw_bytes > MUCH_BYTES else InProcess(advance)

    def _refuse_nowhere(self) -> None:
        """Refuse a place that is empty: it would silently be the current folder, or the root of all files.

        When it is asked for and not when it is set: by then whoever asks can tell it in a sentence.
        """
        from replay.lake import LakeError

        for setting in _PLACES:
            if not getattr(self, setting).strip():
                allowed = "a folder" if setting == "declarations" else "a folder, or an object store's prefix"
                raise LakeError(f"{setting}: {getattr(self, setting)!r} given; allowed is {allowed}.")

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Stop the session, if there is one."""
        if self._spark is not None:
            self._spark.stop()
            self._spark = None


def not_started(master: str, problem: Exception) -> str:
    """Why there is no session, in a sentence.

    >>> not_started("mars", ValueError("SparkException: Could not parse Master URL: 'mars'"))
    "master: 'mars' given; Spark could not be started there (SparkException: Could not parse Master URL: 'mars'); allowed is ..."
    """
    lines = [line.strip(": ") for line in str(problem).splitlines() if line.strip(": ")] or [type(problem).__name__]
    # Of a failure in Java the first line tells only that there was one.
    cause = lines[min(1, len(lines) - 1)] if lines[0].startswith("An error occurred while calling") else lines[0]
    where = "where Spark runs, such as local[*] or spark://host:7077"
    return f"master: {master!r} given; Spark could not be started there ({cause.rstrip('.')}); allowed is {where}."
