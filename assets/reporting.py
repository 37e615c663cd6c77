"""Reports of runs, written into the lake's folder `reports`: a page per run and an index.

Brings together what a materialization, its checks and the lake know; how a page looks is in quality/report.py. Files are written
through the lake, so that a lake in an object store has reports too.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg
import polars as pl
import pyarrow.fs as pafs
import yaml

from assets.replaying import COUNTED
from assets.verdicts import days_from, tell_few_days
from assets.workplace import Workplace

if TYPE_CHECKING:
    from replay.lake import Lake

FOLDER = "reports"
INDEX = "index"
"""The name of its page."""
_NUMBERS = {
    "tuples": "tuples read", "tuples_per_second": "tuples/s", "results": "results", "late": "late",
    "rejected": "rejected, of the whole stream",
}  # fmt: skip
_FACTS = {
    "stream": "stream", "days": "days", "checked": "checked", "delta_version": "Delta version of the log",
    "config_hash": "fingerprint of the specification",
    "began": "began", "runs": "run", "batches": "micro-batches", "seconds": "seconds, with publishing",
    "state_bytes": "state after a batch, at most, in bytes", "published": "published in", "sample": "verified",
}  # fmt: skip


def report_name(publish: str, run: str) -> str:
    """The name of the page of a run of Dagster's."""
    return f"{publish}-{run[:8]}"


def report_link(workplace: Workplace, name: str) -> dg.UrlMetadataValue:
    """Where a browser finds a page."""
    return dg.MetadataValue.url(f"{workplace.reports.rstrip('/')}/{name}.html")


def plainly(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata of a materialization as plain values; its picture, if it could be drawn, as a PNG."""
    told = {name: value.value if isinstance(value, dg.MetadataValue) else value for name, value in metadata.items()}
    png = base64.b64decode(str(told.pop("picture", "")).partition("base64,")[2].rstrip(")"))
    return told | ({"picture": png} if png else {})


def told_by(instance: dg.DagsterInstance, key: dg.AssetKey, run: str) -> dict[str, Any]:
    """What a run of Dagster's has told of an asset, plainly, with the totals of the run; nothing if it has not materialized it."""
    event = instance.get_latest_materialization_event(key)
    if event is None or event.run_id != run or event.asset_materialization is None:
        return {}
    told = event.asset_materialization.metadata
    if event.asset_materialization.partition:  # the last day has the picture, and is not always the last that is told
        last = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[str(told["last_day"].value)])
        told = instance.fetch_materializations(last, limit=1).records[0].asset_materialization.metadata  # type: ignore[union-attr]
    return plainly(told | {name: told[f"run_{name}"] for name in COUNTED if f"run_{name}" in told})


def report_replay(
    context: dg.AssetExecutionContext,
    workplace: Workplace,
    stream: str,
    publish: str,
    spec: Mapping[str, Any],
    metadata: Mapping[str, Any],
    days: Collection[date],
) -> dg.MetadataValue:  # type: ignore[type-arg]
    """Write the page of a replay that is not checked yet, which its checks replace: the link to it, or why there is none.

    Args:
        context: of the asset; its run gives the page its name.
        workplace: where the lake is.
        stream: what was replayed.
        publish: what the results are published as.
        spec: the specification.
        metadata: what the materialization tells.
        days: which were replayed.
    """
    name, dates = report_name(publish, context.run.run_id), sorted(days)
    verified = {
        "outcomes": [], "worst": [], "late": [], "picture": None, "dates": dates, "sample": "nothing yet",
        "days": tell_few_days(dates),
    }  # fmt: skip
    try:
        write_report(workplace, name, stream, publish, spec, plainly(metadata), verified)
    except Exception as problem:  # what is published is right all the same
        context.log.exception(f"the report {name} could not be written")
        return dg.MetadataValue.text(f"it could not be written: {str(problem) or type(problem).__name__}")
    return report_link(workplace, name)


def write_report(
    workplace: Workplace,
    name: str,
    stream: str,
    publish: str,
    spec: Mapping[str, Any],
    told: Mapping[str, Any],
    verified: Mapping[str, Any],
) -> None:
    """The page of a run; the index is written again.

    Args:
        workplace: where the lake is.
        name: of the page.
        stream: what was replayed.
        publish: what the results are published as.
        spec: the specification.
        told: what the run's materialization tells; nothing if the run did nothing but check.
        verified: what the checks found.
    """
    from engines import build
    from quality.report import Report, page

    lake, engine = workplace.place, build(spec)
    folder = lake.address(FOLDER)
    days = _days(workplace, publish, verified)
    # Beside the days of a run those that were red before are checked.
    replayed = tell_few_days(days_from(told["first_day"], told["last_day"])) if told.get("first_day") else verified["days"]
    known = {
        "results": sum(day["results"] for day in days),
        "late": sum(day["late"] for day in days),
        "delta_version": ", ".join(sorted({str(day["version of the log"]) for day in days})),
        "config_hash": engine.spec.fingerprint(),
        "published": lake.address("results", publish),
        **told,
        "stream": stream,
        "days": replayed,
        **({"checked": verified["days"]} if verified["days"] != replayed else {}),
        "sample": verified["sample"],
    }
    name_of_its_own = f" as {publish}" if publish != f"{spec['technique']}__{stream}" else ""
    what = f"{spec['technique']} on {stream}{name_of_its_own}, {replayed}"
    report = Report(
        title=what if told else f"Checks of {what}",
        name=name,
        at=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
        numbers={label: round(known[key]) for key, label in _NUMBERS.items() if key in known},
        facts={label: known[key] for key, label in _FACTS.items() if key in known},
        specification=yaml.safe_dump(dict(spec), sort_keys=False),
        explained=engine.explain(),
        outcomes=verified["outcomes"],
        worst=verified["worst"],
        pictures=_pictures(workplace, told, verified),
        tables={
            "Days": days,
            "Late tuples, the first of them": verified["late"],
            "Rejected at ingestion, of the whole stream": _rejected(workplace, stream),
        },
    )
    lake.write(folder, f"{name}.html", page(report).encode())
    entry = {"title": report.title, "name": name, "at": report.at, "state": report.state, "checks": report.passed}
    numbers = {label.removesuffix(" read"): report.numbers[label] for label in _NUMBERS.values() if label in report.numbers}
    lake.write_json(folder, f"{name}.json", entry | numbers)
    write_index(workplace)


def write_index(workplace: Workplace) -> list[dict[str, Any]]:
    """Write the index of the pages that are there; tells what it lists, the newest first."""
    from quality.report import index

    lake = workplace.place
    pages = sorted(_entries(lake), key=lambda entry: str(entry["at"]), reverse=True)
    lake.write(lake.address(FOLDER), f"{INDEX}.html", index(pages).encode())
    return pages


def _pictures(workplace: Workplace, told: Mapping[str, Any], verified: Mapping[str, Any]) -> dict[str, bytes]:
    from assets.pictures import picture_of_batches
    from replay.metrics import metrics_of

    found = {"What was found": told["picture"]} if "picture" in told else {}
    if verified["picture"]:
        found["Engine and oracle"] = verified["picture"]
    metrics = metrics_of(workplace.place, *str(told.get("runs", "")).split(", "))
    return found | ({"Micro-batches": picture_of_batches(metrics)} if metrics.num_rows else {})


def _days(workplace: Workplace, publish: str, verified: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What was published, day by day."""
    from replay.publish import published_days

    known = published_days(workplace.place, publish)
    return [
        {
            "day": day,
            "results": known[day]["results"],
            "late": known[day]["late"],
            "state": "sealed" if known[day]["sealed"] else "provisional",
            "version of the log": ", ".join(str(version) for version in json.loads(str(known[day]["log_versions"])).values()),
            "published (UTC)": str(known[day]["published"])[:19],
        }
        for day in verified["dates"]
    ]


def _rejected(workplace: Workplace, stream: str) -> list[dict[str, Any]]:
    """Records of the stream that are not in the log, by reason, the most frequent first."""
    from replay.streams.rejects import rejects_address

    lake, address = workplace.place, rejects_address(workplace.place, stream)
    if lake.table(address) is None:
        return []
    reasons = pl.scan_delta(lake.table(address)).group_by("reason").agg(records=pl.len())
    return reasons.sort("records", "reason", descending=[True, False]).head(10).select("records", "reason").collect().to_dicts()


def _entries(lake: Lake) -> list[dict[str, Any]]:
    """What the index tells of each page that is there."""
    files = lake.files(lake.address(FOLDER))
    there = {info.path for info in files.get_file_info(pafs.FileSelector("", allow_not_found=True))}
    notes = [name for name in sorted(there) if name.endswith(".json") and name.replace(".json", ".html") in there]
    return [json.loads(files.open_input_stream(note).read()) for note in notes]
