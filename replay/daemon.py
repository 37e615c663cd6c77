"""The process that Spark's Python workers are forked from, with the slow imports done.

Named by `spark.python.daemon.module`. Nothing but imports belongs here: whatever this module does, every worker inherits.
"""

from __future__ import annotations

import numba  # noqa: F401
import pandas as pd  # noqa: F401
import pyarrow.compute  # noqa: F401
import pyarrow.parquet  # noqa: F401
from pyspark.daemon import manager

if __name__ == "__main__":
    manager()
