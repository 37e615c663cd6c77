"""What a benchmark found: measures with their targets, as a table for people and as a document for everything else.

Targets are told beside each number and never enforced here: a slow machine is no error. How a number came about is the business
of the experiments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Column, Table

_MARKED = re.compile(r"(<!-- begin: last full run -->\n).*(<!-- end: last full run -->)", re.DOTALL)


@dataclass(frozen=True)
class Measure:
    """A number and what it should be.

    >>> Measure("speed", 17.2, at_least=15, goal=20).met, Measure("cost", 0.9, "s", at_most=0.7).met, Measure("rows", 3).met
    (True, False, None)
    """

    name: str
    value: float
    unit: str = "x"
    """`x` for a ratio, which is what most measures are."""
    at_least: float | None = None
    at_most: float | None = None
    goal: float | None = None
    """What would be better than the target."""

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None: there is none."""
        if self.at_least is not None:
            return self.value >= self.at_least
        return self.value <= self.at_most if self.at_most is not None else None

    @property
    def target(self) -> str:
        """The target, and the goal behind it, in words."""
        bound = self.at_least if self.at_least is not None else self.at_most
        if bound is None:
            return ""
        sign = ">=" if self.at_least is not None else "<="
        return f"{sign} {bound:g}" + (f" (goal {self.goal:g})" if self.goal is not None else "")

    def to_json(self) -> dict[str, Any]:
        """This measure as a document."""
        return {**asdict(self), "met": self.met}


@dataclass(frozen=True)
class Outcome:
    """What one experiment found."""

    measures: Sequence[Measure]
    details: Mapping[str, Any] = field(default_factory=dict)
    """The absolute numbers behind the measures, for whoever wants to know where the time goes."""


def document(name: str, about: str, outcome: Outcome, seconds: float) -> dict[str, Any]:
    """An experiment as a document."""
    measures = [measure.to_json() for measure in outcome.measures]
    return {"name": name, "about": about, "seconds": round(seconds, 1), "measures": measures, "details": dict(outcome.details)}


def failure(name: str, about: str, reason: str, seconds: float) -> dict[str, Any]:
    """An experiment that gave no numbers, as a document."""
    return {"name": name, "about": about, "seconds": round(seconds, 1), "measures": [], "details": {}, "error": reason}


def title(run: Mapping[str, Any]) -> str:
    """When, where and at what scale a run was made."""
    machine, scale = run["machine"], run["scale"]
    return (
        f"{run['at']}, {machine['processor']}, {scale['cores']} of {machine['cores']} cores: "
        f"{scale['tuples']:,} tuples, batches of {scale['batch_tuples']:,}, {scale['spark_tuples']:,} for Spark's own."
    )


def table(run: Mapping[str, Any]) -> Table:
    """All measures of a run, for a terminal."""
    shown = Table("experiment", "measure", Column("value", justify="right"), "target", "met")
    for experiment in run["experiments"]:
        for number, row in enumerate(_rows(experiment)):
            colour = {"yes": "green", "no": "yellow", "error": "red"}.get(row[-1], "")
            shown.add_row(experiment["name"] if number == 0 else "", *row[:-1], f"[{colour}]{row[-1]}[/]" if colour else row[-1])
        shown.add_section()
    return shown


def markdown(run: Mapping[str, Any]) -> str:
    """All measures of a run, for a page."""
    lines = [title(run), "", "| experiment | measure | value | target | met |", "|---|---|---:|---|---|"]
    for experiment in run["experiments"]:
        lines += [f"| {experiment['name']} | {' | '.join(row)} |" for row in _rows(experiment)]
    return "\n".join(lines) + "\n"


def places(page: Path) -> int:
    """How many places for the table a page has, each between two marks; needed is one."""
    return len(_MARKED.findall(page.read_text()))


def write_into(page: Path, run: Mapping[str, Any]) -> None:
    """Replace the table of a page."""
    page.write_text(_MARKED.sub(lambda marks: f"{marks[1]}{markdown(run)}{marks[2]}", page.read_text()))


def _rows(experiment: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Measure, value, target and whether it was met."""
    if "error" in experiment:
        return [(experiment["error"], "", "", "error")]
    rows = []
    for found in experiment["measures"]:
        measure = Measure(**{name: value for name, value in found.items() if name != "met"})
        unit = "" if measure.unit == "x" else f" {measure.unit}"
        rows.append((measure.name, f"{_number(measure.value)}{unit}", measure.target, {True: "yes", False: "no", None: ""}[measure.met]))
    return rows


def _number(value: float) -> str:
    """Three digits that count, and no more.

    >>> _number(0.2512), _number(0.19996), _number(17.24), _number(123456.7), _number(20)
    ('0.251', '0.200', '17.2', '123,457', '20')
    """
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:#.3g}"
