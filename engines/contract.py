"""The one contract that every technique fulfils: lift, combine, lower.

An `Engine` is a technique with its settings; bound to the columns of a stream it is an `Operator`. Whoever runs
operators (replay/) knows nothing else of a technique. What belongs to a single technique must not be added here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import pyarrow as pa

from engines.spec import TechniqueSpec
from engines.state import State

BEGINNING = -(2**62)
"""Event time before everything, in microseconds."""
FOREVER = 2**62
"""Event time after everything: what the flush lowers with."""

TIMESTAMP = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Interval:
    """An open stretch of event time: the microseconds strictly between `after` and `before`."""

    after: int
    before: int


NOWHERE = Interval(FOREVER, BEGINNING)
"""The empty stretch: nothing is known to be alone."""


@dataclass(frozen=True)
class Clock:
    """How far a stream's watermark and its final watermark stay behind its largest timestamp."""

    delay_us: int
    lateness_us: int

    @property
    def behind_us(self) -> int:
        """A tuple further behind the clock than this is late."""
        return self.delay_us + self.lateness_us


class Operator(Protocol):
    """An engine bound to the columns of its stream. It holds no state of its own: everything is in `State`."""

    columns: Sequence[str]
    """The columns that lift reads, in the order it wants them; `arrival` and `stream` only if it needs them."""
    key: str | None
    """The column of the stream whose values are the keys; None: all tuples have one, which is null."""
    outputs: Mapping[str, pa.Schema]
    """The schema of each output; `results` always. Every one has `decided`, those that are revised `revision` and `retracted`."""
    identity: Mapping[str, Sequence[str]]
    """The columns that name a row of each output, in the order in which rows are sorted."""
    tables: Mapping[str, pa.Schema]
    """The schema of each table of the state. Every one has the column `key`, by which rows can move to other buckets."""
    partials: pa.Schema
    """What lift returns. Has the column `key`: rows with the same key meet in the same bucket."""
    one_bucket: ClassVar[bool]
    """Whether the whole stream has to meet in one place."""

    def lift(self, tuples: pa.RecordBatch, alone: Interval) -> pa.RecordBatch:
        """Partials of these tuples, none of them late, in order of arrival. Stateless.

        Inside `alone` these tuples are the only accepted ones, now and when the log has grown: an order-sensitive technique may
        finish its work there, and ships what combine needs to merge exactly elsewhere.
        """
        ...

    def combine(self, state: State, partials: Sequence[pa.RecordBatch]) -> None:
        """Merge partials, in order of arrival, into the state."""
        ...

    def lower(self, state: State, due: int, final: int) -> Mapping[str, pa.Table]:
        """Rows decided before `due` that were not given yet or have changed; evicts what only rows decided before `final` needed.

        `state.due` and `state.final` are those of the call before. `FOREVER` is the flush: everything is released.
        `revision` is left at 0, for whoever runs the operator knows the batch. A table, so that rows need not be copied into one piece.
        """
        ...


class Engine(Protocol):
    """A technique with its settings."""

    spec: TechniqueSpec
    version: ClassVar[int]
    """The version of the state's layout: state of another version is refused."""

    def clock(self, stream: str) -> Clock:
        """The delay and the lateness of one of its streams."""
        ...

    def lookback(self) -> int | None:
        """How far before a day the tuples of its results may lie, in microseconds; None: no bound."""
        ...

    def explain(self) -> str:
        """What it will do and why, in words."""
        ...

    def on(self, schema: pa.Schema) -> Operator:
        """The operator for a stream with these columns; raises `SpecError` where they do not fit."""
        ...
