"""The Spark session that replays run in.

One place for every setting that the JVM needs to be started with. Where Spark runs (`master`) and what else it should know
is configuration; everything here works on one machine and on a cluster.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

from replay.source import LogSource

ARCHIVE = Path(sys.prefix) / "spark.jsa"
"""Spark's classes as the JVM has them in memory. The set-up leaves it; a JVM that it does not fit, or that finds none, reads their jars."""
_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Fifty partitions for the snapshot of a small Delta log make every commit take seconds.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Workers fork from a process that has numba and pyarrow imported already.
    "spark.python.daemon.module": "replay.daemon",
    # Over TCP every Python task waits some 40 ms for an acknowledgement that is held back.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.driver.memory": "4g",
    # Ingestions of terabytes: what thousands of tasks tell of their files may be more than the 1g at which Spark would end the job.
    "spark.driver.maxResultSize": "0",
    # Of what Delta asks for Spark has most, and newer: it would be fetched, copied at every start, and never used.
    "spark.jars.excludes": "org.*:*,com.*:*,commons-*:*,javax.*:*,io.airlift:*",
    # An archive that does not fit is no news to anyone.
    "spark.driver.extraJavaOptions": f'-XX:SharedArchiveFile="{ARCHIVE}" -Xlog:disable',
}
_LOOPBACK = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:|$)")


def session(master: str = "local[*]", *, name: str = "reprise", settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session with the replay's source registered; the one there is, if there is one.

    Args:
        master: where Spark runs.
        name: the application's name.
        settings: further settings of Spark, which take precedence.
    """
    if on_this_machine(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    logging.getLogger("py4j").setLevel(logging.ERROR)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**_SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    spark = configure_spark_with_delta_pip(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(LogSource)
    return spark


def on_this_machine(master: str) -> bool:
    """Whether all of Spark is on this machine: then the driver listens here alone. Executors elsewhere have to reach it.

    >>> [on_this_machine(master) for master in ("local[*]", "spark://127.0.0.1:7077", "spark://one:7077", "yarn")]
    [True, True, False, False]
    """
    if re.match(r"local(\[|-cluster\[|$)", master):
        return True
    scheme, _, masters = master.partition("://")
    return scheme == "spark" and all(_LOOPBACK.match(one) for one in masters.split(","))
