"""Expressions over Arrow batches: a predicate is 1 (true), 0 (false) or -1 (unknown) for each row, a formula a float64.

Evaluation is numpy, block by block, so that what lies between stays in the cache; comparisons of text, which run on
dictionaries where there are any, are made for the whole batch before. What may be written is decided in `tree` and `kinds`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from engines.expressions.kinds import Kind, check, kind
from engines.expressions.tree import Column, Comparison, Node, Number, Operation, Truth, columns, walk

Codes = NDArray[np.uint8]
"""Truth as numbers, ordered so that `and` is the least and `or` the largest."""
FALSE, UNKNOWN, TRUE = np.uint8(0), np.uint8(1), np.uint8(2)

_BLOCK = 1 << 15
_NUMPY: dict[str, Callable[..., Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "**": np.power, "min": np.minimum, "max": np.maximum,
    "abs": np.abs, "ceil": np.ceil, "exp": np.exp, "floor": np.floor, "log": np.log, "round": np.rint, "sign": np.sign, "sqrt": np.sqrt,
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip
_ARROW: dict[str, Callable[..., Any]] = {
    "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal, "==": pc.equal, "!=": pc.not_equal,
}  # fmt: skip


def kind_of(type_: pa.DataType) -> Kind:
    """What an expression may do with a column of this type."""
    if pa.types.is_dictionary(type_):
        return kind_of(type_.value_type)
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return "number"
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return "text"
    return "condition" if pa.types.is_boolean(type_) else "other"


class _Bound:
    """An expression that fits the columns of a stream."""

    def __init__(self, tree: Node, schema: pa.Schema) -> None:
        self._tree = tree
        self._kinds = {field.name: kind_of(field.type) for field in schema}
        self.columns = columns(tree)
        """The columns that it reads."""
        # Text is compared, and anything but numbers and conditions asked for nulls, for whole columns: blocks would gain nothing.
        parts = [node for node, _ in walk(tree) if isinstance(node, Operation | Comparison)]
        self._whole = [node for node in parts if kind(node.operands[0], self._kinds) in ("text", "other")]

    def _run(self, rows: pa.RecordBatch, step: Callable[[_Block, Node], Any], out: NDArray[Any]) -> NDArray[Any]:
        """Fill `out` block by block."""
        values: dict[Node, NDArray[Any]] = {node: np.broadcast_to(_whole(node, rows), rows.num_rows) for node in self._whole}
        for name in self.columns:
            if self._kinds[name] == "condition":
                values[Column(name)] = _codes(_plain(rows.column(name)))
            elif self._kinds[name] == "number":
                values[Column(name)] = _numbers(_plain(rows.column(name)))
        # Overflows, divisions by zero and roots of negative numbers are nulls, not accidents.
        with np.errstate(all="ignore"):
            for at in range(0, rows.num_rows, _BLOCK):
                block = slice(at, at + _BLOCK)
                out[block] = step(_Block(self._kinds, {node: array[block] for node, array in values.items()}), self._tree)
        return out


class Predicate(_Bound):
    """A condition on rows.

    >>> from engines.expressions.tree import parse
    >>> rows = pa.record_batch({"v": [1.0, 0.1, None]})
    >>> Predicate(parse("v > 0.2"), rows.schema)(rows).tolist()
    [1, 0, -1]
    """

    def __init__(self, tree: Node, schema: pa.Schema, *, setting: str = "expression") -> None:
        """Check it against the columns.

        Raises:
            SpecError: where it does not fit them, or is no condition.
        """
        check(tree, {field.name: kind_of(field.type) for field in schema}, wanted="condition", setting=setting)
        super().__init__(tree, schema)

    def __call__(self, rows: pa.RecordBatch) -> NDArray[np.int8]:
        """For each row 1 (true), 0 (false) or -1 (unknown)."""
        codes: NDArray[np.int8] = self._run(rows, _Block.condition, np.empty(rows.num_rows, np.uint8)).view(np.int8)
        return (codes >> 1) - (codes & 1)


class Formula(_Bound):
    """A number for each row; NaN where there is none.

    >>> from engines.expressions.tree import parse
    >>> rows = pa.record_batch({"v": [4.0, -1.0, None]})
    >>> Formula(parse("sqrt(v) / 2"), rows.schema)(rows).tolist()
    [1.0, nan, nan]
    """

    def __init__(self, tree: Node, schema: pa.Schema, *, setting: str = "expression") -> None:
        """Check it against the columns.

        Raises:
            SpecError: where it does not fit them, or is no number.
        """
        check(tree, {field.name: kind_of(field.type) for field in schema}, wanted="number", setting=setting)
        super().__init__(tree, schema)

    def __call__(self, rows: pa.RecordBatch) -> NDArray[np.float64]:
        """For each row a finite float64 or NaN."""
        return self._run(rows, _Block.number, np.empty(rows.num_rows))


class _Block:
    """Some thousand rows: the values of columns, and of what was made for the whole batch, by node."""

    def __init__(self, kinds: dict[str, Kind], values: dict[Node, NDArray[Any]]) -> None:
        self._kinds, self._values = kinds, values

    def condition(self, node: Node) -> Any:
        """Codes; a single one where no column has a part in it."""
        if node in self._values:
            return self._values[node]
        match node:
            case Truth(value):
                return TRUE if value else FALSE
            case Comparison(operators, operands):
                sides = [self._raw(operand) for operand in operands]
                pairs = zip(operators, sides, sides[1:], strict=False)
                return _least([_compared(operator, left, right) for operator, left, right in pairs])
            case Operation("not", (operand,)):
                return TRUE - self.condition(operand)
            case Operation("and", operands):
                return _least([self.condition(operand) for operand in operands])
            case Operation("or", operands):
                return TRUE - _least([TRUE - self.condition(operand) for operand in operands])
            case Operation("is null", (operand,)) if kind(operand, self._kinds) == "condition":
                return np.where(self.condition(operand) == UNKNOWN, TRUE, FALSE)
            case Operation("is null", (operand,)):
                return np.where(np.isfinite(self._raw(operand)), FALSE, TRUE)
        raise TypeError(f"{node} is no condition")

    def number(self, node: Node) -> Any:
        """Finite numbers, and NaN for nulls."""
        values = self._raw(node)
        finite = np.isfinite(values)
        return values if finite.all() else np.where(finite, values, np.nan)

    def _raw(self, node: Node) -> Any:
        """Numbers, and anything that is not finite for nulls."""
        if kind(node, self._kinds) == "condition":
            codes = self.condition(node)
            return np.where(codes == UNKNOWN, np.nan, codes * 0.5)
        match node:
            case Number(value):
                return np.float64(value)
            case Column():
                return self._values[node].astype(np.float64, copy=False)
            case Operation("-", (operand,)):
                return -self.number(operand)
            case Operation("**", operands):
                base, exponent = map(self.number, operands)
                # IEEE has 1 for 1 ** NaN and NaN ** 0; a null must stay null.
                return np.where(np.isnan(base + exponent), np.nan, np.power(base, exponent))
            case Operation(operator, (first, *others)):
                value = self.number(first)
                if not others:
                    return _NUMPY[operator](value)
                for other in others:
                    value = _NUMPY[operator](value, self.number(other))
                return value
        raise TypeError(f"{node} is no number")


def _compared(operator: str, left: Any, right: Any) -> Any:
    codes = np.asarray(np.multiply(_NUMPY[operator](left, right), TRUE, dtype=np.uint8))
    for side in (left, right):
        if not (finite := np.isfinite(side)).all():
            np.copyto(codes, UNKNOWN, where=~finite)
    return codes


def _least(codes: list[Any]) -> Any:
    least = codes[0]
    for other in codes[1:]:
        least = np.minimum(least, other)
    return least


def _plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _numbers(array: pa.Array) -> NDArray[Any]:
    if array.null_count or pa.types.is_decimal(array.type):
        array = pc.fill_null(array.cast(pa.float64(), safe=False), np.nan)
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _codes(array: pa.BooleanArray) -> Codes:
    codes = np.where(pc.fill_null(array, False).to_numpy(zero_copy_only=False), TRUE, FALSE)
    return np.where(_null_mask(array), UNKNOWN, codes) if array.null_count else codes


def _null_mask(array: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(pc.is_null(array).to_numpy(zero_copy_only=False))


def _whole(node: Operation | Comparison, rows: pa.RecordBatch) -> Any:
    """Codes of a comparison of texts, or of `is null`; a single one where no column has a part in it."""
    sides = [rows.column(side.name) if isinstance(side, Column) else pa.scalar(side.value) for side in node.operands]  # type: ignore[union-attr]
    if isinstance(node, Operation):
        return np.where(_null_mask(_plain(sides[0])), TRUE, FALSE) if isinstance(sides[0], pa.Array) else FALSE
    return _least([_compared_pair(operator, left, right) for operator, left, right in zip(node.operators, sides, sides[1:], strict=False)])


def _compared_pair(operator: str, *sides: Any) -> Codes:
    encoded = next((side for side in sides if pa.types.is_dictionary(side.type)), None)
    if encoded is not None and any(isinstance(side, pa.Scalar) for side in sides):
        # Each distinct text is compared once; the code past the last one stands for null.
        codes = _arrow(operator, *(encoded.dictionary if side is encoded else side for side in sides))
        indices = pc.fill_null(encoded.indices.cast(pa.int32()), len(codes)).to_numpy(zero_copy_only=False)
        return np.asarray(np.append(codes, UNKNOWN)[indices])
    return _arrow(operator, *(side if isinstance(side, pa.Scalar) else _plain(side) for side in sides))


def _arrow(operator: str, *sides: Any) -> Codes:
    if sides[0].type != sides[1].type:
        sides = tuple(side.cast(pa.large_string()) for side in sides)
    compared = _ARROW[operator](*sides)
    return _codes(compared if isinstance(compared, pa.Array) else pa.array([compared.as_py()], pa.bool_()))
