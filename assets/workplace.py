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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replay.lake import Lake
    from replay.streams.declaration import Declaration
    from replay.streams.tasks import Tasks

MUCH_BYTES = 256 << 20
"""From so many bytes of raw files on Spark is used for them; less is read in this process, by the same tasks."""


class Workplace(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Where everything is."""

    lake: str = Field(default="lake", description="The lake: a folder, or an object store's prefix.")
    raw: str = Field(default="raw", description="Raw files: originals in <raw>/<stream>, twins in <raw>/<stream>__twin.")
    declarations: str = Field(default="streams", description="The folder of your own declarations.")
    reports: str = Field(
        default="http://127.0.0.1:3001", description="Where a browser finds the lake's reports; `make ui` serves them there."
    )
    master: str = Field(default="local[*]", description="Where Spark runs.")
    batch_tuples: int = Field(default=25_000_000, description="The most tuples of a micro-batch.")
    twin_tuples: int = Field(default=100_000, description="How many tuples a twin has, unless an asset says otherwise.")

    _spark: SparkSession | None = PrivateAttr(default=None)

    @classmethod
    def here(cls) -> Workplace:
        """The workplace that the environment names: REPRISE_LAKE, REPRISE_RAW, REPRISE_STREAMS, REPRISE_REPORTS, REPRISE_MASTER."""
        named = {
            "lake": "REPRISE_LAKE", "raw": "REPRISE_RAW", "declarations": "REPRISE_STREAMS", "reports": "REPRISE_REPORTS",
            "master": "REPRISE_MASTER",
        }  # fmt: skip
        given = {setting: os.environ[name] for setting, name in named.items() if name in os.environ}
        if tuples := os.environ.get("REPRISE_TWIN_TUPLES"):
            given["twin_tuples"] = tuples
        return cls(**given)  # type: ignore[arg-type]

    @property
    def place(self) -> Lake:
        """The lake."""
        from replay.lake import Lake

        return Lake(self.lake)

    @property
    def spark(self) -> SparkSession:
        """The session, started when it is first asked for."""
        if self._spark is None:
            from replay.session import session

            self._spark = session(self.master)
        return self._spark

    def folders(self) -> list[Path]:
        """Folders of declarations beside the built-in ones."""
        return [Path(self.declarations)] if Path(self.declarations).is_dir() else []

    def declaration(self, stream: str) -> Declaration:
        """What is declared of a stream."""
        from replay.streams.declaration import declaration

        return declaration(stream, self.folders())

    def tasks(self, raw_bytes: int, advance: Callable[[int], None] | None = None) -> Tasks:
        """Where ingestion runs: on Spark if there is much to read."""
        from replay.streams.tasks import InProcess, OnSpark

        return OnSpark(self.spark, advance) if raw_bytes > MUCH_BYTES else InProcess(advance)

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Stop the session, if there is one."""
        if self._spark is not None:
            self._spark.stop()
            self._spark = None
