"""What every reader of a format returns: the records that it could take apart, and those that it could not.

A reader turns a piece of a file into columns of the declared types. Whether times, keys and ranges are right is the same for
all formats and is decided in `records.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class StreamError(ValueError):
    """A stream that cannot be read, told in one sentence: the file, the setting, what was found, what is allowed."""


class NoFilesError(StreamError):
    """A folder without a file of the stream."""


@dataclass(frozen=True)
class Reject:
    """A record that is not stored."""

    line: int
    """Counted from the beginning of the split."""
    text: str
    reason: str


@dataclass(frozen=True)
class Parsed:
    """A piece of a file, taken apart."""

    table: pa.Table
    """Declared columns, as far as the file has them."""
    line: NDArray[np.int64]
    """The line of each row, counted from the beginning of the split."""
    text: Callable[[int], str]
    """The text of a row."""
    lines: int
    """How many lines the piece has, blank ones too."""
    records: int
    """How many records: rows and rejects together."""
    rejects: list[Reject] = field(default_factory=list)


class Rules:
    """Which rule each record breaks first."""

    def __init__(self, records: int) -> None:
        """Of so many records, none of which has broken any yet."""
        self._first: NDArray[np.int32] = np.full(records, -1, np.int32)
        self._reasons: list[str] = []

    def refuse(self, these: NDArray[np.bool_], reason: str) -> None:
        """These records break a rule, if they have not broken another before."""
        if these.any():
            self._first[these & (self._first < 0)] = len(self._reasons)
            self._reasons.append(reason)

    @property
    def broken(self) -> NDArray[np.bool_]:
        """Which records break any."""
        return self._first >= 0

    def reason(self, record: int) -> str:
        """The rule that a record breaks."""
        return self._reasons[self._first[record]]


NOT_A = {"int": "not a whole number", "float": "not a number", "bool": "not a truth value", "string": "not text in the declared encoding"}


def not_a(column: str, kind: pa.DataType) -> str:
    """Why a text is no value of its column.

    >>> not_a("humidity", pa.float64())
    'not a number: humidity'
    """
    name = (
        "string" if pa.types.is_string(kind) else "bool" if pa.types.is_boolean(kind) else "int" if pa.types.is_integer(kind) else "float"
    )
    return f"{NOT_A[name]}: {column}"
