"""Oracles: what the results of a replay must be, computed from the definitions by brute force, in polars.

A technique's oracle is the file here with its name; it is found by that name, so a further technique only adds a file with
`Spec`, `IDENTITY`, `outputs`, `summed` and `lookback`. Files without a `Spec` are what oracles share. Nothing here may look at an
engine: what both know of a technique is its specification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

import polars as pl

from engines.spec import SpecError, TechniqueSpec, validate
from quality.oracles import clock
from quality.oracles.clock import of_days

__all__ = ["float_columns", "identity", "of_days", "oracle", "reach", "specification", "techniques"]

SUM_OF_ABSOLUTE_VALUES = "sum of absolute values"
"""How floats that hang on the order of additions are judged: against what was added, so that cancellation is no failure."""


class Oracle(Protocol):
    """What the file of a technique offers."""

    Spec: type[TechniqueSpec]
    IDENTITY: Mapping[str, Sequence[str]]
    """The columns that name a row, for each output."""

    def outputs(self, spec: Any, accepted: pl.LazyFrame) -> dict[str, pl.DataFrame]:
        """The final rows of each output, from the tuples that were not late."""

    def summed(self, spec: Any) -> dict[str, list[str]]:
        """The columns of each output that hold sums, or what is made of them."""

    def lookback(self, spec: Any) -> int | None:
        """How long before the instant at which a result is decided its tuples may lie, in microseconds; None: as long as you like."""


def techniques() -> list[str]:
    """The techniques that have an oracle.

    >>> techniques()
    ['frames', 'slicing']
    """
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem != "__init__")
    return [name for name in names if hasattr(import_module(f"quality.oracles.{name}"), "Spec")]


def _found(spec: Mapping[str, Any]) -> tuple[Oracle, TechniqueSpec]:
    name = spec.get("technique")
    if name not in techniques():
        raise SpecError(f"technique: {name!r} given; there are oracles for {', '.join(techniques())}.")
    module = cast(Oracle, import_module(f"quality.oracles.{name}"))
    return module, validate(module.Spec, spec)


def specification(spec: Mapping[str, Any]) -> TechniqueSpec:
    """A specification as the model of its technique.

    >>> specification({"technique": "frames", "delay": "2s", "frame": {"where": "v > 0"}}).delay
    2000000
    """
    return _found(spec)[1]


def oracle(spec: Mapping[str, Any], log: pl.DataFrame | pl.LazyFrame) -> dict[str, pl.DataFrame]:
    """What a replay of the whole log, ended by a flush, must give: final rows of every output by name, and the late ones.

    >>> log = pl.DataFrame({"arrival": [0, 1], "clock": [0, 4], "ts": [0, 4], "v": [1, 2]}).with_columns(
    ...     pl.col("ts").cast(pl.Datetime("us", "UTC")))
    >>> spec = {"technique": "slicing", "queries": [
    ...     {"name": "q", "window": {"kind": "tumbling", "length": "2us"}, "aggregates": [{"kind": "sum", "column": "v"}]}]}
    >>> oracle(spec, log)["results"].select("measure_start", "measure_end", "sum_v").rows()
    [(0, 2, 1), (4, 6, 2)]

    Args:
        spec: the specification, as an engine gets it.
        log: with `arrival`, `clock` (microseconds), `ts`, perhaps `key`, and the value columns; only what is needed is read.

    Raises:
        SpecError: in one sentence, if the specification is wrong or the technique has no oracle.
    """
    module, settings = _found(spec)
    accepted, late = clock.split(log.lazy(), settings)
    return {**module.outputs(settings, accepted), "late": late.collect()}


def reach(spec: Mapping[str, Any]) -> tuple[int, int] | None:
    """How far before a day the tuples of its results may lie, and how far behind it they may come, in microseconds; None: anywhere.

    Not as the engine says, which begins its replays there: if it were wrong, oracle and engine would be so together.

    >>> window = {"kind": "tumbling", "length": "10us"}
    >>> reach({"technique": "slicing", "delay": "2us", "queries": [{"name": "q", "window": window, "aggregates": [{"kind": "count"}]}]})
    (10, 2)
    """
    module, settings = _found(spec)
    before = module.lookback(settings)
    return None if before is None else (before, settings.delay + settings.lateness)


def identity(spec: Mapping[str, Any]) -> dict[str, list[str]]:
    """The columns that name a row of each output.

    >>> identity({"technique": "frames", "frame": {"where": "v > 0"}})
    {'results': ['key', 'start'], 'late': ['arrival']}
    """
    module, _ = _found(spec)
    return {**{output: list(columns) for output, columns in module.IDENTITY.items()}, "late": ["arrival"]}


def float_columns(spec: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The columns of each output that need not be equal to the bit, and how they are judged.

    What each is judged against is a field of the column `SCALES` in what the oracle gives. A sum of integers is exact and has none.

    >>> aggregates = [{"kind": "count"}, {"kind": "mean", "column": "v"}]
    >>> float_columns({"technique": "frames", "frame": {"where": "v > 0"}, "aggregates": aggregates})
    {'results': {'mean_v': 'sum of absolute values'}, 'late': {}}
    """
    module, settings = _found(spec)
    summed = module.summed(settings)
    return {output: dict.fromkeys(summed.get(output, []), SUM_OF_ABSOLUTE_VALUES) for output in identity(spec)}
