"""The Spark processor: a bucket whose state lives in Spark's state store.

Only what changed in a batch is written back; what it released is written to files, whose names are all that leaves the task.
Everything that a batch means happens in `bucket.py`, or local runs and runs on Spark would drift apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    import pandas as pd

    from replay.envelope import Envelope
    from replay.plan import Plan


class Processor(StatefulProcessor):
    """One group per bucket; a map from table names to their rows is its state.

    For every query Spark starts a process that only asks for the names of the state, and waits for it: hence the plan as text,
    and imports where they are needed. The processes of tasks have them from the beginning (`daemon.py`).
    """

    def __init__(self, plan: Plan) -> None:
        """A processor for a plan."""
        self._plan = plan.to_json()

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state."""
        self._tables = handle.getMapState("tables", "name string", "payload binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # type: ignore[override] # noqa: N802, N803
        """Take a batch's envelopes through the bucket."""
        import pandas as pd

        from replay.bucket import Bucket
        from replay.plan import plan_of
        from replay.sink import Writer
        from replay.state_files import StateFiles

        plan = plan_of(self._plan)
        bucket = Bucket(plan.engine, plan.operator, list(plan.streams), plan.span.emission(early=plan.early))
        stored = {name: bytes(payload) for (name,), (payload,) in self._tables.iterator()}
        files = StateFiles(plan, stored)
        if stored:
            bucket.load(files.read())
        writer = Writer(plan.lake, plan.run)
        step = bucket.step((envelope for frame in rows for envelope in _envelopes(frame)), writer.take)
        for name, payload in files.write(bucket.dump(), bucket.batch).items():
            self._tables.updateValue((name,), (payload,))
        # A task that is tried again writes its files again; only those whose names arrive are committed.
        yield pd.DataFrame({"message": [writer.message(step)]})

    def close(self) -> None:
        """Nothing is held open."""


def _envelopes(frame: pd.DataFrame) -> Iterator[Envelope]:
    from replay.envelope import SCHEMA, Envelope

    for row in frame[SCHEMA.names].itertuples(index=False, name=None):
        yield Envelope(*row)
