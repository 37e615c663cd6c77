"""Frames: windows that the data draws, the episodes of a stream (Maier et al., DEBS 2012).

Threshold frames are the maximal runs of tuples that satisfy a predicate. A further kind of frame is a model in `spec.py`
and a way to cut tuples into pieces; the stitching of pieces, and when rows are due, are the same for all. Here are the
typed classes of a specification, for Python; the engine itself is imported when one is made, as oracles must not need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engines.aggregates.spec import Count, First, Last, Max, Mean, Min, Sum
from engines.frames.spec import Spec, Threshold

if TYPE_CHECKING:
    from engines.frames.engine import Engine

__all__ = ["Count", "First", "FrameEngine", "Last", "Max", "Mean", "Min", "Spec", "Sum", "Threshold"]


def FrameEngine(**settings: Any) -> Engine:  # noqa: N802 - it stands for the class that it makes an object of
    """The engine with the settings of `Spec`: the same as `engines.build` of the mapping.

    >>> engine = FrameEngine(frame=Threshold(where="speed < 40", min_duration="3m"), key="detector", aggregates=[Mean("speed"), Count()])
    >>> [aggregate.name for aggregate in engine.spec.aggregates]
    ['mean_speed', 'count']

    Raises:
        SpecError: in one sentence, if a setting is wrong.
    """
    from engines.frames.engine import Engine

    return Engine(Spec(**settings))
