"""A bucket: the state of its keys, and the step that takes it from one batch to the next.

Spark's processor and the local runner both drive this class, so a batch means the same in both. It orders envelopes, keeps
the watermarks of the streams and decides what is lowered when; where state is stored is not its business.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engines import keys
from engines.contract import BEGINNING, FOREVER, NOWHERE, TIMESTAMP, Engine, Operator
from engines.state import State, StateError, one_batch, unpack
from replay.envelope import LATE, METRICS, PARTIALS, STATE, TUPLES, Envelope
from replay.hashing import split
from replay.lifting import late_schema
from replay.snapshots import SNAPSHOT
from replay.span import Emission

HELD_ROWS = 1 << 21
"""So many released rows are held at once, where somebody takes them; about half as many are made at once, as far as can be foreseen."""
HELD_BYTES = 1 << 29
"""And so many bytes of states, of which there are few rows, and large ones."""
PIECE_BYTES = 1 << 28
"""The state of a day is left behind in pieces of about half as many bytes at most."""
_PIECES = (7, 61, 509)
_FIRST_SHARE, _FIRST_ROWS = 64, 1 << 13
"""The first stride of all tells how many rows the rest will give: it is such a part of the time, or of so many rows of the state."""
_FEW_ROWS, _LONGER = 1024, 4
"""So few rows tell little of those to come: a stride is at most so many times longer than the one before, then."""


@dataclass
class Mark:
    """How far a stream was read, and its watermarks there."""

    due: int = BEGINNING
    final: int = BEGINNING
    read: int = 0


@dataclass
class Step:
    """What a batch released."""

    outputs: list[tuple[str, pa.Table]] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)
    take: Callable[[list[tuple[str, pa.Table]]], None] | None = None
    """Takes rows away when there are many; None: all are kept."""
    results: int = 0
    held_rows: int = 0
    held_bytes: int = 0
    """Of states alone: the bytes of results that are views of a thousand queries take as long to count as to write."""

    def add(self, output: str, rows: pa.Table) -> None:
        """Rows of an output, if there are any."""
        if rows.num_rows:
            self.results += rows.num_rows * (output == "results")
            self.held_rows += rows.num_rows
            self.held_bytes += rows.nbytes if output == STATE else 0
            self.outputs.append((output, rows))
            if self.take and (self.held_rows >= HELD_ROWS or self.held_bytes >= HELD_BYTES):
                self.take(self.outputs)
                self.outputs, self.held_rows, self.held_bytes = [], 0, 0


class Bucket:
    """The keys that are worked on together."""

    def __init__(self, engine: Engine, operator: Operator, streams: Sequence[str], emission: Emission) -> None:
        """An empty bucket that waits for all of these streams."""
        self.operator = operator
        self._delays = {name: engine.clock(name).delay_us for name in streams}
        self.state = State(operator.tables)
        self.batch = 0
        self.streams = {name: Mark() for name in streams}
        self._emission = emission
        self._stride: int | None = None
        """Event time that gives half as many rows as are held, as far as is known."""
        self._stamp: dict[str, Any] = {"fingerprint": engine.spec.fingerprint(), "version": engine.version}

    def step(self, envelopes: Iterable[Envelope], take: Callable[[list[tuple[str, pa.Table]]], None] | None = None) -> Step:
        """Take the envelopes of a batch, in any order, and give what it releases; before, `take` gets what is too much to be held."""
        step, partials = Step(metrics={"combine_seconds": 0.0, "lower_seconds": 0.0}, take=take), list[pa.RecordBatch]()
        for some in self._open(envelopes, step):
            partials += some
            # A day leaves its state as soon as it can: with all that a batch holds behind it, each of its days would leave the whole batch.
            for day_end in self._days_over():
                self._advance(partials, day_end, day_end, step)
                for rows in self._snapshot(day_end):
                    step.add(STATE, rows)
        due, final = self._watermarks()
        self._advance(partials, due, final, step)
        step.metrics |= {
            "batch": self.batch,
            "state_rows": self.state.rows,
            "state_bytes": self.state.nbytes,
            "results": step.results,
            "clock": self._clock(),
            "due": due,
            "final": final,
            **self.state.scratch.get("counters", {}),
        }
        self.state.scratch.clear()
        self.batch += 1
        return step

    def dump(self) -> Mapping[str, bytes]:
        """The tables that changed since the last dump, and how far the bucket has come under the name ''."""
        changed = {name: self.state.dump(name, **self._stamp) for name in sorted(self.state.changed)}
        self.state.changed.clear()
        marks = {name: asdict(mark) for name, mark in self.streams.items()}
        reached = {
            "batch": self.batch,
            "due": self.state.due,
            "final": self.state.final,
            "streams": marks,
            "stride": self._stride,
            **self._stamp,
        }
        return {**changed, "": json.dumps(reached).encode()}

    def load(self, stored: Mapping[str, bytes]) -> None:
        """Go on from what `dump` gave."""
        reached = json.loads(stored[""])
        if sorted(reached["streams"]) != sorted(self.streams):
            raise StateError(f"state: of the streams {sorted(reached['streams'])}; this run has {sorted(self.streams)}.")
        for name, payload in stored.items():
            if name:
                self.state.load(name, payload, **self._stamp)
        self.batch, self.state.due, self.state.final = reached["batch"], reached["due"], reached["final"]
        self._stride = reached.get("stride")
        self.streams = {name: Mark(**mark) for name, mark in reached["streams"].items()}

    def _open(self, envelopes: Iterable[Envelope], step: Step) -> Iterator[list[pa.RecordBatch]]:
        """Partials in order of arrival, piece by piece; passes late rows on and learns the streams' watermarks on the way."""
        numbers = Counter[str]()
        known = {name: mark.final for name, mark in self.streams.items()}
        for _, alike in groupby(sorted(envelopes, key=_place), key=_place):
            # A piece is several envelopes, in any order: its watermarks hold when all of them are taken.
            piece = list(alike)
            self._take_over([envelope for envelope in piece if envelope.kind == STATE])
            taken = [partials for envelope in piece if (partials := self._take(envelope, known, step, numbers)) is not None]
            for envelope in piece:
                mark = self.streams[envelope.stream]
                mark.due, mark.final = max(mark.due, envelope.due), max(mark.final, envelope.final)
                mark.read = max(mark.read, envelope.upto)
            yield taken
        step.metrics.update(numbers)

    def _take(self, envelope: Envelope, known: Mapping[str, int], step: Step, numbers: Counter[str]) -> pa.RecordBatch | None:
        """The partials of an envelope; what else it may hold but state goes where it belongs."""
        if envelope.kind == METRICS:
            numbers.update(json.loads(envelope.payload))
        elif envelope.kind == LATE:
            step.add(LATE, pa.Table.from_batches([unpack(envelope.payload)]))
        elif envelope.kind == TUPLES:
            return self._lift(unpack(envelope.payload), known[envelope.stream], step, numbers)
        elif envelope.kind == PARTIALS and envelope.payload:
            return unpack(envelope.payload)
        return None

    def _lift(self, rows: pa.RecordBatch, known: int, step: Step, numbers: Counter[str]) -> pa.RecordBatch:
        """Lift tuples that came without a clock: judged by the clock that was known before this batch."""
        arrival = pa.array((self.batch << 40) + numbers["tuples"] + np.arange(rows.num_rows))
        late = pc.less(rows["ts"].cast(TIMESTAMP).view(pa.int64()), known)
        schema = late_schema(rows.schema)
        own = {**{name: rows[name] for name in rows.schema.names}, "arrival": arrival}
        own["watermark"] = pa.array(np.full(rows.num_rows, known)).view(TIMESTAMP)
        step.add(LATE, pa.table([own[name] for name in schema.names], schema=schema).filter(late))
        numbers.update(tuples=rows.num_rows, late=pc.sum(late).as_py() or 0)
        wanted = dict.fromkeys(["ts", *self.operator.columns])
        return self.operator.lift(pa.record_batch({name: own[name] for name in wanted}).filter(pc.invert(late)), NOWHERE)

    def _watermarks(self) -> tuple[int, int]:
        """The smallest of the streams', within what this run may release."""
        due = min(self._emission.until, *(mark.due for mark in self.streams.values()))
        final = min(self._emission.until, *(mark.final for mark in self.streams.values()))
        return (due if self._emission.early else final), final

    def _clock(self) -> int:
        """The event time that has been reached, in the stream that is furthest behind; the flush says nothing of it."""
        reached = [mark.due + self._delays[name] for name, mark in self.streams.items() if BEGINNING < mark.due < FOREVER]
        return min(reached, default=BEGINNING)

    def _days_over(self) -> Sequence[int]:
        """The ends of days that leave their state and that no tuple can change any more, from where this bucket has come to."""
        ends = self._emission.day_ends
        return ends[bisect_right(ends, self.state.final) : bisect_right(ends, self._watermarks()[1])]

    def _advance(self, partials: list[pa.RecordBatch], due: int, final: int, step: Step) -> None:
        """Combine partials, which are done with then, and lower as far as told."""
        begun = time.perf_counter()
        if partials:
            self.operator.combine(self.state, partials)
            partials.clear()
        step.metrics["combine_seconds"] += time.perf_counter() - begun
        due, final = max(due, self.state.due), max(final, self.state.final)
        # Rows that are revised or taken back are settled at once: of two with the number of one batch neither would be the last.
        since = self._approach(final, step) if due == final and self.state.due == self.state.final else None
        self._lower(due, final, step, since)

    def _approach(self, final: int, step: Step) -> int | None:
        """Lower in strides of event time, as long as what is left may give more rows than should be made at once; tells where that begins.

        A minute between tuples is sixty windows that slide by a second: rows follow event time, and not the tuples of a batch.
        """
        rows = -1
        while (starts := self._starts()) is not None:
            first, last = starts
            at = max(self.state.final, first)
            if at >= final:
                return None
            if self._stride is None:
                self._stride = max((min(final, last + 1) - at) // max(_FIRST_SHARE, self.state.rows // _FIRST_ROWS), 1)
            # How far behind its last start the flush has rows to give is known to the technique alone.
            if at + self._stride >= final or (at > last and rows == 0):
                return at
            rows = self._lower(at + self._stride, at + self._stride, step, since=at)
        return None

    def _lower(self, due: int, final: int, step: Step, since: int | None) -> int:
        """Lower as far as told, and learn how far to go at once; tells how many rows that gave."""
        begun = time.perf_counter()
        released = self.operator.lower(self.state, due, final)
        step.metrics["lower_seconds"] += time.perf_counter() - begun
        rows = sum(some.num_rows for some in released.values())
        if since is not None and final < FOREVER:
            share = HELD_ROWS / 2 / rows if rows else _LONGER
            self._stride = max(int((final - since) * min(share, _LONGER if rows < _FEW_ROWS else share)), 1)
        self.state.due, self.state.final = due, final
        for output, some in released.items():
            step.add(output, self._stamped(some))
        return rows

    def _starts(self) -> tuple[int, int] | None:
        """The least and the greatest time at which anything in the state starts; None: there is nothing, or no such time."""
        columns = [table["start"].cast(pa.int64()) for name in self.state if "start" in (table := self.state[name]).schema.names]
        bounds = [pc.min_max(column) for column in columns if len(column)]
        return (min(both["min"].as_py() for both in bounds), max(both["max"].as_py() for both in bounds)) if bounds else None

    def _stamped(self, rows: pa.Table) -> pa.Table:
        """Rows that this run may write, with the number of the batch as their revision."""
        if rows.num_rows and self._emission.since > BEGINNING:
            since = pa.scalar(self._emission.since, TIMESTAMP)
            rows = rows.filter(pc.fill_null(pc.greater_equal(rows["decided"], since), True))
        if rows.num_rows and self.batch and "revision" in rows.schema.names:
            at = rows.schema.get_field_index("revision")
            rows = rows.set_column(at, rows.schema.field(at), pa.array(np.full(rows.num_rows, self.batch, np.int64)))
        return rows

    def _snapshot(self, day_end: int) -> Iterator[pa.Table]:
        """The state at the end of a day, a row per table; empty ones too, for that a day left nothing is worth knowing.

        Of large tables there is a row for each of several pieces, which hold all rows of their keys: no value is beyond Arrow and Java.
        """
        read = json.dumps({name: mark.read for name, mark in self.streams.items()})
        for name in self.state:
            rows = self.state[name]
            # Of the keys of this bucket a number that shared a divisor with that of buckets would fill some pieces only: hence primes.
            count = 1 if rows.nbytes <= PIECE_BYTES else next((n for n in _PIECES if n * PIECE_BYTES > 2 * rows.nbytes), _PIECES[-1])
            for _, piece in split(rows, count) or [(0, rows)]:
                part = State(self.operator.tables)
                part[name] = piece
                payload = part.dump(name, **self._stamp)
                columns = [pa.array([day_end], TIMESTAMP), pa.array([read]), pa.array([name]), pa.array([payload], pa.binary())]
                yield pa.table(columns, schema=SNAPSHOT)

    def _take_over(self, envelopes: Iterable[Envelope]) -> None:
        """Begin with the state that an earlier day left: the rows of this bucket's keys, in as many pieces as there are."""
        tables: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        for envelope in envelopes:
            self.state.due = self.state.final = envelope.final
            if envelope.payload:
                rows = unpack(envelope.payload)
                tables[(rows.schema.metadata or {})[b"table"].decode()].append(rows.replace_schema_metadata(None))
        for table, pieces in tables.items():
            together = one_batch(pa.Table.from_batches([self.state[table], *pieces]))
            # Rows of one key come from one piece, in order: ordering by key is all that is left to do.
            codes, values = keys.encode(together["key"])
            self.state[table] = together.take(pa.array(np.argsort(keys.rank(values)[codes], kind="stable")))


def _place(envelope: Envelope) -> tuple[int, str]:
    """Where an envelope is in order of arrival; all that came of one piece has one place."""
    return envelope.seq, envelope.stream
