"""Expectations: what is said of a frame, judged by Great Expectations, told as plain outcomes.

A suite is a list of `Expected`, kept as code in `suites/`. Only the columns under test become a pandas frame. An expectation that
cannot be judged (a missing column, an error) has failed: nothing is ever skipped.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

Severity = Literal["critical", "warning"]


@dataclass(frozen=True)
class Expected:
    """One expectation: one of Great Expectations' own, with its settings."""

    name: str
    """How it is called everywhere: letters and '_'."""
    description: str
    kind: str
    """The class in `great_expectations.expectations`."""
    column: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    severity: Severity = "critical"
    unit: str = "row"
    """What is compared, in the singular."""

    def broken(self) -> pl.Expr:
        """Which rows break it; where only a column as a whole is judged, none does.

        >>> pl.DataFrame({"share": [0.1, None, 0.3]}).select(at_most("few", "", "share", 0.2).broken())["share"].to_list()
        [False, False, True]
        """
        value = pl.col(self.column)
        if "value_set" in self.settings:
            return (~value.is_in(self.settings["value_set"])).fill_null(False)
        if self.kind == "ExpectColumnValuesToBeBetween":
            return (value > self.settings["max_value"]).fill_null(False)
        return pl.lit(False)


@dataclass(frozen=True)
class Outcome:
    """What became of an expectation."""

    name: str
    description: str
    severity: Severity
    passed: bool
    rows: int
    """How many were looked at."""
    wrong: int
    examples: tuple[str, ...] = ()
    """Some of the values that are wrong."""
    error: str | None = None
    """Why it could not be judged."""
    unit: str = "row"
    """What was looked at, in the singular."""
    worst: tuple[Mapping[str, Any], ...] = ()
    """Rows that break it, the worst first."""

    def told(self) -> str:
        """In a line."""
        if self.error:
            return f"it could not be judged: {self.error}"
        if not self.rows:
            return "there was nothing to compare"
        return f"{self.rows:,} {self.unit}{'' if self.rows == 1 else 's'} compared, {self.wrong:,} wrong"


def true(name: str, description: str, column: str, severity: Severity = "critical", unit: str = "row") -> Expected:
    """Expect a column of truth values to be true in every row; rows without a value do not count."""
    return Expected(name, description, "ExpectColumnValuesToBeInSet", column, {"value_set": [True]}, severity, unit)


def at_most(name: str, description: str, column: str, most: float, severity: Severity = "warning", unit: str = "row") -> Expected:
    """Expect a column of numbers to be no larger than this in any row; rows without a value do not count."""
    return Expected(name, description, "ExpectColumnValuesToBeBetween", column, {"max_value": most}, severity, unit)


def judge(frame: pl.DataFrame, suite: Sequence[Expected]) -> list[Outcome]:
    """The outcome of each expectation, in their order.

    >>> frame = pl.DataFrame({"right": [True, False]})
    >>> [(outcome.passed, outcome.wrong) for outcome in judge(frame, [true("a", "", "right"), true("b", "", "none")])]
    [(False, 1), (False, 0)]
    """
    there = [expected for expected in suite if expected.column in frame.columns]
    found = _by_great_expectations(frame, there) if there else {}
    return [found.get(expected.name) or unjudged(expected, f"there is no column {expected.column!r}") for expected in suite]


def unjudged(expected: Expected, reason: str) -> Outcome:
    """The outcome of an expectation that could not be judged: it has failed."""
    return Outcome(expected.name, expected.description, expected.severity, False, 0, 0, error=reason, unit=expected.unit)


def _by_great_expectations(frame: pl.DataFrame, suite: Sequence[Expected]) -> dict[str, Outcome]:
    with _named_main():
        import great_expectations as gx  # takes seconds
        from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    batch = context.data_sources.add_pandas("frame").add_dataframe_asset("frame").add_batch_definition_whole_dataframe("frame")
    content = context.suites.add(gx.ExpectationSuite("suite"))
    for expected in suite:
        kind = getattr(gx.expectations, expected.kind)
        content.add_expectation(kind(column=expected.column, meta={"name": expected.name}, **expected.settings))
    definition = context.validation_definitions.add(gx.ValidationDefinition(name="frame", data=batch, suite=content))
    columns = sorted({expected.column for expected in suite})
    found = definition.run(batch_parameters={"dataframe": frame.select(columns).to_pandas()}, result_format={"result_format": "SUMMARY"})
    by_name = {(result.expectation_config.meta or {})["name"]: result for result in found.results if result.expectation_config}
    return {
        expected.name: _outcome(expected, by_name[expected.name], frame[expected.column].drop_nulls().len())
        for expected in suite
        if expected.name in by_name
    }


@contextmanager
def _named_main() -> Iterator[None]:
    """A main module with a file: without one (`python -c`) PySpark's Connect, which is tried on import, would end the process."""
    main = sys.modules["__main__"]
    if hasattr(main, "__file__"):
        yield
        return
    main.__file__ = "nowhere"
    try:
        yield
    finally:
        del main.__file__


def _outcome(expected: Expected, result: Any, rows: int) -> Outcome:
    details = result.result or {}
    error = _error(result.exception_info)
    # Of truth values all that are wrong are the same.
    shown = [value for value in details.get("partial_unexpected_list") or () if not isinstance(value, bool)]
    examples = tuple(str(value) for value in shown)[:5]
    wrong = int(details.get("unexpected_count") or 0)
    passed = bool(result.success) and error is None
    if not passed and not wrong and "observed_value" in details:
        examples, wrong = (f"observed {details['observed_value']}",), 1
    return Outcome(expected.name, expected.description, expected.severity, passed, rows, wrong, examples, error, expected.unit)


def _error(information: Any) -> str | None:
    """The first exception; where several metrics failed, they are told one by one under their names."""
    if not information:
        return None
    if "raised_exception" in information:
        return str(information["exception_message"]) if information["raised_exception"] else None
    for one in information.values():
        if isinstance(one, Mapping) and one.get("raised_exception"):
            return str(one["exception_message"])
    return None
