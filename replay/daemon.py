"""The process that Spark's Python workers are forked from, with the slow imports done.

Named by `spark.python.daemon.module`. Nothing but imports belongs here: whatever this module does, every worker inherits.
"""

from __future__ import annotations

from pyspark.daemon import manager

import replay.processor  # noqa: F401
import replay.source  # noqa: F401

if __name__ == "__main__":
    manager()
