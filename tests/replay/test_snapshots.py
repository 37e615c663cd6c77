"""The state of a day may be larger than any value of Arrow or Java: it is left and taken over in pieces, and is the same."""

from __future__ import annotations

from collections import Counter

import pytest

from engines import build
from replay import bucket, log_writer
from replay.backfill import backfill, plan_days
from replay.lake import Lake
from replay.publish import results_address
from replay.task import begun
from tests.replay.harness import SPECS, assert_published, in_process, stream, with_clock


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "PIECE_BYTES", 300)
    monkeypatch.setattr(bucket, "HELD_BYTES", 1_000)
    monkeypatch.setattr("replay.backfill.execute", in_process)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("name", ["frames", "long frames"])
def test_days_go_on_from_states_in_pieces_whatever_their_order(lake: Lake, name: str) -> None:
    #   day       1             2             3            one run each, its envelopes shuffled
    #   state        a|b|c|...     a|b|c|...               of any bucket: a piece has all rows of its keys
    spec = with_clock(SPECS[name], "more than a day")
    table = stream(5, tuples=500, keys=5, behind_us=build(spec).clock("s").behind_us)
    days = log_writer.append(lake, "s", table, file_rows=25).days()
    reasons = set()
    for n, day in enumerate(days):
        (done,) = backfill(None, lake, spec, ["s"], [day], batch_tuples=50, buckets=2 + n % 3)  # type: ignore[arg-type]
        reasons.add(done.plan.span.reason.partition(" of ")[0])
    assert "from the state" in reasons
    assert_published(lake, "frames__s", spec, table)
    states = lake.table(results_address(lake, "frames__s", "state"))
    assert states is not None
    rows = Counter(zip(*states.to_pyarrow_table(columns=["day", "table"]).to_pydict().values(), strict=True))
    assert max(rows.values()) > 2 + 2 + 1  # more than a piece of each bucket


@pytest.mark.usefixtures("pieces")
def test_a_piece_travels_by_itself(lake: Lake) -> None:
    spec = with_clock(SPECS["frames"], "more than a day")
    days = log_writer.append(lake, "s", stream(5, tuples=500, keys=5, behind_us=10**11), file_rows=25).days()
    backfill(None, lake, spec, ["s"], days[:3], buckets=1)  # type: ignore[arg-type]
    batches = list(begun(plan_days(lake, spec, ["s"], days[3], days[3], buckets=2)))
    states = lake.table(results_address(lake, "frames__s", "state"))
    assert states is not None
    kept = states.to_pyarrow_table(filters=[("day", "=", days[2])])
    assert len(batches) == 1 + kept.num_rows > 4
