"""Carries experiments out: what they share (scale, lake, streams, session), one after the other, and a document of it all.

An experiment that fails, or whose results are wrong, does not keep the others from running; the document tells why it has no
numbers. What is measured is said in the experiments' own modules.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from orchestration.bench.report import document, failure
from orchestration.bench.streams import Stream
from replay.lake import Lake
from replay.log import Log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXPERIMENTS = ("sliding", "fixed_cost", "frames", "keys", "kernels", "windows", "ingestion")
_LIBRARIES = ("pyspark", "delta-spark", "deltalake", "duckdb", "pyarrow", "numba", "numpy")


class WrongResultsError(RuntimeError):
    """Two systems that should agree do not: no speed is worth telling."""


@dataclass(frozen=True)
class Scale:
    """How much is measured with; everything smaller follows from these."""

    tuples: int = 100_000_000
    """The longest streams."""
    spark_tuples: int = 10_000_000
    """What is given to Spark's own operators, which would take minutes for more; their speed is compared, not their time."""
    batch_tuples: int = 25_000_000
    cores: int = 2
    repeats: int = 3
    """How often a replay is timed; the median counts."""

    def __post_init__(self) -> None:
        """Keep parts within the whole, so that a small run is the same in small."""
        object.__setattr__(self, "spark_tuples", min(self.spark_tuples, self.tuples))
        object.__setattr__(self, "batch_tuples", min(self.batch_tuples, max(self.tuples // 4, 1)))

    @property
    def file_tuples(self) -> int:
        """Tuples of a file of a log: a million, fewer if that would leave only a few files."""
        return max(min(1_000_000, self.tuples // 20), 1)


@dataclass
class Step:
    """Something that is going on, and how long it took once it is done."""

    advance: Callable[[int], None]
    """Moves the bar on, by so many tuples."""
    seconds: float = 0.0
    processor_seconds: float = 0.0
    """Of this process and all that it has started: other work on the machine disturbs it less than it does the clock."""


class Bench:
    """What experiments share."""

    def __init__(self, lake: Lake, scale: Scale, spark: Callable[[], SparkSession], console: Console) -> None:
        """Nothing is made or started before an experiment asks for it."""
        self.lake = lake
        self.scale = scale
        self._start = spark
        self._console = console
        self._known: dict[str, Any] = {}

    @cached_property
    def spark(self) -> SparkSession:
        """The session: the replays' and Spark's own."""
        with self.step("starting Spark"):
            return self._start()

    def log(self, stream: Stream, tuples: int) -> Log:
        """A stream's log, written when it is first asked for."""

        def written() -> Log:
            with self.step(f"writing {tuples:,} tuples of '{stream.name}'", tuples) as step:
                return stream.write(self.lake, tuples, self.scale.file_tuples, step.advance)

        log: Log = self.once(f"{stream.name} {tuples}", written)
        return log

    def folder(self, name: str) -> Path:
        """A new folder beside the lake's tables, for what other systems write."""
        path = Path(self.lake.root) / "others" / f"{name}-{time.monotonic_ns()}"
        path.mkdir(parents=True)
        return path

    def once(self, name: str, measure: Callable[[], Any]) -> Any:
        """What is measured once in a run, however many experiments need it."""
        if name not in self._known:
            self._known[name] = measure()
        return self._known[name]

    @contextmanager
    def step(self, what: str, total: int | None = None) -> Iterator[Step]:
        """Show what is going on, and time it."""
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self._console, transient=True, disable=not self._console.is_terminal) as bar:
            task = bar.add_task(what, total=total)
            step, used, begun = Step(lambda done: bar.advance(task, done)), _processor_seconds(), time.perf_counter()
            yield step
            step.seconds, step.processor_seconds = time.perf_counter() - begun, _processor_seconds() - used
        self._console.print(f"{step.seconds:8.1f} s  {what}", style="dim", highlight=False, soft_wrap=True)


def about(name: str) -> str:
    """What an experiment measures, in a line."""
    return str(import_module(f"orchestration.bench.{name}").ABOUT)


def run(bench: Bench, names: Sequence[str]) -> dict[str, Any]:
    """Carry experiments out, in the order in which they are known."""
    begun = datetime.now(UTC)
    load = os.getloadavg()[0]
    experiments = [_carry_out(bench, name) for name in EXPERIMENTS if name in names]
    return {
        "at": f"{begun:%Y-%m-%d %H:%M} UTC",
        "seconds": round((datetime.now(UTC) - begun).total_seconds(), 1),
        "machine": {**_machine(), "load_before": round(load, 2)},
        "scale": asdict(bench.scale),
        "experiments": experiments,
    }


def _carry_out(bench: Bench, name: str) -> dict[str, Any]:
    begun = time.perf_counter()
    try:
        outcome = import_module(f"orchestration.bench.{name}").run(bench)
    except Exception as problem:
        reason = next(iter(str(problem).splitlines()), "")
        return failure(name, about(name), f"{type(problem).__name__}: {reason}", time.perf_counter() - begun)
    return document(name, about(name), outcome, time.perf_counter() - begun)


def _processor_seconds() -> float:
    """What this process and all below it have used so far; those that have ended count with whoever started them."""
    used = 0.0
    for process in [this := psutil.Process(), *this.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            used += times.user + times.system + times.children_user + times.children_system
    return used


def _machine() -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in _LIBRARIES},
    }


def _processor() -> str:
    """Its name, which only Linux tells."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
