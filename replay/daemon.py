"""The process that Spark's Python workers are forked from, with the slow imports done.

Named by `spark.python.daemon.module`. Nothing but imports belongs here: whatever this module does, every worker inherits.
"""

from __future__ import annotations

import gc

import pandas  # noqa: F401, ICN001
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import replay.bucket  # noqa: F401
import replay.processor  # noqa: F401
import replay.sink  # noqa: F401
import replay.source  # noqa: F401
import replay.streams.ingest  # noqa: F401
import replay.task  # noqa: F401

if __name__ == "__main__":
    # Workers collect garbage after every task: 60 ms each time, were they to go through all that is imported here.
    gc.freeze()
    manager()
