"""Ingestion: raw files of the CSV-like streams to committed logs, beside Spark's own reader of CSV writing Parquet.

Twins of the originals are the raw files. Ours also orders, numbers, checks and keeps what it rejects; Spark's own reads the same
fields as the same types and writes them where they come.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

from orchestration.bench.report import Measure, Outcome
from orchestration.bench.runner import Bench, Step, WrongResultsError
from orchestration.bench.timing import in_turn
from replay.lake import Lake
from replay.streams.declaration import Declaration, declaration
from replay.streams.ingest import ingest
from replay.streams.provide import TwinSettings, generate
from replay.streams.tasks import OnSpark

ABOUT = "rows a second from raw files (debs2013, traffic, intel_lab, ss7, debs2012) to committed logs, beside Spark's own CSV to Parquet"
STREAMS = ("debs2013", "traffic", "intel_lab", "ss7", "debs2012")
_TYPES = {"int32": "int", "int64": "bigint", "float64": "double", "bool": "string", "string": "string", "time": "string"}


def run(bench: Bench) -> Outcome:
    """Make the twins, then ingest them and let Spark convert them, in turns."""
    rows = max(bench.scale.tuples // 20, 1)
    measures, details = [], {}
    for name in STREAMS:
        with bench.step(f"making {rows:,} tuples of '{name}'"):
            folder = generate(name, f"{bench.lake.root}/raw", TwinSettings(rows), OnSpark(bench.spark))
        stream = declaration(name)
        _ours(bench, stream, folder, warm=True)
        runs = in_turn(
            bench.scale.repeats, {"reprise": partial(_ours, bench, stream, folder), "spark": partial(_spark, bench, stream, folder)}
        )
        ours, spark = (sorted(taken, key=lambda step: step.seconds)[len(taken) // 2] for taken in runs.values())
        size = sum(path.stat().st_size for path in Path(folder.root).iterdir())
        measures.append(Measure(f"million rows a second of {name}", rows / ours.seconds / 1e6, "M/s", at_least=1.0))
        measures.append(Measure(f"speed on {name} beside Spark's own CSV to Parquet", spark.seconds / ours.seconds))
        details[name] = {
            "rows": rows,
            "bytes": size,
            "bytes_per_second": round(size / ours.seconds),
            "seconds": [round(step.seconds, 3) for step in runs["reprise"]],
            "spark_seconds": [round(step.seconds, 3) for step in runs["spark"]],
            "processor_seconds": [round(step.processor_seconds, 2) for step in runs["reprise"]],
        }
        shutil.rmtree(folder.root)
    return Outcome(measures, details)


def _ours(bench: Bench, stream: Declaration, folder: Lake, *, warm: bool = False) -> Step:
    lake = Lake(str(bench.folder("ingested")))
    with bench.step(f"ingesting {stream.name}{' to warm up' if warm else ''}") as step:
        done = ingest(lake, stream, folder, OnSpark(bench.spark))
    if done.manifest.rows + done.manifest.rejected != done.records:
        raise WrongResultsError(f"{stream.name}: {done.records} records, {done.manifest.rows} rows, {done.manifest.rejected} rejects")
    shutil.rmtree(lake.root)
    return step


def _spark(bench: Bench, stream: Declaration, folder: Lake) -> Step:
    form, out = stream.files[0], bench.folder("csv-to-parquet")
    fields = ", ".join(f"`{column.sources[0]}` {_TYPES[column.type]}" for column in stream.columns)
    options: dict[str, Any] = {"sep": form.separator, "header": form.header, "enforceSchema": True, "quote": form.quote or ""}
    with bench.step(f"Spark's own CSV to Parquet of {stream.name}") as step:
        table = bench.spark.read.options(**options).schema(fields).csv([str(p) for p in Path(folder.root).iterdir() if p.suffix != ".json"])
        table.write.mode("overwrite").parquet(str(out))
    shutil.rmtree(out)
    return step
