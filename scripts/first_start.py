"""Starts Spark for the first time, as replays do: fetches Delta's jars, replays a few tuples, and leaves an archive of the JVM's classes.

Part of the set-up; prints the path of each jar. After it no start of Spark needs the network, and each takes half the time. That Spark,
Java and Delta fit together is seen here, and not in the middle of the first replay.
"""

from __future__ import annotations

import tempfile

import pyarrow as pa

from engines.contract import TIMESTAMP
from replay import log_writer
from replay.lake import Lake
from replay.runs import execute, plan_run
from replay.session import ARCHIVE, session

PART = ARCHIVE.with_suffix(".part")
spark = session("local[2]", settings={"spark.driver.extraJavaOptions": f'-XX:ArchiveClassesAtExit="{PART}" -Xlog:disable'})
with tempfile.TemporaryDirectory() as folder:
    tuples = pa.table({"ts": pa.array([0, 1, 2], TIMESTAMP), "key": ["a", "b", "a"], "v": [1.0, 2.0, 3.0]})
    log_writer.append(Lake(folder), "few", tuples)
    execute(spark, plan_run(Lake(folder), {"technique": "frames", "frame": {"where": "v > 1"}}, ["few"]))
    spark.range(1).write.format("delta").save(f"{folder}/delta")
print(*(jar.removeprefix("file://") for jar in spark.conf.get("spark.jars").split(",")), sep="\n")

# The archive is written when the JVM ends, which it does when nobody talks to it any more. One that is not whole would crash others.
java = spark.sparkContext._gateway.proc
spark.stop()
java.stdin.close()
if java.wait(timeout=120) == 0 and PART.exists():
    PART.replace(ARCHIVE)
