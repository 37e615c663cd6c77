"""The late tuples of a day, whichever runs have read its rows.

A run reads some rows of the day before and after its own, and some rows of its own day may have been read for the day
before; the late rule depends on the log alone, so what the run did not read is judged here, from the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engines.contract import TIMESTAMP
from engines.state import one_batch
from replay.envelope import LATE
from replay.file_slices import file_slices
from replay.finals import order
from replay.lifting import judge, late_schema, with_watermark
from replay.log import Log, day_end, day_of, day_start
from replay.plan import Plan
from replay.reading import conform


def late_of_days(plan: Plan, first: date, last: date) -> Iterator[tuple[date, pa.Table]]:
    """The late tuples of each day of the clock, in order of arrival."""
    table = plan.lake.table(plan.output(LATE))
    found = [table.to_pyarrow_table()] if table is not None else []
    for name, log in plan.logs.items():
        gap_end = min(max(plan.span.begin[name], log_start(log, first)), log_start(log, last, after=True))
        found += list(_judged(plan, name, log, log_start(log, first), gap_end))
    rows = pa.concat_tables([late_schema(plan.schema).empty_table(), *found])
    days = _days_of(plan, rows)
    for n in range(first.toordinal(), last.toordinal() + 1):
        mine = rows.filter(pa.array(days == n))
        if mine.num_rows:
            yield date.fromordinal(n), mine.take(order(mine, ["arrival"]))


def log_start(log: Log, day: date, *, after: bool = False) -> int:
    """The first arrival of a day, or the one after its last: no file straddles a day."""
    file = int(np.searchsorted(log.clock, day_end(day) if after else day_start(day), side="left"))
    return int(log.first[file]) if file < len(log.first) else log.end


def _judged(plan: Plan, name: str, log: Log, begin: int, end: int) -> Iterator[pa.Table]:
    """The late tuples among arrivals that this run did not read."""
    clock = plan.engine.clock(name)
    for part in file_slices(name, log, begin, end, alone=False):
        with pq.ParquetFile(plan.lake.files(log.address).open_input_file(part.path)) as parquet:
            ts = parquet.read(columns=["ts"])["ts"].combine_chunks().cast(TIMESTAMP).view(pa.int64()).to_numpy()
            late = np.zeros(len(ts), np.bool_)
            judge(ts, part.clock_before, clock.behind_us, late)
            late[: part.skip] = late[part.skip + part.take :] = False
            if late.any():
                at = np.flatnonzero(late)
                rows = conform(one_batch(parquet.read().take(pa.array(at))), plan.schema, name)
                yield pa.Table.from_batches([with_watermark(rows, ts, part.clock_before, at, clock)])


def _days_of(plan: Plan, rows: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The ordinal of each late tuple's day: that of its clock, which is its watermark and the stream's delay."""
    micros = rows["watermark"].combine_chunks().cast(pa.int64()).to_numpy(zero_copy_only=False)
    delays = {name: plan.engine.clock(name).delay_us for name in plan.streams}
    only = next(iter(delays.values()))
    delay = np.array([delays[n] for n in rows["stream"].to_pylist()]) if len(delays) > 1 else only
    days: np.ndarray[tuple[int], np.dtype[np.int64]] = (micros + delay) // 86_400_000_000 + day_of(0).toordinal()
    return days
