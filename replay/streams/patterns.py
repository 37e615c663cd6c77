"""Times by patterns of the C library, less those that there are not.

The library reads fast, but takes the 30th of February for the 2nd of March, the 366th day of any year for some other, and a
60th second. What a text says is therefore compared with what became of it, wherever the two could differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.streams.values import Mask

_NAIVE = pa.timestamp("us")
_SHORT = {"%c": "%a %b %d %H:%M:%S %Y", "%x": "%m/%d/%y", "%X": "%H:%M:%S"}
# The library takes a digit only if the number may become that large: of 9152011, by %m%d%Y, the month is 9.
_NUMBERS = {
    "d": "[0-3][0-9]?|[4-9]", "m": "[01][0-9]?|[2-9]", "y": "[0-9]{1,2}", "Y": "[0-9]{1,4}",
    "j": "[0-2][0-9]{0,2}|3[0-6][0-9]?|3[7-9]?|[4-9][0-9]?", "U": "[0-5][0-9]?|[6-9]", "W": "[0-5][0-9]?|[6-9]", "w": "[0-6]",
    "H": "[0-2][0-9]?|[3-9]", "I": "[01][0-9]?|[2-9]", "M": "[0-5][0-9]?|[6-9]", "S": "[0-6][0-9]?|[7-9]",
    "z": "Z|[+-][0-9]{2}:?[0-9]{0,2}",
}  # fmt: skip
_NAMES = r"[^0-9]*?"
_OF_MOMENTS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "d": pc.day,
    "j": pc.day_of_year,
    "U": lambda moments: pc.week(moments, week_starts_monday=False, count_from_zero=True, first_week_is_fully_in_year=True),
    "W": lambda moments: pc.week(moments, week_starts_monday=True, count_from_zero=True, first_week_is_fully_in_year=True),
    "w": lambda moments: pc.day_of_week(moments, count_from_zero=True, week_start=7),
    "Y": pc.year,
    "y": lambda moments: pa.array(pc.year(moments).to_numpy(zero_copy_only=False) % 100),
    "S": pc.second,
}


def by_pattern(texts: pa.Array, pattern: str) -> pa.Array:
    """Texts as moments, local ones or, with `%z`, of UTC; null where they are none.

    >>> by_pattern(pa.array(["2/28/2011", "2/30/2011"]), "%m/%d/%Y").to_pylist()
    [datetime.datetime(2011, 2, 28, 0, 0), None]
    """
    moments = pc.strptime(texts, format=pattern, unit="us", error_is_null=True)
    naive = moments.view(_NAIVE)
    for short, parts in _SHORT.items():
        pattern = pattern.replace(short, parts)
    directives = re.findall("%(.)", pattern)
    doubtful = pc.is_valid(naive)
    if "d" in directives:
        # A day that there is not is behind the end of a month and became one of the next three; a zone moves them by a day.
        day = pc.day(naive)
        near = pc.less_equal(day, 3)
        if "z" in directives:
            near = pc.or_(pc.less_equal(day, 4), pc.greater_equal(day, 28))
        sixty = pc.or_(pc.match_substring(texts, "60"), pc.match_substring(texts, "61"))
        doubtful = pc.and_(doubtful, pc.or_(near, sixty))
    at = np.flatnonzero(doubtful.fill_null(False).to_numpy(zero_copy_only=False))
    wrong = np.zeros(len(texts), bool)
    wrong[at] = ~_as_said(texts.take(pa.array(at)), naive.take(pa.array(at)), pattern)
    return pc.if_else(pa.array(wrong), pa.scalar(None, moments.type), moments) if wrong.any() else moments


def _as_said(texts: pa.Array, moments: pa.Array, pattern: str) -> Mask:
    """Whether the day and the second that a text says are those of its moment."""
    found = pc.extract_regex(texts, _expression(pattern))
    said = {found.type.field(n).name: values for n, values in enumerate(found.flatten())}
    for zone in (said.pop(name) for name in list(said) if name[0] == "z"):
        of_1970 = pc.strptime(pc.binary_join_element_wise("1970", zone, ""), format="%Y%z", unit="us", error_is_null=True)
        moments = pc.subtract(moments.view(pa.int64()), of_1970.view(pa.int64())).view(_NAIVE)
    same = found.is_valid()
    for name, values in said.items():
        same = pc.and_(same, pc.equal(values.cast(pa.int64()), _OF_MOMENTS[name[0]](moments)))
    as_said: Mask = same.fill_null(False).to_numpy(zero_copy_only=False)
    return as_said


def _expression(pattern: str) -> str:
    """The pattern as a regular expression; groups, called by their directives, are what is compared: few, which is much faster."""
    # By month and day alone the library places a text that has them.
    compared = "dSz" if "d" in re.findall("%(.)", pattern) else "jUWwYySz"
    expression = ""
    for n, (directive, space, other) in enumerate(re.findall(r"%(.)|(\s+)|(.)", pattern)):
        if directive in _NUMBERS:
            expression += rf"\s*({f'?P<{directive}{n}>' if directive in compared else '?:'}{_NUMBERS[directive]})"
        else:
            expression += r"\s*" if space else _NAMES if directive not in ("", "%") else re.escape(other or "%")
    return "^" + re.sub(r"(\\s\*)+", r"\\s*", expression) + "$"
