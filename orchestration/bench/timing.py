"""What was timed, of whatever system, and how a typical time is found.

Systems that are compared are run in turn, again and again, and of each the median counts: what disturbs the machine for a while
then disturbs all of them alike, and neither the best nor the worst moment decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa


@dataclass(frozen=True)
class Taken:
    """Something that read tuples and took its time."""

    tuples: int
    seconds: float
    processor_seconds: float
    """Of all processes that it used: other work on the machine disturbs it less than it does the clock."""

    @property
    def speed(self) -> float:
        """Tuples per second."""
        return self.tuples / self.seconds

    def results(self) -> pa.Table:
        """The rows that it wrote."""
        raise NotImplementedError

    def details(self) -> dict[str, Any]:
        """What else is known of it."""
        return {}


_Taken = TypeVar("_Taken", bound=Taken)


def in_turn(repeats: int, actions: Mapping[str, Callable[[], _Taken]]) -> dict[str, list[_Taken]]:
    """What each of some actions took, all of them in turn."""
    taken: dict[str, list[_Taken]] = {name: [] for name in actions}
    for _ in range(repeats):
        for name, action in actions.items():
            taken[name].append(action())
    return taken


def typical(runs: Mapping[str, list[_Taken]]) -> dict[str, _Taken]:
    """Of each the run of median time.

    >>> typical({"a": [Taken(1, seconds, 0.0) for seconds in (3.0, 1.0, 2.0)]})["a"].seconds
    2.0
    """
    return {name: sorted(taken, key=lambda run: run.seconds)[(len(taken) - 1) // 2] for name, taken in runs.items()}


def told(runs: Mapping[str, list[_Taken]]) -> dict[str, dict[str, Any]]:
    """The numbers of each: of its typical run, and every time it took."""
    return {
        name: {
            "million_tuples_per_second": run.speed / 1e6,
            "processor_seconds_per_million_tuples": run.processor_seconds / run.tuples * 1e6,
            "tuples": run.tuples,
            "seconds": [each.seconds for each in runs[name]],
            **run.details(),
        }
        for name, run in typical(runs).items()
    }
