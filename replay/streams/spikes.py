"""Spikes: a record far ahead of both its neighbours would carry the clock off and make all that follows late.

Neighbours are the records before and after it in its file, whether right or wrong themselves. Within a split they are judged
here; the first and the last of a split, if in doubt, are set aside for `numbering.py`, which knows the splits around it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engines.spec import format_duration
from replay.streams.parsed import Reject

Doubtful = tuple[pa.Table | None, Reject | None]


class Spikes:
    """The rows of a split, as they come; one is held back until its successor is known."""

    def __init__(self, max_jump_us: int | None, moves: str) -> None:
        """Judge by a largest jump (None: nothing is wrong) of the column that moves the clock."""
        self._jump, self._moves = max_jump_us, moves
        self._held: pa.Table | None = None
        self._held_text = ""
        self._before: int | None = None  # the time of the row before the held one
        self._first: Doubtful = (None, None)
        self.first_us: int | None = None
        self.last_us: int | None = None

    def push(self, rows: pa.Table, text: Callable[[int], str]) -> tuple[pa.Table, list[Reject]]:
        """Rows that are right, and those that are not, of all that came so far and were not told before; `text` tells a row's."""
        if not rows.num_rows:
            return rows, []
        times = _times(rows, self._moves)
        if self.first_us is None:
            self.first_us = int(times[0])
        self.last_us = int(times[-1])
        if self._jump is None:
            return rows, []
        held, held_text = self._held, self._held_text
        if held is not None:
            rows, times = pa.concat_tables([held, rows]), np.concatenate((_times(held, self._moves), times))

        def told(at: int) -> str:
            return text(at) if held is None else text(at - 1) if at else held_text

        last = rows.num_rows - 1
        before = np.concatenate(([times[0] if self._before is None else self._before], times[:-1]))[:last]
        wrong = (times[:last] - before > self._jump) & (times[:last] - times[1:] > self._jump)
        aside = np.zeros(last, bool)
        if self._before is None and last and times[0] - times[1] > self._jump:
            aside[0] = True
            self._first = rows.slice(0, 1), self._reject(rows, 0, told(0))
        rejects = [self._reject(rows, int(at), told(int(at))) for at in np.flatnonzero(wrong)]
        self._before = int(times[last - 1]) if last else self._before
        self._held, self._held_text = rows.slice(last), told(last)
        keep = ~(wrong | aside)
        return rows.slice(0, last) if keep.all() else rows.slice(0, last).filter(pa.array(keep)), rejects

    def finish(self) -> tuple[pa.Table | None, Doubtful, Doubtful]:
        """The last row if it is right beyond doubt, and the first and the last if not."""
        if self._held is None:
            return None, (None, None), (None, None)
        time = int(_times(self._held, self._moves)[0])
        if self._before is None:  # the only row of the split
            return None, (self._held, self._reject(self._held, 0, self._held_text)), (None, None)
        if self._jump is not None and time - self._before > self._jump:
            return None, self._first, (self._held, self._reject(self._held, 0, self._held_text))
        return self._held, self._first, (None, None)

    def _reject(self, rows: pa.Table, at: int, text: str) -> Reject:
        """Why a row is wrong."""
        return Reject(rows["line"][at].as_py(), text, f"more than {format_duration(self._jump or 0)} ahead of its neighbours")


def _times(rows: pa.Table, name: str) -> NDArray[np.int64]:
    times: NDArray[np.int64] = rows[name].combine_chunks().view(pa.int64()).to_numpy()
    return times
