"""What kind of value each part of an expression has, and sentences for parts that do not fit together.

Expressions are checked once, when they meet the columns of a stream, so that evaluating them cannot fail. Which Arrow or
polars type is of which kind is not decided here: engines and oracles share this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from engines.expressions.tree import ARITHMETIC, Column, Comparison, Node, Number, Operation, Text, write
from engines.spec import SpecError

Kind = Literal["number", "text", "condition", "other"]
"""`other`: a value that can be asked for `is null` and nothing else."""

_NAMES = {"number": "a number", "text": "text", "condition": "a condition", "other": "neither a number nor text nor a condition"}


def kind(node: Node, columns: Mapping[str, Kind]) -> Kind:
    """The kind of an expression that fits together."""
    match node:
        case Column(name):
            return columns[name]
        case Text():
            return "text"
        case Number():
            return "number"
        case Operation(operator):
            return "number" if operator in ARITHMETIC else "condition"
        case _:
            return "condition"


def check(tree: Node, columns: Mapping[str, Kind], *, wanted: Literal["number", "condition"], setting: str) -> None:
    """Refuse an expression that does not fit the columns there are, or is not what is wanted.

    >>> from engines.expressions.tree import parse
    >>> check(parse("speed < 'slow'"), {"speed": "number"}, wanted="condition", setting="where")
    Traceback (most recent call last):
        ...
    engines.spec.SpecError: where: "speed < 'slow'" compares a number with text.

    Raises:
        SpecError: in one sentence.
    """
    try:
        _parts(tree, columns)
        _needs(tree, wanted, columns, "the whole expression")
    except ValueError as problem:
        raise SpecError(f"{setting}: {problem}.") from None


def _parts(node: Node, columns: Mapping[str, Kind]) -> None:
    if isinstance(node, Column) and node.name not in columns:
        raise ValueError(f"there is no column {node.name!r}; there are {', '.join(sorted(columns)) or 'none'}")
    if not isinstance(node, Operation | Comparison):
        return
    for operand in node.operands:
        _parts(operand, columns)
    text = repr(write(node))
    if isinstance(node, Comparison):
        _comparable(node, columns, text)
    elif node.operator != "is null":
        for operand in node.operands:
            _needs(operand, "number" if node.operator in ARITHMETIC else "condition", columns, text)


def _comparable(node: Comparison, columns: Mapping[str, Kind], text: str) -> None:
    kinds = [kind(operand, columns) for operand in node.operands]
    for operand, found in zip(node.operands, kinds, strict=True):
        if found == "other":
            raise ValueError(f"{text} cannot compare {write(operand)!r}, which is {_NAMES[found]}")
    for left, right in zip(kinds, kinds[1:], strict=False):
        if (left == "text") != (right == "text"):
            raise ValueError(f"{text} compares {_NAMES[left]} with {_NAMES[right]}")


def _needs(node: Node, wanted: Literal["number", "condition"], columns: Mapping[str, Kind], where: str) -> None:
    """A condition may stand for a number, as 1 or 0; nothing else may stand for another."""
    found = kind(node, columns)
    if found != wanted and not (wanted == "number" and found == "condition"):
        raise ValueError(f"{where} needs {_NAMES[wanted]}, and {write(node)!r} is {_NAMES[found]}")
