"""General stream slicing: tuples are aggregated once, into slices that all windows of all queries share.

`spec.py` says what can be asked for, `windows.py` where windows begin and end, `engine.py` does it. Here are the typed
classes of a specification, for Python; the engine itself is imported when one is made, as oracles must not need it.

References:
    Traub et al., Efficient Window Aggregation with General Stream Slicing, EDBT 2019.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engines.aggregates.spec import Count, First, Last, Max, Mean, Min, Sum
from engines.slicing.spec import Query, Sliding, Spec, Tumbling

if TYPE_CHECKING:
    from engines.slicing.engine import Engine

__all__ = ["Count", "First", "Last", "Max", "Mean", "Min", "Query", "Sliding", "SlicingEngine", "Spec", "Sum", "Tumbling"]


def SlicingEngine(**settings: Any) -> Engine:  # noqa: N802 - it stands for the class that it makes an object of
    """The engine with the settings of `Spec`: the same as `engines.build` of the mapping.

    >>> engine = SlicingEngine(delay="2s", queries=[Query("speed", Sliding(length="20s", slide="1s"), [Sum("v")])])
    >>> engine.lookback()
    20000000

    Raises:
        SpecError: in one sentence, if a setting is wrong.
    """
    from engines.slicing.engine import Engine

    return Engine(Spec(**settings))
