"""A disordered log: the same tuples as the disordered table, whatever the files; measured as the papers do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engines.contract import TIMESTAMP
from replay.disorder import Delays, disordered, measure
from replay.lake import Lake, LakeError
from replay.log import Log
from replay.log_writer import append
from replay.streams import staged_files
from replay.streams.disordering import disorder_log
from replay.streams.profile import profile
from replay.streams.tasks import InProcess

DELAYS = Delays(0.3, "exponential", 400_000, seed=3)


def ordered(tuples: int = 5000) -> pa.Table:
    """A tuple every 40 ms or so, with ties, over midnight."""
    ts = 1_709_337_500_000_000 + np.cumsum(np.random.default_rng(1).integers(0, 80_000, tuples))
    return pa.table({"ts": pa.array(ts).view(TIMESTAMP), "key": np.arange(tuples) % 3, "v": np.arange(tuples)})


def rows(lake: Lake, stream: str) -> pa.Table:
    table = lake.table(lake.address("streams", stream))
    assert table is not None
    return table.to_pyarrow_table().sort_by("arrival")


@pytest.mark.parametrize("file_rows", [97, 1000, 10_000])
def test_a_disordered_log_is_the_disordered_table(file_rows: int, lake: Lake) -> None:
    append(lake, "s", ordered(), file_rows=700)
    log = disorder_log(lake, "s", "late", DELAYS, InProcess(), file_rows=file_rows)
    expected = disordered(ordered(), DELAYS)
    found = rows(lake, "late")
    assert found["arrival"].to_pylist() == list(range(5000))
    assert found["v"].to_pylist() == expected["v"].to_pylist()
    assert found["arrived"].to_pylist() == expected["arrived"].to_pylist()
    assert found["clock"].to_numpy().tolist() == np.maximum.accumulate(expected["ts"].cast(pa.int64()).to_numpy()).tolist()
    assert log.end == 5000
    assert (log.rows <= 2 * file_rows).all()
    assert len(log.days()) == 2


def test_what_is_measured_is_what_the_log_holds(lake: Lake) -> None:
    append(lake, "s", ordered(), file_rows=700)
    disorder_log(lake, "s", "late", DELAYS, InProcess(), file_rows=500)
    found, expected = profile(lake, "late", InProcess()), measure(rows(lake, "late"))
    assert found.out_of_order == pytest.approx(expected.out_of_order)
    assert (found.largest_delay_us, found.inversion_rate) == (expected.largest_delay_us, expected.inversion_rate)
    assert 0.1 < found.out_of_order < 0.3


def test_a_log_that_is_there_is_not_overwritten(lake: Lake) -> None:
    append(lake, "s", ordered(10))
    with pytest.raises(LakeError, match="stream s: there is a log of that name; allowed is a new one"):
        disorder_log(lake, "s", "s", DELAYS, InProcess())
    assert Log.open(lake, lake.address("streams", "s")).version == 0


@pytest.mark.parametrize("name", ["s__rejects", "s__files", "late-1", "../late", ""])
def test_names_that_no_stream_may_have_are_refused(lake: Lake, name: str) -> None:
    append(lake, "s", ordered(10))
    with pytest.raises(LakeError) as caught:
        disorder_log(lake, "s", name, DELAYS, InProcess())
    assert str(caught.value) == f"stream: {name!r} given; allowed are letters, digits and single '_'."
    assert [path.name for path in Path(lake.root).glob("streams/*")] == ["s"]


def test_a_disk_that_is_full_is_told_in_a_sentence(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    append(lake, "s", ordered(10))
    monkeypatch.setattr(staged_files.StageWriter, "add", full)
    with pytest.raises(LakeError) as caught:
        disorder_log(lake, "s", "late", DELAYS, InProcess())
    assert str(caught.value) == (
        f"stream late: the lake {lake.root} cannot be read or written ([Errno 28] No space left on device); nothing of it is stored."
    )
    assert lake.table(lake.address("streams", "late")) is None
