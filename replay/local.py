"""Replays in this process, without a JVM: for notebooks, tests and small jobs.

The table is the stream, its row order the order of arrival. The steps are those of a replay on Spark (lifting, bucket);
only what carries envelopes from one to the next differs. Logs, days and publishing belong to the runs on Spark.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.contract import BEGINNING, FOREVER, Engine, Operator
from engines.spec import SpecError
from engines.state import one_batch
from replay.bucket import Bucket, Step
from replay.envelope import PARTIALS, Envelope
from replay.finals import final_rows, order
from replay.lifting import Piece, check_tuples, late_columns, late_schema, lift_piece
from replay.metrics import metrics_table
from replay.reading import conform
from replay.span import Emission


@dataclass
class Run:
    """What a replay gave: tables by name, `run.results`, `run.late`, `run.metrics` and the technique's further outputs."""

    outputs: dict[str, pa.Table]
    late: pa.Table
    metrics: pa.Table
    operator: Operator = field(repr=False)
    reached: int = FOREVER

    def __getattr__(self, output: str) -> pa.Table:
        """An output by its name."""
        try:
            return self.__dict__["outputs"][output]
        except KeyError:
            raise AttributeError(f"this run has no output '{output}'; there are {', '.join(self.__dict__.get('outputs', {}))}") from None

    @property
    def final(self) -> pa.Table:
        """The results that can no longer change: the last revision of each, without those taken back."""
        return final_rows(self.outputs["results"], self.operator.identity["results"], self.reached)


def run(engine: Engine, table: pa.Table, *, batch_rows: int = 65_536, buckets: int = 1, flush: bool = True, early: bool = True) -> Run:
    """Replay a table through an engine.

    Args:
        engine: what `engines.build` gave.
        table: the stream: `ts`, perhaps `key` and `stream`, and values; rows in order of arrival.
        batch_rows: tuples per batch; no final row depends on it.
        buckets: into how many parts the keys are divided; nor on this.
        flush: release at the end what only further tuples would have.
        early: give results when they are due and revise them; else once, when final.

    >>> from datetime import UTC, datetime
    >>> from engines.contract import TIMESTAMP
    >>> from engines import build
    >>> engine = build({"technique": "slicing", "queries": [
    ...     {"name": "q", "window": {"kind": "tumbling", "length": "10s"}, "aggregates": [{"kind": "sum", "column": "v"}]}]})
    >>> stream = pa.table({"ts": pa.array([datetime(2024, 1, 1, 0, 0, s, tzinfo=UTC) for s in (1, 4, 12)], TIMESTAMP), "v": [1, 2, 4]})
    >>> run(engine, stream).final["sum_v"].to_pylist()
    [3, 4]
    """
    for setting, number in (("batch_rows", batch_rows), ("buckets", buckets)):
        if number < 1:
            raise SpecError(f"{setting}: {number} given; allowed is a whole number from 1.")
    check_tuples(table)
    tuples = _with_arrival(table)
    if "stream" in table.schema.names and table["stream"].null_count:
        raise SpecError(f"stream: row {table['stream'].is_null().index(True).as_py()} is null; allowed is the name of each tuple's stream.")
    late = late_columns(table.schema)
    operator = engine.on(table.schema)
    count = 1 if operator.one_bucket else buckets
    streams = sorted(table["stream"].unique().to_pylist()) if "stream" in table.schema.names and table.num_rows else [""]
    group = [Bucket(engine, operator, streams, Emission(early=early)) for _ in range(count)]
    clocks = dict.fromkeys(streams, BEGINNING)
    steps: list[list[Step]] = []

    def step(envelopes: list[Envelope]) -> None:
        steps.append([bucket.step(e for e in envelopes if e.bucket == b) for b, bucket in enumerate(group)])

    for first in range(0, tuples.num_rows, batch_rows):
        batch, envelopes = tuples.slice(first, batch_rows), list[Envelope]()
        for stream in streams:
            rows = batch if len(streams) == 1 else batch.filter(pc.equal(batch["stream"], stream))
            if rows.num_rows:
                piece = _piece(stream, first, rows, operator, clocks[stream], late, alone=len(streams) == 1)
                envelopes += lift_piece(operator, engine.clock(stream), piece, count)
                clocks[stream] = envelopes[-1].due + engine.clock(stream).delay_us
        step(envelopes)
    if flush:
        end = tuples.num_rows
        step([Envelope(b, end, end, stream, FOREVER, FOREVER, PARTIALS, b"") for stream in streams for b in range(count)])
    return _gather(steps, operator, table.schema, group[0].state.final)


def _with_arrival(table: pa.Table) -> pa.Table:
    """The tuples with their places in the order of arrival, which are their row numbers unless they bring them."""
    if "arrival" not in table.schema.names:
        return table.append_column("arrival", pa.array(np.arange(table.num_rows)))
    given = table["arrival"]
    if pa.types.is_integer(given.type) and not given.null_count:
        with suppress(pa.ArrowInvalid):
            return table.set_column(table.schema.get_field_index("arrival"), "arrival", given.cast(pa.int64()))
    raise SpecError(f"arrival: the column is {given.type} with {given.null_count} nulls; allowed are whole numbers (int64) and no nulls.")


def _piece(stream: str, first: int, rows: pa.Table, operator: Operator, clock_before: int, late: pa.Schema, *, alone: bool) -> Piece:
    """Rows of a batch. Only the columns that are read are put together: of all rows the others may be more than Arrow can hold in one."""
    wanted = one_batch(rows.select(list(dict.fromkeys(["ts", *operator.columns]))))
    return Piece(
        stream, first, wanted, clock_before, lambda marked: conform(one_batch(rows.filter(pa.array(marked))), late, stream), alone
    )  # fmt: skip


def _gather(steps: list[list[Step]], operator: Operator, schema: pa.Schema, reached: int) -> Run:
    """Tables from steps; rows of a batch are sorted by identity, whatever bucket they come from."""
    tables: dict[str, list[pa.Table]] = defaultdict(list)
    for batch in steps:
        parts: dict[str, list[pa.Table]] = defaultdict(list)
        for step in batch:
            for output, rows in step.outputs:
                parts[output].append(rows)
        for output, some in parts.items():
            together = pa.concat_tables(some)
            tables[output].append(together.take(order(together, operator.identity.get(output, ["arrival"]))))
    outputs = {name: pa.concat_tables([s.empty_table(), *tables[name]]) for name, s in operator.outputs.items()}
    late = pa.concat_tables([late_schema(schema).empty_table(), *tables["late"]])
    return Run(outputs, late, metrics_table([step.metrics for batch in steps for step in batch]), operator, reached)
