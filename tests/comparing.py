"""Comparing what a replay gave with the rows that a reference expects, and saying how they differ.

Rows are matched by identity. Integers, times, keys, texts and extremes have to be equal to the bit; floats that hang on
the order of additions are `About` something. Columns that depend on batches (`revision`, `retracted`) are no part of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa

from tests.reference.aggregates import About

DEPENDS_ON_BATCHES = ("revision", "retracted")
SHOWN = 5
"""Differing rows that a message shows before it only counts them."""


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table as mappings, with times as whole microseconds."""
    columns = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        columns[field.name] = (column.cast(pa.int64()) if pa.types.is_timestamp(field.type) else column).to_pylist()
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def replayed(rows: Iterable[Mapping[str, Any]], identity: Sequence[str]) -> list[dict[str, Any]]:
    """What rows with revisions come to: the highest revision of each identity, unless it was retracted."""
    latest: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for row in rows:
        name = tuple(row[column] for column in identity)
        if name not in latest or row["revision"] >= latest[name]["revision"]:
            latest[name] = row
    return [dict(row) for row in latest.values() if not row["retracted"]]


def equal(found: Any, expected: Any) -> bool:
    """Whether a value is the one expected: to the bit, or about it where it is `About` something."""
    if isinstance(expected, About):
        if not isinstance(found, float):
            return False
        if not math.isfinite(expected.exact):
            return found == expected.exact or math.isnan(found) and math.isnan(expected.exact)
        # Next to zero floats lie further apart than the slack: nothing can be nearer than the nearest one.
        near = math.isfinite(found) and abs(Fraction(found) - Fraction(expected.exact)) <= expected.slack
        return near or found == float(expected.exact)
    if isinstance(found, float) and isinstance(expected, float):
        same_sign = math.copysign(1, found) == math.copysign(1, expected)
        return found == expected and same_sign or math.isnan(found) and math.isnan(expected)
    return type(found) is type(expected) and bool(found == expected)


def assert_same_rows(
    found: pa.Table | Iterable[Mapping[str, Any]], expected: Iterable[Mapping[str, Any]], identity: Sequence[str], *, what: str = "results"
) -> None:
    """Fail, with the differing rows side by side, unless the same rows were found as expected; their order is free."""
    message = difference(found, expected, identity, what=what)
    assert not message, message


def difference(
    found: pa.Table | Iterable[Mapping[str, Any]], expected: Iterable[Mapping[str, Any]], identity: Sequence[str], *, what: str = "results"
) -> str:
    """How the rows differ, in words; nothing if they do not."""
    found, expected = list(rows_of(found) if isinstance(found, pa.Table) else found), list(expected)
    found_by, expected_by = _by_identity(found, identity), _by_identity(expected, identity)
    for rows, kind in ((found, "found"), (expected, "expected")):
        twice = [name for name, count in Counter(_identity(row, identity) for row in rows).items() if count > 1]
        if twice:
            return f"{what}: {len(twice)} identities are {kind} more than once, the first is {_show_identity(identity, twice[0])}"
    missing = [name for name in expected_by if name not in found_by]
    unexpected = [name for name in found_by if name not in expected_by]
    differing = [name for name in expected_by if name in found_by and _columns_that_differ(found_by[name], expected_by[name])]
    if not missing and not unexpected and not differing:
        return ""
    equal_rows = len(expected_by) - len(missing) - len(differing)
    parts = [f"{what}: {equal_rows} rows equal, {len(differing)} differ, {len(missing)} missing, {len(unexpected)} unexpected"]
    wrong = [*differing, *missing, *unexpected]
    parts += [_side_by_side(name, identity, expected_by.get(name), found_by.get(name)) for name in wrong[:SHOWN]]
    if len(wrong) > SHOWN:
        parts.append(f"... and {len(wrong) - SHOWN} more")
    return "\n\n".join(parts)


def _identity(row: Mapping[str, Any], identity: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[column] for column in identity)


def _by_identity(rows: Iterable[Mapping[str, Any]], identity: Sequence[str]) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    return {_identity(row, identity): row for row in rows}


def _columns_that_differ(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    columns = [column for column in dict.fromkeys([*expected, *found]) if column not in DEPENDS_ON_BATCHES]
    return [column for column in columns if column not in found or column not in expected or not equal(found[column], expected[column])]


def _side_by_side(
    name: tuple[Any, ...], identity: Sequence[str], expected: Mapping[str, Any] | None, found: Mapping[str, Any] | None
) -> str:
    columns = [column for column in dict.fromkeys([*(expected or {}), *(found or {})]) if column not in (*identity, *DEPENDS_ON_BATCHES)]
    wrong = _columns_that_differ(found, expected) if found is not None and expected is not None else []
    table = [("", "expected", "found", "")]
    table += [(column, _show(expected, column), _show(found, column), "<--" if column in wrong else "") for column in columns]
    widths = [max(len(line[i]) for line in table) for i in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]
    return "\n  ".join([_show_identity(identity, name), *lines])


def _show_identity(identity: Sequence[str], name: tuple[Any, ...]) -> str:
    return ", ".join(f"{column}={value!r}" for column, value in zip(identity, name, strict=True))


def _show(row: Mapping[str, Any] | None, column: str) -> str:
    if row is None:
        return "no row"
    if column not in row:
        return "no column"
    return str(row[column]) if isinstance(row[column], About) else repr(row[column])
