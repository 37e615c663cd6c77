"""Times become microseconds: from text in several formats and zones, from numbers, from Arrow's own timestamps.

By integers throughout: finer digits are cut, never rounded through a double. A time that cannot be read, or a local time
that does not exist, is no time; what becomes of its record is decided in `records.py`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from replay.log import FIRST_US, LAST_US
from replay.streams.declaration import UNITS_PER_SECOND, Time
from replay.streams.patterns import by_pattern
from replay.streams.values import REAL, WHOLE, Mask, begins_with, convert, trimmed, whole
from replay.streams.zones import localised

FURTHEST_US = 2**61
"""No event is further than this from 1970: sums of times and durations stay inside 64 bits."""
_FURTHEST_NS_AS_US = (2**63 - 1) // 1000
_INSTANT, _LOCAL = pa.timestamp("ns", tz="UTC"), pa.timestamp("ns")
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9:]*(\.[0-9]{1,9})?(Z|[+-][0-9:]*)?)?$"
_ZONE = r"[ T].*(Z|[+-]\d\d(:?\d\d)?)$"
_OTHERWISE = r"[,.][0-9]{10}|:[0-9]{2},|UTC$| (Z|[+-][0-9:]+)$"
_SPELLINGS = (
    (r"(:[0-9]{2}),([0-9])", r"\1.\2"),
    (r"(\.[0-9]{9})[0-9]+", r"\1"),
    (r"(:[0-9.]+) *UTC$", r"\1Z"),
    (r"(:[0-9.]+) +(Z|[+-][0-9:]+)$", r"\1\2"),
)
"""What is ISO 8601 too, or nearly, as Arrow reads it."""
_DIGITS = 12
_DECIMAL, _DECIMALS = pa.decimal128(19 + _DIGITS, _DIGITS), 10**_DIGITS
_WIDE, _SCIENTIFIC = pa.decimal256(76, 40), r"^[+-]?[0-9]?\.[0-9]{1,20}[eE][+-]?(0?[0-9]|1[0-8])$"
"""What holds each number that is written so."""
_EXACT = Context(prec=60, rounding=ROUND_FLOOR)
_SURE_US = 2**51
"""From here on, in 2041, two microseconds may be as good as one double: what a number stands for is told by its shortest text."""


@dataclass(frozen=True)
class Times:
    """Event times of records."""

    us: NDArray[np.int64]
    known: Mask
    """Which could be read; the others are zero."""
    original: NDArray[np.int64]
    """As it was: the whole number, or the nanoseconds of a date. Of a number with decimals it holds the whole units only."""


def read_times(values: pa.Array, time: Time, origin_us: int = 0) -> Times:
    """The times of a column of texts, numbers or timestamps.

    >>> texts = pa.array(["2011-09-15 00:00:00-07", "9/15/2011 0:00:20", "soon"])
    >>> read_times(texts, Time(column="t", format=["iso", "%m/%d/%Y %H:%M:%S"], zone="America/Los_Angeles")).us.tolist()
    [1316070000000000, 1316070020000000, 0]
    """
    kind = values.type
    if pa.types.is_timestamp(kind):
        return _from_timestamps(values, time)
    if pa.types.is_integer(kind):
        return _from_integers(values, time.unit, origin_us)
    if pa.types.is_floating(kind):
        return _from_floats(values, time, origin_us)
    return _from_texts(values, time, origin_us)


def to_us(numbers: NDArray[np.int64], unit: str) -> tuple[NDArray[np.int64], Mask]:
    """Whole numbers of a unit as microseconds, and which of them are near enough to 1970."""
    per_second = UNITS_PER_SECOND[unit]
    if per_second >= 10**6:
        cut = numbers // (per_second // 10**6)
        return cut, _within(cut, FURTHEST_US)
    factor = 10**6 // per_second
    near = _within(numbers, FURTHEST_US // factor)
    return np.where(near, numbers, 0) * factor, near


def _within(numbers: NDArray[np.int64], limit: int) -> Mask:
    """Which are nearer to zero. Not by absolute values: that of the smallest of all is negative."""
    return (numbers > -limit) & (numbers < limit)


def _from_integers(values: pa.Array, unit: str, origin_us: int) -> Times:
    numbers, there = _numbers(convert(values, lambda these: these.cast(pa.int64()))[0])
    us, near = to_us(numbers, unit)
    return _times(us + origin_us, there & near, numbers)


def floats_to_us(numbers: NDArray[np.float64], unit: str) -> tuple[NDArray[np.int64], Mask]:
    """Doubles of a unit as microseconds, finer digits cut, and which of them are near enough to 1970.

    A double stands for the decimal number that it is the nearest to: 0.29 is 290,000 us, though the double is a little less.

    >>> floats_to_us(np.array([0.29, 1.9999999, -1e-7]), "s")[0].tolist()
    [290000, 1999999, -1]
    """
    many, few = max(UNITS_PER_SECOND[unit] // 10**6, 1), max(10**6 // UNITS_PER_SECOND[unit], 1)
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(numbers) < FURTHEST_US / few * many
    numbers = np.where(near, numbers, 0)
    cut = np.rint(numbers * few / many)
    # The double that is nearest to so many microseconds tells whether they are more than what is there, or one fewer.
    cut -= cut * many / few > numbers
    cut += (cut + 1) * many / few <= numbers
    us = cut.astype(np.int64)
    far = np.abs(cut) >= _SURE_US
    if far.any():
        read = _by_number(pa.array(numbers[far]).cast(pa.string()), unit, 0)
        us[far] = np.where(read.known, read.us, us[far])
    return us, near


def doubles(values: pa.Array) -> NDArray[np.float64]:
    """Numbers as doubles, nulls as NaN. A smaller one too stands for the decimal number that it is the nearest to.

    >>> doubles(pa.array([0.29, None], pa.float32())).tolist()
    [0.29, nan]
    """
    exact = values if pa.types.is_float64(values.type) else values.cast(pa.float32()).cast(pa.string())
    found: NDArray[np.float64] = exact.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
    return found


def _from_floats(values: pa.Array, time: Time, origin_us: int) -> Times:
    us, near = floats_to_us(doubles(values), time.unit)
    return _times(us + origin_us, near, us)


def _from_timestamps(values: pa.Array, time: Time) -> Times:
    unit = values.type.unit
    if values.type.tz is None:
        values = localised(values, time.tz)
    numbers, there = _numbers(values.view(pa.int64()))
    us, near = to_us(numbers, unit)
    of_unit = 10**9 // UNITS_PER_SECOND[unit]
    fits = _within(numbers, (2**63 - 1) // of_unit)
    return _times(us, there & near & (fits | (time.keep is None)), np.where(fits, numbers, 0) * of_unit)


def _from_texts(values: pa.Array, time: Time, origin_us: int) -> Times:
    texts = trimmed(values)
    found: Times | None = None
    for form in time.format:
        read = _by_number(texts, time.unit, origin_us) if form == "number" else _by_pattern(texts, form, time)
        found = read if found is None else _either(found, read)
        if found.known.all():
            break
        texts = pc.if_else(pa.array(found.known), pa.scalar(None, pa.string()), texts)
    assert found is not None  # noqa: S101 - a declaration has at least one format
    return found


def _by_pattern(texts: pa.Array, form: str, time: Time) -> Times:
    """Texts by `iso`, with a zone of their own or without, or by a pattern."""
    if form != "iso":
        moments = by_pattern(texts, form)
        if moments.type.tz is None:
            moments = localised(moments, time.tz)
        us, there = _numbers(moments.cast(pa.timestamp("us", tz="UTC")).view(pa.int64()))
        there &= np.abs(us) <= _FURTHEST_NS_AS_US
        return _times(us, there, np.where(there, us, 0) * 1000)
    if begins_with(texts, _OTHERWISE):
        texts = _respelt(texts)
    ns, there = _numbers(_iso(texts, time).view(pa.int64()))
    found = _times(ns // 1000, there, ns)
    if there.all():
        return found
    rest = pc.if_else(pa.array(there), pa.scalar(None, pa.string()), texts)
    respelt = _respelt(rest)
    return found if respelt.equals(rest) else _either(found, _by_pattern(respelt, form, time))


def _respelt(texts: pa.Array) -> pa.Array:
    for spelling, usual in _SPELLINGS:
        texts = pc.replace_substring_regex(texts, spelling, usual)
    return texts


def _iso(texts: pa.Array, time: Time) -> pa.Array:
    """Texts by ISO 8601: mostly all of them name a zone, or none does, and the first tells which to try first."""
    if begins_with(texts, _DATE):
        kind = _INSTANT if begins_with(texts, _ZONE) else _LOCAL
        with suppress(pa.ArrowInvalid):
            moments = texts.cast(kind)
            return moments if kind == _INSTANT else localised(moments, time.tz)
    zoned, none = pc.match_substring_regex(texts, _ZONE), pa.scalar(None, pa.string())
    instants, _ = convert(pc.if_else(zoned, texts, none), lambda these: these.cast(_INSTANT), _DATE)
    local, _ = convert(pc.if_else(zoned, none, texts), lambda these: these.cast(_LOCAL), _DATE)
    return pc.coalesce(instants, localised(local, time.tz))


def _by_number(texts: pa.Array, unit: str, origin_us: int) -> Times:
    """Numbers, exactly: whole ones as integers, only the others as decimals, which hold fewer digits."""
    integers, taken = convert(texts, lambda these: whole(these, pa.int64()), WHOLE)
    found = _from_integers(integers, unit, origin_us)
    if taken.all():
        return found
    rest = pc.if_else(pa.array(taken), pa.scalar(None, pa.string()), texts)
    decimals = _decimals(rest)
    floor = pc.floor(decimals)
    fraction = np.frombuffer(pc.subtract(decimals, floor).cast(_DECIMAL).fill_null(0).buffers()[1], np.int64)[::2][: len(texts)]
    units, there = _numbers(convert(floor, lambda these: these.cast(pa.int64()))[0])
    us, near = to_us(units, unit)
    us = us + fraction // (_DECIMALS // max(10**6 // UNITS_PER_SECOND[unit], 1)) + origin_us
    known = there & near
    return _times(np.where(known, us, found.us), known | found.known, np.where(known, units, found.original))


def _decimals(texts: pa.Array) -> pa.Array:
    """Numbers, of which more than twelve decimals are cut: downwards, for below zero they make a number less."""
    if begins_with(texts, REAL):
        with suppress(pa.ArrowInvalid):  # mostly there are fewer
            return texts.cast(_DECIMAL)
    scientific, none = pc.match_substring(texts, "e", ignore_case=True), pa.scalar(None, pa.string())
    plain = pc.if_else(scientific, none, texts)
    plain = pc.replace_substring_regex(plain, r"^(-[0-9]*\.[0-9]{11})[0-9]*[1-9][0-9]*$", r"\19")
    plain = pc.replace_substring_regex(plain, r"^([+-]?[0-9]*\.[0-9]{12})[0-9]+$", r"\1")
    decimals, _ = convert(plain, lambda these: these.cast(_DECIMAL), REAL)
    if not pc.any(scientific).as_py():
        return decimals
    usual = pc.match_substring_regex(texts, _SCIENTIFIC)
    wide, taken = convert(pc.if_else(usual, texts, none), lambda these: pc.round(these.cast(_WIDE), _DIGITS, "down").cast(_DECIMAL))
    odd = pc.if_else(pc.and_not(scientific, pc.and_(usual, pa.array(taken))), texts, none).dictionary_encode()
    odd_decimals = pa.array([_decimal(text) for text in odd.dictionary.to_pylist()], _DECIMAL).take(odd.indices)
    return pc.coalesce(decimals, wide, odd_decimals)


def _decimal(text: str) -> Decimal | None:
    with suppress(ArithmeticError):  # no number
        number = Decimal(text)
        return number.quantize(Decimal((0, (1,), -_DIGITS)), context=_EXACT) if abs(number) < 10**19 else None
    return None


def _either(first: Times, second: Times) -> Times:
    """The first where it is known, else the second."""
    pairs = ((first.us, second.us), (first.known, second.known), (first.original, second.original))
    return Times(*(np.where(first.known, a, b) for a, b in pairs))


def _numbers(values: pa.Array) -> tuple[NDArray[np.int64], Mask]:
    there: Mask = pc.is_valid(values).to_numpy(zero_copy_only=False)
    return values.fill_null(0).to_numpy(zero_copy_only=False), there


def _times(us: NDArray[np.int64], known: Mask, original: NDArray[np.int64]) -> Times:
    known = known & (us >= FIRST_US) & (us <= LAST_US)
    return Times(np.where(known, us, 0), known, np.where(known, original, 0))
