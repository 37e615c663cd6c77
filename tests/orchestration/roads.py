"""What tests of the command line share: the command, a small stream, and a specification that fits it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa

from engines.contract import TIMESTAMP

REPRISE = [sys.executable, "-c", "from orchestration.cli import main; main()"]
MIDNIGHT = 1_704_067_200_000_000
MINUTE = 60_000_000
HOURLY: dict[str, Any] = {
    "technique": "slicing",
    "delay": "10m",
    "queries": [
        {"name": "q", "window": {"kind": "tumbling", "length": "1h"}, "aggregates": [{"kind": "count"}, {"kind": "sum", "column": "v"}]}
    ],
}


def stream() -> pa.Table:
    """Three days, a tuple every ten minutes, some of them late; a slow night over each midnight.

    2024-01-01           2024-01-02           2024-01-03
    |--fast----------slow|slow--fast------slow|slow--fast------slow|
    """
    minutes = np.arange(0, 3 * 24 * 60, 10)
    hours = minutes // 60 % 24
    behind = np.where(np.arange(len(minutes)) % 7 == 5, 25, 0)
    return pa.table({
        "ts": pa.array(MIDNIGHT + (minutes - behind) * MINUTE).view(TIMESTAMP),
        "key": pa.array(np.where(np.arange(len(minutes)) % 3 == 0, "north", "south")),
        "v": pa.array(np.arange(len(minutes))),
        "speed": pa.array(np.where((hours >= 20) | (hours < 4), 20.0, 60.0)),
    })  # fmt: skip
