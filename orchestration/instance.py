"""The Dagster instance of a folder: where it keeps its runs, with the project's settings.

`DAGSTER_HOME` decides if it is set; else the folder `.dagster` beside the workspace.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import dagster as dg

SETTINGS = Path(__file__).parent / "dagster.yaml"


def home() -> Path:
    """The instance's folder, made ready."""
    folder = Path(os.environ.get("DAGSTER_HOME") or ".dagster").expanduser().absolute()
    os.environ["DAGSTER_HOME"] = str(folder)  # as Dagster wants it
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / SETTINGS.name).exists():
        shutil.copy(SETTINGS, folder)
    return folder


def instance() -> dg.DagsterInstance:
    """The instance."""
    home()
    return dg.DagsterInstance.get()
