"""The process that Spark's Python workers are forked from, with all done that each of them would have to do again.

Named by `spark.python.daemon.module`. Nothing but imports and the first use of a library belongs here: whatever this module
does, every worker inherits.
"""

from __future__ import annotations

import gc

import pandas  # noqa: F401, ICN001
import pyarrow as pa
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import replay.bucket  # noqa: F401
import replay.processor  # noqa: F401
import replay.sink  # noqa: F401
import replay.source  # noqa: F401
import replay.state_files  # noqa: F401
import replay.streams.ingest  # noqa: F401
import replay.task  # noqa: F401
from replay.hashing import buckets

if __name__ == "__main__":
    buckets(pa.array([0]), 2)  # the first kernel that is called takes half a second, for numba makes itself ready
    # Workers collect garbage after every task: 60 ms each time, were they to go through all that is there by now.
    gc.freeze()
    manager()
