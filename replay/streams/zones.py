"""Local times become instants, by Python's zones.

Not by Arrow's: these are the machine's, so that a zone may be missing or have no summers, and know none after 2037. Clocks are
looked at once a day; only of a day on which they are set, by the quarter of an hour, then by the second.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from replay.log import FIRST_US, LAST_US
from replay.streams.declaration import UNITS_PER_SECOND

_STEPS = (86_400, 900, 1)
_SET, _NONE = 2**40, 2**41
"""Instead of seconds ahead of UTC: clocks are set in the meantime; they never show such a time."""


def localised(moments: pa.Array, tz: ZoneInfo) -> pa.Array:
    """Local times as instants: of two the first, and null where there is none.

    >>> nights = [datetime(2011, 3, 13, 2, 30), datetime(2011, 11, 6, 1, 30)]  # clocks go forward, and back
    >>> localised(pa.array(nights), ZoneInfo("America/Los_Angeles")).view(pa.timestamp("us")).to_pylist()
    [None, datetime.datetime(2011, 11, 6, 8, 30)]
    """
    instants = pa.timestamp(moments.type.unit, tz="UTC")
    if tz.key == "UTC":
        return moments.view(instants)
    there = moments.is_valid().to_numpy(zero_copy_only=False)
    local = moments.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    per_second = UNITS_PER_SECOND[moments.type.unit]
    seconds = local // per_second
    there &= (seconds >= FIRST_US // 10**6) & (seconds <= LAST_US // 10**6)
    ahead = _ahead(np.where(there, seconds, 0), tz)
    there &= ahead != _NONE
    shift = ahead * per_second
    found = local - shift
    there &= (found > local) == (shift < 0)  # else it is further than the unit reaches
    return pa.array(found, mask=~there).view(instants)


def _ahead(seconds: NDArray[np.int64], tz: ZoneInfo, steps: tuple[int, ...] = _STEPS) -> NDArray[np.int64]:
    """What local clocks that show these seconds since 1970 are ahead of UTC by."""
    spans = pa.array(seconds // steps[0]).dictionary_encode()
    of_spans = [_throughout(span * steps[0], steps[0], tz) for span in spans.dictionary.to_pylist()]
    ahead = np.array(of_spans, np.int64)[spans.indices.to_numpy()]
    if len(set_ := np.flatnonzero(ahead == _SET)):
        ahead[set_] = _ahead(seconds[set_], tz, steps[1:])
    return ahead


def _throughout(begin: int, step: int, tz: ZoneInfo) -> int:
    """The same for a whole span, at both ends of which clocks are asked: no zone has set them twice in one day."""
    first = datetime(1970, 1, 1) + timedelta(seconds=begin)  # noqa: DTZ001 - a local time
    last = first + timedelta(seconds=step - 1)
    found = [(tz.utcoffset(wall.replace(fold=fold)) or timedelta()) // timedelta(seconds=1) for wall in (first, last) for fold in (0, 1)]
    if len(set(found)) > 1 and step > 1:
        return _SET
    # Of a time that occurs twice the second is less ahead, of one that does not exist more.
    return found[0] if found[0] >= found[1] else _NONE
