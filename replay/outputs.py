"""The tables that a run writes: which there are, with which columns, and making them.

Where they are is known to the lake; what goes into them is decided by the buckets and written by the sink.
"""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable, Schema

from replay.envelope import LATE, STATE
from replay.lifting import late_schema
from replay.metrics import SCHEMA
from replay.plan import Plan
from replay.snapshots import SNAPSHOT

_KEPT = {"delta.deletedFileRetentionDuration": "interval 1 hour", "delta.logRetentionDuration": "interval 1 hour"}
"""How long Delta keeps files that were put together, for who still reads them, and its record of each commit: commits cost with both."""


def output_schemas(plan: Plan) -> dict[str, pa.Schema]:
    """The schema of every table that a run writes."""
    return {**plan.operator.outputs, LATE: late_schema(plan.schema), STATE: SNAPSHOT}


def create_tables(plan: Plan) -> None:
    """Empty tables for all outputs, so that each can be read from the first moment on."""
    options = plan.lake.options()
    for output, schema in output_schemas(plan).items():
        DeltaTable.create(plan.output(output), Schema.from_arrow(schema), mode="ignore", configuration=_KEPT, storage_options=options)
    of_runs = Schema.from_arrow(pa.schema([*SCHEMA, ("run", pa.string())]))
    DeltaTable.create(plan.lake.metrics, of_runs, mode="ignore", partition_by=["run"], configuration=_KEPT, storage_options=options)
