"""Inspection of a raw stream: its log and what became of its raw files, as outcomes and as the rows that are worst.

Where the log is, what is declared of it and who asks is not known here; see `assets/stream_checks.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from quality.expectations import Outcome, judge
from quality.measuring import measure
from quality.scanning import Promised
from quality.suites.streams import Limits, limited, suite

WORST = 10


@dataclass(frozen=True)
class Inspected:
    """What was found."""

    outcomes: list[Outcome]
    worst: dict[str, pl.DataFrame]
    """For each expectation that has failed, the rows that are worst."""
    tables: dict[str, pl.DataFrame]


def inspect(
    files: pl.DataFrame,
    found: pa.Schema,
    raw_files: pl.DataFrame,
    promised: Promised,
    limits: Limits,
    options: Mapping[str, str] | None = None,
) -> Inspected:
    """Judge a stream; what is given is told in `measuring.measure` and `measuring.raw_files`."""
    tables = limited({"raw_files": raw_files, **measure(files, found, promised, options)}, limits)
    expected = suite(limits)
    columns = {name: [one.expected.column for one in expected if one.table == name] for name in tables}
    framed = pl.concat([table.select(columns[name]) for name, table in tables.items()], how="diagonal")
    outcomes = judge(framed, [one.expected for one in expected])
    wrong = [one for one, outcome in zip(expected, outcomes, strict=True) if not outcome.passed]
    return Inspected(outcomes, {one.expected.name: one.worst(tables, WORST) for one in wrong}, tables)
