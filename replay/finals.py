"""Which rows of an output are its answer: of each identity the last revision, if that was not a retraction.

Used on what a run gave, wherever it ran. What makes a row final in time is decided by the bucket, not here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines.contract import FOREVER, TIMESTAMP


def final_rows(rows: pa.Table, identity: Sequence[str], final: int = FOREVER) -> pa.Table:
    """The rows that can no longer change once everything before `final` is settled, sorted by identity.

    >>> rows = pa.table({"key": ["a", "a", "b"], "decided": pa.array([1, 1, 1], TIMESTAMP), "n": [1, 2, 3],
    ...                  "revision": [0, 1, 0], "retracted": [False, False, False]})
    >>> final_rows(rows, ["key"])["n"].to_pylist()
    [2, 3]
    """
    if "revision" in rows.schema.names:
        rows = rows.take(order(rows, [*identity, "revision"]))
        last = _last_of_each(rows, identity)
        rows = rows.filter(pa.array(last)).filter(pc.invert(rows["retracted"].filter(pa.array(last))))
    else:
        rows = rows.take(order(rows, identity))
    if final < FOREVER:
        rows = rows.filter(pc.fill_null(pc.less(rows["decided"], pa.scalar(final, TIMESTAMP)), False))
    return rows


def order(rows: pa.Table, columns: Sequence[str]) -> pa.Array:
    """The indices that sort rows by columns, nulls first."""
    return pc.sort_indices(rows, sort_keys=[(name, "ascending", "at_start") for name in columns])


def _last_of_each(rows: pa.Table, identity: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Marks the last row of each stretch of equal identities; null equals null."""
    last = np.ones(rows.num_rows, np.bool_)
    if rows.num_rows > 1:
        same = np.ones(rows.num_rows - 1, np.bool_)
        for name in identity:
            codes = pc.dictionary_encode(rows[name].combine_chunks(), null_encoding="encode").indices.to_numpy()
            same &= codes[1:] == codes[:-1]
        last[:-1] = ~same
    return last
