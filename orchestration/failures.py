"""Why a run failed, as whoever raised it says: for the command line and for sensors, which have no page to show it on."""

from __future__ import annotations

from collections.abc import Iterable

from dagster import DagsterEvent
from dagster._utils.error import SerializableErrorInfo


def reason_of(events: Iterable[DagsterEvent]) -> str:
    """The sentence of the first step that failed; nothing if none did."""
    for failure in (event.step_failure_data for event in events if event.is_step_failure):
        if failure.user_failure_data and failure.user_failure_data.description:
            return str(failure.user_failure_data.description)
        if error := _cause(failure.error):
            return str(error.message.strip())
    return ""


def interrupted(events: Iterable[DagsterEvent]) -> bool:
    """Whether a step failed because somebody stopped it: Dagster takes ctrl-C for a failure like any other."""
    causes = (_cause(event.step_failure_data.error) for event in events if event.is_step_failure)
    return any(error and error.cls_name in ("KeyboardInterrupt", "DagsterExecutionInterruptedError") for error in causes)


def _cause(error: SerializableErrorInfo | None) -> SerializableErrorInfo | None:
    while error and error.cause:
        error = error.cause
    return error
