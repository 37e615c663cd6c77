"""Stream assets: one per declaration, the original or its twin, ingested into the log.

A stream that is declared becomes an asset; nothing is added here for it. Materializing it brings the log up to date with the raw
files, tells what is in it, and makes its days known as partitions of the results.
"""

from collections.abc import Sequence
from datetime import date
from typing import Any

import dagster as dg
from pydantic import Field

from assets.metadata import SHOWN_ROWS, picture, preview
from assets.workplace import Workplace
from replay.streams.declaration import SUFFIX, Declaration

GROUP = "streams"
OWNERS = ["team:reprise"]
_TUPLE_BYTES = 64
"""About as much a tuple of a twin takes."""


class StreamConfig(dg.Config):
    """How a stream is ingested."""

    tuples: int | None = Field(default=None, description="How many tuples its twin has, if there are no originals. Default: as it is.")
    seed: int | None = Field(default=None, description="What the twin is drawn with. Default: as it is.")


def stream_key(stream: str) -> dg.AssetKey:
    """The asset of a stream."""
    return dg.AssetKey(["streams", stream])


def days_of(stream: str) -> dg.DynamicPartitionsDefinition:
    """The days of a stream's log, silent ones too, as partitions of its results."""
    return dg.DynamicPartitionsDefinition(name=f"{stream}_days")


def make_days_known(instance: dg.DagsterInstance, stream: str, days: list[date]) -> None:
    """Keep the partitions of a stream's results in step with its log, in order of time."""
    name, wanted = str(days_of(stream).name), [day.isoformat() for day in days]
    known = instance.get_dynamic_partitions(name)
    if known == wanted:
        return
    if known != wanted[: len(known)]:
        for day in known:
            instance.delete_dynamic_partition(name, day)
    instance.add_dynamic_partitions(name, wanted)


def stream_assets(declarations: Sequence[Declaration]) -> list[dg.AssetsDefinition]:
    """An asset for each declaration."""
    return [_stream_asset(declaration) for declaration in declarations]


def _stream_asset(declaration: Declaration) -> dg.AssetsDefinition:
    stream = declaration.name

    @dg.asset(
        key=stream_key(stream),
        group_name=GROUP,
        description=f"{declaration.title or stream}. Declared in {stream}{SUFFIX}; ingested from its raw files, or from its twin.",
        owners=OWNERS,
        kinds={"deltalake", declaration.files[0].format},
        code_version=declaration.fingerprint(),
        tags={"order": declaration.order},
        pool=f"streams__{stream}",
    )
    def ingested(context: dg.AssetExecutionContext, config: StreamConfig, workplace: Workplace) -> dg.MaterializeResult:  # type: ignore[type-arg]
        return ingest_stream(context, stream, config, workplace)

    return ingested


def ingest_stream(context: dg.AssetExecutionContext, stream: str, config: StreamConfig, workplace: Workplace) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """Bring a stream's log up to date, and tell about it."""
    import time

    from assets.profile_pictures import picture_of_profile
    from engines.spec import SpecError
    from replay.lake import LakeError
    from replay.log import Log
    from replay.streams.ingest import ingest
    from replay.streams.parsed import StreamError
    from replay.streams.profile import profile
    from replay.streams.provide import PASSED_OVER, provide
    from replay.streams.raw import list_files
    from replay.streams.splitting import sizes

    begun = time.monotonic()
    try:
        declaration = workplace.declaration(stream)
        wanted = _twin(stream, config, workplace)

        def tasks(function: Any, arguments: Any, weigh: Any = None) -> Any:
            # Asked for only if a twin has to be made: originals start no session for it.
            return workplace.ingesting(_TUPLE_BYTES * wanted.tuples)(function, arguments, weigh)

        asked = config.tuples is not None or config.seed is not None
        folder, origin = provide(declaration, workplace.raw, tasks, wanted, log_in=None if asked else workplace.place)
        if PASSED_OVER in origin:
            context.log.warning(f"the twin of {stream} is used, for there are {origin[PASSED_OVER]}")
        size = sum(sizes(folder, declaration, list_files(folder, declaration)).values())
        context.log.info(f"ingesting the {origin['kind']} of {stream}: {size:,} bytes in {folder.root}")
        done = ingest(workplace.place, declaration, folder, workplace.ingesting(size), origin=origin)
        log = Log.open(workplace.place, workplace.place.address("streams", stream))
        found = profile(workplace.place, stream, workplace.ingesting(size)) if log.end else None
    except (StreamError, SpecError, LakeError) as problem:
        raise dg.Failure(description=str(problem), allow_retries=False) from None
    make_days_known(context.instance, stream, log.days())
    seconds = time.monotonic() - begun
    metadata: dict[str, Any] = {
        "tuples": done.manifest.rows,
        "rejected": done.manifest.rejected,
        "files": len(done.manifest.files),
        "files_read": len(done.read),
        "days": len(log.days()),
        "first_day": str(log.days()[0]) if log.end else "",
        "last_day": str(log.days()[-1]) if log.end else "",
        "seconds": round(seconds, 3),
        "tuples_per_second": round(done.records / seconds, 1),
        "delta_version": done.version,
        "config_hash": declaration.fingerprint(),
        "origin": dg.MetadataValue.json(origin),
        "rejects": preview(_first_rejects(workplace, stream)),
        "out_of_order": found.out_of_order if found else 0.0,
        "largest_delay_seconds": found.largest_delay_us / 1e6 if found else 0.0,
        "missing": dg.MetadataValue.json({name: round(share, 6) for name, share in found.missing.items() if share} if found else {}),
        "profile": picture(picture_of_profile(found)) if found else dg.MetadataValue.md("no tuples"),
        "preview": preview(_first_rows(workplace, log) if found else []),
    }
    # A log that was removed and written anew counts its versions from 0 again.
    return dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(f"{log.id} {done.version}"))


def _twin(stream: str, config: StreamConfig, workplace: Workplace) -> Any:
    """The twin that is wanted, if there has to be one."""
    from dataclasses import replace

    from replay.streams.provide import TwinSettings, made_with
    from replay.streams.twins import twins

    if stream not in twins():
        return None
    made = made_with(stream, workplace.raw) or TwinSettings(tuples=workplace.twin_tuples)
    given = {"tuples": config.tuples, "seed": config.seed}
    return replace(made, **{name: value for name, value in given.items() if value is not None})


def _first_rejects(workplace: Workplace, stream: str) -> list[dict[str, Any]]:
    """Some of many: texts of a million would not fit into memory."""
    import polars as pl

    from replay.streams.rejects import rejects_address

    lake = workplace.place
    rejects = pl.scan_delta(lake.table(rejects_address(lake, stream)))
    return rejects.bottom_k(SHOWN_ROWS, by=["file", "line"]).sort("file", "line").collect(engine="streaming").to_dicts()


def _first_rows(workplace: Workplace, log: Any) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(workplace.place.files(log.address).open_input_file(log.paths[0])) as parquet:
        batch = next(parquet.iter_batches(SHOWN_ROWS))
    return [dict(row) for row in batch.to_pylist()]
