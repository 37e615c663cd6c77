"""Commands that go through Dagster's instance, so that its UI shows what they did: demo, backfill, quality.

They run the jobs in this process and tell steps as documents. What is shown at the end is in `showing.py`.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from dagster import AssetKey
from pyarrow.fs import FileSelector
from rich.console import Console
from typer import echo

from assets.results import results_key
from assets.streams import make_days_known, stream_key
from assets.techniques import technique_modules
from assets.workplace import Workplace
from orchestration.building import build_defs
from orchestration.cli.given import read_days
from orchestration.cli.sentences import Told
from orchestration.cli.spark import written_to
from orchestration.demo import Step, StepError, checked_again, demo, materialized
from orchestration.instance import home, instance
from orchestration.schedules import all_days, days_to_replay, of_range, red_days
from replay.lake import Lake
from replay.span import neighbours
from replay.streams.declaration import declared


def run_demo(lake: str, raw: str, master: str) -> list[dict[str, Any]]:
    """The demonstration."""
    return _documents(demo(_workplace(lake, raw, master), _tell))


def run_backfill(results: str, days: str, lake: str, raw: str, master: str) -> list[dict[str, Any]]:
    """Days of a results asset, neighbouring ones in one run; those that are missing are all that do not stand, and the red ones."""
    technique, stream, spec = _known(results)
    workplace = _workplace(lake, raw, master)
    place = instance()
    there = all_days(workplace, stream)
    missing, reason = days_to_replay(workplace, technique, stream, spec)
    missing = sorted([*missing, *(red.day for red in red_days(place, workplace, technique, stream, spec, missing))])
    if not there or not missing and days == "missing":
        echo(f"{results}: {reason}", err=True)
        return []
    span = read_days(days) if days not in ("missing", "all") else None
    chosen = missing if days == "missing" else [day for day in there if span is None or span[0] <= day <= span[1]]
    if not chosen:
        raise Told(f"days: {days!r} given; allowed are days from {there[0]} to {there[-1]}.")
    make_days_known(place, stream, there)
    defs, key = build_defs(workplace), results_key(technique, stream)

    def steps() -> Iterator[Step]:
        for first, last in neighbours(chosen):
            _tell(f"{results}: {first} to {last}")
            yield materialized(defs, place, key, f"{results} {first}..{last}", _tell, tags=of_range(first, last))

    return _documents(steps())


def run_quality(lake: str, raw: str, master: str) -> list[dict[str, Any]]:
    """Every check of the streams that are declared and of the assets that are published; what else is in the lake is told.

    An asset whose checks cannot be run does not keep others from theirs.
    """
    workplace = _workplace(lake, raw, master)
    there, others = _there(workplace), list(_unchecked(workplace))
    for sentence in others:
        _tell(sentence)
    if not there and others:
        raise Told(f"lake: nothing in {workplace.place.root} is of a declared stream or of an asset, so nothing was checked.")
    if not there:
        raise Told(f"lake: nothing is ingested or published in {workplace.place.root}; `reprise demo` does both.")
    defs, place = build_defs(workplace), instance()

    def checks(key: AssetKey) -> Step:
        try:
            return checked_again(defs, place, key, f"checks of {'/'.join(key.path)}")
        except StepError as problem:
            _tell(str(problem))
            return problem.step

    return _documents(map(checks, there))


def _there(workplace: Workplace) -> list[AssetKey]:
    """The assets of which anything is in the lake: one that has lost some of its tables is checked, and not left out."""
    folders = {
        stream_key(stream): [f"streams/{stream}/_delta_log", f"streams/{stream}__rejects/_delta_log", f"streams/{stream}__files"]
        for stream in declared(workplace.folders())
    }
    for technique, module in technique_modules().items():
        for stream in module.RESULTS:
            tables = (f"{technique}__{stream}{output}" for output in ("", "__late", "__state", "__days"))
            folders[results_key(technique, stream)] = [f"results/{table}/_delta_log" for table in tables]
    files = workplace.place.files(workplace.place.root)
    return [key for key, places in folders.items() if any(files.get_file_info(FileSelector(name, allow_not_found=True)) for name in places)]


def _unchecked(workplace: Workplace) -> Iterator[str]:
    """A sentence for all that is in the lake and of which nothing says what it should be: neither a declaration nor an asset."""
    files = workplace.place.files(workplace.place.root)
    streams, published = declared(workplace.folders()), {f"{t}__{s}" for t, module in technique_modules().items() for s in module.RESULTS}

    def tables(folder: str) -> list[str]:
        there = (info.base_name for info in files.get_file_info(FileSelector(folder, allow_not_found=True)))
        return sorted(name for name in there if files.get_file_info(FileSelector(f"{folder}/{name}/_delta_log", allow_not_found=True)))

    for name in tables("streams"):
        if name not in streams and not name.endswith("__rejects"):
            yield f"streams/{name} is not checked: it is not declared, which would tell what to expect of it."
    for name in tables("results"):
        published_as = name.removesuffix("__days")
        if published_as not in {name, *published}:
            yield f"results/{published_as} is not checked: it is no asset's; only what was launched in Dagster was checked, by that run."


def _documents(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """Do steps, up to one that cannot be done, and keep what Dagster and Spark say to themselves in a file beside the instance."""
    done = []
    try:
        with (home() / "reprise.log").open("a") as log, written_to(log):
            for step in steps:
                done.append(step)
    except StepError as problem:
        _tell(str(problem))
        done.append(problem.step)
    return [asdict(step) | {"checks": dict(step.checks), "passed": step.passed} for step in done]


def _workplace(lake: str, raw: str, master: str) -> Workplace:
    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore")
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "yes")
    given = {**Workplace.here().model_dump(), "lake": lake, "raw": raw, "master": master}
    return Workplace(**{**given, "lake": Workplace(**given).place.root, "raw": Lake(raw).root})


def _known(results: str) -> tuple[str, str, dict[str, Any]]:
    known = {f"{t}/{s}": (t, s, spec) for t, module in technique_modules().items() for s, spec in module.RESULTS.items()}
    if results not in known:
        raise Told(f"results: {results!r} given; allowed are {', '.join(known)}.")
    return known[results]


_ERRORS = os.fdopen(os.dup(2), "w", buffering=1)
"""Where a person reads, whatever becomes of the process's own descriptors."""


def _tell(sentence: str) -> None:
    Console(file=_ERRORS, highlight=False).print(sentence, soft_wrap=True, markup=False)
