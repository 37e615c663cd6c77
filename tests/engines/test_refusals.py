"""Whatever is wrong with a specification, it is refused in one sentence of our own words that names a setting there is.

Every example of every technique is spoiled in many ways, at every setting: a new technique is under these tests without a
line here. What single settings of a technique allow is tested with the technique.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from types import MappingProxyType
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, model_validator

from engines import SpecError, build
from engines.spec import Duration, Model, validate
from tests.engines.driving import every_example, stream

GONE = object()
WRONG: list[Any] = [
    None, True, False, 0, -1, 3, 2.5, math.nan, math.inf, 10**30, -(2**63), "", " ", "x", "-1s", "0s", "1d", "-1d", "a\nb", "\0", "\ud800",
    "1" * 5000 + "s", 600 * "(", b"\xff", [], [[]], [None], ["x"], ["x", "x"], {}, {"x": 1}, {"kind": None}, {"kind": "x"}, {"kind": ["x"]},
    {True: 1}, {"kind": "count", "count": 5}, {1, 2}, date(2020, 1, 1), timedelta.max, timedelta.min, re.compile("x"), GONE,
]  # fmt: skip
NAMES: list[Any] = ["colour", "", "kind", "length", "tuples", True, 3, None, (1, 2), b"kind"]
FOREIGN = re.compile("input should|validation|dictionary|valid tuple|valid string|valid integer|unable to|instance of|keywords|pydantic")
PART = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


def places(part: Any) -> Iterator[tuple[Any, Any]]:
    """Every mapping and list inside, with each of its names or places."""
    for name, inner in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
        yield part, name
        yield from places(inner)


def spoiled(example: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The example with one thing changed: other values, settings that are missing, and some that nobody knows."""
    for at in range(len(list(places(example)))):
        for value in WRONG:
            spec = copy.deepcopy(dict(example))
            part, name = list(places(spec))[at]
            if value is GONE:
                del part[name]
            else:
                part[name] = value
            yield spec
        for added in NAMES:
            spec = copy.deepcopy(dict(example))
            part, _ = list(places(spec))[at]
            if isinstance(part, dict):
                part[added] = "red"
            else:
                part.append(added)
            yield spec


def assert_told_well(sentence: str) -> None:
    """One sentence of our own words."""
    assert re.fullmatch(r"[^\n]+: [^\n]+\.", sentence), sentence
    assert not FOREIGN.search(sentence), sentence


def written(name: Any) -> str:
    """The name of a setting as it stands in a sentence."""
    return name if isinstance(name, str) and name.isidentifier() else repr(name)


def assert_names_a_setting(sentence: str, spec: Mapping[Any, Any]) -> None:
    """The way to the setting leads through what was given, but for its end where that is missing."""
    path, _, told = sentence.partition(": ")
    at: Any = spec
    steps = list(PART.finditer(path))
    assert "".join(step[0] for step in steps) == path, sentence
    for step in steps:
        names = {written(name): name for name in at} if isinstance(at, Mapping) else {}
        if step is steps[-1] and ("this setting is missing" in told or path == "technique"):
            assert step[1] not in names or path == "technique", sentence
        elif step[2]:
            at = at[int(step[2])]
        else:
            assert step[1] in names, sentence
            at = at[names[step[1]]]


@every_example
def test_whatever_is_wrong_is_refused_in_a_sentence_that_names_the_setting(spec: Mapping[str, Any]) -> None:
    refused = 0
    for changed in spoiled(spec):
        try:
            engine = build(changed)
        except SpecError as refusal:
            refused += 1
            assert_told_well(str(refusal))
            assert re.search(r" given|this setting is missing|there is no such setting", str(refusal)), refusal
            assert_names_a_setting(str(refusal), changed)
            continue
        try:
            engine.on(stream(1).schema)
        except SpecError as refusal:
            assert_told_well(str(refusal))
    assert refused > 100


# Names that are not text


@pytest.mark.parametrize("name", [True, 3, None, 2.5, b"x"], ids=repr)
def test_a_name_that_is_not_text_is_no_setting_at_any_level(name: Any) -> None:
    aggregate, window = {"kind": "count"}, {"kind": "tumbling", "length": "10s"}
    query = {"name": "q", "window": window, "aggregates": [aggregate]}
    spec = {"technique": "slicing", "queries": [query]}
    levels = ((spec, ""), (query, "queries[0]."), (window, "queries[0].window."), (aggregate, "queries[0].aggregates[0]."))
    for part, path in levels:
        part[name] = "x"  # type: ignore[index]
        with pytest.raises(SpecError) as refusal:
            build(spec)
        assert str(refusal.value) == f"{path}{name!r}: there is no such setting; {name!r} was given as its name, and names are text."
        del part[name]  # type: ignore[arg-type]
    build(spec)


# Kinds of settings, whichever technique has them


class Inner(Model):
    """A part of a specification."""

    kind: Literal["inner"] = "inner"
    low: int = 0
    high: int = 9

    @model_validator(mode="after")
    def _in_order(self) -> Inner:
        if self.low > self.high:
            raise ValueError(f"low {self.low} and high {self.high} given; allowed is a low up to the high")
        return self


class Other(Model):
    """Another, by its kind."""

    kind: Literal["other"] = "other"


class Everything(Model):
    """A setting of each kind."""

    whole: int = Field(default=1, ge=1, le=9)
    strict: int = Field(default=1, strict=True)
    number: float = Field(default=0.5, gt=0, lt=1, allow_inf_nan=False)
    flag: bool = True
    text: str = Field(default="a", min_length=1, max_length=1)
    choice: Literal["a", "b"] = "a"
    lasts: Duration = Field(default="1s")
    several: tuple[str, ...] = Field(default=("a",), min_length=1)
    by_name: dict[str, float] = Field(default={"a": 1.0})
    either: int | None = None
    part: Inner = Inner()
    union: Annotated[Inner | Other, Field(discriminator="kind")] = Other()


@pytest.mark.parametrize(("given", "sentence"), [
    ({"whole": 0}, "whole: 0 given; allowed is a number of at least 1."),
    ({"whole": 10}, "whole: 10 given; allowed is a number of at most 9."),
    ({"whole": 1.5}, "whole: 1.5 given; allowed is a whole number."),
    ({"whole": math.nan}, "whole: nan given; allowed is a finite number."),
    ({"whole": "many"}, "whole: 'many' given; allowed is a whole number."),
    ({"whole": "1" * 5000}, f"whole: '{'1' * 116}... given; allowed is a whole number."),
    ({"strict": True}, "strict: True given; allowed is a whole number."),
    ({"number": 0}, "number: 0 given; allowed is a number above 0.0."),
    ({"number": 1}, "number: 1 given; allowed is a number below 1.0."),
    ({"number": math.inf}, "number: inf given; allowed is a finite number."),
    ({"number": "x"}, "number: 'x' given; allowed is a number."),
    ({"number": []}, "number: [] given; allowed is a number."),
    ({"flag": "perhaps"}, "flag: 'perhaps' given; allowed is true or false."),
    ({"flag": []}, "flag: [] given; allowed is true or false."),
    ({"text": 1}, "text: 1 given; allowed is text."),
    ({"text": ""}, "text: '' given; allowed is text that is not empty."),
    ({"text": "ab"}, "text: 'ab' given; allowed is text of at most 1 character."),
    ({"text": "\ud800"}, r"text: '\ud800' given; allowed is text of valid characters."),
    ({"choice": "c"}, "choice: 'c' given; allowed is 'a' or 'b'."),
    ({"lasts": {"kind": "x"}}, "lasts: {'kind': 'x'} given; allowed is a positive duration, as text with a unit, such as '20s'."),
    ({"lasts": timedelta.max}, f"lasts: {timedelta.max!r} given; allowed is a duration of at most {2**62} microseconds."),
    ({"several": "a"}, "several: 'a' given; allowed is a list."),
    ({"several": []}, "several: [] given; allowed is a list of at least 1 item."),
    ({"several": ["a", 1]}, "several[1]: 1 given; allowed is text."),
    ({"by_name": [1]}, "by_name: [1] given; allowed is a mapping."),
    ({"by_name": {"a": "x"}}, "by_name.a: 'x' given; allowed is a number."),
    ({"either": "x"}, "either: 'x' given; allowed is a whole number."),
    ({"part": 5}, "part: 5 given; allowed is a mapping of settings."),
    ({"part": {"low": 7, "high": 3}}, "part: low 7 and high 3 given; allowed is a low up to the high."),
    ({"part": MappingProxyType({"low": "x"})}, "part.low: 'x' given; allowed is a whole number."),
    ({"part": {"inner": 5}}, "part.inner: there is no such setting; 5 was given, allowed are kind, low, high."),
    ({"part": {"low": 7, "hihg": 3}}, "part.hihg: there is no such setting; 3 was given, allowed are kind, low, high."),
    ({"part": {"a\n b": 5}}, r"part.'a\n b': there is no such setting; 5 was given, allowed are kind, low, high."),
    ({"union": "inner"}, "union: 'inner' given; allowed is a mapping with the setting 'kind'."),
    ({"union": {"low": 1}}, "union: {'low': 1} given; allowed is a mapping with the setting 'kind'."),
    ({"union": {"kind": ["x"]}}, "union.kind: ['x'] given; allowed are 'inner', 'other'."),
    ({"union": {"kind": "inner", "low": "x"}}, "union.low: 'x' given; allowed is a whole number."),
    ({"union": {"kind": "inner", "inner": 5}}, "union.inner: there is no such setting; 5 was given, allowed are kind, low, high."),
    ({"union": {"kind": "inner", "low": 7, "high": 3}}, "union: low 7 and high 3 given; allowed is a low up to the high."),
], ids=str)  # fmt: skip
def test_every_kind_of_setting_says_what_it_allows(given: dict[str, Any], sentence: str) -> None:
    for make in (lambda: validate(Everything, given), lambda: Everything(**given)):
        with pytest.raises(SpecError) as refusal:
            make()
        assert str(refusal.value) == sentence
