"""Replays in this process: what is refused, and that the longest times are kept. What they give is compared elsewhere."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engines import build
from engines.contract import TIMESTAMP
from engines.spec import SpecError
from engines.state import StateError, one_batch
from replay import local
from replay.log import FIRST_US, LAST_US

QUERY = {"name": "q", "window": {"kind": "sliding", "length": "20000d", "slide": "10000d"}, "aggregates": [{"kind": "sum", "column": "v"}]}
SPECS: dict[str, dict[str, Any]] = {
    "slicing": {"technique": "slicing", "queries": [QUERY]},
    "frames": {"technique": "frames", "frame": {"where": "v > 0"}},
}


def table(*times: int, **columns: object) -> pa.Table:
    return pa.table({"ts": pa.array(times, TIMESTAMP), "v": [1] * len(times), **columns})


@pytest.mark.parametrize("technique", SPECS)
@pytest.mark.parametrize(
    ("stream", "settings", "sentence"),
    [
        (table(1), {"buckets": 0}, "buckets: 0 given; allowed is a whole number from 1."),
        (table(1), {"batch_rows": 0}, "batch_rows: 0 given; allowed is a whole number from 1."),
        (table(1, 2, stream=["a", None]), {}, "stream: row 1 is null; allowed is the name of each tuple's stream."),
        (pa.Table.from_arrays([*table(1).columns, pa.array([2])], names=["ts", "v", "v"]), {},
         "columns: 'v' given 2 times; allowed is a name for each."),
        (table(1, 2, arrival=["a", None]), {},
         "arrival: the column is string with 1 nulls; allowed are whole numbers (int64) and no nulls."),
        (table(1, arrival=pa.array([2**63], pa.uint64())), {},
         "arrival: the column is uint64 with 0 nulls; allowed are whole numbers (int64) and no nulls."),
        *((table(far, 1), {}, f"ts: a time of {far} microseconds since 1970 given; allowed are times in the years 1 to 9999.")
          for far in (2**62, -(2**62), LAST_US + 1)),
    ],
    ids=["buckets", "batch_rows", "null stream", "a name twice", "text arrival", "huge arrival", "far ahead", "long ago", "year 10000"],
)  # fmt: skip
def test_what_cannot_be_replayed_is_refused(technique: str, stream: pa.Table, settings: dict[str, int], sentence: str) -> None:
    with pytest.raises(SpecError) as refused:
        local.run(build(SPECS[technique]), stream, **settings)  # type: ignore[arg-type]
    assert str(refused.value) == sentence


@pytest.mark.parametrize("technique", SPECS)
@pytest.mark.parametrize("time", [FIRST_US, LAST_US])
def test_the_first_and_the_last_time_of_all_are_replayed(technique: str, time: int) -> None:
    run = local.run(build(SPECS[technique]), table(time))
    assert run.final["tuples"].to_pylist() == [1] * (2 if technique == "slicing" else 1)


@pytest.mark.parametrize("streams", [1, 2])
def test_tables_with_more_text_than_arrow_holds_in_a_batch_lose_no_tuple(streams: int) -> None:
    """Only what is read is put together, a batch at a time: 22 texts of 100 MB, and the last tuple is late."""
    text = pa.array(["x" * 100_000_000])
    rows = table(*range(1, 22), 0, note=pa.chunked_array([text] * 22))
    if streams > 1:
        rows = rows.append_column("stream", pa.array(["a", "b"] * 11))
    run = local.run(build(SPECS["slicing"]), rows, batch_rows=8)
    assert (run.final["tuples"].to_pylist(), run.late.num_rows) == ([21, 21], 1)
    assert pc.binary_length(run.late["note"]).to_pylist() == [100_000_000]


def test_what_does_not_fit_into_a_batch_is_refused_in_a_sentence() -> None:
    """Lists of nothing: of them alone that many take no memory."""
    many = pa.ListArray.from_arrays(pa.array([0, 2**30], pa.int32()), pa.nulls(2**30))
    with pytest.raises(StateError, match=r"^2 rows with the columns v: a column has more than 2 GiB .* shorter\.$"):
        one_batch(pa.table({"v": pa.chunked_array([many, many])}))


def test_late_tuples_keep_the_columns_of_the_users_own() -> None:
    """Also under names that a log has for itself: there is none here."""
    own = {"day": ["a", "b"], "arrived": [7, 8], "clock": ["c", "d"]}
    late = local.run(build(SPECS["frames"]), table(5, 1, **own)).late
    assert late.drop(["ts", "watermark"]).to_pylist() == [{"arrival": 1, "v": 1, "day": "b", "arrived": 8, "clock": "d"}]
    named = local.run(build(SPECS["frames"]), table(5, 1, arrival=pa.array([40, 41], pa.int32()))).late
    assert named["arrival"].to_pylist() == [41]
