"""Bytes become lines: a split of a text file, read block by block, cut where lines end.

A line ends with LF, CRLF or CR. A split owns the lines that begin in it, wherever they end, so any split size gives the same
lines. Memory is a block's, however long the file or a line of it is. What is in a line is not looked at here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

BLOCK_BYTES = 4 << 20
LONGEST_BYTES = 1 << 20
"""A longer line is rejected whole: no record has a million characters, and a file without line ends must not fill the memory."""
SHOWN_BYTES = 1000
_LF, _CR = 10, 13


class Readable(Protocol):
    """What lines are read from."""

    def read(self, size: int, /) -> bytes:
        """So many bytes; fewer, or none, at the end."""


@dataclass(frozen=True)
class Lines:
    """Whole lines, one after the other."""

    data: bytes
    offset: int
    """Where they begin in the file."""
    first: int
    """The number of the first line, counted from the beginning of the split."""
    quote: int | None = None
    """A line end between two of these belongs to its line."""
    cut: dict[int, int] = field(default_factory=dict)
    """How many bytes long a line was of which `data` holds only the beginning."""
    known_ends: NDArray[np.int64] | None = None
    """Where its lines end, for whom who has found that out already."""

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """Where each line ends, its line end included."""
        return line_ends(self.data, last=True, quote=self.quote) if self.known_ends is None else self.known_ends

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


def line_ends(data: bytes, *, last: bool, quote: int | None = None) -> NDArray[np.int64]:
    r"""Where each line ends; `last`: nothing follows, so what is behind the last line end is a line too.

    >>> line_ends(b"a\nb\r\nc\rd", last=True).tolist(), line_ends(b"a\r", last=False).tolist()
    ([2, 5, 7, 8], [])
    """
    bytes_ = np.frombuffer(data, np.uint8)
    is_end = bytes_ == _LF
    ends = np.flatnonzero(is_end)
    odd = quote is not None
    if b"\r" in data:
        # The CR of a CRLF ends nothing, and mostly there are no others.
        paired = np.count_nonzero(bytes_[ends[ends > 0] - 1] == _CR)
        if np.count_nonzero(bytes_ == _CR) > paired:
            odd, alone = True, bytes_ == _CR
            alone[:-1] &= ~is_end[1:]
            alone[-1:] &= last  # of a CR at the very end it is not known yet what follows
            is_end |= alone
    if quote is not None:
        inside = np.cumsum(bytes_ == quote) % 2 == 1
        is_end &= ~inside
    ends = (np.flatnonzero(is_end) if odd else ends) + 1
    if last and len(data) and (len(ends) == 0 or ends[-1] < len(data)):
        ends = np.append(ends, len(data))
    return ends


def read_lines(file: Readable, begin: int, end: int | None, *, at_line: bool, quote: int | None = None) -> Iterator[Lines]:
    """The lines that begin from `begin` to before `end`, in pieces.

    Args:
        file: positioned at `begin` if `at_line`, else one byte before it.
        begin: where the split begins in the file.
        end: where it ends; None: with the file.
        at_line: whether a line is known to begin at `begin`.
        quote: what encloses fields that may hold line ends.
    """
    held, at, number = b"", begin if at_line else begin - 1, 0
    skipping = not at_line  # the end of a line that belongs to the split before
    shown, too_long = b"", 0  # of a line that does not end: its beginning, and how long it is so far
    while True:
        block = file.read(BLOCK_BYTES)
        # Only whole lines, if there are any: they can then be handed on as they are, without a further copy.
        cut, done = block.rfind(b"\n") + 1 or len(block), not block
        data, behind = b"".join((held, memoryview(block)[:cut])), block[cut:]
        ends = line_ends(data, last=done, quote=quote)
        if skipping and len(ends) and at + ends[0] >= begin:
            data, at, ends, skipping = data[ends[0] :], at + int(ends[0]), ends[1:] - ends[0], False
        elif skipping:
            # Nothing of this is ours; a CR at the end may still turn out to be half of a line end.
            keep = 1 if data.endswith(b"\r") and not done else 0
            data, at = data[len(data) - keep :], at + len(data) - keep
            ends = ends[:0]
        if too_long and (len(ends) or done):
            rest = int(ends[0]) if len(ends) else 0
            yield Lines(shown, at - too_long, number, cut={0: too_long + rest})
            data, at, ends, too_long, number = data[rest:], at + rest, ends[1:] - rest, 0, number + 1
        if end is not None and at >= end and not too_long:
            return
        stop = len(ends)
        if end is not None:
            # The line behind the last of ours begins at or after `end`.
            stop = min(int(np.searchsorted(ends, end - at, side="left")) + 1, len(ends))
        if stop:
            size = int(ends[stop - 1])
            yield from _piece(data[:size], at, number, ends[:stop], quote)
            data, at, number = data[size:], at + size, number + stop
            if end is not None and at >= end:
                return
        if done:
            return
        if not skipping and len(data) > LONGEST_BYTES:
            shown = shown if too_long else data[:SHOWN_BYTES]
            keep = 1 if data.endswith(b"\r") else 0
            too_long, at, data = too_long + len(data) - keep, at + len(data) - keep, data[len(data) - keep :]
        held = data + behind


def _piece(data: bytes, at: int, number: int, ends: NDArray[np.int64], quote: int | None) -> Iterator[Lines]:
    """Lines in one piece, but those that are too long by themselves."""
    lengths = np.diff(ends, prepend=0)
    done = 0
    for line in np.flatnonzero(lengths > LONGEST_BYTES).tolist():
        begin = int(ends[line - 1]) if line else 0
        if line > done:
            before = int(ends[done - 1]) if done else 0
            yield Lines(data[before:begin], at + before, number + done, quote, known_ends=ends[done:line] - before)
        yield Lines(data[begin : begin + SHOWN_BYTES], at + begin, number + line, cut={0: int(lengths[line])})
        done = line + 1
    rest = int(ends[done - 1]) if done else 0
    if rest < len(data):
        yield Lines(data[rest:], at + rest, number + done, quote, known_ends=ends[done:] - rest)
