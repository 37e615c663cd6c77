"""Ranges of the values that a stream is ordered by: what is told of them of each file, and what grows with the number of files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engines.contract import TIMESTAMP
from replay.lake import Lake
from replay.streams.numbering import Places, by_value
from replay.streams.ranges import located
from replay.streams.samples import Sample
from replay.streams.staged_files import StageWriter
from replay.streams.tasks import InProcess

ROWS = 10


def located_in(root: Path, values: list[np.ndarray[Any, Any]]) -> tuple[list[Places], Any, list[Any]]:
    """What is told of staged files with these values, where about ten fill a range."""
    stage, runs, sample = Lake(str(root)), [], Sample.empty()
    stage.make_folder(stage.root)
    for number, of_file in enumerate(values):
        writer = StageWriter(stage, f"{number:08d}", pa.schema([("ts", TIMESTAMP)]), "ts")
        writer.add(pa.table({"ts": pa.array(of_file).view(TIMESTAMP)}))
        runs += writer.finish()
        sample = sample.merged(writer.sample)
    return *located(stage, runs, sample, "ts", "ts", ROWS, InProcess()), runs


def test_what_is_told_of_files_grows_with_their_number_and_not_with_its_square(tmp_path: Path) -> None:
    #   file 0 |####                each has a stretch of time of its own: of the many ranges it has one or two
    #   file 1 |    ####
    #   file 2 |        ####
    def told_bytes(files: int) -> int:
        places, parts, _ = located_in(tmp_path / str(files), [np.arange(ROWS) + ROWS * n for n in range(files)])
        assert len(parts) > files // 2
        return len(pickle.dumps([(p.ranges, p.bounds, p.largest) for p in places]))

    assert told_bytes(160) < 2.2 * told_bytes(80)


@pytest.mark.parametrize("seed", range(5))
def test_places_are_those_of_every_row(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    values = [np.sort(random.integers(0, 200, random.integers(1, 60))) * random.integers(1, 4) for _ in range(12)]
    places, parts, runs = located_in(tmp_path, values)
    stretches = by_value(runs, places, parts, first=0, clock=-1, arrived=-1)
    found, clock = [], -1
    for stretch in stretches:
        assert (stretch.first, stretch.clock) == (len(found), clock) and stretch.slices
        found += sorted(int(v) for part in stretch.slices for v in values[int(part.path.partition("-")[0])][part.begin : part.end])
        clock = max(found)
    assert found == sorted(int(v) for of_file in values for v in of_file)
