"""Local clocks for kernels: when a zone changes its offset from UTC, worked out once, and the offset at a second.

The zone's rules come from the tz database, so the hour that occurs twice and the one that does not are where they were. Writing
a time as text is in `formatting.py`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numba
import numpy as np
from numpy.typing import NDArray

Offsets = tuple[NDArray[np.int64], NDArray[np.int64]]


def offsets_from(start: datetime, days: int) -> Offsets:
    """From which seconds since 1970 on a local clock is ahead of UTC by how many seconds, for the days after a local time.

    >>> from zoneinfo import ZoneInfo
    >>> seconds, offsets = offsets_from(datetime(2011, 9, 15, tzinfo=ZoneInfo("America/Los_Angeles")), 100)
    >>> (offsets // 3600).tolist(), datetime.fromtimestamp(int(seconds[1]), UTC).isoformat()
    ([-7, -8], '2011-11-06T09:00:00+00:00')
    """
    zone, first = start.tzinfo, start.astimezone(UTC)

    def offset(moment: datetime) -> int:
        local = moment.astimezone(zone).utcoffset() or timedelta()
        return local // timedelta(seconds=1)

    changes = [(int(first.timestamp()), offset(first))]
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
    for day in range(days + 1):
        at, end = midnight + timedelta(days=day), midnight + timedelta(days=day + 1)
        if offset(end) != changes[-1][1]:
            while offset(at) == changes[-1][1]:  # clocks change on whole hours
                at += timedelta(hours=1)
            changes.append((int(at.timestamp()), offset(at)))
    return np.array([second for second, _ in changes]), np.array([ahead for _, ahead in changes])


@numba.njit(cache=True, nogil=True)
def local_second(second: int, seconds: NDArray[np.int64], offsets: NDArray[np.int64]) -> int:  # pragma: no cover - compiled
    """A second since 1970 as a local clock counts it; before the first change the first offset holds."""
    low, high = 0, len(seconds)
    while high - low > 1:
        middle = (low + high) // 2
        if seconds[middle] <= second:
            low = middle
        else:
            high = middle
    return second + offsets[low]
