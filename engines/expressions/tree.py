"""The language of predicates and formulas: its words, its grammar, and the tree that a text becomes.

    speed < 40 and not (0 < volume / occupancy <= 2) or status == 'jam' or error is not null

Numbers are float64. A value that is not finite is null, at every step, and an operation on a null gives null; a comparison
of a null is unknown, and `and`, `or`, `not` are three-valued. Where a number is wanted true counts 1 and false 0; `round`
goes to the even neighbour. How trees are evaluated does not belong here: engines and oracles share this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from engines.spec import SpecError

LONGEST = 10_000
"""Characters of a text."""
DEEPEST = 100
"""Levels of a tree: no text may exhaust the stack of those who walk it."""

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
FUNCTIONS = {"abs": 1, "ceil": 1, "exp": 1, "floor": 1, "log": 1, "max": 2, "min": 2, "round": 1, "sign": 1, "sqrt": 1}
"""How many values each function takes; 2: two or more."""
ARITHMETIC = ("+", "-", "*", "/", "**", *FUNCTIONS)
"""Operations that make numbers of numbers."""

# How tightly each operator binds; `not` lies between `and` and comparisons, a sign between `/` and `**`.
_BINDING = {"or": 1, "and": 2, **dict.fromkeys((*COMPARISONS, "is"), 4), "+": 5, "-": 5, "*": 6, "/": 6, "**": 8}
_NOT, _COMPARISON, _SIGN, _VALUE = 3, 4, 7, 9
_RESERVED = ("and", "false", "is", "not", "null", "or", "true")
_NAME = r"[^\W\d]\w*"
_TOKEN = re.compile(
    rf"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|(?P<name>{_NAME}(?:\.{_NAME})*)"
    r"|(?P<text>'(?:[^']|'')*')|(?P<sign>\*\*|[<>=!]=|[-+*/<>(),])|(?P<end>\Z)"
)
_HINTS = {"=": "'=' is no comparison; equal is '=='", "'": "the text is not closed"}


@dataclass(frozen=True, slots=True)
class Number:
    """A finite float64."""

    value: float


@dataclass(frozen=True, slots=True)
class Text:
    """A text between single quotes."""

    value: str


@dataclass(frozen=True, slots=True)
class Truth:
    """True or false."""

    value: bool


@dataclass(frozen=True, slots=True)
class Column:
    """The value of a column, perhaps that of one side: `left.x`."""

    name: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One of `ARITHMETIC` (`-` with one operand: minus), `not`, `and`, `or` (of two or more), `is null`."""

    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A chain `a < b <= c`: all neighbours compare as told."""

    operators: tuple[str, ...]
    operands: tuple[Node, ...]


Node = Number | Text | Truth | Column | Operation | Comparison


def walk(node: Node) -> Iterator[tuple[Node, int]]:
    """Every node with its level, from the left, without recursion."""
    stack: list[tuple[Node, int]] = [(node, 1)]
    while stack:
        node, level = stack.pop()
        yield node, level
        if isinstance(node, Operation | Comparison):
            stack.extend((operand, level + 1) for operand in reversed(node.operands))


def columns(node: Node) -> tuple[str, ...]:
    """The names of its columns, in the order in which they first occur.

    >>> columns(parse("b < a + b"))
    ('b', 'a')
    """
    return tuple(dict.fromkeys(part.name for part, _ in walk(node) if isinstance(part, Column)))


def parse(text: str, *, setting: str = "expression") -> Node:
    """The tree of a text.

    >>> parse("v > 0.2")
    Comparison(operators=('>',), operands=(Column(name='v'), Number(value=0.2)))

    Raises:
        SpecError: in one sentence that names the setting, and the place where the text does not parse.
    """
    try:
        return _Parser(text).tree()
    except _UnreadableError as problem:
        shown = text if len(text) <= 80 else f"{text[:80]}..."
        raise SpecError(f"{setting}: {shown!r} {problem}.") from None


def canonical(text: str) -> str:
    """The text as it is always written: the same for texts that differ in spaces and needless parentheses alone.

    >>> canonical("(v>0.20)and  ( not ok )")
    'v > 0.2 and not ok'

    Raises:
        ValueError: with the reason alone, as the validators of models want it.
    """
    try:
        return write(_Parser(text).tree())
    except _UnreadableError as problem:
        raise ValueError(f"it {problem}") from None


def write(node: Node) -> str:
    """The canonical text of a tree; parsing it gives the tree back."""
    return _written(node)[0]


def _written(node: Node) -> tuple[str, int]:
    """The text of a node, and how tightly it binds."""

    def part(operand: Node, floor: int) -> str:
        text, binding = _written(operand)
        return text if binding > floor else f"({text})"

    match node:
        case Number(value):
            return repr(value).removesuffix(".0"), _VALUE if repr(value)[0] != "-" else _SIGN
        case Text(value):
            return "'{}'".format(value.replace("'", "''")), _VALUE
        case Truth(value):
            return str(value).lower(), _VALUE
        case Column(name):
            return name, _VALUE
        case Comparison(operators, (first, *others)):
            pairs = zip(operators, others, strict=True)
            return " ".join([part(first, _COMPARISON), *(f"{o} {part(other, _COMPARISON)}" for o, other in pairs)]), _COMPARISON
        case Operation("not", (Operation("is null", (operand,)),)):
            return f"{part(operand, _COMPARISON)} is not null", _COMPARISON
        case Operation("is null", (operand,)):
            return f"{part(operand, _COMPARISON)} is null", _COMPARISON
        case Operation("not", (operand,)):
            return f"not {part(operand, _NOT - 1)}", _NOT
        case Operation("-", (operand,)):
            return f"-{part(operand, _SIGN - 1)}", _SIGN
        case Operation("**", (base, exponent)):
            return f"{part(base, _BINDING['**'])} ** {part(exponent, _SIGN - 1)}", _BINDING["**"]
        case Operation("and" | "or" as operator, operands):
            return f" {operator} ".join(part(operand, _BINDING[operator]) for operand in operands), _BINDING[operator]
        case Operation(operator, (left, right)) if operator not in FUNCTIONS:
            return f"{part(left, _BINDING[operator] - 1)} {operator} {part(right, _BINDING[operator])}", _BINDING[operator]
        case Operation(function, operands):
            return f"{function}({', '.join(map(write, operands))})", _VALUE
    raise TypeError(f"{type(node).__name__} is no node")


class _UnreadableError(ValueError):
    """Why a text is no expression, to be read after the text itself."""


class _Parser:
    """Operator precedence, top down: a value, then operators as long as they bind tighter than what stands on the left."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise _UnreadableError(f"has {len(text)} characters; allowed are {LONGEST}")
        self._text, self._after, self._level, self._word = text, 0, 0, ""
        self._advance()

    def tree(self) -> Node:
        tree = self._expression()
        if self._kind != "end":
            raise self._stop(f"{self._word!r} is not expected here")
        if max(level for _, level in walk(tree)) > DEEPEST:
            raise _UnreadableError(f"has more than {DEEPEST} operations on top of each other")
        return tree

    def _advance(self) -> str:
        """Go on to the next token; returns the one that was passed."""
        passed = self._word
        while self._text[self._after : self._after + 1].isspace():
            self._after += 1
        self._at = self._after
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            odd = self._text[self._at]
            raise self._stop(_HINTS.get(odd, f"{odd!r} is not known"))
        self._kind, self._word, self._after = str(found.lastgroup), found[0], found.end()
        return passed

    def _stop(self, reason: str) -> _UnreadableError:
        return _UnreadableError(f"does not parse at character {self._at + 1}: {reason}")

    def _expression(self, floor: int = 0) -> Node:
        self._level += 1
        if self._level > DEEPEST:
            raise _UnreadableError(f"has more than {DEEPEST} levels of parentheses and signs")
        left, binding = self._prefix(floor), _VALUE
        while floor < (following := _BINDING.get(self._word, 0)):
            if following == binding == _COMPARISON:
                raise self._stop("'is' cannot follow or begin a chain of comparisons; parentheses are missing")
            left, binding = self._infix(left, following), following
        self._level -= 1
        return left

    def _prefix(self, floor: int) -> Node:
        match self._kind, self._word:
            case "number", token:
                if float(token) == inf:
                    raise self._stop("the number is too large")
                return Number(float(self._advance()))
            case "text", _:
                return Text(self._advance()[1:-1].replace("''", "'"))
            case "sign", "(":
                self._advance()
                return self._closed(self._expression())
            case "sign", "-":
                self._advance()
                operand = self._expression(_SIGN)
                return Number(-operand.value) if isinstance(operand, Number) else Operation("-", (operand,))
            case "name", "not":
                if floor > _NOT:
                    raise self._stop("'not' needs parentheses around it here")
                self._advance()
                return Operation("not", (self._expression(_NOT),))
            case "name", "true" | "false":
                return Truth(self._advance() == "true")
            case "name", token if token not in _RESERVED:
                return self._named(token)
        raise self._stop("a value is missing")

    def _named(self, name: str) -> Node:
        at = self._at
        self._advance()
        if self._word != "(":
            return Column(name)
        if name not in FUNCTIONS:
            self._at = at
            raise self._stop(f"there is no function {name!r}; there are {', '.join(FUNCTIONS)}")
        operands: list[Node] = []
        while self._word == ("," if operands else "("):
            self._advance()
            operands.append(self._expression())
        if len(operands) != FUNCTIONS[name] and not len(operands) > FUNCTIONS[name] == 2:
            raise self._stop(f"{name} takes {'two or more values' if FUNCTIONS[name] == 2 else 'one value'}, not {len(operands)}")
        return self._closed(Operation(name, tuple(operands)))

    def _closed(self, node: Node) -> Node:
        if self._word != ")":
            raise self._stop("a closing parenthesis is missing")
        self._advance()
        return node

    def _infix(self, left: Node, binding: int) -> Node:
        if binding == _COMPARISON and self._word != "is":
            operators, operands = [], [left]
            while self._word in COMPARISONS:
                operators.append(self._advance())
                operands.append(self._expression(binding))
            return Comparison(tuple(operators), tuple(operands))
        operator = self._advance()
        if operator == "is":
            negated = self._word == "not" and bool(self._advance())
            if self._word != "null":
                raise self._stop("'null' is missing")
            self._advance()
            is_null = Operation("is null", (left,))
            return Operation("not", (is_null,)) if negated else is_null
        # Powers group from the right, and an exponent may have a sign: 2 ** -x ** 2 is 2 ** (-(x ** 2)).
        right = self._expression(_SIGN if operator == "**" else binding)
        if operator in ("and", "or"):
            sides = (side.operands if isinstance(side, Operation) and side.operator == operator else (side,) for side in (left, right))
            return Operation(operator, tuple(operand for side in sides for operand in side))
        return Operation(operator, (left, right))
