"""Generated predicates, each as the text of a specification and as a function of a tuple that means the same.

The function is built beside the text, never from it: what a predicate means is said twice, here and in the engine.
Three-valued: None is unknown. A null, or a number that is not finite, makes a comparison unknown.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

Row = Mapping[str, Any]
Number = tuple[str, Callable[[Row], float | None]]
Predicate = tuple[str, Callable[[Row], bool | None]]

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "**": math.pow,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[[float], float]] = {
    "abs": abs, "sqrt": math.sqrt, "floor": math.floor, "ceil": math.ceil, "exp": math.exp, "log": math.log,
}  # fmt: skip
CONSTANTS = ["0", "1", "-1", "2", "0.1", "2.5", "40", "1e16", "-1e300", "9223372036854775807"]


def predicates(columns: tuple[str, ...], often: str) -> st.SearchStrategy[Predicate]:
    """Predicates over these columns: one comparison or a tree of them, half the time one that small numbers in `often` mostly satisfy."""
    mostly_true = [(">", "-1"), (">=", "1"), ("!=", "0"), ("<", "2"), ("<=", "2.5")]
    likely = st.sampled_from([_compare(_column(often), symbol, _constant(bound)) for symbol, bound in mostly_true])
    leaf = likely | _leaves(columns)
    deeper = st.recursive(leaf, lambda inner: _both(inner, "and") | _both(inner, "or") | inner.map(_not), max_leaves=4)
    return likely | leaf | deeper


def _leaves(columns: tuple[str, ...]) -> st.SearchStrategy[Predicate]:
    numeric = tuple(column for column in columns if column not in ("s", "ok"))
    of_numbers = _comparisons(_numbers(numeric)) | _comparisons(st.sampled_from(numeric).map(_column)) | _chains(numeric)
    nulls = st.sampled_from(columns).map(_is_null)
    texts = _texts() if "s" in columns else st.nothing()
    bare: Predicate = ("ok", lambda row: row["ok"])
    truths = st.sampled_from([bare, _truth("ok", True), _truth("ok", False)]) if "ok" in columns else st.nothing()
    return of_numbers | of_numbers | of_numbers | nulls | texts | truths


def value_of(value: Any) -> Any:
    """A value as a predicate sees it: numbers are float64, and those that are not finite are null."""
    if isinstance(value, str | bool | None):
        return value
    return float(value) if math.isfinite(value) else None


def _column(name: str) -> Number:
    return name, lambda row: value_of(row[name])


def _constant(text: str) -> Number:
    return text, lambda row: float(text)


def _numbers(columns: tuple[str, ...]) -> st.SearchStrategy[Number]:
    """One operation on columns and constants; never more, for what an infinity inside a formula comes to is nobody's concern."""
    column, constant = st.sampled_from(columns).map(_column), st.sampled_from(CONSTANTS).map(_constant)
    operated = st.builds(_operated, st.sampled_from(sorted(ARITHMETIC)), column, column | constant)
    applied = st.builds(_applied, st.sampled_from(sorted(FUNCTIONS)), column)
    chosen = st.builds(_chosen, st.sampled_from(["min", "max"]), column, column | constant)
    return column | column | operated | applied | chosen


def _finite(compute: Callable[[], float]) -> float | None:
    try:
        result = float(compute())
    except (ArithmeticError, ValueError):
        return None
    return result if math.isfinite(result) else None


def _operated(symbol: str, left: Number, right: Number) -> Number:
    def compute(row: Row) -> float | None:
        a, b = left[1](row), right[1](row)
        return None if a is None or b is None else _finite(lambda: ARITHMETIC[symbol](a, b))

    return f"{left[0]} {symbol} {right[0]}", compute


def _applied(name: str, inner: Number) -> Number:
    def compute(row: Row) -> float | None:
        a = inner[1](row)
        return None if a is None else _finite(lambda: FUNCTIONS[name](a))

    return f"{name}({inner[0]})", compute


def _chosen(name: str, left: Number, right: Number) -> Number:
    def compute(row: Row) -> float | None:
        a, b = left[1](row), right[1](row)
        return None if a is None or b is None else {"min": min, "max": max}[name](a, b)

    return f"{name}({left[0]}, {right[0]})", compute


def _compare(left: Number, symbol: str, right: Number) -> Predicate:
    def decide(row: Row) -> bool | None:
        a, b = left[1](row), right[1](row)
        return None if a is None or b is None else COMPARISONS[symbol](a, b)

    return f"{left[0]} {symbol} {right[0]}", decide


def _comparisons(left: st.SearchStrategy[Number]) -> st.SearchStrategy[Predicate]:
    return st.builds(_compare, left, st.sampled_from(sorted(COMPARISONS)), st.sampled_from(CONSTANTS).map(_constant))


def _chains(columns: tuple[str, ...]) -> st.SearchStrategy[Predicate]:
    """`low < column <= high`: both halves have to hold."""

    def chain(low: Number, first: str, middle: Number, second: str, high: Number) -> Predicate:
        halves = _compare(low, first, middle), _compare(middle, second, high)
        return f"{low[0]} {first} {middle[0]} {second} {high[0]}", _and(halves[0][1], halves[1][1])

    low, high = st.sampled_from(["-1", "0", "0.1"]).map(_constant), st.sampled_from(["2", "2.5", "40"]).map(_constant)
    first, second = st.sampled_from(["<", "<=", "!="]), st.sampled_from(sorted(COMPARISONS))
    return st.builds(chain, low, first, st.sampled_from(columns).map(_column), second, high)


def _texts() -> st.SearchStrategy[Predicate]:
    def compare(symbol: str, text: str) -> Predicate:
        return f"s {symbol} '{text}'", lambda row: None if row["s"] is None else COMPARISONS[symbol](row["s"], text)

    return st.builds(compare, st.sampled_from(["==", "!="]), st.sampled_from(["a", "b", "", "absent"]))


def _truth(column: str, value: bool) -> Predicate:
    return f"{column} == {str(value).lower()}", lambda row: None if row[column] is None else row[column] is value


def _is_null(column: str) -> Predicate:
    return f"{column} is null", lambda row: value_of(row[column]) is None


def _and(left: Callable[[Row], bool | None], right: Callable[[Row], bool | None]) -> Callable[[Row], bool | None]:
    def decide(row: Row) -> bool | None:
        halves = left(row), right(row)
        return False if False in halves else None if None in halves else True

    return decide


def _or(left: Callable[[Row], bool | None], right: Callable[[Row], bool | None]) -> Callable[[Row], bool | None]:
    def decide(row: Row) -> bool | None:
        halves = left(row), right(row)
        return True if True in halves else None if None in halves else False

    return decide


def _not(inner: Predicate) -> Predicate:
    def decide(row: Row) -> bool | None:
        value = inner[1](row)
        return None if value is None else not value

    return f"not ({inner[0]})", decide


def _both(inner: st.SearchStrategy[Predicate], word: str) -> st.SearchStrategy[Predicate]:
    combine = {"and": _and, "or": _or}[word]

    def together(left: Predicate, right: Predicate) -> Predicate:
        return f"({left[0]}) {word} ({right[0]})", combine(left[1], right[1])

    return st.builds(together, inner, inner)
