"""A small month of traffic, as an original file: three detectors, with jams that last over midnight, and a silent day.

2011-09-01   02   03   04   05   06   07  ...  30
|jam----|--jam--|---jam-|----|    |-jam--|--jam--|     each detector jams every 17 hours, the next one an hour later
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

FIRST, DAYS, SILENT = datetime(2011, 9, 1, tzinfo=UTC), 30, 5
EVERY = timedelta(minutes=30)


def write_month(raw: Path, days: int = DAYS) -> Path:
    """The stream's file in the folder of raw files."""
    lines = ["detectorid,starttime,volume,speed,occupancy,status,dqflags"]
    for step in range(days * timedelta(days=1) // EVERY):
        now = FIRST + step * EVERY
        if (now - FIRST).days == SILENT:
            continue
        for detector in range(3):
            jammed = (step + 2 * detector) % 34 < 11
            lines.append(f"{detector + 1},{now:%Y-%m-%d %H:%M:%S}+00,{step % 50},{25 + step % 7 if jammed else 60 + step % 5},1,2,0")
    path = raw / "traffic" / "month.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path
