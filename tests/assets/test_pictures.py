"""Pictures: PNGs of a size that metadata can hold, of streams with everything and with nothing to show."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from assets.profile_pictures import picture_of_profile
from engines.contract import TIMESTAMP
from replay.lake import Lake
from replay.log_writer import append
from replay.streams.profile import profile
from replay.streams.tasks import InProcess


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


@pytest.mark.parametrize(
    "tuples",
    [
        {"ts": [5]},
        {"ts": list(range(0, 10**9, 10**6)), "v": [None, 1.0] * 500},
        {"ts": [7, 3, 9, 9, 1], "key": ["a", "b", "a", None, "b"]},
    ],
    ids=["one tuple", "half of it missing", "disorder, ties, keys"],
)
def test_any_stream_can_be_drawn(tuples: dict[str, list[object]], lake: Lake) -> None:
    append(
        lake, "s", pa.table({name: pa.array(column, TIMESTAMP) if name == "ts" else pa.array(column) for name, column in tuples.items()})
    )
    png = picture_of_profile(profile(lake, "s", InProcess()))
    width, height = size(png)
    assert 800 <= width <= 1200
    assert 500 <= height <= 800
    assert len(png) < 100_000
