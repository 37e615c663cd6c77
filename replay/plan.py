"""The plan of a run: everything that source, processor and sink have to know, as one document.

It is made once, kept with the run and handed to every process of it as JSON. What a plan leads to is decided elsewhere.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa

from engines import build
from engines.contract import Engine, Operator
from engines.spec import SpecError
from replay.lake import Lake, LakeError
from replay.log import Log
from replay.span import Span

DEFAULT_BATCH_TUPLES = 25_000_000
PLAN = "plan.json"
"""Its name in the run's folder."""


@dataclass(frozen=True)
class Plan:
    """What a run does."""

    run: str
    spec: Mapping[str, Any]
    lake: Lake
    streams: Mapping[str, tuple[str, int]]
    """The address and the pinned version of each stream's log."""
    span: Span
    columns: str
    """The columns of all streams together, as a serialised Arrow schema: no task has to open a log to know them."""
    log_ids: Mapping[str, str] = field(default_factory=dict)
    """Delta's name of each log: one that was removed and written anew may have the version that is pinned, too."""
    early: bool = True
    buckets: int = 2
    tasks: int = 2
    batch_tuples: int = DEFAULT_BATCH_TUPLES
    batch_files: int | None = None
    inline_state_bytes: int = 1 << 20
    """Tables of a bucket's state that are larger are kept in files, which Spark's state store only names."""
    speed: float | None = None
    """How much faster than its event time the stream is replayed; None: as fast as possible."""
    publish: str | None = None
    """The name of the results that the run's days are published under."""

    def __post_init__(self) -> None:
        """Refuse numbers that no run could have."""
        for name, number in (
            ("buckets", self.buckets),
            ("tasks", self.tasks),
            ("batch_tuples", self.batch_tuples),
            ("batch_files", self.batch_files),
            ("inline_state_bytes", self.inline_state_bytes),
        ):
            if number is not None and number < 1:
                raise SpecError(f"{name}: {number} given; allowed is a whole number from 1.")
        if not self.run or "/" in self.run:
            raise SpecError(f"run: {self.run!r} given; allowed is a name without '/'.")
        self.lake.address("runs", self.run)
        if self.speed is not None and not 0 < self.speed < math.inf:
            raise SpecError(f"speed: {self.speed} given; allowed is 'max' or a positive number.")

    @cached_property
    def engine(self) -> Engine:
        """The engine of the specification."""
        return build(self.spec)

    @cached_property
    def logs(self) -> dict[str, Log]:
        """The streams' logs, pinned."""
        logs = {name: Log.open(self.lake, address, version) for name, (address, version) in self.streams.items()}
        for name, log in logs.items():
            if self.log_ids.get(name, log.id) != log.id:
                raise LakeError(
                    f"run {self.run}: the log of '{name}' was removed and written anew since the run was begun, "
                    f"and none goes on with another; remove runs/{self.run}."
                )
        return logs

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of all streams together."""
        return pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(self.columns)))

    @cached_property
    def operator(self) -> Operator:
        """The operator on these streams."""
        return self.engine.on(self.schema)

    @property
    def of_logs(self) -> bool:
        """Whether logs are replayed, and not a DataFrame of the user's."""
        return all(address for address, _ in self.streams.values())

    @property
    def folder(self) -> str:
        """Where the run writes."""
        return self.lake.address("runs", self.run)

    def output(self, output: str) -> str:
        """Where the run keeps one of its outputs."""
        return self.lake.output(self.run, output)

    def to_json(self) -> str:
        """This plan as a document."""
        document = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return json.dumps({**document, "lake": self.lake.to_json(), "span": self.span.to_json()})

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan of a document."""
        document = json.loads(text)
        streams = {name: (address, version) for name, (address, version) in document["streams"].items()}
        return cls(**{**document, "lake": Lake(**document["lake"]), "span": Span.from_json(document["span"]), "streams": streams})

    def __reduce__(self) -> tuple[Any, ...]:
        """Only the plan itself travels to other processes, not what was opened for it."""
        return plan_of, (self.to_json(),)


@lru_cache(maxsize=4)
def plan_of(text: str) -> Plan:
    """The plan of a document: the same for all tasks of a process, which then build its engine once."""
    return Plan.from_json(text)


def columns_of(logs: Mapping[str, Log]) -> pa.Schema:
    """The columns of all streams together."""
    fields: dict[str, pa.Field] = {}
    for name, log in logs.items():
        for column in log.schema:
            if fields.setdefault(column.name, column).type != column.type:
                raise SpecError(
                    f"{column.name}: {column.type} in '{name}', {fields[column.name].type} in another stream; streams of a run agree."
                )
    if len(logs) > 1:
        fields["stream"] = pa.field("stream", pa.string())
    return pa.schema(list(fields.values()))


def serialised(schema: pa.Schema) -> str:
    """A schema as the document of a plan holds it."""
    return str(schema.serialize().to_pybytes().hex())
