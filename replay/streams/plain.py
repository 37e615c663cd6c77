"""Plain lines: those whose fields are digits and text without quotes, taken apart and converted in one compiled pass.

They are nearly all lines of nearly all files. A line that is not as plain as that (quotes, spaces, exponents, another number of
fields, a value out of its type) is left to Arrow's reader in `delimited.py`, which decides what it is: what is taken here, Arrow
would take, and as the same values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numba
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from replay.streams.lines import Lines
from replay.streams.values import FALSE, TRUE, without_markers

if TYPE_CHECKING:
    from replay.streams.delimited import Delimited

_SKIP, _TEXT, _TRUTH, _WHOLE, _LONG, _REAL = range(6)
_KINDS = {
    pa.string(): _TEXT, pa.bool_(): _TRUTH, pa.int8(): _WHOLE, pa.int16(): _WHOLE, pa.int32(): _WHOLE, pa.int64(): _LONG,
    pa.float64(): _REAL,
}  # fmt: skip
_DIGITS = 18
"""More of them might not fit into 64 bits."""
_EXACT = 2**53
"""Up to here, divided by a power of ten up to 10^22, a double is the nearest to the decimal number (Clinger 1990)."""
_POWERS: NDArray[np.float64] = np.power(10.0, np.arange(_DIGITS + 1), dtype=np.float64)
_NO_QUOTE = 256


def read_plain(form: Delimited, lines: Lines) -> tuple[pa.Table, NDArray[np.int64]] | None:
    """The records of the lines that are plain, and their lines; None if in this format there may be none.

    The lines are text.
    """
    if not is_simple(form):
        return None
    data = np.frombuffer(lines.data, np.uint8)
    # As many rows as there can be: of a file with thousands of columns there are few, however many lines it has that are none.
    size = len(lines.filled) if form.short_records else min(len(lines.filled), (len(data) + 1) // form.fields + 1)
    kinds = np.zeros(form.fields, np.int8)
    slots = np.zeros(form.fields, np.int64)
    bounds = np.zeros((form.fields, 2), np.int64)
    counts = [0] * (_REAL + 1)
    for name, position in form.at.items():
        kind = kinds[position] = _KINDS[form.types[name]]
        slots[position], counts[kind] = counts[kind], counts[kind] + 1
        if kind in (_WHOLE, _LONG):
            limits = np.iinfo(form.types[name].to_pandas_dtype())
            bounds[position] = limits.min, limits.max
    text_begins = np.empty((counts[_TEXT], size), np.int32)
    text_ends = np.zeros((counts[_TEXT], size + 1), np.int32)
    truths = np.empty((counts[_TRUTH], size), np.uint8)
    wholes, longs = np.empty((counts[_WHOLE], size), np.int32), np.empty((counts[_LONG], size), np.int64)
    reals = np.empty((counts[_REAL], size))
    missing = np.zeros((form.fields, size), np.bool_)
    line = np.empty(size, np.int64)
    rows = _scan(
        data, lines.begins, lines.ends, lines.filled, kinds, slots, bounds, _POWERS, ord(form.delimiter),
        ord(form.quote) if form.quote else _NO_QUOTE, "" in form.nulls, form.short_records,
        text_begins, text_ends, truths, wholes, longs, reals, missing, line,
    )  # fmt: skip
    bits = np.packbits(truths[:, :rows], axis=1, bitorder="little")

    def columns() -> Iterator[pa.Array]:
        for name, kind in form.types.items():
            position = form.at[name]
            slot, none = slots[position], missing[position, :rows]
            valid = pa.py_buffer(np.packbits(~none, bitorder="little")) if none.any() else None
            if kinds[position] == _TEXT:
                ends = text_ends[slot, : rows + 1]
                buffers = [valid, pa.py_buffer(ends), pa.py_buffer(_gathered(data, text_begins[slot], ends))]
                yield _without(pa.Array.from_buffers(kind, rows, buffers), form)
            elif kinds[position] == _TRUTH:
                yield pa.Array.from_buffers(kind, rows, [valid, pa.py_buffer(bits[slot])])
            else:
                values = (wholes if kinds[position] == _WHOLE else longs if kinds[position] == _LONG else reals)[slot, :rows]
                narrow = values.astype(kind.to_pandas_dtype(), copy=False)
                yield without_markers(pa.Array.from_buffers(kind, rows, [valid, pa.py_buffer(narrow)]), form.nulls)

    return pa.table(list(columns()), names=list(form.types)), line[:rows]


def is_simple(form: Delimited) -> bool:
    """Whether lines of a format can be plain: its types are simple, and no truth value stands for none."""
    known = all(kind in _KINDS for kind in form.types.values()) and len(set(form.at.values())) == len(form.at)
    truth = pa.bool_() in form.types.values() and not {*TRUE, *FALSE}.isdisjoint(form.nulls)
    return known and not truth and form.delimiter.isascii()


def _without(texts: pa.Array, form: Delimited) -> pa.Array:
    """Texts without those that stand for none."""
    markers = [marker for marker in form.nulls if marker]
    found = pc.is_in(texts, pa.array(markers, pa.string())) if markers else None
    return texts if found is None or not pc.any(found).as_py() else pc.if_else(found, pa.scalar(None, texts.type), texts)


@numba.njit(cache=True, nogil=True)
def _scan(
    data: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64], lines: NDArray[np.int64],
    kinds: NDArray[np.int8], slots: NDArray[np.int64], bounds: NDArray[np.int64], powers: NDArray[np.float64],
    delimiter: int, quote: int, empty: bool, short: bool,
    text_begins: NDArray[np.int32], text_ends: NDArray[np.int32], truths: NDArray[np.uint8], wholes: NDArray[np.int32],
    longs: NDArray[np.int64], reals: NDArray[np.float64], missing: NDArray[np.bool_], line: NDArray[np.int64],
) -> int:  # fmt: skip  # pragma: no cover - compiled
    """One pass over the lines, field by field; a line that is not plain leaves no row. How many rows there are."""
    row = 0
    for number in lines:
        at, stop, plain = begins[number], ends[number], True
        while stop > at and (data[stop - 1] == 10 or data[stop - 1] == 13):
            stop -= 1
        for field in range(len(kinds)):
            if at > stop:
                if not short:
                    plain = False
                    break
                at = stop
            kind, slot, begin = kinds[field], slots[field], at
            if kind == _TRUTH:
                if at < stop and (data[at] == 48 or data[at] == 49) and (at + 1 == stop or data[at + 1] == delimiter):
                    truths[slot, row] = data[at] == 49
                    at += 2
                    continue
            elif _WHOLE <= kind <= _LONG:
                negative = at < stop and data[at] == 45
                first = at + negative
                value, at = _digits(data, first, stop, 0)
                if first < at <= first + _DIGITS and (at == stop or data[at] == delimiter):
                    value = -value if negative else value
                    if kind == _LONG:
                        longs[slot, row] = value
                        at += 1
                        continue
                    if bounds[field, 0] <= value <= bounds[field, 1]:
                        wholes[slot, row] = value
                        at += 1
                        continue
            elif kind == _REAL:
                negative = at < stop and data[at] == 45
                first = at + negative
                value, at = _digits(data, first, stop, 0)
                point = at
                if first < at < stop and data[at] == 46:
                    value, at = _digits(data, at + 1, stop, value)
                if first < at <= first + _DIGITS and value <= _EXACT and at != point + 1 and (at == stop or data[at] == delimiter):
                    real = value / powers[max(at - point - 1, 0)]
                    reals[slot, row] = -real if negative else real
                    at += 1
                    continue
            elif kind == _TEXT:
                while at < stop and data[at] != delimiter and data[at] != quote:
                    at += 1
                text_begins[slot, row] = begin
                text_ends[slot, row + 1] = text_ends[slot, row] + at - begin
                if (begin < at or not empty) and (at == stop or data[at] == delimiter):
                    at += 1
                    continue
            else:
                while at < stop and data[at] != delimiter and data[at] != quote:
                    at += 1
                if at == stop or data[at] == delimiter:
                    at += 1
                    continue
            plain = empty and (begin == stop or data[begin] == delimiter)
            if not plain:
                break
            missing[field, row] = True
            at = begin + 1
        if plain and at == stop + 1:
            line[row] = number
            row += 1
        else:
            missing[:, row] = False
    return row


@numba.njit(cache=True, nogil=True)
def _gathered(
    data: NDArray[np.uint8], begins: NDArray[np.int32], ends: NDArray[np.int32]
) -> NDArray[np.uint8]:  # pragma: no cover - compiled
    """Texts that begin at some places of the data, one behind the other: `ends` tells where each ends there, after a zero."""
    texts = np.empty(ends[-1], np.uint8)
    for row in range(len(ends) - 1):
        # Unsigned: an index that might count from the end could not be copied by blocks, which is ten times as fast.
        begin, to, size = np.uint64(begins[row]), np.uint64(ends[row]), np.uint64(ends[row + 1] - ends[row])
        for at in range(size):
            texts[to + at] = data[begin + at]
    return texts


@numba.njit(cache=True, nogil=True)
def _digits(data: NDArray[np.uint8], at: int, stop: int, value: int) -> tuple[int, int]:  # pragma: no cover - compiled
    """The number that the digits from here on continue, and where they end."""
    while at < stop:
        digit = data[at] - 48
        if digit < 0 or digit > 9:
            break
        value, at = value * 10 + digit, at + 1
    return value, at
