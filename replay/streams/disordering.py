"""A disordered stream from an ordered one: the tuples of a log in the order in which delays would have let them arrive.

The delays are those of `replay/disorder.py`, drawn by arrival. Sorting and writing are ingestion's: each file of the log is
staged as a sorted file, ranges of `arrived` are cut, and each becomes a file of the new log.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
from deltalake.exceptions import DeltaError

from engines.contract import BEGINNING
from replay.disorder import Delays
from replay.files import FILE_ROWS, read_file
from replay.lake import Lake, LakeError
from replay.log import FIRST_CHANGED, OWN_COLUMNS, Log
from replay.log_writer import commit
from replay.streams.declaration import is_name
from replay.streams.numbering import by_value
from replay.streams.ranges import located
from replay.streams.records import ARRIVED, LINE
from replay.streams.samples import Sample
from replay.streams.splitting import stage_of
from replay.streams.staged_files import Run, StageWriter, int64
from replay.streams.tasks import Tasks
from replay.streams.writing import Writing, write

DISORDERED = "reprise.disordered_from"


@dataclass(frozen=True)
class _File:
    lake: Lake
    log: str
    path: str
    first: int
    rows: int
    number: int
    moves: str
    delays: Delays
    stage: Lake


def disorder_log(lake: Lake, stream: str, new: str, delays: Delays, tasks: Tasks, *, file_rows: int = FILE_ROWS) -> Log:
    """Write the log of a disordered stream.

    Args:
        lake: where both logs are.
        stream: the ordered stream.
        new: the name of the disordered one; its log must not be there yet.
        delays: which tuples arrive how much later.
        tasks: where the work is done.
        file_rows: about how many tuples a file of the new log holds.
    """
    if not is_name(new):
        raise LakeError(f"stream: {new!r} given; allowed are letters, digits and single '_'.")
    log = Log.open(lake, lake.address("streams", stream))
    address = lake.address("streams", new)
    if lake.table(address) is not None:
        raise LakeError(f"stream {new}: there is a log of that name; allowed is a new one.")
    try:
        with stage_of(lake, new) as stage:
            _disorder(log, stream, address, delays, stage, tasks, file_rows)
    except (DeltaError, OSError) as problem:
        told = str(problem).splitlines()[0]
        raise LakeError(f"stream {new}: the lake {lake.root} cannot be read or written ({told}); nothing of it is stored.") from problem
    return Log.open(lake, address)


def _disorder(log: Log, stream: str, address: str, delays: Delays, stage: Lake, tasks: Tasks, file_rows: int) -> None:
    lake, moves = log.lake, "ts" if "ts" in log.schema.names else "end"
    stage.make_folder(stage.root)
    files = [
        _File(lake, log.address, path, int(log.first[at]), int(log.rows[at]), at, moves, delays, stage) for at, path in enumerate(log.paths)
    ]
    staged = tasks(_stage, files, lambda task: task.rows)
    runs = [run for found, _ in staged for run in found]
    sample = Sample.empty()
    for _, part in staged:
        sample = sample.merged(part)
    places, parts = located(stage, runs, sample, ARRIVED, moves, file_rows, tasks)
    stretches = by_value(runs, places, parts, first=0, clock=BEGINNING, arrived=BEGINNING)
    written = tasks(write, [Writing(stage, lake, address, stretch, ARRIVED) for stretch in stretches], lambda task: task.stretch.rows)
    told = {FIRST_CHANGED: "0", DISORDERED: f"{stream} version {log.version} by {asdict(delays)}"}
    commit(lake, address, log.schema, [file.action() for part in written for file in part], told, onto=None)


def disordered_from(log: Log) -> str | None:
    """The stream that a log is the disordered one of, and how; None: it is none."""
    table = log.lake.table(log.address, log.version)
    told = [entry[DISORDERED] for entry in table.history() if DISORDERED in entry] if table else []
    return str(told[0]) if told else None


def _stage(task: _File) -> tuple[list[Run], Sample]:
    """A file of the log, sorted by when its tuples would have arrived."""
    rows = read_file(task.lake.files(task.log), task.path)
    came = int64(rows, task.moves) + task.delays.draw(np.arange(task.first, task.first + rows.num_rows))
    rows = (
        rows.drop_columns(list(OWN_COLUMNS)).add_column(0, ARRIVED, pa.array(came)).add_column(0, LINE, pa.array(np.arange(rows.num_rows)))
    )
    writer = StageWriter(task.stage, f"{task.number:08d}", rows.schema, ARRIVED)
    writer.add(rows)
    return writer.finish(), writer.sample
