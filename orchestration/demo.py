"""The demonstration: every stream small, both techniques on their streams, some days again, every check; and a summary.

Runs the same jobs as the UI, on the same instance, so that `make ui` shows what it made. It is also a test of the whole: a check
that fails makes it fail.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import dagster as dg

from assets.reports import REPORTS
from assets.results import LAUNCHED, results_key
from assets.streams import stream_key
from assets.techniques import technique_modules
from assets.workplace import Workplace
from orchestration.building import build_defs
from orchestration.failures import interrupted, reason_of
from orchestration.instance import instance
from replay.streams.declaration import declared

TUPLES = {"traffic": 120_000, "dye": 160_000, "debs2013": 200_000, "debs2012": 150_000, "intel_lab": 100_000, "ss7": 100_000}
_AGAIN = 2
"""So many days of frames on traffic are replayed a second time, one by one."""


@dataclass
class Step:
    """Something that was done."""

    what: str
    tuples: int | None = None
    """None where nothing was read: checks alone, or the list of reports."""
    results: int | None = None
    seconds: float = 0.0
    checks: list[tuple[str, bool]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """The checks that did not pass and are no more than warnings."""
    report: str | None = None
    error: str | None = None
    """Why it could not be done."""

    @property
    def passed(self) -> bool:
        """Whether it was done, and every check passed that is more than a warning."""
        return self.error is None and all(passed or name in self.warnings for name, passed in self.checks)


class StepError(RuntimeError):
    """A step that could not be done, in a sentence."""

    def __init__(self, step: Step, reason: str) -> None:
        """What was to be done, and why it was not."""
        super().__init__(f"{step.what}: {reason}")
        self.step = replace(step, error=str(self))


def demo(workplace: Workplace, tell: Callable[[str], None]) -> Iterator[Step]:
    """Do it all, step by step."""
    logging.getLogger("dagster").setLevel(logging.ERROR)
    defs, place = build_defs(workplace), instance()
    for stream in declared():
        tell(f"streams/{stream}: generate and ingest")
        config = {"ops": {"__".join(stream_key(stream).path): {"config": {"tuples": TUPLES[stream]}}}}
        yield materialized(defs, place, stream_key(stream), f"streams/{stream}", run_config=config)
    for technique, module in technique_modules().items():
        for stream in module.RESULTS:
            key, name = results_key(technique, stream), f"{technique}/{stream}"
            days = place.get_dynamic_partitions(f"{stream}_days")
            tell(f"{name}: {f'all {len(days)} days in one run' if len(days) > 1 else 'its one day'}, then its checks")
            tags = {"dagster/asset_partition_range_start": days[0], "dagster/asset_partition_range_end": days[-1]}
            yield materialized(defs, place, key, f"{name} {'..'.join(dict.fromkeys([days[0], days[-1]]))}", tell, tags=tags)
            for day in days[1 : 1 + _AGAIN] if stream == "traffic" else []:
                tell(f"{name}: {day} again, by itself")
                yield materialized(defs, place, key, f"{name} {day} again", tell, partition_key=day)
    tell("reports/index: the list of all pages")
    yield materialized(defs, place, REPORTS, "reports/index")


def materialized(
    defs: dg.Definitions, place: dg.DagsterInstance, key: dg.AssetKey, what: str, tell: Callable[[str], None] = lambda _: None, **run: Any
) -> Step:
    """Materialize an asset, with its checks; `tell` gets a line for each micro-batch."""
    begun, name = time.monotonic(), str(uuid.uuid4())
    job = defs.resolve_implicit_global_asset_job_def()
    with _followed(place, name, tell):
        done = job.execute_in_process(instance=place, run_id=name, asset_selection=[key], raise_on_error=False, **run)
    step = _judged(defs, key, Step(what, seconds=time.monotonic() - begun), done)
    told = done.get_asset_materialization_events()[-1].materialization.metadata
    counts = (told.get(f"run_{name}", told.get(name)) for name in ("tuples", "results"))
    step.tuples, step.results = (None if count is None else int(count.value) for count in counts)  # type: ignore[arg-type]
    return step


@contextmanager
def _followed(place: dg.DagsterInstance, run: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Tell how far a run has come, as its log does."""

    def follow(entry: dg.EventLogEntry, _: str) -> None:
        if entry.dagster_event is None and entry.user_message.startswith("batch "):
            tell(entry.user_message)

    place.watch_event_logs(run, None, follow)
    try:
        yield
    finally:
        place.end_watch_event_logs(run, follow)


def checked_again(defs: dg.Definitions, place: dg.DagsterInstance, key: dg.AssetKey, what: str) -> Step:
    """Run the checks of an asset on what is published, and recompute nothing."""
    begun = time.monotonic()
    job = dg.define_asset_job("quality_of_one", selection=dg.AssetSelection.checks_for_assets(key))
    alone = dg.Definitions.merge(defs, dg.Definitions(jobs=[job])).resolve_job_def("quality_of_one")
    done = alone.execute_in_process(instance=place, raise_on_error=False)
    return _judged(defs, key, Step(what, seconds=time.monotonic() - begun), done)


def _judged(defs: dg.Definitions, key: dg.AssetKey, step: Step, done: dg.ExecuteInProcessResult) -> Step:
    """The step with the checks of its run: all of them, or the run has failed, however green the others are."""
    if interrupted(done.all_events):
        raise KeyboardInterrupt(f"Stopped at {step.what}; the same command does what is left.")
    found = done.get_asset_check_evaluations()
    step.checks = [(check.check_name, bool(check.passed)) for check in found]
    step.warnings = [check.check_name for check in found if not check.passed and check.severity == dg.AssetCheckSeverity.WARN]
    step.report = next((str(check.metadata["report"].value) for check in found if "report" in check.metadata), None)
    if not done.success and step.passed:
        raise StepError(step, reason_of(done.all_events) or "the run failed")
    selected = {check.name for check in defs.resolve_asset_graph().asset_check_keys if check.asset_key == key}
    # Of what was launched, the checks of other techniques are not evaluated.
    if key != LAUNCHED and (missing := selected - dict(step.checks).keys()):
        raise StepError(step, f"not evaluated were {', '.join(sorted(missing))}. {reason_of(done.all_events)}".strip())
    return step
