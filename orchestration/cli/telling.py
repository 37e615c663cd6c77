"""What the command line can tell without running anything: specifications, runs, techniques.

Nothing in here writes. What takes a session, or changes a lake, belongs in `replaying.py`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa

from engines import build, techniques
from engines.contract import Engine
from engines.spec import format_duration
from orchestration.cli.given import profiles, read_spec
from replay.lake import Lake


def explained(spec: Mapping[str, Any], streams: Sequence[str], lake: str) -> str:
    """What a specification does, how it is known, and what its outputs look like on streams."""
    engine: Engine = build(spec)
    lookback = engine.lookback()
    told = [
        engine.explain(),
        "",
        f"fingerprint: {engine.spec.fingerprint()}",
        f"lookback: {'no bound' if lookback is None else format_duration(lookback)}",
    ]
    if streams:
        from replay.runs import plan_run  # brings Spark's libraries

        operator = plan_run(Lake(lake), spec, streams).operator
        told.append(f"reads: {', '.join(operator.columns)}")
        told += [
            f"{output}: {', '.join(f'{field.name} ({_kind(field.type)})' for field in columns)}"
            for output, columns in operator.outputs.items()
        ]
    return "\n".join(told)


def known_runs(lake: Lake) -> list[list[str]]:
    """A row per run, the oldest first: its name, status, technique, streams, tuples so far, and since when its status holds."""
    from replay.plan import PLAN
    from replay.runs import STATUS  # brings Spark's libraries

    table = lake.table(lake.metrics)
    tuples = Counter[str]()
    if table is not None:
        read = table.to_pyarrow_table(columns=["run", "tuples"])
        for run, number in zip(read["run"].to_pylist(), read["tuples"].to_pylist(), strict=True):
            tuples[run] += number
    rows = []
    for run in lake.folders("runs"):
        plan, status = (lake.read_json(lake.address("runs", run), name) for name in (PLAN, STATUS))
        if plan is not None:
            state, since = (status["status"], status["at"][:19].replace("T", " ")) if status else ("planned", "")
            rows.append([run, state, plan["spec"]["technique"], ", ".join(plan["streams"]), f"{tuples[run]:,}", since])
    return rows


def known_techniques() -> list[list[str]]:
    """A row per technique: its name, what it does, its profiles."""
    of = defaultdict(list)
    for profile in profiles():
        of[read_spec(profile)["technique"]].append(profile)
    return [[name, _first_line(import_module(f"engines.{name}.spec").Spec), ", ".join(of[name])] for name in techniques()]


def _first_line(documented: type) -> str:
    return (documented.__doc__ or "").strip().splitlines()[0]


def _kind(kind: pa.DataType) -> str:
    return "timestamp" if pa.types.is_timestamp(kind) else str(kind)
