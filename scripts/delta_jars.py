"""Starts Spark with Delta and prints the path of each jar that Ivy fetched for it.

Part of the set-up: after it the jars are in Ivy's cache, and no later start of Spark needs the network. That Spark, Java and
Delta fit together is seen here, and not in the middle of the first replay.
"""

from __future__ import annotations

import os
import sys

from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}

builder = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
)
spark = configure_spark_with_delta_pip(builder).getOrCreate()
print(*(jar.removeprefix("file://") for jar in spark.conf.get("spark.jars").split(",")), sep="\n")
spark.stop()
