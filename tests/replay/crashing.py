"""A replay in a process of its own, to be killed or sent to a cluster: `python -m tests.replay.crashing LAKE RUN MASTER`."""

from __future__ import annotations

import sys

from replay.lake import Lake
from replay.publish import publish
from replay.runs import execute, load_plan
from replay.session import session


def main(root: str, run: str, master: str) -> None:
    plan = load_plan(Lake(root), run)
    spark = session(master, settings={"spark.driver.memory": "1g", "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
    print("begun", flush=True)
    execute(spark, plan, on_progress=lambda progress: print("batch", progress.batch, flush=True))
    publish(plan)
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
