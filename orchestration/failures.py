"""Why a run failed, as whoever raised it says: for the command line and for sensors, which have no page to show it on."""

from __future__ import annotations

from collections.abc import Iterable

from dagster import DagsterEvent


def reason_of(events: Iterable[DagsterEvent]) -> str:
    """The sentence of the first step that failed; nothing if none did."""
    for failure in (event.step_failure_data for event in events if event.is_step_failure):
        if failure.user_failure_data and failure.user_failure_data.description:
            return str(failure.user_failure_data.description)
        error = failure.error
        while error and error.cause:
            error = error.cause
        if error:
            return str(error.message.strip())
    return ""
