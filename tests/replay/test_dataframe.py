"""Rows of a DataFrame on their way to the buckets; that Spark carries them there is in test_spark.py."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest

from engines.contract import TIMESTAMP
from engines.state import unpack
from replay.dataframe import _Ship
from replay.envelope import TUPLES, Envelope
from replay.lake import Lake
from replay.plan import Plan, serialised
from replay.span import Span


@pytest.mark.parametrize("key", ["mote", None], ids=["another column", "the column key"])
def test_tuples_of_one_key_meet_in_one_bucket_whatever_column_holds_it(lake: Lake, key: str | None) -> None:
    n = 60
    rows = pa.record_batch({
        "ts": pa.array(range(n), TIMESTAMP), "key": [f"k{i % 7}" for i in range(n)], "mote": [i % 11 or None for i in range(n)],
        "v": [1.0] * n,
    })  # fmt: skip
    spec = {"technique": "frames", "key": key, "frame": {"where": "v > 0"}}
    span = Span({"stream": 0}, {"stream": 0}, flush=False)
    plan = Plan(run="r", spec=spec, lake=lake, streams={"stream": ("", 0)}, span=span, columns=serialised(rows.schema), buckets=4)
    homes = defaultdict(set)
    for batch in _Ship(plan)([rows]):
        for envelope in (Envelope(*row.values()) for row in batch.to_pylist()):
            if envelope.kind == TUPLES:
                for value in unpack(envelope.payload)[key or "key"].to_pylist():
                    homes[value].add(envelope.bucket)
    assert len(homes) == (11 if key else 7)
    assert all(len(buckets) == 1 for buckets in homes.values())
    assert len(set.union(*homes.values())) > 1
