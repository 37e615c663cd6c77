"""What every specification shares: frozen models, durations, names, and errors that are sentences.

Engines and oracles both read specifications, so this module imports nothing but pydantic and the standard library.
A technique's own settings belong in `engines/<technique>/spec.py`; nothing here may know a technique by name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError

UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000, "w": 604_800_000_000}
LONGEST_US = 2**62

_DURATION = re.compile(r"(?P<sign>-?)(?P<parts>(?:\d+(?:\.\d+)?(?:us|ms|s|m|h|d|w))+)")
_PART = re.compile(r"(\d+)(?:\.(\d+))?(us|ms|s|m|h|d|w)")


class SpecError(ValueError):
    """A specification that cannot be run, told in one sentence: the setting, what was given, what is allowed."""


def parse_duration(text: str) -> int:
    """Microseconds of a duration such as `250ms` or `2h30m`, exactly, by integers.

    >>> parse_duration("2h30m")
    9000000000
    >>> parse_duration("-1.5s")
    -1500000
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError("a duration such as '250ms', '20s' or '2h30m' (units: us, ms, s, m, h, d, w)")
    total = 0
    for whole, fraction, unit in _PART.findall(match["parts"]):
        scaled, rest = divmod(int(whole + fraction) * UNITS_US[unit], 10 ** len(fraction))
        if rest:
            raise ValueError("a duration of whole microseconds")
        total += scaled
    if total > LONGEST_US:
        raise ValueError(f"a duration of at most {LONGEST_US} microseconds")
    return -total if match["sign"] else total


def format_duration(microseconds: int) -> str:
    """The shortest exact text of a duration.

    >>> format_duration(9_000_000_000), format_duration(-1_500), format_duration(0)
    ('2h30m', '-1ms500us', '0s')
    """
    if microseconds == 0:
        return "0s"
    sign, rest, parts = "-" if microseconds < 0 else "", abs(microseconds), []
    for unit in ("d", "h", "m", "s", "ms", "us"):
        count, rest = divmod(rest, UNITS_US[unit])
        if count:
            parts.append(f"{count}{unit}")
    return sign + "".join(parts)


def _duration(minimum: int | None) -> Any:
    allowed = {None: "a duration such as '-3s' or '250ms'", 0: "a duration of zero or more", 1: "a positive duration"}[minimum]

    def check(value: object) -> int:
        if isinstance(value, timedelta):
            us = value // timedelta(microseconds=1)
        elif isinstance(value, str):
            try:
                us = parse_duration(value)
            except ValueError as problem:
                raise ValueError(f"allowed is {problem}") from None
        else:
            raise ValueError(f"allowed is {allowed}, as text with a unit, such as '20s'")
        if minimum is not None and us < minimum:
            raise ValueError(f"allowed is {allowed}, such as '20s'")
        return us

    return BeforeValidator(check)


_AS_TEXT = PlainSerializer(lambda us: format_duration(int(us)), return_type=str)
Duration = Annotated[int, _duration(1), _AS_TEXT]
"""A positive duration, microseconds inside, text outside."""
DurationOrZero = Annotated[int, _duration(0), _AS_TEXT]
"""A duration of zero or more."""
Offset = Annotated[int, _duration(None), _AS_TEXT]
"""A duration of either sign."""


class Model(BaseModel):
    """A frozen part of a specification: unknown settings are refused, defaults are checked."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, populate_by_name=True)

    POSITIONAL: ClassVar[tuple[str, ...]] = ()
    """Settings that Python callers may give without their names, in this order."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        """Accept `POSITIONAL` settings without names; everything else as pydantic does."""
        if len(args) > len(self.POSITIONAL):
            raise TypeError(f"{type(self).__name__} takes at most {len(self.POSITIONAL)} settings without a name, {len(args)} given")
        super().__init__(**dict(zip(self.POSITIONAL, args, strict=False)), **settings)


class TechniqueSpec(Model):
    """What the specification of every technique starts with."""

    technique: str = Field(description="The technique's name: the name of its folder in engines/.")
    delay: DurationOrZero = Field(default="0s", description="How much disorder the watermark allows for.")  # type: ignore[assignment]
    lateness: DurationOrZero = Field(default="0s", description="How long a result that is due may still change.")  # type: ignore[assignment]

    def fingerprint(self) -> str:
        """A short hash of everything that the results depend on; equal for specifications that mean the same."""
        canonical = json.dumps(self.model_dump(mode="json", by_alias=True), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


_Model = TypeVar("_Model", bound=Model)


def validate(model: type[_Model], spec: Mapping[str, Any]) -> _Model:
    """The specification as a model, or a `SpecError` that names the setting, what was given and what is allowed."""
    try:
        return model.model_validate(dict(spec))
    except ValidationError as problem:
        raise SpecError(sentence(problem, spec)) from None


def sentence(problem: ValidationError, spec: Mapping[str, Any]) -> str:
    """The first error of a validation as one sentence."""
    error = problem.errors()[0]
    setting = _setting(error["loc"], spec)
    given, context, kind = error.get("input"), error.get("ctx", {}), error["type"]
    if kind == "extra_forbidden":
        return f"{setting}: there is no such setting; {given!r} was given."
    if kind == "missing":
        return f"{setting}: this setting is missing and has no default."
    if kind == "union_tag_not_found":
        return f"{setting}: {given!r} given; allowed is a mapping with the setting {context['discriminator']}."
    if kind == "union_tag_invalid":
        return f"{setting}.{context['discriminator'].strip(chr(39))}: {context['tag']!r} given; allowed are {context['expected_tags']}."
    if kind == "value_error":
        # What whole parts of a specification break is told by their own words: nobody wants to read all of it again.
        return (
            f"{setting}: {context['error']}." if isinstance(given, Mapping | Model) else f"{setting}: {given!r} given; {context['error']}."
        )
    return f"{setting}: {given!r} given; {error['msg'][:1].lower()}{error['msg'][1:]}."


def _setting(location: tuple[int | str, ...], spec: object) -> str:
    """`queries[0].window.length` for pydantic's location, without the tags of unions, which no user wrote."""
    text, at = "", spec
    for depth, part in enumerate(location):
        inside = isinstance(at, Mapping) and part in at or isinstance(at, list | tuple) and isinstance(part, int) and part < len(at)
        if not inside and depth < len(location) - 1:
            continue
        at = at[part] if inside else None  # type: ignore[index]
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "specification"
