"""The same checks on every technique that there is: what engines/contract.py promises to whoever runs an operator.

Techniques are found as `engines.build` finds them, and tried on the `EXAMPLES` of their specifications: a new technique
is under these tests without a line here. Operators are driven by hand, so nothing in here leans on replay/.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from engines import Engine, SpecError, build, techniques
from engines.contract import BEGINNING, FOREVER, NOWHERE, TIMESTAMP, Interval, Operator
from engines.spec import TechniqueSpec, format_duration, parse_duration
from engines.state import State, StateError, empty
from tests.comparing import rows_of
from tests.engines.driving import (
    EXAMPLES,
    accepted_batches,
    again,
    assert_same_outputs,
    batch_of,
    drive,
    every_example,
    finals,
    stamp_of,
    stream,
)

# Specifications


def test_there_are_techniques_and_each_has_examples() -> None:
    assert techniques()
    assert {name for name, _ in EXAMPLES} == set(techniques())


@every_example
def test_an_example_builds_and_explains_itself(spec: Mapping[str, Any]) -> None:
    engine = build(spec)
    assert isinstance(engine.spec, TechniqueSpec)
    assert engine.explain().strip()
    assert (engine.lookback() or 0) >= 0
    assert engine.version >= 1


@every_example
def test_a_fingerprint_says_what_the_results_depend_on(spec: Mapping[str, Any]) -> None:
    print_of = build(spec).spec.fingerprint()
    assert build(copy.deepcopy(spec)).spec.fingerprint() == print_of
    assert build(dict(reversed(list(spec.items())))).spec.fingerprint() == print_of
    assert build(with_other_text(spec)).spec.fingerprint() == print_of
    other = format_duration(parse_duration(spec.get("delay", "0s")) + 1)
    assert build({**spec, "delay": other}).spec.fingerprint() != print_of


@every_example
def test_a_specification_is_the_same_as_a_document(spec: Mapping[str, Any]) -> None:
    typed = build(spec).spec
    assert build(json.loads(json.dumps(typed.document()))).spec == typed


def test_a_minute_is_sixty_seconds() -> None:
    for _, spec in EXAMPLES:
        assert build({**spec, "delay": "60s"}).spec.fingerprint() == build({**spec, "delay": "1m"}).spec.fingerprint()


def test_different_examples_have_different_fingerprints() -> None:
    prints = [build(spec).spec.fingerprint() for _, spec in EXAMPLES]
    assert len(set(prints)) == len(prints)


def with_other_text(setting: Any) -> Any:
    """The same settings with every duration written in microseconds."""
    if isinstance(setting, Mapping):
        return {name: value if name == "name" else with_other_text(value) for name, value in setting.items()}
    if isinstance(setting, list):
        return [with_other_text(value) for value in setting]
    if isinstance(setting, str):
        try:
            return f"{parse_duration(setting)}us"
        except ValueError:
            return setting
    return setting


@every_example
def test_what_cannot_be_run_is_refused_in_a_sentence(spec: Mapping[str, Any]) -> None:
    for setting, value in (("delay", "-1s"), ("delay", 3), ("lateness", "soon"), ("colour", "red")):
        with pytest.raises(SpecError, match=rf"{setting}: .*{value}.*\.$"):
            build({**spec, setting: value})


# Operators


@every_example
@pytest.mark.parametrize("key", [True, False], ids=["key", "no key"])
def test_an_operator_says_what_it_reads_keeps_and_gives(spec: Mapping[str, Any], key: bool) -> None:
    table = stream(3, key=key)
    operator = build(spec).on(table.schema)
    assert set(operator.columns) <= {*table.schema.names, "arrival", "stream"}
    assert len(set(operator.columns)) == len(operator.columns)
    assert "results" in operator.outputs
    assert set(operator.identity) == set(operator.outputs)
    for output, schema in operator.outputs.items():
        assert schema.field("decided").type == TIMESTAMP
        assert ("revision" in schema.names) == ("retracted" in schema.names)
        assert operator.identity[output]
        assert set(operator.identity[output]) <= set(schema.names)
    assert operator.tables
    for schema in (operator.partials, *operator.tables.values()):
        assert "key" in schema.names
    assert isinstance(operator.one_bucket, bool)


@every_example
def test_a_stream_without_the_columns_is_refused_in_a_sentence(spec: Mapping[str, Any]) -> None:
    schema = pa.schema([("ts", TIMESTAMP), ("key", pa.string())])
    try:
        build(spec).on(schema)
    except SpecError as refusal:
        assert "v" in str(refusal)
        assert str(refusal).endswith(".")
    else:
        assert "v" not in build(spec).on(stream(1).schema).columns, "v is read, so a stream without it cannot do"


@every_example
def test_lifting_no_tuples_gives_no_partials(spec: Mapping[str, Any]) -> None:
    operator = build(spec).on(stream(1).schema)
    nothing = batch_of(stream(1).append_column("arrival", pa.array([0])).slice(0, 0), operator)
    for alone in (NOWHERE, Interval(BEGINNING, FOREVER)):
        partials = operator.lift(nothing, alone)
        assert partials.num_rows == 0
        assert partials.schema.equals(operator.partials)


@every_example
@pytest.mark.parametrize("nowhere", [True, False], ids=["alone nowhere", "alone"])
def test_lift_is_stateless(spec: Mapping[str, Any], nowhere: bool) -> None:
    engine, table = build(spec), stream()
    operator = engine.on(table.schema)
    batches = [(tuples, NOWHERE if nowhere else alone) for tuples, alone, _, _ in accepted_batches(engine, operator, table, 40)]
    once = [operator.lift(tuples, alone) for tuples, alone in batches]
    other_way_round = [build(spec).on(table.schema).lift(tuples, alone) for tuples, alone in reversed(batches)]
    for lifted, lifted_again in zip(once, reversed(other_way_round), strict=True):
        assert lifted.schema.equals(operator.partials)
        assert lifted.equals(lifted_again)


@every_example
@pytest.mark.parametrize(("due", "final"), [(0, 0), (10, 5), (FOREVER, FOREVER)], ids=["a watermark", "two", "the flush"])
def test_lowering_nothing_gives_nothing(spec: Mapping[str, Any], due: int, final: int) -> None:
    operator = build(spec).on(stream(1).schema)
    state = State(operator.tables)
    for output, rows in operator.lower(state, due, final).items():
        assert rows.num_rows == 0
        assert rows.schema.equals(operator.outputs[output])
    assert state.rows == 0
    assert not state.changed


@every_example
def test_combining_nothing_changes_nothing(spec: Mapping[str, Any]) -> None:
    operator = build(spec).on(stream(1).schema)
    for partials in ([], [empty(operator.partials)]):
        state = State(operator.tables)
        operator.combine(state, partials)
        assert state.rows == 0


@every_example
def test_the_examples_give_results(spec: Mapping[str, Any]) -> None:
    assert finals(spec, drive(spec, stream()))["results"], "an example without a result shows nothing, and tests nothing"


@every_example
@pytest.mark.parametrize("batch_rows", [1, 7, 150])
def test_results_do_not_depend_on_batches(spec: Mapping[str, Any], batch_rows: int) -> None:
    assert_same_outputs(spec, drive(spec, stream(), batch_rows=batch_rows), drive(spec, stream()))


@every_example
@pytest.mark.parametrize("batch_rows", [1, 20, 150])
def test_results_do_not_depend_on_what_is_known_to_be_alone(spec: Mapping[str, Any], batch_rows: int) -> None:
    known = drive(spec, stream(), batch_rows=batch_rows)
    assert_same_outputs(spec, drive(spec, stream(), batch_rows=batch_rows, nowhere=True), known)


@every_example
@pytest.mark.parametrize("buckets", [2, 3, 7])
def test_results_do_not_depend_on_buckets(spec: Mapping[str, Any], buckets: int) -> None:
    assert_same_outputs(spec, drive(spec, stream(), buckets=buckets), drive(spec, stream()))


@every_example
def test_several_partials_at_once_are_the_same_as_one_after_the_other(spec: Mapping[str, Any]) -> None:
    engine, table = build(spec), stream()
    operator = engine.on(table.schema)
    state, given = State(operator.tables), {}
    operator.combine(state, [operator.lift(tuples, alone) for tuples, alone, _, _ in accepted_batches(engine, operator, table, 9)])
    for output, rows in operator.lower(state, FOREVER, FOREVER).items():
        given[output] = rows_of(rows)
    assert_same_outputs(spec, given, drive(spec, table, early=False))


@every_example
@pytest.mark.parametrize("early", [True, False], ids=["early", "final only"])
def test_state_that_is_written_and_read_after_every_batch_changes_nothing(spec: Mapping[str, Any], early: bool) -> None:
    never, always = drive(spec, stream(), early=early), drive(spec, stream(), early=early, between=again)
    assert repr(always) == repr(never)


@every_example
def test_what_changed_in_the_state_is_what_is_marked_as_changed(spec: Mapping[str, Any]) -> None:
    def only_changed_tables(engine: Engine, operator: Operator, state: State) -> State:
        stored = stores.setdefault(id(operator), {})
        stamp = stamp_of(engine)
        stored.update({table: state.dump(table, **stamp) for table in state.changed})
        loaded = State(operator.tables)
        for table, payload in stored.items():
            loaded.load(table, payload, **stamp)
        loaded.due, loaded.final = state.due, state.final
        return loaded

    stores: dict[int, dict[str, bytes]] = {}
    assert repr(drive(spec, stream(), between=only_changed_tables)) == repr(drive(spec, stream()))


@every_example
def test_after_the_flush_nothing_is_kept(spec: Mapping[str, Any]) -> None:
    rows_kept: list[int] = []

    def count(engine: Engine, operator: Operator, state: State) -> State:
        rows_kept.append(state.rows)
        return state

    drive(spec, stream(), between=count)
    assert max(rows_kept) > 0
    assert rows_kept[-1] == 0


@every_example
def test_state_of_something_else_is_refused_in_a_sentence(spec: Mapping[str, Any]) -> None:
    engine = build(spec)
    operator = engine.on(stream(1).schema)
    state, stamp = State(operator.tables), stamp_of(engine)
    for table in operator.tables:
        good = state.dump(table, **stamp)
        other = build({**spec, "delay": "59s"}).spec.fingerprint()
        with pytest.raises(StateError, match=rf"specification {stamp['fingerprint']} found; this run has {other}\."):
            state.load(table, good, fingerprint=other, version=engine.version)
        with pytest.raises(StateError, match=rf"layout version {engine.version} found; this engine reads version {engine.version + 1}\."):
            state.load(table, good, fingerprint=stamp["fingerprint"], version=engine.version + 1)
        with pytest.raises(StateError, match=r"\.$"):
            state.load("no such table", good, **stamp)
        for garbage in (b"", b"garbage", bytes(good)[: len(good) // 2], bytes(100)):
            with pytest.raises(StateError, match=r"^state.*\.$"):
                state.load(table, garbage, **stamp)


@every_example
def test_final_rows_come_exactly_once(spec: Mapping[str, Any]) -> None:
    identity = build(spec).on(stream(1).schema).identity
    once = drive(spec, stream(), early=False)
    for output, rows in once.items():
        names = [tuple(row[column] for column in identity[output]) for row in rows]
        assert len(set(names)) == len(names)
        assert not any(row.get("retracted") for row in rows)
    assert_same_outputs(spec, once, drive(spec, stream()))


@every_example
def test_rows_come_when_they_are_decided_and_not_before(spec: Mapping[str, Any]) -> None:
    engine, table = build(spec), stream()
    batches = list(accepted_batches(engine, engine.on(table.schema), table, 10))
    for early in (True, False):
        marks = [BEGINNING, *[due if early else final for _, _, due, final in batches], FOREVER]
        for rows in drive(spec, table, early=early).values():
            for row in rows:
                decided, batch = row["decided"], row.get("revision")
                if batch is not None and not row["retracted"]:
                    assert (decided is None and batch == len(batches) + 1) or decided < marks[batch]
                if batch is not None and not early:
                    assert decided is None or marks[batch - 1] <= decided, "it was final in an earlier batch already"


@every_example
def test_rows_of_a_batch_are_sorted_by_identity(spec: Mapping[str, Any]) -> None:
    identity = build(spec).on(stream(1).schema).identity
    for output, rows in drive(spec, stream()).items():
        for one, other in pairwise(rows):
            if one.get("revision") == other.get("revision"):
                places = [[(row[column] is not None, row[column]) for column in identity[output]] for row in (one, other)]
                assert places[0] <= places[1], f"{output}: nulls first, then by {identity[output]}"


@every_example
@pytest.mark.parametrize("value", [pa.int64(), pa.int16(), pa.float32()], ids=str)
def test_other_types_of_numbers_give_the_same_numbers(spec: Mapping[str, Any], value: pa.DataType) -> None:
    floats, others = finals(spec, drive(spec, stream())), finals(spec, drive(spec, stream(value=value)))
    for output, rows in floats.items():
        assert len(rows) == len(others[output])
        for row, other in zip(rows, others[output], strict=True):
            assert row == pytest.approx(other)
