"""Streams to measure with: seeded, made part by part in constant memory, and written as a log.

Every part can be made alone, and streams of the same seed differ only in what their settings say. A delayed tuple keeps its
place in the order of arrival and is given an earlier time, so that nothing has to be sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engines.contract import TIMESTAMP
from replay.disorder import Delays
from replay.lake import Lake
from replay.log import Log
from replay.log_writer import append

BEGIN_US = 1_709_272_800_000_000
"""2024-03-01 06:00 UTC: with a hundred million tuples all of the stream lies in one day."""
WAVE_US = 4_000_000
_NOISE = 0.01


@dataclass(frozen=True)
class Stream:
    """A stream of `ts`, `key` and `v`.

    >>> Stream("s").part(5, 3).schema.names, Stream("s", text=True).part(0, 2)["key"].type
    (['ts', 'key', 'v'], DataType(string))
    """

    name: str
    keys: int = 16
    text: bool = False
    """Whether keys are text; else int32."""
    gap_us: int = 100
    """Event time between two tuples, of whatever keys."""
    delays: Delays | None = None
    waves: bool = False
    """Values oscillate slowly, each key at its own phase, with a little noise; else they are normally distributed."""

    def part(self, first: int, tuples: int) -> pa.Table:
        """The tuples from arrival `first` on."""
        generator = np.random.default_rng((1, first))
        arrival = np.arange(first, first + tuples)
        keys = generator.integers(0, self.keys, tuples, dtype=np.int32)
        values = generator.standard_normal(tuples)
        ts = BEGIN_US + arrival * self.gap_us
        if self.waves:
            values = np.sin(_phase(ts, keys, self.keys)) + _NOISE * values
        if self.delays is not None:
            ts -= self.delays.draw(arrival)
        key = names(self.keys).take(pa.array(keys)) if self.text else pa.array(keys)
        return pa.table({"ts": pa.array(ts).view(TIMESTAMP), "key": key, "v": pa.array(values)})

    def write(self, lake: Lake, tuples: int, file_tuples: int, advance: Callable[[int], None]) -> Log:
        """The log of so many tuples; the one that is there, if there is one."""
        name = f"{self.name}_{tuples}"
        if lake.table(lake.address("streams", name)) is not None:
            return Log.open(lake, lake.address("streams", name))

        def parts() -> Iterator[pa.Table]:
            for first in range(0, tuples, file_tuples):
                yield self.part(first, min(file_tuples, tuples - first))
                advance(file_tuples)

        return append(lake, name, parts(), file_rows=file_tuples)


def names(keys: int) -> pa.Array:
    """Keys as text, by their numbers."""
    return pa.array([f"sensor-{key:07d}" for key in range(keys)])


def _phase(ts: NDArray[np.int64], keys: NDArray[np.int32], count: int) -> NDArray[np.float64]:
    phase: NDArray[np.float64] = 2 * np.pi * ((ts % WAVE_US) / WAVE_US + keys / count)
    return phase


ORDERED = Stream("ordered")
DISORDERED = Stream("disordered", delays=Delays(0.2, "uniform", 2_000_000))
"""A fifth of the tuples up to two seconds late: what sliding windows are measured with."""
TEXT_KEYS = Stream("text_keys", text=True, delays=DISORDERED.delays)
WAVES = Stream("waves", waves=True)
"""In order; a run above zero, or below it, lasts half a wave: 1,250 tuples of a key."""
FEW_KEYS = Stream("few_keys", gap_us=10, delays=DISORDERED.delays)
MANY_KEYS = Stream("many_keys", keys=1_000_000, gap_us=10, delays=DISORDERED.delays)
