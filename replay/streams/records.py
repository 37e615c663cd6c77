"""Records become tuples of the log: their times, their key, and the rules that the declaration sets for values.

The same for every format. A record that breaks a rule is rejected with the first rule that it breaks, in the order of this
module; what it takes to compare a record with its neighbours is in `spikes.py`.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engines.contract import TIMESTAMP
from replay.log import FIRST_US, LAST_US
from replay.streams.declaration import NUMBERS, TYPES, Column, Declaration
from replay.streams.parsed import Parsed, Reject, Rules
from replay.streams.times import Times, doubles, floats_to_us, read_times, to_us
from replay.streams.values import Mask, typed, without_padded

LINE, ORDER, ARRIVED = "line", "order", "arrived"
JOINED_BY = "|"


@dataclass(frozen=True)
class Records:
    """Tuples that can be stored, in the order of the file, and the records that cannot."""

    rows: pa.Table
    rejects: list[Reject]
    text: Callable[[int], str]
    """The text of a row, in case it turns out to be wrong beside its neighbours."""


def schema(declaration: Declaration) -> pa.Schema:
    """The columns of staged tuples: the log's, but for those that need the whole stream, and the line."""
    fields: list[tuple[str, pa.DataType]] = [(LINE, pa.int64())]
    if declaration.order not in ("file", "time"):
        fields.append((ARRIVED, pa.int64()))
    fields += [(name, TIMESTAMP) for name in declaration.times]
    if declaration.key:
        fields.append(("key", _key_type(declaration)))
    if declaration.time.keep:
        fields.append((declaration.time.keep, _kept_type(declaration)))
    single_key = declaration.key[0] if len(declaration.key) == 1 else None
    for name, column in declaration.by_name.items():
        kind = TYPES[column.type]
        if name != single_key and column.type != "time" and kind is not None:
            fields.append((name, kind))
    return pa.schema(fields)


def complete(declaration: Declaration, parsed: Parsed, file_name: str, origin_us: int = 0) -> Records:
    """The tuples of a piece of a file."""
    table = _with_columns(declaration, parsed.table, file_name)
    rules = Rules(parsed.table.num_rows)
    for name, column in declaration.by_name.items():
        _check_values(rules, name, column, table[name])
    for name in dict.fromkeys([*declaration.key, *([] if declaration.order in ("file", "time") else [declaration.order])]):
        if declaration.by_name[name].type != "time":
            rules.refuse(_nulls(table[name]), f"missing: {name}")
    for name in declaration.key if len(declaration.key) > 1 else ():
        if pa.types.is_string(table[name].type):
            # Two keys would become one: x|y and z, x and y|z.
            rules.refuse(_mask(pc.match_substring(table[name], JOINED_BY).fill_null(False)), f"{JOINED_BY!r} in a part of the key: {name}")
    columns: dict[str, pa.Array] = {LINE: pa.array(parsed.line)}
    columns |= _times(declaration, table, rules, origin_us)
    if declaration.order not in ("file", "time"):
        columns[ARRIVED] = pa.array(_order(declaration, table, rules, origin_us))
    if declaration.key:
        columns["key"] = _key(declaration, table)
    wanted = schema(declaration)
    rows = pa.table([columns[f.name] if f.name in columns else table[f.name] for f in wanted], schema=wanted)
    bad = rules.broken
    rejects = [Reject(int(parsed.line[i]), parsed.text(int(i)), rules.reason(int(i))) for i in np.flatnonzero(bad)]
    good = np.flatnonzero(~bad)
    kept = rows.filter(pa.array(~bad)) if rejects else rows
    return Records(kept, [*parsed.rejects, *rejects], lambda row: parsed.text(int(good[row])))


def _with_columns(declaration: Declaration, table: pa.Table, file_name: str) -> pa.Table:
    """The table with the columns that come from the file's name, and those that the file has not."""
    there = set(table.column_names)
    for name, column in declaration.by_name.items():
        if column.from_file is not None:
            value = file_value(column, file_name)
            table = table.append_column(name, typed(pa.array([value] * table.num_rows, pa.string()), TYPES[column.type])[0])
        elif name not in there:
            table = table.append_column(name, pa.nulls(table.num_rows, TYPES[column.type]))
        if column.type == "time" and pa.types.is_string(table[name].type):
            table = table.set_column(table.column_names.index(name), name, without_padded(table[name], declaration.nulls))
    return table


def file_value(column: Column, file_name: str) -> str | None:
    """What a column that comes from the file's name is."""
    match = re.search(column.from_file or "", file_name)
    return match[1] if match else None


def _check_values(rules: Rules, name: str, column: Column, values: pa.ChunkedArray) -> None:
    if column.required and column.type != "time":
        rules.refuse(_nulls(values), f"missing: {name}")
    if pa.types.is_floating(values.type):
        finite = pc.is_finite(values).fill_null(True)
        if not pc.all(finite).as_py():
            rules.refuse(~_mask(finite), f"not a finite number: {name}")
    if column.range is not None:
        rules.refuse(_outside(values, *column.range), f"out of range: {name}")


def _outside(values: pa.ChunkedArray, low: float | None, high: float | None) -> Mask:
    """Which values are less or more. Whole numbers are compared with whole ones: there are more of them than a double can tell apart."""
    least, most = -math.inf if low is None else low, math.inf if high is None else high
    whole = pa.types.is_integer(values.type)
    smallest, largest = (-(2**63), 2**63 - 1) if whole else (-sys.float_info.max, sys.float_info.max)
    if least > largest or most < smallest:
        return ~_nulls(values)
    least, most = max(least, smallest), min(most, largest)
    bounds = (pa.scalar(math.ceil(least)), pa.scalar(math.floor(most))) if whole else (pa.scalar(float(least)), pa.scalar(float(most)))
    return _mask(pc.or_(pc.less(values, bounds[0]), pc.greater(values, bounds[1])).fill_null(False))


def _times(declaration: Declaration, table: pa.Table, rules: Rules, origin_us: int) -> dict[str, pa.Array]:
    time = declaration.time
    if time.column:
        found = _read(declaration, table, time.column, rules, origin_us)
        _check_range(declaration, rules, found.us)
        kept = {time.keep: _kept(declaration, table, found)} if time.keep else {}
        return {"ts": pa.array(found.us).view(TIMESTAMP), **kept}
    start = _read(declaration, table, time.start, rules, origin_us).us
    lasting = time.duration is not None
    end = start + _duration(declaration, table, rules) if lasting else _read(declaration, table, time.end, rules, origin_us).us
    rules.refuse(end < start, "event ends before it starts")
    rules.refuse((end < FIRST_US) | (end > LAST_US), f"not a time: {time.duration}")
    _check_range(declaration, rules, start)
    _check_range(declaration, rules, end)
    return {"start": pa.array(start).view(TIMESTAMP), "end": pa.array(end).view(TIMESTAMP)}


def _read(declaration: Declaration, table: pa.Table, names: tuple[str, ...], rules: Rules, origin_us: int) -> Times:
    """The times in some columns, whose texts are joined by a space."""
    values, told = _joined(table, names), " ".join(names)
    rules.refuse(_nulls(values), f"missing: {told}")
    found = read_times(values, declaration.time, origin_us)
    rules.refuse(~found.known, f"not a time: {told}")
    return found


def _joined(table: pa.Table, names: tuple[str, ...]) -> pa.Array:
    parts = [table[name].combine_chunks() for name in names]
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, " ")


def _kept_type(declaration: Declaration) -> pa.DataType:
    """What the time is kept as: what holds it to the last digit, by what the declaration says of its column.

    A number in a text may have any digits, so the text is kept; a date is kept as nanoseconds, a column of numbers as it is.
    """
    kind, time = declaration.by_name[declaration.time.column[0]].type, declaration.time
    if kind in NUMBERS:
        return pa.float64() if kind.startswith("float") else pa.int64()
    return pa.string() if "number" in time.format else pa.int64()


def _kept(declaration: Declaration, table: pa.Table, found: Times) -> pa.Array:
    kind = _kept_type(declaration)
    return pa.array(found.original) if kind == pa.int64() else _joined(table, declaration.time.column).cast(kind)


def _duration(declaration: Declaration, table: pa.Table, rules: Rules) -> NDArray[np.int64]:
    """How long events last, in microseconds."""
    name, unit = declaration.time.duration or "", declaration.time.unit
    values = table[name].combine_chunks()
    rules.refuse(_nulls(values), f"missing: {name}")
    if pa.types.is_integer(values.type):
        us, near = to_us(values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), unit)
    else:
        us, near = floats_to_us(doubles(values), unit)
    rules.refuse(~near, f"not a time: {name}")
    return us


def _check_range(declaration: Declaration, rules: Rules, us: NDArray[np.int64]) -> None:
    if declaration.range is not None:
        low, high = declaration.range
        rules.refuse((us < low) | (us >= high), "outside the stream's range of time")


def _order(declaration: Declaration, table: pa.Table, rules: Rules, origin_us: int) -> NDArray[np.int64]:
    """The column that says when a tuple arrived: a time, or a whole number."""
    values = table[declaration.order].combine_chunks()
    if declaration.by_name[declaration.order].type == "time":
        return _read(declaration, table, (declaration.order,), rules, origin_us).us
    return values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)


def _key_type(declaration: Declaration) -> pa.DataType:
    kind = TYPES[declaration.by_name[declaration.key[0]].type]
    return kind if len(declaration.key) == 1 else pa.string()


def _key(declaration: Declaration, table: pa.Table) -> pa.ChunkedArray:
    if len(declaration.key) == 1:
        return table[declaration.key[0]]
    return pc.binary_join_element_wise(*(table[name].cast(pa.string()) for name in declaration.key), JOINED_BY)


def _nulls(values: pa.ChunkedArray | pa.Array) -> Mask:
    return _mask(pc.is_null(values)) if values.null_count else np.zeros(len(values), bool)


def _mask(values: pa.ChunkedArray | pa.Array) -> Mask:
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    mask: Mask = array.to_numpy(zero_copy_only=False)
    return mask
