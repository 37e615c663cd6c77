"""Predicates as polars computes them: the tree of a text, evaluated over the columns of a frame, one operation at a time.

Every step gives a whole column, in which what is not finite is null. Whole columns, no constants: polars divides by a constant through
its reciprocal, and raises to a constant power by multiplying, and either differs in the last bit.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from operator import add, and_, eq, ge, gt, le, lt, mul, ne, or_, pow, sub, truediv
from typing import Any

import polars as pl

from engines.expressions.tree import ARITHMETIC, Column, Comparison, Node, Number, Operation, Text, Truth

_COMPARISONS: dict[str, Any] = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne}
_OPERATORS: dict[str, Any] = {"+": add, "-": sub, "*": mul, "/": truediv, "**": pow}


def holds(where: Node, frame: pl.DataFrame) -> pl.Series:
    """Whether each row satisfies a predicate: true, false, or null where that is unknown.

    >>> from engines.expressions.tree import parse
    >>> holds(parse("1 / v < 2"), pl.DataFrame({"v": [1.0, 0.1, 0.0, None]})).to_list()
    [True, False, None, None]
    """
    # A column of one row is a constant to polars.
    many = pl.concat([frame, frame]) if frame.height == 1 else frame
    return _condition(where, many).head(frame.height)


def _condition(node: Node, frame: pl.DataFrame) -> pl.Series:
    match node:
        case Truth(value):
            return pl.repeat(value, frame.height, dtype=pl.Boolean, eager=True)
        case Column(name):
            return frame[name]
        case Comparison(operators, operands):
            compare = _text if _is_text(node.operands, frame) else _number
            sides = pairwise([compare(operand, frame) for operand in operands])
            return reduce(and_, (_COMPARISONS[sign](left, right) for sign, (left, right) in zip(operators, sides, strict=True)))
        case Operation("not", (operand,)):
            return ~_condition(operand, frame)
        case Operation("and" | "or" as operator, operands):
            # Three-valued, as in SQL: false and unknown is false, true or unknown is true.
            return reduce(and_ if operator == "and" else or_, (_condition(operand, frame) for operand in operands))
        case Operation("is null", (operand,)):
            return _value(operand, frame).is_null()
    raise TypeError(f"{node} is no condition")


def _number(node: Node, frame: pl.DataFrame) -> pl.Series:
    match node:
        case Number(value):
            return pl.repeat(value, frame.height, dtype=pl.Float64, eager=True)
        case Column(name):
            return _finite(frame[name].cast(pl.Float64))
        case Operation("min" | "max" as function, operands):
            return _extreme(function, [_number(operand, frame) for operand in operands])
        case Operation("-", (operand,)):
            return -_number(operand, frame)
        case Operation(operator, operands) if operator in _OPERATORS:
            return _finite(_OPERATORS[operator](*(_number(operand, frame) for operand in operands)))
        case Operation("round", (operand,)):
            return _number(operand, frame).round(0, mode="half_to_even")
        case Operation(function, (operand,)) if function in ARITHMETIC:
            return _finite(getattr(_number(operand, frame), function)())
    return _condition(node, frame).cast(pl.Float64)


def _text(node: Node, frame: pl.DataFrame) -> pl.Series:
    match node:
        case Text(value):
            return pl.repeat(value, frame.height, dtype=pl.String, eager=True)
        case Column(name):
            return frame[name].cast(pl.String)
    raise TypeError(f"{node} is no text")


def _value(node: Node, frame: pl.DataFrame) -> pl.Series:
    """A part of any kind, to be asked whether it is null: a number that is not finite is."""
    match node:
        case Column(name):
            return _number(node, frame) if frame.schema[name].is_numeric() else frame[name]
        case Text():
            return _text(node, frame)
        case Number():
            return _number(node, frame)
        case Operation(operator) if operator in ARITHMETIC:
            return _number(node, frame)
    return _condition(node, frame)


def _is_text(nodes: tuple[Node, ...], frame: pl.DataFrame) -> bool:
    texts = (pl.String, pl.Categorical, pl.Enum)
    return any(isinstance(node, Text) or isinstance(node, Column) and frame.schema[node.name] in texts for node in nodes)


def _finite(numbers: pl.Series) -> pl.Series:
    return pl.select(pl.when(numbers.is_finite()).then(numbers)).to_series()


def _extreme(function: str, operands: list[pl.Series]) -> pl.Series:
    """The least or greatest, null if any operand is: polars would pass over nulls."""
    known = pl.all_horizontal(*(operand.is_not_null() for operand in operands))
    numbers = [operand.alias(str(place)) for place, operand in enumerate(operands)]
    extreme = pl.min_horizontal(*numbers) if function == "min" else pl.max_horizontal(*numbers)
    return pl.select(pl.when(known).then(extreme)).to_series()
