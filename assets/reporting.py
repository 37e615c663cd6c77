"""Reports of runs, written into the lake's folder `reports`: a page per run and an index.

Brings together what a materialization and its checks know; how a page looks is in quality/report.py.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from assets.workplace import Workplace

_NUMBERS = {"tuples": "tuples", "late": "late", "rejected": "rejected", "results": "results", "tuples_per_second": "tuples per second"}
_FACTS = ("stream", "days", "delta_version", "config_hash", "runs", "batches", "seconds", "state_bytes", "published", "sample")


def report_path(workplace: Workplace, publish: str, run: str) -> Path:
    """Where the page of a run of Dagster's is, or will be."""
    return Path(workplace.place.root) / "reports" / f"{publish}-{run[:8]}.html"


def plainly(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata of a materialization as plain values; its picture as a PNG."""
    told = {name: value.value for name, value in metadata.items()}
    if "picture" in told:
        told["picture"] = base64.b64decode(str(told["picture"]).partition("base64,")[2].rstrip(")"))
    return told


def write_report(path: Path, title: str, told: Mapping[str, Any], spec: Mapping[str, Any], verified: Mapping[str, Any]) -> None:
    """The page of a run, from its metadata and what was verified; the index is written again."""
    from quality.report import Report, index, page

    report = Report(
        title=title,
        name=path.stem,
        at=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
        numbers={label: told[name] for name, label in _NUMBERS.items() if name in told},
        facts={name.replace("_", " "): told[name] for name in _FACTS if name in told},
        specification=yaml.safe_dump(dict(spec), sort_keys=False),
        outcomes=verified["outcomes"],
        worst=verified["worst"],
        pictures={"What was found": told["picture"], "Engine and oracle": verified["picture"]} if "picture" in told else {},
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(report), encoding="utf-8")
    passed = sum(outcome.passed for outcome in report.outcomes)
    numbers = {name: told.get(name, 0) for name in ("tuples", "results")}
    checks = f"{passed} of {len(report.outcomes)} passed"
    path.with_suffix(".json").write_text(
        json.dumps({"title": title, "name": path.stem, "at": report.at, "state": report.state, "checks": checks, **numbers})
    )
    entries = [json.loads(note.read_text()) for note in sorted(path.parent.glob("*.json"))]
    (path.parent / "index.html").write_text(index(entries), encoding="utf-8")
