"""The specification of slicing: what it refuses, in which words, and what means the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from engines import build
from engines.slicing import Count, Query, SlicingEngine, Sliding, Spec, Sum, Tumbling
from engines.slicing.spec import EXAMPLES
from engines.spec import SpecError, validate
from tests.engines.slicing.driving import spec, stream

TUMBLING = {"kind": "tumbling", "length": "10s"}


@pytest.mark.parametrize(
    ("window", "sentence"),
    [
        ({"kind": "tumbling"}, r"queries\[0\]\.window\.length: this setting is missing"),
        ({"kind": "tumbling", "length": "0s"}, r"queries\[0\]\.window\.length: '0s' given; allowed is a positive duration"),
        ({"kind": "tumbling", "length": 10}, r"queries\[0\]\.window\.length: 10 given; allowed is a positive duration, as text"),
        ({"kind": "tumbling", "length": "2400000000000s"}, r"queries\[0\]\.window\.length: .* allowed is a duration of at most"),
        ({"kind": "sliding", "length": "10s"}, r"queries\[0\]\.window\.slide: this setting is missing"),
        ({"kind": "sliding", "length": "10s", "slide": "-1s"}, r"queries\[0\]\.window\.slide: '-1s' given; allowed is a positive duration"),
        (
            {"kind": "sliding", "length": "2s", "slide": "1us"},
            r"window\.slide: '1us' given; with a length of 2s a tuple would be in 2000000 windows; allowed are at most 1000000",
        ),
        ({"kind": "tumbling", "length": "10s", "slide": "1s"}, r"queries\[0\]\.window\.slide: there is no such setting"),
        ({"kind": "hopping", "length": "10s"}, r"queries\[0\]\.window\.kind: 'hopping' given; allowed are 'tumbling', 'sliding'"),
    ],
)
def test_wrong_windows_are_refused_in_a_sentence(window: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError, match=rf"{sentence}.*\.$"):
        build(spec(window))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"queries": []}, "queries: .* at least 1 item"),
        ({"queries": 2 * spec(TUMBLING)["queries"]}, "^queries: 2 queries of the name 'q' given; allowed are distinct names"),
        ({"queries": [{"name": "q", "window": TUMBLING, "aggregates": []}]}, r"queries\[0\]\.aggregates: .* at least 1 item"),
        (
            {"queries": [{"name": "q", "window": TUMBLING, "aggregates": [{"kind": "count", "as": "tuples"}]}]},
            r"^queries\[0\]\.aggregates: the result column 'tuples' given; allowed are names other than query, key, ",
        ),
        ({"algorithm": "magic"}, "algorithm: 'magic' given; allowed is 'auto' or 'lazy_slicing'"),
        ({"delay": "-1s"}, "delay: '-1s' given; allowed is a duration of zero or more"),
        (
            {"delay": f"{2**62}us", "lateness": "1us"},
            "^lateness: '1us' given; allowed is at most 0s with a delay of 53375995d14h27s387ms904us",
        ),
        (
            {"delay": "1d", "lateness": f"{2**62}us"},
            "^lateness: '4611686018427387904us' given; allowed is at most 53375994d14h27s387ms904us",
        ),
    ],
)
def test_wrong_settings_are_refused_in_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError, match=rf"{sentence}.*\.$"):
        build({**spec(TUMBLING), **settings})


def counts(*names: str) -> list[dict[str, str]]:
    """Aggregates of these names."""
    return [{"kind": "count", "as": name} for name in names]


@pytest.mark.parametrize("taken", ["day", "Day", "Tuples", "KEY", "Window_Start", "revision"])
def test_a_result_cannot_take_the_name_of_a_column_of_its_table_in_any_case(taken: str) -> None:
    with pytest.raises(SpecError, match=rf"^queries\[0\]\.aggregates: the result column '{taken}' given; .*, day, in any case, .*\.$"):
        build({"technique": "slicing", "queries": [{"name": "q", "window": TUMBLING, "aggregates": counts(taken)}]})


@pytest.mark.parametrize(
    ("aggregates", "sentence"),
    [
        (
            [counts("n", "N")],
            r"queries\[0\]\.aggregates: the result columns 'n' and 'N' given; allowed are names that differ in more than case",
        ),
        ([counts("n"), counts("N")], "queries: the result columns 'n' and 'N' given; allowed are names that differ in more than case"),
        ([counts("\0")], r"queries\[0\]\.aggregates: the result column '\\x00' given; .* without a character of code 0"),
    ],
)
def test_names_that_cannot_be_stored_side_by_side_are_refused_in_a_sentence(aggregates: list[Any], sentence: str) -> None:
    queries = [{"name": str(i), "window": TUMBLING, "aggregates": asked} for i, asked in enumerate(aggregates)]
    with pytest.raises(SpecError, match=rf"^{sentence}.*\.$"):
        build({"technique": "slicing", "queries": queries})


def test_queries_may_share_a_result_column() -> None:
    queries = [{"name": name, "window": TUMBLING, "aggregates": counts("n", "days", "tüples")} for name in ("a", "A")]
    assert build({"technique": "slicing", "queries": queries}).on(stream().schema).outputs["results"].names.count("n") == 1


def test_a_million_windows_per_tuple_are_allowed() -> None:
    build(spec({"kind": "sliding", "length": "1s", "slide": "1us"}))


def test_classes_and_mappings_mean_the_same() -> None:
    typed = Spec(delay="2s", queries=[Query("q", Sliding("20s", "1s"), [Sum("v"), Count()]), Query("r", Tumbling("1m"), [Count()])])
    plain = {
        "technique": "slicing",
        "delay": "2s",
        "queries": [
            {
                "name": "q",
                "window": {"kind": "sliding", "length": "20s", "slide": "1s"},
                "aggregates": [{"kind": "sum", "column": "v"}, {"kind": "count"}],
            },
            {"name": "r", "window": {"kind": "tumbling", "length": "60s"}, "aggregates": [{"kind": "count"}]},
        ],
    }
    assert validate(Spec, plain) == typed
    assert validate(Spec, plain).fingerprint() == typed.fingerprint()
    assert build(typed).spec is typed
    assert SlicingEngine(delay="2s", queries=typed.queries).spec == typed
    assert type(SlicingEngine(queries=typed.queries)) is type(build(plain))


def test_what_is_wrong_with_typed_classes_is_told_in_the_same_sentences() -> None:
    with pytest.raises(SpecError, match=r"^slide: '0s' given; allowed is a positive duration, such as '20s'\.$"):
        Sliding("20s", "0s")
    with pytest.raises(SpecError, match=r"^queries\[0\]\.window: this setting is missing and has no default\.$"):
        SlicingEngine(queries=[{"name": "q", "aggregates": [Count()]}])


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_survive_being_written(example: dict[str, Any]) -> None:
    read = validate(Spec, example)
    assert validate(Spec, read.model_dump(mode="json", by_alias=True)) == read


def test_streams_that_do_not_fit_are_refused_in_a_sentence() -> None:
    engine = build(spec(TUMBLING))
    with pytest.raises(SpecError, match=r"^ts: no such column given; allowed is a column of type timestamp\[us, tz=UTC\]\.$"):
        engine.on(pa.schema([("v", pa.int64())]))
    with pytest.raises(SpecError, match=r"^ts: int64 given; .*\.$"):
        engine.on(pa.schema([("ts", pa.int64()), ("v", pa.int64())]))
    with pytest.raises(SpecError, match=r"^sum of 'v': the stream has no such column; .*\.$"):
        engine.on(stream().schema.remove(1))


def test_one_name_for_two_types_is_refused_in_a_sentence() -> None:
    asked = {kind: [{"kind": kind, "column": "v", "as": "x"}] for kind in ("sum", "mean")}
    queries = [{"name": kind, "window": TUMBLING, "aggregates": aggregates} for kind, aggregates in asked.items()]
    engine = build({"technique": "slicing", "queries": queries})
    engine.on(stream(value=pa.float64()).schema)
    with pytest.raises(SpecError, match=r"^queries: the column 'x' of query 'mean' is of type double, that of another .* int64; .*\.$"):
        engine.on(stream(value=pa.int64()).schema)
