"""Kernels and lifts on one core, in this process: what replays are made of, without Spark, files and envelopes.

A lift is all that happens to the tuples of a file once they are in memory. Told is the best of many repetitions on one batch of
a million tuples, which is what the code can do on this core.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from engines import build
from engines.aggregates.columns import numbers
from engines.aggregates.kernels import fixed
from engines.contract import BEGINNING, FOREVER, Interval
from engines.frames import kernels as frames_kernels
from engines.keys import encode
from engines.slicing.windows import Shape, Slicing
from engines.state import one_batch
from orchestration.bench import frames
from orchestration.bench.replays import sliding_spec
from orchestration.bench.report import Measure, Outcome
from orchestration.bench.runner import Bench
from orchestration.bench.streams import DISORDERED, ORDERED, WAVES

ABOUT = "one core, no Spark: slicing's and frames' lift, and the kernels inside them"
_ALONE = Interval(BEGINNING, FOREVER)
_AS_THEY_ARE = np.empty(0, np.int32)
_SAMPLES, _LEAST_SECONDS = 100, 0.005


def run(bench: Bench) -> Outcome:
    """Measure each on one batch."""
    tuples = bench.scale.file_tuples
    ordered, disordered, waves = (one_batch(stream.part(0, tuples)) for stream in (ORDERED, DISORDERED, WAVES))
    slicing, framing = sliding_spec(), frames.spec()
    actions = {
        "slicing, in order: kernel": (_place(ordered), None),
        "slicing, in order: lift": (_lift(slicing, ordered), 100.0),
        "slicing, disorder: kernel": (_place(disordered), None),
        "slicing, disorder: lift": (_lift(slicing, disordered), 50.0),
        "frames, in order: kernel": (_runs(waves), 100.0),
        "frames, in order: lift": (_lift(framing, waves), None),
    }
    before = pa.cpu_count()
    pa.set_cpu_count(1)
    try:
        with bench.step(f"kernels and lifts of {tuples:,} tuples"):
            best = {name: _best(action) for name, (action, _) in actions.items()}
    finally:
        pa.set_cpu_count(before)
    measures = [Measure(name, tuples / best[name] / 1e6, "M tuples/s", at_least=target) for name, (_, target) in actions.items()]
    return Outcome(measures, {"tuples": tuples, "milliseconds": {name: 1e3 * seconds for name, seconds in best.items()}})


def _lift(spec: dict[str, Any], batch: pa.RecordBatch) -> Callable[[], Any]:
    """All of lift."""
    operator = build(spec).on(batch.schema)
    tuples = batch.select(list(operator.columns))
    return lambda: operator.lift(tuples, _ALONE)


def _place(batch: pa.RecordBatch) -> Callable[[], Any]:
    """Tuples to cells of key and slice."""
    ts, (codes, _) = numbers(batch["ts"]), encode(batch["key"])
    cut = Slicing([Shape(20_000_000, 1_000_000, 0)]).cut(ts)
    # In place, again and again: what the cells hold then means nothing, and takes as long.
    cells = np.array(codes)
    return lambda: cut.place(ts, cells, 0)


def _runs(batch: pa.RecordBatch) -> Callable[[], Any]:
    """Tuples to runs of a predicate."""
    ts, (codes, keys) = numbers(batch["ts"]), encode(batch["key"])
    truth = fixed((numbers(batch["v"]) > 0).astype(np.int8))
    return lambda: frames_kernels.cut(_AS_THEY_ARE, fixed(codes), ts, truth, len(keys), False, BEGINNING, FOREVER)


def _best(action: Callable[[], Any]) -> float:
    """The least processor time that it took, of all threads together; the first time, which may compile, does not count.

    What is over in no time is repeated until it can be measured: the clock of a virtual machine has stood still for 30 us.
    """
    action()
    begun = time.perf_counter()
    action()
    times = int(_LEAST_SECONDS / (time.perf_counter() - begun)) + 1
    best = float("inf")
    for _ in range(_SAMPLES):
        begun = time.process_time()
        for _ in range(times):
            action()
        best = min(best, (time.process_time() - begun) / times)
    return best
