"""Revisions: rows that were given out early, and what has become of them.

For techniques whose rows can vanish (frames split, sessions merge). Rows that are due but not final are remembered in a
table of the state; whatever is due the next time is compared with them. Which rows are due is the technique's affair.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engines.keys import encode

_OF_REVISION = ("revision", "retracted")


def remembered(results: pa.Schema) -> pa.Schema:
    """The schema of the table in which rows of an output are remembered: all but what tells revisions apart.

    >>> remembered(pa.schema([("key", pa.string()), ("tuples", pa.int64()), ("revision", pa.int64()), ("retracted", pa.bool_())])).names
    ['key', 'tuples']
    """
    return pa.schema([field for field in results if field.name not in _OF_REVISION])


def revise(
    given: pa.RecordBatch, due: pa.RecordBatch, *, final: int, results: pa.Schema, identity: Sequence[str], aggregates: Sequence[str]
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """What to write now, and what to remember in place of `given`.

    Args:
        given: Rows given out and not final when they were.
        due: All rows that are due now, those given before among them if they still hold; each identity once.
        final: Rows decided before this instant are final, as are those never decided, which only the flush releases.
        results: The schema of the output.
        identity: The columns that name a row.
        aggregates: The columns that are null in a retracted row; its `tuples` are 0.

    Returns:
        Rows of `results`: due ones that are new or have changed in any bit, then retractions of those that hold no more;
        and the due rows that are not final.
    """
    decided = due.column("decided")
    pending = pc.fill_null(pc.greater_equal(decided, pa.scalar(final, pa.int64()).cast(decided.type)), False)
    keep = due.filter(pending)
    if not given.num_rows:
        return _marked(due, results, retracted=False), keep
    places = _places(given, due, identity)
    known = np.flatnonzero(places >= 0)
    standing = np.zeros(given.num_rows, np.bool_)
    standing[places[known]] = True
    before, now = given.take(pa.array(places[known])), due.take(pa.array(known))
    same = np.zeros(due.num_rows, np.bool_)
    same[known] = np.logical_and.reduce([_same(a, b) for a, b in zip(before.columns, now.columns, strict=True)])
    gone = _blank(given.filter(pa.array(~standing)), aggregates)
    written = [_marked(due.filter(pa.array(~same)), results, retracted=False), _marked(gone, results, retracted=True)]
    return pa.concat_batches(written), keep


def _marked(rows: pa.RecordBatch, results: pa.Schema, *, retracted: bool) -> pa.RecordBatch:
    marks = {"revision": pa.array(np.zeros(rows.num_rows, np.int64)), "retracted": pa.array(np.full(rows.num_rows, retracted))}
    return pa.RecordBatch.from_arrays(
        [marks[field.name] if field.name in marks else rows.column(field.name) for field in results], schema=results
    )


def _blank(rows: pa.RecordBatch, aggregates: Sequence[str]) -> pa.RecordBatch:
    for name in aggregates:
        rows = rows.set_column(
            rows.schema.get_field_index(name), rows.schema.field(name), pa.nulls(rows.num_rows, rows.schema.field(name).type)
        )
    tuples = rows.schema.get_field_index("tuples")
    return rows.set_column(tuples, rows.schema.field(tuples), pa.array(np.zeros(rows.num_rows, np.int64)))


def _places(given: pa.RecordBatch, due: pa.RecordBatch, identity: Sequence[str]) -> NDArray[np.int64]:
    """For each due row the place of the given row with its identity, or -1."""
    numbers = np.zeros(given.num_rows + due.num_rows, np.int64)
    for name in identity:
        codes, values = encode(pa.concat_arrays([given.column(name), due.column(name)]))
        # Dense again after every column, so that no product of counts can overflow.
        numbers = np.unique(numbers * len(values) + codes, return_inverse=True)[1]
    places = np.full(len(numbers), -1, np.int64)
    places[numbers[: given.num_rows]] = np.arange(given.num_rows)
    return np.asarray(places[numbers[given.num_rows :]])


def _same(a: pa.Array, b: pa.Array) -> NDArray[np.bool_]:
    """Where two columns are equal bit for bit: null equals null, NaN itself, and 0.0 is not -0.0."""
    if pa.types.is_floating(a.type):
        a, b = (array.view({16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[array.type.bit_width]) for array in (a, b))
    equal = pc.and_(pc.fill_null(pc.equal(a, b), True), pc.equal(pc.is_null(a), pc.is_null(b)))
    return np.asarray(equal.to_numpy(zero_copy_only=False))
