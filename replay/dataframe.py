"""Replays of any streaming DataFrame of the user's: Kafka, files, whatever Spark reads.

The rows are lifted in `mapInArrow`, then take the same way as those of a log. With the columns `arrival` and `clock`, and
micro-batches in order of arrival, the answer is exact; without them a micro-batch is the unit of arrival, and the run says so.
How it is used is told, with an example, in docs/dataframes.md.
"""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkTypeError
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructField, StructType

from engines import build
from engines.contract import NOWHERE, TIMESTAMP
from engines.spec import SpecError, TechniqueSpec
from engines.state import pack
from replay.claims import claimed
from replay.envelope import DDL, LATE, METRICS, PARTIALS, TUPLES, Envelope, to_batch
from replay.files import delta_type
from replay.hashing import split
from replay.lake import Lake
from replay.lifting import late_schema
from replay.log import normalised
from replay.placement import labels
from replay.plan import Plan, serialised
from replay.progress import note_status
from replay.runs import cause_of, new_run_id, refuse_used_name, start_query
from replay.sink import settle
from replay.span import Span

_STREAM = "stream"
_EXACT = ("arrival", "clock")
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_ALLOWED = {"ts": ("timestamp",), "arrival": _WHOLE, "clock": (*_WHOLE, "timestamp")}
"""Spark's types of the columns that say when and in which order; what is cast to int64 stays exact."""
_SETTLE_SECONDS = 5
"""How long a run that has just ended may take to say so, before it counts as going on."""


def start(
    frame: DataFrame,
    spec: Mapping[str, Any] | TechniqueSpec,
    lake: Lake,
    *,
    run: str | None = None,
    available_now: bool = False,
    **settings: Any,
) -> StreamingQuery:
    """Replay a streaming DataFrame; its outputs are those of a run in the lake.

    The run's folder is held, and its status kept, until the query ends.

    Args:
        frame: `ts`, perhaps `key`, and values; `arrival` and `clock` make the answer exact.
        spec: the specification.
        lake: where the run writes.
        run: its name; the same one again resumes it.
        available_now: stop when what is there now is read.
        settings: further settings of the plan (`buckets`, `early`).
    """
    if not frame.isStreaming:
        raise SpecError("frame: a DataFrame of a batch given; allowed is a stream, as `spark.readStream` gives it.")
    exact = _is_exact(frame)
    schema = _schema(frame, ("ts", *_EXACT) if exact else ("ts",))
    plan = Plan(
        run=new_run_id() if run is None else run, spec=build(spec).spec.document(), lake=lake, streams={_STREAM: ("", 0)},
        span=Span({_STREAM: 0}, {_STREAM: 0}, flush=False), columns=serialised(schema), **settings,
    )  # fmt: skip
    if plan.operator.one_bucket:
        plan = replace(plan, buckets=1)
    if not exact:
        warnings.warn("the stream has no columns 'arrival' and 'clock': a micro-batch is the unit of arrival.", stacklevel=2)
    lifted = frame.select(*schema.names).mapInArrow(_Lift(plan) if exact else _Ship(plan), DDL)
    trigger: dict[str, Any] = {"availableNow": True} if available_now else {"processingTime": "0 seconds"}
    _await_the_one_before(plan)
    refuse_used_name(plan)  # before its folder is made
    with ExitStack() as claim:
        claim.enter_context(claimed(lake, plan.folder))
        query = start_query(frame.sparkSession, plan, lifted, trigger)
        note_status(plan, "running")
        threading.Thread(target=_follow, args=(query, plan, claim.pop_all()), name=plan.folder, daemon=True).start()
    return query


def _is_exact(frame: DataFrame) -> bool:
    """Whether the rows tell their order; with half of what tells it, a column of the user's own would be taken for the other's."""
    there = [name for name in _EXACT if name in frame.columns]
    if len(there) == 1:
        (other,) = set(_EXACT) - set(there)
        raise SpecError(f"{there[0]}: the DataFrame has this column and no '{other}'; allowed are both or neither, so rename it.")
    return bool(there)


def _schema(frame: DataFrame, needed: Iterable[str]) -> pa.Schema:
    """The columns of a frame as its rows are taken; refuses those that cannot be, with a sentence."""
    given = {field.name: field.dataType.simpleString() for field in frame.schema}
    for name in needed:
        if name not in given:
            raise SpecError(f"{name}: the DataFrame has no such column; there are {', '.join(given)}.")
        if given[name] not in _ALLOWED[name]:
            raise SpecError(f"{name}: the column is {given[name]}; allowed is {' or '.join(_ALLOWED[name])}.")
    kinds = {field.name: pa.int64() if field.name in _EXACT and field.name in needed else _kind(field) for field in frame.schema}
    for name, kind in kinds.items():
        if kind is None:
            raise SpecError(
                f"{name}: the column is {given[name]}, which Delta has not, and late tuples are kept there; leave it out, or cast it."
            )
    schema = normalised(pa.schema(list(kinds.items())))
    late_schema(schema)
    return schema


def _kind(field: StructField) -> pa.DataType | None:
    """The Arrow type of a column; None for one that no Delta table could hold."""
    try:
        kind = to_arrow_schema(StructType([field]), timezone="UTC").field(0).type
    except PySparkTypeError:
        return None
    return kind if delta_type(kind) else None


def _await_the_one_before(plan: Plan) -> None:
    """A query of this run that has ended may not have let go of its folder yet: who resumes it at once need not know."""
    for thread in threading.enumerate():
        if thread.name == plan.folder:
            thread.join(_SETTLE_SECONDS)


def _follow(query: StreamingQuery, plan: Plan, claim: ExitStack) -> None:
    """Wait for the end of a query, say how it came to it, and let go of its folder."""
    with claim:
        try:
            query.awaitTermination()
        except Exception as problem:  # whatever it was, the user's own call raises it too
            note_status(plan, "failed", reason=cause_of(problem), details=str(problem))
        else:
            # Read to its end, or stopped: of a stream that may go on for ever the two are the same.
            note_status(plan, "ended")
            settle(plan.lake, plan.run)


class _Lift:
    """Rows that know their arrival and their clock: judged and lifted where they are.

    Spark deals the rows of a micro-batch to partitions and Arrow batches as it likes. Those of an Arrow batch are put in order
    of arrival here; buckets take the batches in order of their first arrival, which is their `seq`.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan, clock = self._plan, self._plan.engine.clock(_STREAM)
        places = labels(plan.buckets)
        for rows in _complete(plan, batches, ("ts", *_EXACT)):
            rows = rows.sort_by("arrival")
            clocks = rows["clock"].to_numpy()
            late = pc.less(rows["ts"].view(pa.int64()), pa.array(clocks - clock.behind_us))
            first, upto, highest = rows["arrival"][0].as_py(), rows["arrival"][-1].as_py() + 1, int(clocks.max())

            def envelope(bucket: int, kind: str, payload: bytes, first: int = first, upto: int = upto, highest: int = highest) -> Envelope:
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
        for rows in _complete(plan, batches, ("ts",)):
            highest = pc.max(rows["ts"].view(pa.int64())).as_py()
            due, final = highest - clock.delay_us, highest - clock.behind_us
            of_rows = rows[key] if (key := plan.operator.key) else pa.nulls(rows.num_rows, pa.string())
            shares = {bucket: pack(mine) for bucket, mine in split(rows, plan.buckets, of_rows)}
            yield to_batch([
                Envelope(place, 0, 0, _STREAM, due, final, TUPLES if bucket in shares else PARTIALS, shares.get(bucket, b""))
                for bucket, place in enumerate(places)
            ])  # fmt: skip


def _complete(plan: Plan, batches: Iterable[pa.RecordBatch], needed: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Batches that have rows, in the plan's types; refuses nulls in columns that every tuple needs, for they would get lost."""
    for batch in batches:
        rows = batch.cast(plan.schema)
        for name in needed:
            if nulls := rows[name].null_count:
                raise SpecError(f"{name}: null in {nulls} of {rows.num_rows} rows; every tuple needs one, so leave such rows out.")
        if rows.num_rows:
            yield rows


def _wanted(plan: Plan, rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({name: rows[name] for name in dict.fromkeys(["ts", *plan.operator.columns])})


def _late(plan: Plan, rows: pa.RecordBatch, clocks: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.RecordBatch:
    watermark = pa.array(clocks - plan.engine.clock(_STREAM).delay_us).view(TIMESTAMP)
    schema = late_schema(plan.schema)
    return pa.record_batch([watermark if name == "watermark" else rows[name] for name in schema.names], schema=schema)
