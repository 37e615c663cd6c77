"""Specifications of frames: what is taken, what is refused with which sentence, and what means the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from engines import SpecError, build
from engines.contract import TIMESTAMP
from engines.frames import Count, FrameEngine, Mean, Spec, Threshold
from tests.engines.frames.drawing import SCHEMA, operator, spec


def test_classes_and_mappings_mean_the_same() -> None:
    typed = Spec(frame=Threshold("speed < 40", min_duration="3m"), key="detector", aggregates=[Mean("speed"), Count()])
    mapping = {
        "technique": "frames",
        "key": "detector",
        "frame": {"kind": "threshold", "where": "speed<40.0", "min_duration": "180s"},
        "aggregates": [{"kind": "mean", "column": "speed"}, {"kind": "count"}],
    }
    assert build(mapping).spec == typed
    assert build(mapping).spec.fingerprint() == typed.fingerprint()
    assert build(typed).spec is typed
    made = FrameEngine(frame=Threshold("speed < 40", min_duration="3m"), key="detector", aggregates=[Mean("speed"), Count()])
    assert made.spec == typed
    assert type(made) is type(build(mapping))


def test_what_is_wrong_with_typed_classes_is_told_in_the_same_sentences() -> None:
    with pytest.raises(SpecError, match=r"^min_duration: '-3m' given; allowed is a duration of zero or more, such as '20s'\.$"):
        Threshold("speed < 40", min_duration="-3m")
    with pytest.raises(SpecError, match=r"^frame: 'speed < 40' given; allowed is a mapping of settings\.$"):
        FrameEngine(frame="speed < 40")


@pytest.mark.parametrize(("settings", "sentence"), [
    ({"frame": {"where": "v <"}}, "frame.where: 'v <' given; it does not parse at character 4: a value is missing."),
    ({"frame": {"kind": "delta"}}, "frame.kind: 'delta' given; allowed is 'threshold'."),
    (
        {"frame": {"max_gap": "1s"}},
        "frame.max_gap: there is no such setting; '1s' was given, allowed are kind, where, min_duration, min_tuples, unknown.",
    ),
    ({"frame": {"min_duration": "-1s"}}, "frame.min_duration: '-1s' given; allowed is a duration of zero or more, such as '20s'."),
    ({"frame": {"min_tuples": 0}}, "frame.min_tuples: 0 given; allowed is a number of at least 1."),
    ({"frame": {"min_tuples": True}}, "frame.min_tuples: True given; allowed is a whole number."),
    ({"frame": {"min_tuples": 2**63}}, f"frame.min_tuples: {2**63} given; allowed is a number of at most {2**63 - 1}."),
    ({"frame": {"unknown": "keep"}}, "frame.unknown: 'keep' given; allowed is 'break' or 'skip'."),
    ({"fill": {}}, "fill: there is no such setting; {} was given, allowed are technique, delay, lateness, frame, key, aggregates."),
])  # fmt: skip
def test_a_wrong_setting_is_refused_with_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError) as error:
        build(spec(**settings))
    assert str(error.value) == sentence


@pytest.mark.parametrize("taken", ["start", "tuples", "retracted", "Tuples", "FRAME_ID", "day", "Day"])
def test_an_aggregate_cannot_take_the_name_of_a_column_that_every_frame_has(taken: str) -> None:
    with pytest.raises(
        SpecError, match=f"^aggregates: the result column '{taken}' given; allowed are names other than frame_id, .*, day, in"
    ):
        build(spec(aggregates=[{"kind": "count", "as": taken}]))


@pytest.mark.parametrize(("settings", "sentence"), [
    ({"frame": {"where": "speed > 0"}}, "frame.where: there is no column 'speed'; there are arrival, key, ts, v."),
    ({"frame": {"where": "key > 0"}}, "frame.where: 'key > 0' compares text with a number."),
    ({"frame": {"where": "v"}}, "frame.where: the whole expression needs a condition, and 'v' is a number."),
    ({"key": "detector"}, "key: there is no column 'detector'; there are ts, key, v, arrival."),
])  # fmt: skip
def test_a_stream_that_does_not_fit_is_refused_with_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError) as error:
        operator(**settings)
    assert str(error.value) == sentence


@pytest.mark.parametrize("columns", [{}, {"ts": pa.timestamp("ms", "UTC")}, {"ts": pa.timestamp("us")}, {"ts": pa.int64()}], ids=str)
def test_a_stream_needs_times_in_microseconds(columns: dict[str, pa.DataType]) -> None:
    with pytest.raises(SpecError, match=r"^ts: .* needed is a column 'ts' of type timestamp\[us, tz=UTC\]\.$"):
        build(spec()).on(pa.schema({**columns, "v": pa.float64()}))


def test_results_have_the_columns_of_frames_and_the_key_of_the_stream() -> None:
    by = operator(key="v", aggregates=[{"kind": "mean", "column": "v"}])
    names = ["frame_id", "key", "kind", "start", "end", "tuples", "mean_v", "open", "decided", "revision", "retracted"]
    assert by.outputs["results"].names == names
    assert by.outputs["results"].field("key").type == pa.float64()
    assert by.outputs["results"].field("decided").type == TIMESTAMP


def test_only_the_columns_that_are_needed_are_read() -> None:
    assert operator().columns == ("ts", "key", "v")
    assert operator(aggregates=[{"kind": "last", "column": "v"}]).columns == ("ts", "key", "v", "arrival")
    assert build(spec()).on(pa.schema([SCHEMA.field("ts"), SCHEMA.field("v")])).columns == ("ts", "v")


def test_frames_look_back_without_a_bound_and_explain_themselves() -> None:
    engine = build(spec(frame={"min_duration": "3m", "min_tuples": 2, "unknown": "skip"}))
    assert engine.lookback() is None
    assert "of at least 3m with at least 2 tuples that all satisfy `v > 0`" in engine.explain()
    assert "unknown is left out" in engine.explain()
