"""What every specification shares: frozen models, durations, names, and errors that are sentences.

Engines and oracles both read specifications, so this module imports nothing but pydantic and the standard library.
A technique's own settings belong in `engines/<technique>/spec.py`; nothing here may know a technique by name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000, "w": 604_800_000_000}
LONGEST_US = 2**62
LONGEST_SHOWN = 120
"""So many characters of a wrong setting are told."""

# So few digits at a time that Python never refuses to read them.
_DURATION = re.compile(r"(?P<sign>-?)(?P<parts>(?:\d{1,99}(?:\.\d{1,99})?(?:us|ms|s|m|h|d|w))+)")
_PART = re.compile(r"(\d+)(?:\.(\d+))?(us|ms|s|m|h|d|w)")


class SpecError(ValueError):
    """A specification that cannot be run, told in one sentence: the setting, what was given, what is allowed."""


class _UnknownError(ValueError):
    """A setting that a model does not have, beside those it has."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no setting {name!r}")
        self.name, self.known = name, known


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
        text = f"{value // timedelta(microseconds=1)}us" if isinstance(value, timedelta) else value
        if not isinstance(text, str):
            raise ValueError(f"allowed is {allowed}, as text with a unit, such as '20s'")
        try:
            us = parse_duration(text)
        except ValueError as problem:
            raise ValueError(f"allowed is {problem}") from None
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
        """Accept `POSITIONAL` settings without names; everything else as pydantic does, but for errors, which are sentences.

        Raises:
            SpecError: in one sentence, if a setting is wrong.
        """
        if len(args) > len(self.POSITIONAL):
            raise TypeError(f"{type(self).__name__} takes at most {len(self.POSITIONAL)} settings without a name, {len(args)} given")
        settings = dict(**dict(zip(self.POSITIONAL, args, strict=False)), **settings)
        try:
            super().__init__(**settings)
        except ValidationError as problem:
            raise SpecError(sentence(problem, settings)) from None

    # Pydantic then makes the models inside of others without a call of `__init__`: errors keep the whole way to their setting.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @model_validator(mode="before")
    @classmethod
    def _all_known(cls, given: object) -> object:
        # Before all else, or a name that is misspelt would be told as a setting that is missing.
        known = [field.alias or name for name, field in cls.model_fields.items()]
        for name in given if isinstance(given, Mapping) else ():
            if isinstance(name, str) and name not in known and name not in cls.model_fields:
                raise _UnknownError(name, known)
        return given


class TechniqueSpec(Model):
    """What the specification of every technique starts with."""

    technique: str = Field(description="The technique's name: the name of its folder in engines/.")
    delay: DurationOrZero = Field(default="0s", description="How much disorder the watermark allows for.")  # type: ignore[assignment]
    lateness: DurationOrZero = Field(default="0s", description="How long a result that is due may still change.")  # type: ignore[assignment]

    @field_validator("lateness")
    @classmethod
    def _within_reach(cls, lateness: int, info: ValidationInfo) -> int:
        # Both are taken from timestamps of 64 bits.
        delay = info.data.get("delay", 0)
        if delay + lateness > LONGEST_US:
            raise ValueError(f"allowed is at most {format_duration(LONGEST_US - delay)} with a delay of {format_duration(delay)}")
        return lateness

    def document(self) -> dict[str, Any]:
        """This specification as a mapping of plain values, which `engines.build` takes again."""
        return self.model_dump(mode="json", by_alias=True)

    def fingerprint(self) -> str:
        """A short hash of everything that the results depend on; equal for specifications that mean the same."""
        canonical = json.dumps(self.document(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


_Model = TypeVar("_Model", bound=Model)


def validate(model: type[_Model], spec: Mapping[str, Any]) -> _Model:
    """The specification as a model, or a `SpecError` that names the setting, what was given and what is allowed."""
    try:
        return model.model_validate(dict(spec))
    except ValidationError as problem:
        raise SpecError(sentence(problem, spec)) from None


_ALLOWED = {
    "string_type": "text",
    "string_unicode": "text of valid characters",
    "string_too_short": "text that is not empty",
    "string_too_long": "text of at most {max_length} character",
    "literal_error": "{expected}",
    "tuple_type": "a list",
    "too_short": "a list of at least {min_length} item",
    "dict_type": "a mapping",
    "model_type": "a mapping of settings",
    "model_attributes_type": "a mapping with the setting 'kind'",
    "union_tag_not_found": "a mapping with the setting {discriminator}",
    **dict.fromkeys(("int_type", "int_parsing", "int_parsing_size", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    "finite_number": "a finite number",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than": "a number below {lt}",
    "less_than_equal": "a number of at most {le}",
}
"""What is allowed instead, for each kind of error that pydantic knows and a specification can raise."""


def sentence(problem: ValidationError, spec: Mapping[str, Any]) -> str:
    """The first error of a validation as one sentence."""
    error = problem.errors(include_url=False)[0]
    kind, given, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "invalid_key":  # YAML reads `on` and `yes` as true, and a whole number as itself
        setting = _setting((*error["loc"][:-1], given), spec)
        return f"{setting}: there is no such setting; {_shown(given)} was given as its name, and names are text."
    if isinstance(unknown := context.get("error"), _UnknownError):
        setting, known = _setting((*error["loc"], unknown.name), spec), ", ".join(unknown.known)
        return f"{setting}: there is no such setting; {_shown(given[unknown.name])} was given, allowed are {known}."
    setting = _setting(error["loc"], spec)
    if kind == "missing":
        return f"{setting}: this setting is missing and has no default."
    if kind == "union_tag_invalid":
        name = context["discriminator"].strip("'")
        tag = given[name] if isinstance(given, Mapping) else context["tag"]
        return f"{setting}.{name}: {_shown(tag)} given; allowed are {context['expected_tags']}."
    if kind == "value_error":
        told = str(context["error"])
        # Who checks several settings together tells which of them matter: nobody wants to read all of them again.
        alone = isinstance(given, Mapping | Model | list | tuple) and "given" in told
        return f"{setting}: {told}." if alone else f"{setting}: {_shown(given)} given; {told}."
    allowed = f"allowed is {_ALLOWED[kind].format(**context)}" if kind in _ALLOWED else error["msg"]
    return f"{setting}: {_shown(given)} given; {allowed}."


def _setting(location: tuple[Any, ...], spec: object) -> str:
    """`queries[0].window.length` for pydantic's location, without what no user wrote: the members of unions that pydantic tried."""
    text, at = "", spec
    for depth, part in enumerate(location):
        last = depth == len(location) - 1
        inside = isinstance(at, Mapping) and part in at or isinstance(at, list | tuple) and isinstance(part, int) and part < len(at)
        member = isinstance(at, Mapping) and at.get("kind") == part and not (last and inside)
        if member or not inside and not (last and isinstance(at, Mapping | list | tuple)):
            continue
        if isinstance(at, list | tuple):
            text += f"[{part}]"
        else:
            text += "." * bool(text) + (part if isinstance(part, str) and part.isidentifier() else repr(part))
        at = at[part] if inside else None  # type: ignore[index]
    return text or "specification"


def _shown(given: object) -> str:
    """What was given, in one line that does not hide what is said of it."""
    text = re.sub(r"\s*\n\s*", " ", repr(given))
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."
