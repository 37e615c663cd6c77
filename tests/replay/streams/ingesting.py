"""An ingestion in a process of its own, to be sent to a cluster: `python -m tests.replay.streams.ingesting FOLDER STREAM MASTER`."""

from __future__ import annotations

import sys
from pathlib import Path

from replay.session import session
from replay.streams.declaration import declaration
from replay.streams.tasks import OnSpark
from tests.replay.streams.harness import Place

SPLIT_BYTES, FILE_ROWS = 6_000, 100


def main(folder: str, stream: str, master: str) -> None:
    # Both workers are waited for: the first to come would have done all of it before the other is there.
    waiting = {"spark.scheduler.minRegisteredResourcesRatio": "1.0", "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s"}
    spark = session(master, settings={"spark.driver.memory": "1g", **waiting})
    Place(Path(folder)).ingest(declaration(stream), tasks=OnSpark(spark), split_bytes=SPLIT_BYTES, file_rows=FILE_ROWS)
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    for n in range(executors.size()):
        print("executor", executors.apply(n).id(), executors.apply(n).completedTasks(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
