"""Fixtures of the tests of Dagster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assets.workplace import Workplace
from tests.orchestration.driving import Platform


@pytest.fixture
def platform(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """A platform whose runs use the JVM that all tests share: it is not stopped when a run ends."""
    monkeypatch.setattr(Workplace, "spark", property(lambda self: spark))
    return Platform(tmp_path)
