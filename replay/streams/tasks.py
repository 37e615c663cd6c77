"""Where the tasks of an ingestion run: in this process, or on Spark.

A task is a function of this package and an argument that can be pickled. A `StreamError` of a task is raised here as it is,
for it is a sentence to a person, and so is an error of storage, such as a full disk, of which one is made; anything else is a
failure of the job.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from deltalake.exceptions import DeltaError
from pyspark import TaskContext
from pyspark.sql import SparkSession

from replay.streams.parsed import StreamError

T = TypeVar("T")
R = TypeVar("R")
Advance = Callable[[int], None]
_TOLD = (StreamError, OSError)
MOST_TASKS, TASKS_A_CORE = 1000, 4
"""More tasks than this Spark is not given: each takes some milliseconds, however little it has to do."""


class Tasks(Protocol):
    """Runs a function on every argument and returns the results in their order."""

    def __call__(self, function: Callable[[T], R], arguments: Sequence[T], weigh: Callable[[T], int] | None = None) -> list[R]:
        """`weigh`: how much of the progress an argument stands for."""
        ...


class InProcess:
    """One after the other, here."""

    def __init__(self, advance: Advance | None = None) -> None:
        """`advance` is told the weight of each task that is done."""
        self._advance = advance

    def __call__(self, function: Callable[[T], R], arguments: Sequence[T], weigh: Callable[[T], int] | None = None) -> list[R]:
        """The results."""
        results = []
        for argument in arguments:
            results.append(function(argument))
            if self._advance and weigh:
                self._advance(weigh(argument))
        return results


class OnSpark:
    """A Spark task each, or for some of them if there are very many."""

    def __init__(self, spark: SparkSession, advance: Advance | None = None) -> None:
        """`advance` is told the weight of what is done, from time to time."""
        self._context, self._advance = spark.sparkContext, advance

    def __call__(self, function: Callable[[T], R], arguments: Sequence[T], weigh: Callable[[T], int] | None = None) -> list[R]:
        """The results."""
        if not arguments:
            return []
        done, tries = self._context.accumulator(0), self._tries()

        def run(argument: Any) -> Any:
            result = _tried(function, argument)
            if isinstance(result, OSError) and (task := TaskContext.get()) and task.attemptNumber() + 1 < tries:
                raise result  # storage may recover: Spark tries the task again, elsewhere perhaps
            done.add(weigh(argument) if weigh and not isinstance(result, _TOLD) else 0)
            return result

        tasks = min(len(arguments), max(MOST_TASKS, TASKS_A_CORE * self._context.defaultParallelism))
        job = self._context.parallelize(list(arguments), tasks).map(run)
        with _telling(lambda: int(done.value), self._advance):
            results = job.collect()
        for result in results:
            if isinstance(result, _TOLD):
                raise result
        return results

    def _tries(self) -> int:
        """How often Spark tries a task: on its own machine once, unless the master says how often."""
        local = re.fullmatch(r"local(?:\[[^,]*(?:,\s*(\d+))?\])?", self._context.master or "")
        return int(local[1] or 1) if local else int(self._context.getConf().get("spark.task.maxFailures") or 4)


def _tried(function: Callable[[T], R], argument: T) -> R | StreamError | OSError:
    """What a function returns, or the error that is to be told: raised in a task, Spark would make pages of it."""
    try:
        return function(argument)
    except _TOLD as problem:
        return problem
    except DeltaError as problem:  # which cannot be pickled
        return OSError(str(problem))


class _telling:  # noqa: N801 - used like a function
    """Tell how much is done while something else goes on."""

    def __init__(self, value: Callable[[], int], advance: Advance | None) -> None:
        self._value, self._advance, self._told, self._stop = value, advance, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._tell()

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            self._tell()

    def _tell(self) -> None:
        now = self._value()
        if self._advance and now > self._told:
            self._advance(now - self._told)
            self._told = now
