"""Fixtures that many tests share: one JVM for all, and a lake for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replay.lake import Lake


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """JVM options count only when the JVM starts, so there is one session."""
    from replay.session import session

    spark = session("local[2]", name="tests", settings={"spark.driver.memory": "2g"})
    yield spark
    spark.stop()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))
