"""A Spark session that keeps its messages to itself.

The JVM, Ivy and py4j write warnings that help nobody who replays a stream; they go to a file, which is kept and named only
if something fails. The settings of the session are those of replay/session.py.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from py4j.protocol import Py4JError

from orchestration.cli.sentences import FAILED, Told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def quiet_session(master: str) -> Iterator[SparkSession]:
    """A session for the time of a block; what fails in the block is told with the name of Spark's log."""
    with tempfile.NamedTemporaryFile("a", prefix="reprise-spark-", suffix=".log", delete=False) as log:
        handler = logging.StreamHandler(log)
        logging.getLogger().addHandler(handler)
        try:
            spark = _started(master, log)
            try:
                yield spark
            finally:
                with suppress(Py4JError, OSError):  # a JVM that has ended needs no end, and what is told already says so
                    spark.stop()
        except Exception as problem:
            problem.add_note(f"Spark's own messages are in {log.name}.")
            raise
        except BaseException:
            Path(log.name).unlink()
            raise
        finally:
            logging.getLogger().removeHandler(handler)
    Path(log.name).unlink()


def _started(master: str, log: IO[str]) -> SparkSession:
    from replay.session import session

    try:
        with written_to(log):
            spark = session(master)
    except Exception as problem:
        from assets.workplace import not_started  # brings Dagster's libraries

        raise Told(not_started(master, problem), FAILED) from problem
    return spark


@contextmanager
def written_to(log: IO[str]) -> Iterator[None]:
    """Let processes that are started inside write to a file what they would write to the terminal."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {descriptor: os.dup(descriptor) for descriptor in (1, 2)}
    try:
        for descriptor in kept:
            os.dup2(log.fileno(), descriptor)
        yield
    finally:
        for descriptor, copy in kept.items():
            os.dup2(copy, descriptor)
            os.close(copy)
