"""Results assets: one per technique and stream, partitioned by the days of the log.

Which there are, and with which specification, is said in `assets/techniques/`. A backfill of many days is a single run; changing a
specification changes the asset's code version, which marks what was published as stale.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import dagster as dg
from pydantic import Field, create_model

from assets.replaying import checked, metadata_of, metadata_of_days, metadata_of_run, replay_days, replayed_days
from assets.reporting import report_replay
from assets.streams import OWNERS, days_of, stream_key
from assets.techniques import technique_modules
from assets.workplace import Workplace

LAUNCHED = dg.AssetKey(["experiments", "replay"])
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")
"""Of what a person may launch: no path, and short enough for the names of folders that are made of it."""
_NAMED = "The results are published as <name>__<technique>__<stream>, in the place of what was launched so before with other settings."


def results_key(technique: str, stream: str) -> dg.AssetKey:
    """The asset of a technique's results on a stream."""
    return dg.AssetKey([technique, stream])


def results_assets() -> list[dg.AssetsDefinition]:
    """Every technique's results assets."""
    return [
        _results_asset(technique, stream, spec)
        for technique, module in technique_modules().items()
        for stream, spec in module.RESULTS.items()
    ]


def _results_asset(technique: str, stream: str, spec: Mapping[str, Any]) -> dg.AssetsDefinition:
    from engines import build

    engine = build(spec)
    publish = f"{technique}__{stream}"

    @dg.asset(
        key=results_key(technique, stream),
        deps=[stream_key(stream)],
        group_name=technique,
        description=f"{engine.explain()}\n\nPublished by day in `results/{publish}`.",
        owners=OWNERS,
        kinds={"spark", "deltalake"},
        code_version=engine.spec.fingerprint(),
        partitions_def=days_of(stream),
        backfill_policy=dg.BackfillPolicy.single_run(),
        metadata={"specification": dg.MetadataValue.json(dict(spec))},
        pool=publish,
    )
    def results(context: dg.AssetExecutionContext, workplace: Workplace) -> dg.MaterializeResult:  # type: ignore[type-arg]
        days = _days(context.partition_keys)
        checked(spec, stream, workplace)
        done = replay_days(context, spec, stream, days, publish, workplace)
        metadata = metadata_of(done, spec, stream, publish, workplace)
        report = report_replay(context, workplace, stream, publish, spec, metadata, replayed_days(done))
        for day, told in metadata_of_days(metadata, done, stream, publish, workplace).items():
            context.add_asset_metadata(told, partition_key=day)
        return dg.MaterializeResult(metadata={"report": report, **metadata_of_run(metadata)})

    return results


def _days(partitions: Sequence[str]) -> list[date]:
    """The days of a run; whoever adds a partition by hand can call it anything."""
    days = []
    for partition in partitions:
        try:
            days.append(date.fromisoformat(partition))
        except ValueError:
            raise _refused("partition", partition, "are the days of the log, such as 2011-09-15") from None
    return sorted(days)


def launched_asset() -> dg.AssetsDefinition:
    """The asset behind the job `replay`: any technique on any stream, as the Launchpad says."""
    modules = technique_modules()
    first = next(iter(modules))
    union: Any = modules[first].Settings
    for module in list(modules.values())[1:]:
        union = union | module.Settings
    described = "What is replayed: a technique with its settings."
    config: Any = create_model(
        "ReplayConfig",
        __base__=dg.Config,
        stream=(str, Field(default="traffic", description="The stream; ingest it first.")),
        technique=(union, Field(default={first: {}}, discriminator="technique", description=described)),
        days=(str, Field(default="all", description="all, a day such as 2011-09-15, or a range such as 2011-09-15..2011-09-20.")),
        name=(str, Field(default="launched", description=_NAMED)),
    )

    def launched(context: dg.AssetExecutionContext, config: Any, workplace: Workplace) -> dg.MaterializeResult:  # type: ignore[type-arg]
        spec = config.technique.spec()
        days, publish = _given(config, spec, workplace)
        done = replay_days(context, spec, config.stream, days, publish, workplace)
        metadata = metadata_of(done, spec, config.stream, publish, workplace)
        report = report_replay(context, workplace, config.stream, publish, spec, metadata, replayed_days(done))
        return dg.MaterializeResult(metadata={"report": report, **metadata, "stream": config.stream, "published_as": publish})

    launched.__annotations__["config"] = config
    return dg.asset(
        key=LAUNCHED,
        group_name="experiments",
        description="A replay from the Launchpad: any technique on any stream, with any of its settings.",
        owners=OWNERS,
        kinds={"spark", "deltalake"},
        # Which settings there are: what they were is told by each materialization.
        code_version=hashlib.sha256(json.dumps(config.model_json_schema(), sort_keys=True).encode()).hexdigest()[:16],
        pool="launched",
    )(launched)


def _given(config: Any, spec: Mapping[str, Any], workplace: Workplace) -> tuple[list[date], str]:
    """The days to replay and the name of their results, or a sentence; nothing is written."""
    if not _NAME.fullmatch(config.name):
        raise _refused("name", config.name, "are letters, digits, '_' and '-', at most 60 of them, beginning with a letter")
    if not config.stream or "/" in config.stream:
        raise _refused("stream", config.stream, "is the name of a stream that is ingested, such as traffic")
    checked(spec, config.stream, workplace)
    return _days_given(config.days, config.stream, workplace), f"{config.name}__{spec['technique']}__{config.stream}"


def _days_given(text: str, stream: str, workplace: Workplace) -> list[date]:
    from replay.log import Log

    there = Log.open(workplace.place, workplace.place.address("streams", stream)).days()
    if not there:
        raise dg.Failure(description=f"stream: {stream!r} given; it has no tuples, so there is nothing to replay.", allow_retries=False)
    if text == "all":
        return there
    first, between, last = text.partition("..")
    try:
        begin, end = date.fromisoformat(first), date.fromisoformat(last if between else first)
    except ValueError:
        raise _refused("days", text, f"are all, a day such as {there[0]}, or a range such as {there[0]}..{there[-1]}") from None
    if begin > end:
        raise _refused("days", text, f"is a range in order, such as {end}..{begin}")
    if not there[0] <= begin <= end <= there[-1]:
        raise _refused("days", text, f"are days from {there[0]} to {there[-1]}")
    return [day for day in there if begin <= day <= end]


def _refused(setting: str, given: str, allowed: str) -> dg.Failure:
    return dg.Failure(description=f"{setting}: {given!r} given; allowed {allowed}.", allow_retries=False)
