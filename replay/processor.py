"""The Spark processor: a bucket whose state lives in Spark's state store.

Only what changed in a batch is written back. Everything that a batch means happens in `bucket.py`; nothing else may
happen here, or local runs and runs on Spark would drift apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from engines.state import pack
from replay.bucket import Bucket, Step
from replay.envelope import METRICS, SCHEMA, Envelope
from replay.plan import Plan


class Processor(StatefulProcessor):
    """One group per bucket; a map from table names to their rows is its state."""

    def __init__(self, plan: Plan) -> None:
        """A processor for a plan."""
        self._plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state."""
        self._tables = handle.getMapState("tables", "name string", "payload binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # type: ignore[override] # noqa: N802, N803
        """Take a batch's envelopes through the bucket."""
        plan = self._plan
        bucket = Bucket(plan.engine, plan.operator, list(plan.streams), plan.span.emission(early=plan.early))
        stored = {name: bytes(payload) for (name,), (payload,) in self._tables.iterator()}
        if stored:
            bucket.load(stored)
        step = bucket.step(envelope for frame in rows for envelope in _envelopes(frame))
        for name, payload in bucket.dump().items():
            self._tables.updateValue((name,), (payload,))
        yield _frame(step)

    def close(self) -> None:
        """Nothing is held open."""


def _envelopes(frame: pd.DataFrame) -> Iterator[Envelope]:
    for row in frame[SCHEMA.names].itertuples(index=False, name=None):
        yield Envelope(*row)


def _frame(step: Step) -> pd.DataFrame:
    """What a step released, as envelopes; the numbers last."""
    named = [(output, pack(rows)) for output, rows in step.outputs]
    return pd.DataFrame([*named, (METRICS, json.dumps(step.metrics).encode())], columns=["output", "payload"])
