"""Publishing: a run's days replace those days in `results/`, in one commit per table.

Readers never see half a day: further outputs come first, `results` last, and behind it the record of what was published,
so that a crash in between leaves days that are replayed, never days that are wrongly taken for done.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.transaction import AddAction

from engines.contract import FOREVER, TIMESTAMP
from engines.spec import SpecError
from replay.envelope import LATE, STATE
from replay.files import write_file
from replay.finals import order
from replay.interrupts import interrupts_noted
from replay.lake import Lake, LakeError
from replay.late import late_of_days
from replay.log import Log, day_end, day_of, day_start
from replay.metrics import metrics_of
from replay.outputs import output_schemas
from replay.plan import Plan
from replay.progress import finished, note_status
from replay.span import all_days, sealing_arrival

_OF_BATCHES = ("revision", "retracted")
"""Columns that depend on where batches were cut, and are therefore not published."""

PART_BYTES = 256 << 20
"""The most rows of a day that are sorted at once, and the size of a file of results; sorting and writing take some copies of them."""

DAYS = pa.schema([
    ("day", pa.date32()), ("run", pa.string()), ("fingerprint", pa.string()), ("log_ids", pa.string()),
    ("log_versions", pa.string()), ("arrivals", pa.string()),
    ("sealed", pa.bool_()), ("results", pa.int64()), ("late", pa.int64()), ("published", TIMESTAMP),
])  # fmt: skip


@dataclass(frozen=True)
class Publication:
    """What was published: the results' address, and a row per day."""

    address: str
    days: pa.Table


@dataclass(frozen=True)
class _Files:
    """Files of rows for a published table, and how many rows of each day."""

    adds: list[AddAction]
    rows: dict[date, int]


def results_address(lake: Lake, name: str, output: str = "results") -> str:
    """Where published rows of an output are; `results` under the bare name."""
    return lake.address("results", name if output == "results" else f"{name}__{output}")


def results_name(plan: Plan) -> str:
    """The name that a plan's results are published under: its own, or that of technique and streams."""
    return plan.publish or f"{plan.spec['technique']}__{'_'.join(plan.streams)}"


def publish(plan: Plan) -> Publication:
    """Replace the days of a finished run in the published tables; who interrupts it gets his way when all of them agree.

    Days that the logs no longer have go with it: their rows would be neither right nor wrong.
    """
    if not finished(plan, metrics_of(plan.lake, plan.run)):
        raise LakeError(f"run {plan.run}: it has not come to its end; resume it, and publish it then.")
    first, last = (date.fromisoformat(day) for day in plan.span.days)
    days = [date.fromordinal(n) for n in range(first.toordinal(), last.toordinal() + 1)]
    with interrupts_noted():
        known = published_days(plan.lake, results_name(plan))
        refuse_mixing(plan, known)
        _refuse_older(plan, days, known)
        # By the logs as they are now: this run may have read them before they grew.
        there = {*all_days({name: Log.open(plan.lake, log.address) for name, log in plan.logs.items()}), *days}
        gone = [day for day in known if day not in there]
        # All files are there before anything that is published changes: a disk that is full by then leaves it as it is.
        written = {LATE: _written(plan, LATE, late_of_days(plan, days)), STATE: _written(plan, STATE, _states(plan))}
        for output in sorted(plan.operator.outputs, key=lambda name: name == "results"):
            written[output] = _written(plan, output, _rows_by_day(plan, output, days))
        _prepare(plan)
        for output, files in written.items():
            theirs = (day_of(end - 1) for end in plan.span.day_ends) if output == STATE else days
            _replace(plan, output, files, [*theirs, *gone])
        publication = _record(plan, days, gone, written)
        note_status(plan, "published")
        return publication


def published_schemas(plan: Plan) -> dict[str, pa.Schema]:
    """The columns of each published table, which is partitioned by `day`."""
    further = {STATE: [(name, pa.string()) for name in origin(plan)]}
    return {
        output: pa.schema([*[f for f in schema if f.name not in _OF_BATCHES], *further.get(output, []), ("day", pa.date32())])
        for output, schema in output_schemas(plan).items()
    }


def published_days(lake: Lake, name: str) -> dict[date, Mapping[str, object]]:
    """The record of each day that is published."""
    table = lake.table(results_address(lake, name, "days"))
    return {row["day"]: row for row in table.to_pyarrow_table().to_pylist()} if table else {}


def refuse_mixing(plan: Plan, known: Mapping[date, Mapping[str, object]]) -> None:
    """Refuse a name under which other streams are published, of which days would stay beside those of this plan, or that of a table."""
    name, taken = results_name(plan), [LATE, STATE, "days", *plan.operator.outputs]
    if ending := [output for output in taken if name.endswith(f"__{output}")]:
        raise SpecError(f"publish: {name!r} given; allowed are names that do not end in '__{ending[0]}', as tables beside results do.")
    for record in known.values():
        streams = json.loads(str(record.get("log_ids") or "{}"))
        if streams and streams.keys() != plan.streams.keys():
            raise SpecError(f"publish: {name!r} given, and results of {', '.join(streams)} are published so; allowed is another name.")


def _refuse_older(plan: Plan, days: Sequence[date], known: Mapping[date, Mapping[str, object]]) -> None:
    """Refuse a run that was left lying while its days were published from a log that had grown or changed."""
    for day in days:
        versions = json.loads(str(known.get(day, {}).get("log_versions", "{}")))
        for name, (_, version) in plan.streams.items():
            if versions.get(name, version) > version:
                raise LakeError(
                    f"run {plan.run}: it has read version {version} of the log of '{name}', and {day} is published from version "
                    f"{versions[name]}; replay the day anew."
                )


def _prepare(plan: Plan) -> None:
    """Tables for the rows: made if there are none; all emptied if another specification, or of other columns, wrote any of them."""
    options, fingerprint = plan.lake.options(), plan.engine.spec.fingerprint()
    schemas = {results_address(plan.lake, results_name(plan), name): schema for name, schema in published_schemas(plan).items()}
    # The record of days comes first: a crash then leaves days that are replayed.
    schemas = {results_address(plan.lake, results_name(plan), "days"): DAYS, **schemas}
    tables = {address: plan.lake.table(address) for address in schemas}
    fit = all(
        table is None or (table.metadata().description == fingerprint and _columns(table.schema()) == _columns(Schema.from_arrow(schema)))
        for table, schema in zip(tables.values(), schemas.values(), strict=True)
    )
    for address, schema in schemas.items():
        table = tables[address]
        if table is None:
            DeltaTable.create(address, Schema.from_arrow(schema), partition_by=["day"], description=fingerprint, storage_options=options)
        elif not fit:
            write_deltalake(table, schema.empty_table(), mode="overwrite", schema_mode="overwrite", storage_options=options)
            DeltaTable(address, storage_options=options).alter.set_table_description(fingerprint)


def _columns(schema: Schema) -> dict[str, str]:
    """Names and types as Delta has them: it does not know all of Arrow's."""
    return {field.name: str(field.type) for field in schema.fields}


def _rows_by_day(plan: Plan, output: str, wanted: Sequence[date]) -> Iterator[tuple[date, pa.Table]]:
    """The rows of each day in order of identity; of many, part by part, each in this order and of batches that follow each other."""
    table = plan.lake.table(plan.output(output))
    if table is None:
        return
    data, days, decided = _by_time(table), all_days(plan.logs), pc.field("decided")
    for day in wanted:
        # What is decided before the first day belongs to the first; after the last, or by the flush alone, to the last.
        condition = decided.is_valid()
        if day > days[0]:
            condition &= decided >= pa.scalar(day_start(day), TIMESTAMP)
        if day < days[-1]:
            condition &= decided < pa.scalar(day_end(day), TIMESTAMP)
        else:
            condition |= decided.is_null()
        for part in _parts(data, condition):
            yield day, _in_order(part, plan.operator.identity[output])


def _in_order(batches: list[pa.RecordBatch], identity: Sequence[str]) -> pa.Table:
    """What is published of rows; takes them out of the list, for the next ones must not be read beside them."""
    rows = pa.Table.from_batches(batches)
    batches.clear()
    return rows.take(order(rows, identity)).drop_columns([name for name in _OF_BATCHES if name in rows.schema.names])


def _by_time(table: DeltaTable) -> ds.Dataset:
    """A table that batches added to; files come in the order in which their rows were decided, as they were written or not."""
    data, actions = table.to_pyarrow_dataset(), pa.table(table.get_add_actions(flatten=True))
    if "min.decided" not in actions.schema.names:
        return data
    first = dict(zip(actions["path"].to_pylist(), actions["min.decided"].cast(pa.int64()).to_pylist(), strict=True))
    files = sorted(data.get_fragments(), key=lambda file: FOREVER if (at := first.get(file.path)) is None else at)
    return ds.FileSystemDataset(files, data.schema, data.format, data.filesystem)


def _parts(data: ds.Dataset, condition: ds.Expression) -> Iterator[list[pa.RecordBatch]]:
    """Rows that meet a condition, not more at once than a driver can hold: of a day there may be any number."""
    held: list[pa.RecordBatch] = []
    size = 0
    # Threads would read on and on, whether anyone takes what they have read or not.
    for batch in data.to_batches(filter=condition, use_threads=False):
        if held and size + batch.nbytes > PART_BYTES:
            yield held
            held, size = [], 0
        if batch.num_rows:
            held.append(batch)
            size += batch.nbytes
    if held:
        yield held


def _states(plan: Plan) -> Iterator[tuple[date, pa.Table]]:
    """The states that the run left on its way; a row of them is a group of its own, and a single pass tells which are of which day."""
    table = plan.lake.table(plan.output(STATE))
    if table is None:
        return
    states = table.to_pyarrow_dataset()
    left: dict[int, list[Any]] = {end: [] for end in plan.span.day_ends}
    for file in states.get_fragments():
        for group in file.row_groups:
            left[pa.scalar(group.statistics["day_end"]["min"], TIMESTAMP).value].append((file, group.id))
    for end, groups in left.items():
        read = [file.subset(row_group_ids=[group]).to_table(schema=states.schema) for file, group in groups]
        rows = pa.concat_tables([states.schema.empty_table(), *read])
        for name, value in origin(plan).items():
            rows = rows.append_column(name, pa.array([value] * rows.num_rows, pa.string()))
        yield day_of(end - 1), rows


def _written(plan: Plan, output: str, rows: Iterator[tuple[date, pa.Table]]) -> _Files:
    """Write rows to files, which nobody reads yet."""
    files = _Files([], {})
    for day, table in rows:
        files.rows[day] = files.rows.get(day, 0) + table.num_rows
        if table.num_rows:
            address = results_address(plan.lake, results_name(plan), output)
            files.adds.append(write_file(plan.lake, address, table, partition={"day": day.isoformat()}).action())
        del table  # before the next one is made
    return files


def _replace(plan: Plan, output: str, files: _Files, days: Sequence[date]) -> None:
    """Put files in the place of what these days held, in one commit."""
    table = plan.lake.table(results_address(plan.lake, results_name(plan), output))
    if table is not None and days:
        where: list[tuple[str, str, Any]] = [("day", "in", [day.isoformat() for day in days])]
        table.create_write_transaction(list(files.adds), "overwrite", table.schema(), ["day"], partition_filters=where)


def _record(plan: Plan, days: Sequence[date], gone: Sequence[date], written: Mapping[str, _Files]) -> Publication:
    """Write down, day by day, what was published from what."""
    made = {name: value for name, value in origin(plan).items() if name in DAYS.names}
    rows = pa.Table.from_pylist(
        [
            {
                "day": day, "run": plan.run, **made, "arrivals": json.dumps(_arrivals(plan, day)),
                "sealed": day.isoformat() in plan.span.sealed, "results": written["results"].rows.get(day, 0),
                "late": written[LATE].rows.get(day, 0), "published": datetime.now(UTC),
            }
            for day in days
        ],
        schema=DAYS,
    )  # fmt: skip
    by_day = ((day, rows.slice(at, 1).drop_columns(["day"])) for at, day in enumerate(days))
    _replace(plan, "days", _written(plan, "days", by_day), [*days, *gone])
    return Publication(results_address(plan.lake, results_name(plan)), rows)


def _arrivals(plan: Plan, day: date) -> dict[str, tuple[int, int]]:
    """What a day's results hang on, from where the run began: what changes behind that changes other days of the run only."""
    ends = {name: sealing_arrival(log, plan.engine.clock(name), day) for name, log in plan.logs.items()}
    return {name: (plan.span.begin[name], min(ends[name], plan.span.end[name])) for name in plan.streams}


def origin(plan: Plan) -> dict[str, str]:
    """What made rows: a day stands, and a state can be gone on from, only where all of this is the same."""
    return {
        "fingerprint": plan.engine.spec.fingerprint(),
        "layout": str(plan.engine.version),
        "log_ids": json.dumps({name: log.id for name, log in plan.logs.items()}),
        "log_versions": json.dumps({name: version for name, (_, version) in plan.streams.items()}),
    }
