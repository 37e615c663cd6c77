"""DuckDB: batch over the same files, as the fastest that a machine like this one is known to do; and the judge of all results.

It shares no code with the engines, so results that agree with its own, or that it finds equal, are right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from orchestration.bench.runner import Bench, WrongResultsError
from orchestration.bench.timing import Taken
from replay.log import Log

_TOLERANCE = 1e-9

# Slices first, as we do; then every slice goes into the windows that it is part of: a few rows, whatever the stream's length.
_SLIDING = """
    COPY (
        WITH slices AS (
            SELECT key, epoch_us(ts) // {slide} AS slice, count(*) AS tuples, sum(v) AS total, min(v) AS least, max(v) AS largest
            FROM read_parquet({files}, hive_partitioning = false)
            GROUP BY ALL
        )
        SELECT key, (slice + nth) * {slide} AS window_end,
            sum(tuples)::BIGINT AS "count", sum(total) AS sum_v, min(least) AS min_v, max(largest) AS max_v
        FROM slices, range(1, {windows} + 1) AS windows (nth)
        GROUP BY ALL
    ) TO '{to}'
"""


@dataclass(frozen=True)
class Batch(Taken):
    """What DuckDB did."""

    written: Path

    def results(self) -> pa.Table:
        """The rows that it wrote."""
        return pq.read_table(self.written)


def sliding(bench: Bench, log: Log, what: str, *, length_us: int = 20_000_000, slide_us: int = 1_000_000) -> Batch:
    """Sliding windows over a log's files, written to Parquet."""
    to = bench.folder("duckdb") / "windows.parquet"
    files = [str(Path(log.address) / path) for path in log.paths]
    with duckdb.connect(config={"threads": bench.scale.cores}) as connection, bench.step(f"DuckDB: {what}, {log.end:,} tuples") as step:
        connection.execute(_SLIDING.format(slide=slide_us, windows=length_us // slide_us, files=files, to=to))
    return Batch(log.end, step.seconds, step.processor_seconds, to)


def agree(what: str, ours: pa.Table, theirs: pa.Table, *, identity: Sequence[str], exact: Sequence[str], close: Sequence[str]) -> int:
    """Make sure that two tables hold the same rows; tells how many.

    Args:
        what: what is compared, for the sentence if they differ.
        ours: rows with these columns, and perhaps others.
        theirs: the same of another system.
        identity: the columns that name a row.
        exact: columns that must be equal to the bit.
        close: columns that must agree to 1e-9.

    Raises:
        WrongResultsError: if a row of one is not in the other, or differs.
    """
    differs = [f"ours.{name} IS DISTINCT FROM theirs.{name}" for name in exact]
    differs += [f"NOT abs(ours.{name} - theirs.{name}) <= {_TOLERANCE} * (1 + abs(theirs.{name}))" for name in close]
    joined = f"""
        SELECT count(*), count(*) FILTER (WHERE {" OR ".join(differs)})
        FROM ours FULL JOIN theirs USING ({", ".join(identity)})
    """  # noqa: S608 - names of columns, all from this package
    wanted = [*identity, *exact, *close]
    with duckdb.connect() as connection:
        connection.register("ours", ours.select(wanted))
        connection.register("theirs", theirs.select(wanted))
        rows, differing = connection.execute(joined).fetchall()[0]
    if differing or not rows:
        raise WrongResultsError(f"{what}: {differing:,} of {rows:,} rows differ")
    return int(rows)
