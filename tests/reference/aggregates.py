"""Aggregates of a list of tuples in order of (ts, arrival), by definition and in exact arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tests.reference import Row, Spec

INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True)
class About:
    """A float that depends on the order of additions: `exact`, give or take `slack`."""

    exact: Fraction | float
    slack: Fraction = Fraction(0)

    def __str__(self) -> str:
        """The nearest float and how far from it is right."""
        return f"{float(self.exact)!r} +- {float(self.slack):.0e}"


def name(aggregate: Spec) -> str:
    """The column of an aggregate: `sum_v`, `count`, or what `as` says."""
    parts = [aggregate["kind"], aggregate.get("column")]
    return str(aggregate.get("as") or "_".join(part for part in parts if part))


def aggregated(tuples: Sequence[Row], aggregates: Sequence[Spec], *, is_value: Callable[[Any], bool]) -> dict[str, Any]:
    """The aggregates of these tuples by name; what is no value is passed over, and nothing left gives null (counts: 0)."""
    found: dict[str, Any] = {}
    for aggregate in aggregates:
        kind, column = aggregate["kind"], aggregate.get("column")
        values = tuples if column is None else [row[column] for row in tuples if is_value(row[column])]
        found[name(aggregate)] = len(values) if kind == "count" else _KINDS[kind](values) if values else None
    return found


def _sum(values: Sequence[Any]) -> int | About | None:
    if all(isinstance(value, int) for value in values):
        return sum(values) if sum(values) in INT64 else None
    return _about(values, 1)


def _mean(values: Sequence[Any]) -> About:
    return _about(values, len(values))


def _about(values: Sequence[Any], share: int) -> About:
    """The sum over a share, to 1e-12 of the sum of absolute values; infinities add up as IEEE 754 has it."""
    endless = [value for value in values if math.isinf(value)]
    if endless:
        return About(sum(endless))
    exact = [Fraction(value) for value in values]
    return About(sum(exact, Fraction(0)) / share, sum(map(abs, exact), Fraction(0)) / 10**12)


def _extreme(choose: Callable[[Sequence[Any]], Any]) -> Callable[[Sequence[Any]], Any]:
    """Zeros of both signs are equal, so which of them is the extreme is left open."""

    def extreme(values: Sequence[Any]) -> Any:
        value = choose(values)
        return About(0.0) if value == 0 and isinstance(value, float) else value

    return extreme


_KINDS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "sum": _sum,
    "mean": _mean,
    "min": _extreme(min),
    "max": _extreme(max),
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
}
