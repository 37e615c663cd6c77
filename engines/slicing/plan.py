"""The plan: what slicing has to keep and do for a workload, and why, after figures 4 to 6 of the paper.

Decided once from the specification. Windows on time with commutative aggregates need the least: slices alone.
"""

from __future__ import annotations

from typing import NamedTuple

from engines.slicing.spec import Spec
from engines.spec import format_duration


class Choice(NamedTuple):
    """What was chosen, and the reason."""

    value: str
    reason: str


class Plan(NamedTuple):
    """The choices for a workload."""

    order: Choice
    keep_tuples: Choice
    splits: Choice
    removal: Choice
    store: Choice


def plan(spec: Spec) -> Plan:
    """The plan of a specification."""
    if spec.delay or spec.lateness:
        order = Choice("disorder", f"tuples up to {format_duration(spec.delay + spec.lateness)} behind are accepted")
    else:
        order = Choice("in order", "without delay and lateness no accepted tuple goes back")
    lazy = "it was asked for" if spec.algorithm == "lazy_slicing" else "slices are merged when a window is due, never per tuple"
    return Plan(
        order=order,
        keep_tuples=Choice("no", "all windows are context free on time and all aggregates commute: slices are enough"),
        splits=Choice("never", "edges of context free windows are known beforehand"),
        removal=Choice("never", "no tuple leaves a slice of a window on time"),
        store=Choice("lazy", lazy),
    )


def explain(spec: Spec) -> str:
    """The plan in words, with the queries and what is known of their aggregates."""
    lines = [f"General slicing, queries: {len(spec.queries)}, over shared slices (algorithm: {spec.algorithm})."]
    lines += [f"- {name.replace('_', ' ')}: {choice.value}, as {choice.reason}." for name, choice in plan(spec)._asdict().items()]
    for query in spec.queries:
        window = ", ".join(f"{name} {value}" for name, value in query.window.model_dump(mode="json").items() if name != "kind")
        lines.append(f"- query {query.name}: {query.window.kind} ({window}): {', '.join(a.name for a in query.aggregates)}.")
    asked = {aggregate.kind: aggregate.ALGEBRA for query in spec.queries for aggregate in query.aggregates}
    lines += [f"- {kind}: {algebra.told()}." for kind, algebra in sorted(asked.items())]
    return "\n".join(lines)
