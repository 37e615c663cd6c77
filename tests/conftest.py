"""Fixtures that many tests share: one JVM for all, and a lake for each test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replay.lake import Lake

# Java that lives for seconds is better off without its second compiler: a start takes two thirds of the time, and half the processors.
os.environ["SPARK_SUBMIT_OPTS"] = os.environ["SPARK_DAEMON_JAVA_OPTS"] = "-XX:TieredStopAtLevel=1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first, so that the processes that share the work end at about the same time."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


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
