"""Asset checks of streams: one per expectation of the suite of raw streams, on every stream that is declared.

They follow from the declaration, so a stream of your own has them all. A check looks at the log as it is now: at all of it, or, if it is
large, at its last days. What is expected is said in quality/; here it is brought together with the lake and told in metadata.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg
import polars as pl
import pyarrow as pa

from assets.checks import check_results, check_specs
from assets.metadata import picture, preview
from assets.sampling import MOST_TUPLES
from assets.streams import stream_key
from assets.verdicts import ABOUT
from assets.workplace import Workplace

if TYPE_CHECKING:
    from quality.expectations import Outcome
    from quality.inspecting import Inspected
    from quality.scanning import Promised
    from quality.suites.streams import Limits
    from replay.log import Log
    from replay.streams.declaration import Declaration


def stream_checks(declarations: Sequence["Declaration"]) -> list[dg.AssetChecksDefinition]:
    """The checks of every stream."""
    from quality.suites.streams import suite

    return [_checks(stream.name, [one.expected for one in suite(limits(stream))]) for stream in declarations]


def _checks(stream: str, suite: Sequence[Any]) -> dg.AssetChecksDefinition:
    key = stream_key(stream)

    # In the stream's own pool: with more runs at a time still no log is inspected while it is written.
    name = f"checks_of_{'__'.join(key.path)}"

    @dg.multi_asset_check(specs=check_specs(key, suite), name=name, pool="__".join(key.path), can_subset=True)
    def checks(context: dg.AssetCheckExecutionContext, workplace: Workplace) -> Iterator[dg.AssetCheckResult]:
        def judged() -> Iterator[tuple["Outcome", dict[str, Any]]]:
            from assets.drift_picture import picture_of_drift

            found, looked_at = inspect_stream(workplace, stream)
            for outcome in found.outcomes:
                metadata = looked_at | about(outcome.name)
                if outcome.name in found.worst:
                    metadata["worst"] = preview(found.worst[outcome.name].to_dicts())
                if outcome.name == "distributions_stand":
                    metadata["drift"] = picture(picture_of_drift(found.tables["values"]))
                yield outcome, metadata

        def about(name: str) -> dict[str, Any]:
            return {ABOUT: workplace.place.address("streams", stream)} if workplace.lake.strip() else {}

        yield from check_results(context, key, suite, judged, about)

    return checks


def inspect_stream(workplace: Workplace, stream: str) -> tuple["Inspected", dict[str, Any]]:
    """Inspect a stream's log as it is now; and what was looked at."""
    from quality.inspecting import inspect
    from quality.scanning import choose
    from replay.log import Log

    lake, declaration = workplace.place, workplace.declaration(stream)
    log = Log.open(lake, lake.address("streams", stream))
    if not log.end:
        raise ValueError(f"streams/{stream}: its log has no tuples.")
    files, sample = choose(_files(log), MOST_TUPLES)
    found = inspect(files, log.schema, _raw_files(workplace, stream, log.end), promised(declaration), limits(declaration), lake.options())
    return found, {"tuples": int(files.filter("read")["rows"].sum()), "sample": sample, "delta_version": log.version}


def promised(declaration: "Declaration") -> "Promised":
    """What a declaration says of the columns of its log; a single key column is called `key` there."""
    from quality.scanning import Promised
    from replay.streams.records import ARRIVED, LINE, schema

    renamed = {declaration.key[0]: "key"} if len(declaration.key) == 1 else {}
    columns = {renamed.get(name, name): column for name, column in declaration.by_name.items()}
    ordered = () if declaration.order in ("file", "time") else (declaration.order,)
    keys = ("key", *declaration.key) if declaration.key else ()
    needed = {*declaration.times, *keys, *ordered, *(name for name, column in declaration.by_name.items() if column.required)}
    stored = [column for column in schema(declaration) if column.name not in (LINE, ARRIVED)]
    return Promised(
        columns=pa.schema(stored),
        ranges={name: column.range for name, column in columns.items() if column.range is not None},
        times=declaration.range,
        needed=frozenset(renamed.get(name, name) for name in needed),
        optional=frozenset(name for name, column in columns.items() if column.optional),
        units={name: column.unit for name, column in columns.items() if column.unit},
    )


def limits(declaration: "Declaration") -> "Limits":
    """The limits of warnings: those that are declared, and else the usual ones."""
    from quality.suites.streams import Limits

    given = {"silence_us" if name == "silence" else name: value for name, value in declaration.expect if value is not None}
    return Limits(**given)


def _files(log: "Log") -> pl.DataFrame:
    """The log's files as their statistics tell them."""
    days = [path.partition("day=")[2].partition("/")[0] for path in log.paths]
    content = {
        "path": [f"{log.address}/{path}" for path in log.paths],
        "day": days,
        "first": log.first,
        "rows": log.rows,
        "clock_before": [None, *log.clock[:-1].tolist()],
    }
    return pl.DataFrame(content, schema_overrides={"clock_before": pl.Int64}).with_columns(pl.col("day").str.to_date())


def _raw_files(workplace: Workplace, stream: str, tuples: int) -> pl.DataFrame:
    """What became of the records of each raw file."""
    from dataclasses import asdict

    from quality.measuring import raw_files
    from replay.streams.manifest import read_manifest
    from replay.streams.rejects import rejects_address

    lake = workplace.place
    manifest = read_manifest(lake, stream)
    if manifest is None:
        raise ValueError(f"streams/{stream}: its log was not made from raw files, so nothing is known of them.")
    rejects = pl.scan_delta(lake.table(rejects_address(lake, stream))).group_by("file").agg(rejects=pl.len()).collect()
    entries = pl.DataFrame([asdict(entry) for entry in manifest.files]).rename({"name": "file"})
    counted = entries.join(rejects.cast({"rejects": pl.Int64}), on="file", how="full", coalesce=True).fill_null(0)
    return raw_files(counted.select("file", "records", "rows", "rejected", "rejects"), tuples)
