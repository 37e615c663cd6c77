"""The late tuples of a day, whichever runs have read its rows.

A run reads some rows of the day before and after its own, and some rows of its own day may have been read for the day
before; the late rule depends on the log alone, so what the run did not read is judged here, from the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engines.contract import TIMESTAMP
from engines.state import one_batch
from replay.envelope import LATE
from replay.file_slices import file_slices
from replay.finals import order
from replay.lifting import judge, late_columns, late_schema, with_watermark
from replay.log import Log, day_end, day_start
from replay.plan import Plan
from replay.reading import conform


def late_of_days(plan: Plan, days: Sequence[date]) -> Iterator[tuple[date, pa.Table]]:
    """The late tuples of each day of the clock, in order of arrival: at no time those of more than one day in memory."""
    table = plan.lake.table(plan.output(LATE))
    written = table.to_pyarrow_dataset() if table is not None else None
    for day in days:
        found = [late_schema(plan.schema).empty_table()]
        for name, log in plan.logs.items():
            if written is not None:
                found.append(written.to_table(filter=_of_day(plan, name, day)))
            begin, end = log_start(log, day), log_start(log, day, after=True)
            found += _judged(plan, name, log, begin, min(max(plan.span.begin[name], begin), end))
        rows = pa.concat_tables(found)
        if rows.num_rows:
            yield day, rows.take(order(rows, ["arrival"]))


def log_start(log: Log, day: date, *, after: bool = False) -> int:
    """The first arrival of a day, or the one after its last: no file straddles a day."""
    file = int(np.searchsorted(log.clock, day_end(day) if after else day_start(day), side="left"))
    return int(log.first[file]) if file < len(log.first) else log.end


def _judged(plan: Plan, name: str, log: Log, begin: int, end: int) -> Iterator[pa.Table]:
    """The late tuples among arrivals that this run did not read."""
    clock = plan.engine.clock(name)
    for part in file_slices(name, log, begin, end):
        with pq.ParquetFile(plan.lake.files(log.address).open_input_file(part.path)) as parquet:
            ts = parquet.read(columns=["ts"])["ts"].combine_chunks().cast(TIMESTAMP).view(pa.int64()).to_numpy()
            late = np.zeros(len(ts), np.bool_)
            judge(ts, part.clock_before, clock.behind_us, late)
            late[: part.skip] = late[part.skip + part.take :] = False
            if late.any():
                rows = conform(one_batch(parquet.read().filter(pa.array(late))), late_columns(plan.schema), name)
                yield pa.Table.from_batches([with_watermark(rows, ts, part.clock_before, late, clock)])


def _of_day(plan: Plan, name: str, day: date) -> pc.Expression:
    """Which rows that the run wrote are of a stream and a day: that of the tuple's clock, which is its watermark and the stream's delay."""
    delay = plan.engine.clock(name).delay_us
    since, until = (pa.scalar(instant - delay, TIMESTAMP) for instant in (day_start(day), day_end(day)))
    of_day = (pc.field("watermark") >= since) & (pc.field("watermark") < until)
    return of_day & (pc.field("stream") == name) if len(plan.streams) > 1 else of_day
