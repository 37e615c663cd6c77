"""Bytes become lines: a split of a text file, read block by block, cut where lines end.

A line ends with LF, CRLF or CR. A split owns the lines that begin in it, wherever they end, so any split size gives the same
lines. Memory is a block's, however long the file or a line of it is. What is in a line is not looked at here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numba
import numpy as np
from numpy.typing import NDArray

BLOCK_BYTES = 4 << 20
LONGEST_BYTES = 1 << 20
"""A longer line is rejected whole: no record has a million characters, and a file without line ends must not fill the memory."""
SHOWN_BYTES = 1000
_LF, _CR = 10, 13
_FIELD_START, _IN_FIELD, _IN_QUOTES, _QUOTE_IN_QUOTES = range(4)


class Readable(Protocol):
    """What lines are read from."""

    def read(self, size: int, /) -> bytes:
        """So many bytes; fewer, or none, at the end."""


class Quotes(NamedTuple):
    """What encloses fields that may hold line ends: a quote at the beginning of a field opens it, one elsewhere is text."""

    quote: int
    delimiter: int


@dataclass(frozen=True)
class Lines:
    """Whole lines, one after the other."""

    data: bytes
    offset: int
    """Where they begin in the file."""
    first: int
    """The number of the first line, counted from the beginning of the split."""
    quotes: Quotes | None = None
    """A line end between two of these belongs to its line."""
    cut: dict[int, int] = field(default_factory=dict)
    """How many bytes long a line was of which `data` holds only the beginning."""
    known_ends: NDArray[np.int64] | None = None
    """Where its lines end, for whom who has found that out already."""

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """Where each line ends, its line end included."""
        return line_ends(self.data, last=True, quotes=self.quotes) if self.known_ends is None else self.known_ends

    @cached_property
    def begins(self) -> NDArray[np.int64]:
        """Where each line begins."""
        return np.concatenate(([0], self.ends[:-1])) if len(self.ends) else self.ends

    @cached_property
    def filled(self) -> NDArray[np.int64]:
        """The numbers, within these lines, of those that are not blank."""
        if len(self.ends) == 0:
            return self.ends
        head = np.frombuffer(self.data, np.uint8)[self.begins]
        return np.flatnonzero((head != _LF) & (head != _CR))

    def bytes_of(self, line: int) -> bytes:
        """A line without its end."""
        return self.data[self.begins[line] : self.ends[line]].rstrip(b"\r\n")

    def text_of(self, line: int) -> str:
        """A line as a person can read it, whatever bytes it has; a very long one is cut."""
        raw = self.bytes_of(line)
        more = self.cut.get(line, len(raw)) - SHOWN_BYTES
        return raw[:SHOWN_BYTES].decode("utf-8", "backslashreplace") + (f" ... and {more} bytes more" if more > 0 else "")

    def pieces(self, most: int) -> Iterator[Lines]:
        """The same lines, at most so many at a time."""
        if len(self.ends) <= most:
            yield self
            return
        for line in range(0, len(self.ends), most):
            ends, begin = self.ends[line : line + most], int(self.begins[line])
            yield Lines(self.data[begin : ends[-1]], self.offset + begin, self.first + line, self.quotes, known_ends=ends - begin)

    def only(self, lines: NDArray[np.int64]) -> bytes:
        """The bytes of some of the lines, each with its end."""
        return b"".join(self.bytes_of(int(line)) + b"\n" for line in lines)


def is_text(data: bytes) -> bool:
    """Whether it is UTF-8."""
    try:
        data.isascii() or data.decode()
    except UnicodeDecodeError:
        return False
    return True


def line_ends(data: bytes, *, last: bool, quotes: Quotes | None = None) -> NDArray[np.int64]:
    r"""Where each line ends; `last`: nothing follows, so what is behind the last line end is a line too.

    >>> line_ends(b"a\nb\r\nc\rd", last=True).tolist(), line_ends(b"a\r", last=False).tolist()
    ([2, 5, 7, 8], [])
    >>> line_ends(b'5" pipe\n"a\nb",c\n', last=True, quotes=Quotes(ord('"'), ord(","))).tolist()
    [8, 16]
    """
    return _unquoted_ends(data, last=last) if quotes is None else _quoted_ends(data, _FIELD_START, quotes, last=last)[0]


def _unquoted_ends(data: bytes, *, last: bool) -> NDArray[np.int64]:
    bytes_ = np.frombuffer(data, np.uint8)
    is_end = bytes_ == _LF
    ends = np.flatnonzero(is_end)
    if b"\r" in data:
        # The CR of a CRLF ends nothing, and mostly there are no others.
        paired = np.count_nonzero(bytes_[ends[ends > 0] - 1] == _CR)
        if np.count_nonzero(bytes_ == _CR) > paired:
            alone = bytes_ == _CR
            alone[:-1] &= ~is_end[1:]
            alone[-1:] &= last  # of a CR at the very end it is not known yet what follows
            ends = np.flatnonzero(is_end | alone)
    return _with_last(ends + 1, len(data)) if last else ends + 1


def _quoted_ends(data: bytes, state: int, quotes: Quotes, *, last: bool) -> tuple[NDArray[np.int64], int]:
    """The same where fields may hold line ends: from a state within a line, and with the state behind the data."""
    ends, state = _scan_quoted(np.frombuffer(data, np.uint8), state, quotes.quote, quotes.delimiter, last)
    return _with_last(ends, len(data)) if last else ends, state


def _with_last(ends: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    return np.append(ends, size) if size and (len(ends) == 0 or ends[-1] < size) else ends


@numba.njit(cache=True, nogil=True)
def _scan_quoted(
    data: NDArray[np.uint8], state: int, quote: int, delimiter: int, last: bool
) -> tuple[NDArray[np.int64], int]:  # pragma: no cover - compiled
    """One pass of the automaton of RFC 4180, where a quote opens only the field that it begins."""
    ends, found = np.empty(np.count_nonzero(data == _LF) + np.count_nonzero(data == _CR), np.int64), 0
    for at in range(len(data)):
        byte = data[at]
        if state == _IN_QUOTES:
            if byte == quote:
                state = _QUOTE_IN_QUOTES
        elif byte == quote and state != _IN_FIELD:
            state = _IN_QUOTES
        elif byte == delimiter:
            state = _FIELD_START
        elif byte == _LF or (byte == _CR and at + 1 < len(data) and data[at + 1] != _LF) or (byte == _CR and at + 1 == len(data) and last):
            ends[found] = at + 1
            state, found = _FIELD_START, found + 1
        elif byte != _CR:  # a CR is half of a line end, or it is not known yet what follows
            state = _IN_FIELD
    return ends[:found], state


def read_lines(file: Readable, begin: int, end: int | None, *, at_line: bool, quotes: Quotes | None = None) -> Iterator[Lines]:
    """The lines that begin from `begin` to before `end`, in pieces.

    Args:
        file: positioned at `begin` if `at_line`, else one byte before it.
        begin: where the split begins in the file.
        end: where it ends; None: with the file.
        at_line: whether a line is known to begin at `begin`.
        quotes: what encloses fields that may hold line ends.
    """
    held, at, number = b"", begin if at_line else begin - 1, 0
    skipping = not at_line  # the end of a line that belongs to the split before
    shown, too_long = b"", 0  # of a line that does not end: its beginning, and how long it is so far
    state = _FIELD_START  # where in such a line we are; else the data begin with a line
    while True:
        block = file.read(BLOCK_BYTES)
        # Only whole lines, if there are any: they can then be handed on as they are, without a further copy.
        cut, done = block.rfind(b"\n") + 1 or len(block), not block
        data, behind = b"".join((held, memoryview(block)[:cut])), block[cut:]
        ends, behind_all = (_unquoted_ends(data, last=done), 0) if quotes is None else _quoted_ends(data, state, quotes, last=done)
        if skipping and len(ends) and at + ends[0] >= begin:
            data, at, ends, skipping = data[ends[0] :], at + int(ends[0]), ends[1:] - ends[0], False
        elif skipping:
            # Nothing of this is ours; a CR at the end may still turn out to be half of a line end.
            keep = 1 if data.endswith(b"\r") and not done else 0
            data, at = data[len(data) - keep :], at + len(data) - keep
            ends = ends[:0]
        if too_long and (len(ends) or done):
            rest = int(ends[0]) if len(ends) else 0
            yield _cut(shown, at - too_long, number, too_long + rest)
            data, at, ends, too_long, number, state = data[rest:], at + rest, ends[1:] - rest, 0, number + 1, _FIELD_START
        if end is not None and at >= end and not too_long:
            return
        stop = len(ends)
        if end is not None:
            # The line behind the last of ours begins at or after `end`.
            stop = min(int(np.searchsorted(ends, end - at, side="left")) + 1, len(ends))
        if stop:
            size = int(ends[stop - 1])
            yield from _piece(data[:size], at, number, ends[:stop], quotes)
            data, at, number = data[size:], at + size, number + stop
            if end is not None and at >= end:
                return
        if done:
            return
        if not skipping and len(data) > LONGEST_BYTES:
            shown, state = shown if too_long else data[:SHOWN_BYTES], behind_all
            keep = 1 if data.endswith(b"\r") else 0
            too_long, at, data = too_long + len(data) - keep, at + len(data) - keep, data[len(data) - keep :]
        held = data + behind


def _piece(data: bytes, at: int, number: int, ends: NDArray[np.int64], quotes: Quotes | None) -> Iterator[Lines]:
    """Lines in one piece, but those that are too long by themselves."""
    lengths = np.diff(ends, prepend=0)
    done = 0
    for line in np.flatnonzero(lengths > LONGEST_BYTES).tolist():
        begin = int(ends[line - 1]) if line else 0
        if line > done:
            before = int(ends[done - 1]) if done else 0
            yield Lines(data[before:begin], at + before, number + done, quotes, known_ends=ends[done:line] - before)
        yield _cut(data[begin : begin + SHOWN_BYTES], at + begin, number + line, int(lengths[line]))
        done = line + 1
    rest = int(ends[done - 1]) if done else 0
    if rest < len(data):
        yield Lines(data[rest:], at + rest, number + done, quotes, known_ends=ends[done:] - rest)


def _cut(shown: bytes, at: int, number: int, size: int) -> Lines:
    """The beginning of a line of this size: one line, even if there are line ends in a field of it."""
    return Lines(shown, at, number, cut={0: size}, known_ends=np.array([len(shown)]))
