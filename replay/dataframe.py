"""Replays of any streaming DataFrame of the user's: Kafka, files, whatever Spark reads.

The rows are lifted in `mapInArrow`, then take the same way as those of a log. With the columns `arrival` and `clock`, and
micro-batches in order of arrival, the answer is exact; without them a micro-batch is the unit of arrival, and the run says so.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from engines.contract import NOWHERE, TIMESTAMP
from engines.state import pack
from replay.envelope import DDL, LATE, METRICS, PARTIALS, TUPLES, Envelope, to_batch
from replay.hashing import split
from replay.lake import Lake
from replay.lifting import late_schema
from replay.log import normalised
from replay.placement import labels
from replay.plan import Plan, serialised
from replay.runs import new_run_id, start_query
from replay.span import Span

_STREAM = "stream"


def start(
    frame: DataFrame, spec: Mapping[str, Any], lake: Lake, *, run: str | None = None, available_now: bool = False, **settings: Any
) -> StreamingQuery:
    """Replay a streaming DataFrame; its outputs are those of a run in the lake.

    Args:
        frame: `ts`, perhaps `key`, and values; `arrival` and `clock` make the answer exact.
        spec: the specification.
        lake: where the run writes.
        run: its name; the same one again resumes it.
        available_now: stop when what is there now is read.
        settings: further settings of the plan (`buckets`, `early`).
    """
    schema = normalised(to_arrow_schema(frame.schema, timezone="UTC"))
    plan = Plan(
        run=run or new_run_id(), spec=spec, lake=lake, streams={_STREAM: ("", 0)}, span=Span({_STREAM: 0}, {_STREAM: 0}, flush=False),
        columns=serialised(schema), **settings,
    )  # fmt: skip
    if plan.operator.one_bucket:
        plan = replace(plan, buckets=1)
    exact = {"arrival", "clock"} <= set(schema.names)
    if not exact:
        warnings.warn("the stream has no columns 'arrival' and 'clock': a micro-batch is the unit of arrival.", stacklevel=2)
    wanted = frame.select(*schema.names)
    lifted = wanted.mapInArrow(_Lift(plan) if exact else _Ship(plan), DDL)
    trigger: dict[str, Any] = {"availableNow": True} if available_now else {"processingTime": "0 seconds"}
    return start_query(frame.sparkSession, plan, lifted, trigger)


class _Lift:
    """Rows that know their arrival and their clock: judged and lifted where they are."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan, clock = self._plan, self._plan.engine.clock(_STREAM)
        places = labels(plan.buckets)
        reached = -1
        for rows in batches:
            if not rows.num_rows:
                continue
            rows = rows.cast(plan.schema)
            clocks = rows["clock"].to_numpy()
            late = pc.less(rows["ts"].cast(TIMESTAMP).view(pa.int64()), pa.array(clocks - clock.behind_us))
            first, highest = pc.min(rows["arrival"]).as_py(), int(clocks.max())
            reached = max(reached, pc.max(rows["arrival"]).as_py() + 1)

            def envelope(
                bucket: int, kind: str, payload: bytes, first: int = first, upto: int = reached, highest: int = highest
            ) -> Envelope:
                return Envelope(places[bucket], first, upto, _STREAM, highest - clock.delay_us, highest - clock.behind_us, kind, payload)

            partials = plan.operator.lift(_wanted(plan, rows).filter(pc.invert(late)), NOWHERE)
            envelopes = [envelope(bucket, PARTIALS, pack(mine)) for bucket, mine in split(partials, plan.buckets)]
            # Every bucket has to learn the watermark, also those that get no partials.
            envelopes += [envelope(bucket, PARTIALS, b"") for bucket in range(plan.buckets)]
            if pc.any(late).as_py():
                envelopes.append(envelope(first % plan.buckets, LATE, pack(_late(plan, rows, clocks).filter(late))))
            numbers = {"tuples": rows.num_rows, "late": pc.sum(late).as_py() or 0, "partials": partials.num_rows}
            yield to_batch([*envelopes, envelope(first % plan.buckets, METRICS, json.dumps(numbers).encode())])


class _Ship:
    """Rows without a clock of their own: shipped as they are, for only the state knows what was read before."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan, clock = self._plan, self._plan.engine.clock(_STREAM)
        places = labels(plan.buckets)
        for rows in batches:
            if not rows.num_rows:
                continue
            rows = rows.cast(plan.schema)
            highest = pc.max(rows["ts"].cast(TIMESTAMP).view(pa.int64())).as_py()
            due, final = highest - clock.delay_us, highest - clock.behind_us
            of_rows = rows[key] if (key := plan.operator.key) else pa.nulls(rows.num_rows, pa.string())
            shares = {bucket: pack(mine) for bucket, mine in split(rows, plan.buckets, of_rows)}
            yield to_batch([
                Envelope(place, 0, 0, _STREAM, due, final, TUPLES if bucket in shares else PARTIALS, shares.get(bucket, b""))
                for bucket, place in enumerate(places)
            ])  # fmt: skip


def _wanted(plan: Plan, rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({name: rows[name] for name in dict.fromkeys(["ts", *plan.operator.columns])})


def _late(plan: Plan, rows: pa.RecordBatch, clocks: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.RecordBatch:
    watermark = pa.array(clocks - plan.engine.clock(_STREAM).delay_us).view(TIMESTAMP)
    schema = late_schema(plan.schema)
    return pa.record_batch([watermark if name == "watermark" else rows[name] for name in schema.names], schema=schema)
