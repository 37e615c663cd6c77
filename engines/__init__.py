"""Techniques: how tuples become partials, partials state, and state results.

A technique is a folder here with `spec.py` (its settings, the class `Spec` and a few `EXAMPLES`) and `engine.py` (the
class `Engine`); it is found by its folder, so that adding one changes no file. Its typed classes are in the folder itself
(`from engines.slicing import SlicingEngine`). No Spark, no Dagster, no polars in here.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from engines.contract import Engine
from engines.spec import SpecError, TechniqueSpec, validate

__all__ = ["Engine", "SpecError", "build", "techniques"]


def techniques() -> list[str]:
    """The names of all techniques.

    >>> "slicing" in techniques()
    True
    """
    here = Path(__file__).parent
    return sorted(folder.parent.name for folder in here.glob("*/engine.py") if (folder.parent / "spec.py").exists())


def build(spec: Mapping[str, Any] | TechniqueSpec) -> Engine:
    """The engine of a specification: a plain mapping with the technique's name and its settings, or the technique's own `Spec`.

    >>> engine = build({"technique": "slicing", "queries": [
    ...     {"name": "q", "window": {"kind": "tumbling", "length": "10s"}, "aggregates": [{"kind": "count"}]}]})
    >>> engine.lookback()
    10000000
    >>> build(engine.spec).lookback()
    10000000

    Raises:
        SpecError: in one sentence, if the specification cannot be run.
    """
    if not isinstance(spec, Mapping | TechniqueSpec):
        raise SpecError(f"specification: {type(spec).__name__} given; allowed is a mapping with the setting 'technique'.")
    name = spec.technique if isinstance(spec, TechniqueSpec) else spec.get("technique")
    if name not in techniques():
        raise SpecError(f"technique: {name!r} given; allowed are {', '.join(techniques())}.")
    # Only a folder of this package can be named, so a specification never makes anything else be imported.
    settings = spec if isinstance(spec, TechniqueSpec) else validate(import_module(f"engines.{name}.spec").Spec, spec)
    return cast(Engine, import_module(f"engines.{name}.engine").Engine(settings))
