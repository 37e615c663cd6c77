"""Texts become values: which of them a conversion takes, without looking at each.

Arrow's conversions take all of an array or nothing. Here the few that they do not take are found by halving, so that a
value is accepted if, and only if, it would be accepted alone: no result depends on what else was in the same block.
What stands for no value (`nulls`) is decided here for all formats: a text by its letters, a number by its value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

TRUE, FALSE = ("1", "true", "True", "TRUE"), ("0", "false", "False", "FALSE")
WHOLE = r"^[ \t]*[+-]?[0-9]+[ \t]*$"
REAL = r"^[ \t]*[+-]?([0-9]*\.?[0-9]*([eE][+-]?[0-9]+)?|[a-zA-Z]+(\([^)]*\))?)[ \t]*$"
Mask = NDArray[np.bool_]


def convert(texts: pa.Array, conversion: Callable[[pa.Array], pa.Array], plausible: str | None = None) -> tuple[pa.Array, Mask]:
    """The converted texts, null where the conversion does not take one, and which it took (nulls it always does).

    `plausible`: a pattern that all texts match which it takes. Where few do, looking for them by halving would take ages.

    >>> convert(pa.array(["1", "x", None]), lambda texts: texts.cast(pa.int64()))[0].to_pylist()
    [1, None, None]
    """
    # A conversion that fails looks at all texts nevertheless, and is slow: where the first is none, it is not tried.
    if plausible is None or begins_with(texts, plausible):
        with suppress(pa.ArrowInvalid):
            return conversion(texts), np.ones(len(texts), bool)
    if plausible is not None:
        likely = pc.fill_null(pc.match_substring_regex(texts, plausible), True)
        values, taken = convert(pc.if_else(likely, texts, pa.scalar(None, texts.type)), conversion)
        return values, taken & likely.to_numpy(zero_copy_only=False)
    distinct = texts.dictionary_encode()
    good = np.zeros(len(distinct.dictionary), bool)
    _halve(distinct.dictionary, conversion, good, 0)
    codes = distinct.indices
    taken = pc.fill_null(pa.array(good).take(codes), True).to_numpy(zero_copy_only=False)
    return conversion(pc.if_else(pa.array(taken), texts, pa.scalar(None, texts.type))), taken


def begins_with(texts: pa.Array, pattern: str) -> bool:
    """Whether the first text matches a pattern, as far as one is soon found."""
    first = texts.slice(0, 100).drop_null().slice(0, 1).cast(pa.binary()).to_pylist()
    return not first or re.search(pattern.encode(), first[0]) is not None


def typed(texts: pa.Array, kind: pa.DataType, nulls: Sequence[str] = ()) -> tuple[pa.Array, Mask]:
    """Texts as values of a type, as Arrow's reader of CSV takes them: numbers may stand between spaces and tabs.

    So may what stands for no value, but in texts, where it is left to the reader of the format.

    >>> typed(pa.array(["1.5", " NA", "-9.0", "x"]), pa.float64(), ["NA", "-9"])[0].to_pylist()
    [1.5, None, None, None]
    """
    values, taken = _typed(texts, kind)
    if pa.types.is_string(kind) or not nulls:
        return values, taken
    if pa.types.is_boolean(kind) or not taken.all():
        none = pc.fill_null(pc.match_substring_regex(texts, rf"^[ \t]*(?:{'|'.join(map(re.escape, nulls))})[ \t]*$"), False)
        values, taken = pc.if_else(none, pa.scalar(None, kind), values), taken | none.to_numpy(zero_copy_only=False)
    return without_markers(values, nulls), taken


def without_markers(values: pa.Array | pa.ChunkedArray, nulls: Sequence[str]) -> pa.Array | pa.ChunkedArray:
    """Numbers without those that texts for no value name, however these are written.

    >>> without_markers(pa.array([1.0, -999.0, float("nan"), float("inf")]), ["", "-999", "NaN"]).to_pylist()
    [1.0, None, None, inf]
    """
    for marker in numbers_of(tuple(nulls), values.type):
        found = pc.is_nan(values) if marker.as_py() != marker.as_py() else pc.equal(values, marker)
        if pc.any(found).as_py():
            values = pc.if_else(found.fill_null(False), pa.scalar(None, values.type), values)
    return values


@lru_cache
def numbers_of(nulls: tuple[str, ...], kind: pa.DataType) -> list[pa.Scalar]:
    """Those of the texts for no value that are numbers of a type.

    >>> [marker.as_py() for marker in numbers_of(("", "NA", "-999.0", "0.5"), pa.int32())]
    [-999]
    """
    texts = pa.array(nulls, pa.string())
    if not pa.types.is_integer(kind):
        return list(typed(texts, kind)[0].drop_null()) if pa.types.is_floating(kind) else []
    reals, _ = typed(texts, pa.float64())
    return list(pc.coalesce(typed(texts, kind)[0], convert(reals, lambda these: these.cast(kind))[0]).drop_null())


def without_padded(texts: pa.Array | pa.ChunkedArray, nulls: Sequence[str]) -> pa.Array | pa.ChunkedArray:
    """Texts without those that stand for none but for spaces and tabs around them.

    >>> without_padded(pa.array([" NA", "NA b", None]), ["NA"]).to_pylist()
    [None, 'NA b', None]
    """
    # Few texts have any, and to trim all of them takes longer than to look.
    if not any(pc.any(has(texts, blank)).as_py() for has in (pc.starts_with, pc.ends_with) for blank in " \t"):
        return texts
    return pc.if_else(pc.is_in(trimmed(texts), pa.array(nulls, pa.string())), pa.scalar(None, pa.string()), texts)


def _typed(texts: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    if pa.types.is_boolean(kind):
        is_true = pc.is_in(texts, pa.array(TRUE, texts.type))
        known = pc.or_(is_true, pc.is_in(texts, pa.array(FALSE, texts.type)))
        values = pc.if_else(known, is_true, pa.scalar(None, pa.bool_()))
        values = pc.if_else(pc.is_null(texts), pa.scalar(None, pa.bool_()), values)
        return values, (pc.or_(known, pc.is_null(texts))).to_numpy(zero_copy_only=False)
    if pa.types.is_string(kind):
        return convert(texts, lambda these: these.cast(pa.string()))
    if pa.types.is_integer(kind):
        return convert(texts, lambda these: whole(trimmed(these), kind), WHOLE)
    return convert(texts, lambda these: trimmed(these).cast(kind), REAL)


def whole(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Texts as whole numbers: Arrow would take `0x10` for 16, and not take `+1`.

    >>> whole(pa.array(["+1", "-007"]), pa.int64()).to_pylist()
    [1, -7]
    """
    plain = pc.replace_substring_regex(texts, r"^\+([0-9])", r"\1")
    if pc.any(pc.match_substring(plain, "x", ignore_case=True)).as_py():
        raise pa.ArrowInvalid("a hexadecimal number")
    return plain.cast(kind)


def trimmed(texts: pa.Array) -> pa.Array:
    """Texts without spaces and tabs around them."""
    return pc.ascii_trim(texts if pa.types.is_string(texts.type) else texts.cast(pa.string()), " \t")


def _halve(texts: pa.Array, conversion: Callable[[pa.Array], pa.Array], good: Mask, at: int) -> None:
    """Mark which texts, the first of which has the number `at`, the conversion takes."""
    if not len(texts):
        return
    try:
        conversion(texts)
        good[at : at + len(texts)] = True
    except pa.ArrowInvalid:
        if len(texts) > 1:
            half = len(texts) // 2
            _halve(texts.slice(0, half), conversion, good, at)
            _halve(texts.slice(half), conversion, good, at + half)
