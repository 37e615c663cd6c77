"""How far a run has come: what a person, a log line or a progress bar is told while it goes on.

Adds up the metrics of batches and knows nothing of how they are carried out.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.query import StreamingQuery

from replay.metrics import metrics_of
from replay.plan import PLAN, Plan

STATUS = "status.json"
"""What became of a run, in its folder."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    batch: int
    tuples: int
    total: int
    late: int
    results: int
    clock: datetime | None
    """The event time that it has read up to."""
    watermark: datetime | None
    seconds: float
    """Since this process took the run up."""
    before: int = 0
    """Tuples that were done by then."""

    @property
    def tuples_per_second(self) -> float:
        """Tuples read per second."""
        return (self.tuples - self.before) / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """At this speed."""
        return (self.total - self.tuples) / self.tuples_per_second if self.tuples_per_second else None


def note_status(plan: Plan, status: str, **details: Any) -> None:
    """Write down what became of a run: running, cancelled, failed, succeeded, published; of a DataFrame: ended."""
    plan.lake.write_json(plan.folder, STATUS, {"status": status, "at": datetime.now(UTC).isoformat(), **details})


def finished(plan: Plan, metrics: pa.Table) -> bool:
    """Whether a run has read all of its span and, where it has to, flushed: the flush is a batch of its own, without tuples."""
    tuples = metrics["tuples"].to_pylist()
    wanted = sum(plan.span.end[name] - plan.span.begin[name] for name in plan.streams)
    return sum(tuples) == wanted and (not plan.span.flush or tuples[-1:] == [0])


class Watch:
    """Adds up the metrics of batches: those that earlier processes left, then each as it is committed."""

    def __init__(self, plan: Plan) -> None:
        """A watch over a run, begun before or not."""
        self._plan = plan
        total = sum(plan.span.end[name] - plan.span.begin[name] for name in plan.streams)
        self._reached = Progress(-1, 0, total, 0, 0, None, None, 0.0, 0)
        if plan.lake.read_json(plan.folder, PLAN) is not None:
            self.add(metrics_of(plan.lake, plan.run))
        self._told = self._reached.batch
        self._before, self._begun = self._reached.tuples, time.monotonic()

    def add(self, metrics: pa.Table) -> None:
        """Batches that are committed; one that was committed before is not counted again."""
        known = self._reached
        for row in metrics.to_pylist():
            if row["batch"] > known.batch:
                known = replace(
                    known, batch=row["batch"], tuples=known.tuples + row["tuples"], late=known.late + row["late"],
                    results=known.results + row["results"],
                    clock=row["clock"] or known.clock, watermark=row["watermark"] or known.watermark,
                )  # fmt: skip
        self._reached = known

    def news(self) -> bool:
        """Whether a batch was committed since the last call."""
        told, self._told = self._told, self._reached.batch
        return self._told > told

    def progress(self) -> Progress:
        """How far the run has come."""
        return replace(self._reached, seconds=time.monotonic() - self._begun, before=self._before)

    def ended(self, query: StreamingQuery) -> bool:
        """Whether a paced run has read everything and sent its flush."""
        latest = query.lastProgress
        offset = latest["sources"][0]["endOffset"] if latest else None
        if not offset:
            return False
        offset = json.loads(offset) if isinstance(offset, str) else offset
        read_all = all(offset["read"][name] >= end for name, end in self._plan.span.end.items())
        return bool(read_all and (offset["flushed"] or not self._plan.span.flush))
