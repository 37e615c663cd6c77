"""Declarations: what a stream's files look like, told in one YAML file each.

The six streams of the papers are declared in `declared/`, a user's own in a folder of theirs; both are read here and nowhere
else. A declaration says what is in the files, never where they are or how they are read.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, available_timezones

import pyarrow as pa
import yaml
from pydantic import BeforeValidator, Field, PlainSerializer, ValidationInfo, field_validator, model_validator

from engines.spec import Duration, Model, SpecError, validate

BUILT_IN = Path(__file__).parent / "declared"
SUFFIX = ".stream.yaml"

TYPES: dict[str, pa.DataType | None] = {
    "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "float32": pa.float32(), "float64": pa.float64(), "bool": pa.bool_(), "string": pa.string(),
    "time": pa.string(), "skip": None,
}  # fmt: skip
NUMBERS = ("int8", "int16", "int32", "int64", "float32", "float64")
UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12}
_RESERVED = {"arrival", "arrived", "clock", "ts", "start", "end", "key", "day", "stream", "line", "order", "watermark"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_PATTERNS = set("aAbBcdHIjmMpSUwWxXyYz%")
"""What the C library and Python read alike. Decimals of seconds (`%f`) and names of zones (`%Z`) the one does not know, or ignores."""

Format = Literal["csv", "tsv", "cnv", "json", "parquet", "delta"]
TypeName = Literal["int8", "int16", "int32", "int64", "float32", "float64", "bool", "string", "time", "skip"]


def _several(value: object) -> object:
    return [value] if isinstance(value, str) else value


Several = Annotated[tuple[str, ...], BeforeValidator(_several)]
"""One text, or a list of them."""


def first_instant(wall: datetime, tz: tzinfo) -> datetime | None:
    """The first instant at which clocks showed a local time; None if they never did.

    >>> first_instant(datetime(2011, 11, 6, 1, 30), ZoneInfo("America/Los_Angeles")).utcoffset().total_seconds()
    -25200.0
    """
    first, second = (wall.replace(tzinfo=tz, fold=fold) for fold in (0, 1))
    return first if (first.utcoffset() or timedelta()) >= (second.utcoffset() or timedelta()) else None


def _moment(value: object) -> datetime:
    """YAML reads dates and times by itself."""
    text = value.isoformat() if hasattr(value, "isoformat") else value
    try:
        if isinstance(text, str):
            return datetime.fromisoformat(text)
    except ValueError:
        pass
    raise ValueError("allowed is a date or a time such as 2012-02-22 or 2012-02-22T16:46:28Z")


def _instant(value: object) -> int:
    moment = _moment(value)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    elapsed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (elapsed.days * 86_400 + elapsed.seconds) * 10**6 + elapsed.microseconds


def _instant_text(us: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)).isoformat()


Instant = Annotated[int, BeforeValidator(_instant), PlainSerializer(_instant_text, return_type=str)]
"""An instant, in microseconds since 1970 UTC; without a zone it is UTC."""


class Column(Model):
    """A column of the files."""

    name: str = Field(description="Its name in the log.")
    type: TypeName = Field(default="float64", description="`time`: read as text for the setting time; `skip`: not read.")
    source: Several = Field(default=(), alias="from", description="Its name in the file's header, or the names it may have. Default: name.")
    from_file: str | None = Field(default=None, description="Not in the file at all: what this pattern's first group finds in its name.")
    unit: str | None = Field(default=None, description="What its numbers count, for people.")
    description: str | None = None
    range: tuple[float | int | None, float | int | None] | None = Field(default=None, description="Values outside are rejected.")
    required: bool = Field(default=False, description="Whether a record without it is rejected.")
    optional: bool = Field(default=False, description="Whether a file may have no such column.")

    @property
    def sources(self) -> tuple[str, ...]:
        """The names under which the file may have it."""
        return self.source or (self.name,)

    @model_validator(mode="after")
    def _check(self) -> Column:
        if self.type not in ("time", "skip") and (self.name.lower() in _RESERVED or not _NAME.fullmatch(self.name)):
            raise ValueError(f"allowed as names are letters, digits and '_', but not the log's own {', '.join(sorted(_RESERVED))}")
        if self.from_file is not None and _groups(self.from_file) < 1:
            raise ValueError("from_file: allowed is a regular expression with a group, such as '(tow[0-9]+)'")
        if self.range is not None and self.type not in NUMBERS:
            raise ValueError(f"range: given for a column of type {self.type}; allowed for numbers only")
        low, high = self.range or (None, None)
        if not all(bound is None or isinstance(bound, int) or isfinite(bound) for bound in (low, high)):
            raise ValueError("range: allowed are finite numbers, and null where there is no bound")
        if low is not None and high is not None and low > high:
            raise ValueError("range: allowed is the smallest value, then the largest")
        return self


def _groups(pattern: str) -> int:
    try:
        return re.compile(pattern).groups
    except re.error:
        return 0


class Time(Model):
    """When an event happened: at one time, or from a start to an end."""

    column: Several = Field(default=(), description="The column with the time; of several, their texts are joined by a space.")
    start: Several = Field(default=(), description="Instead: the column with the time at which an event starts ...")
    end: Several = Field(default=(), description="... and that at which it ends ...")
    duration: str | None = Field(default=None, description="... or how long it lasts, in `unit`.")
    format: Several = Field(
        default=("iso",), description="`iso`, `number`, or patterns such as '%m/%d/%Y %H:%M:%S', in the order to try them."
    )
    zone: str = Field(default="UTC", description="The zone of times that do not name one, of `origin` and a file's own start too.")
    unit: Literal["s", "ms", "us", "ns", "ps"] = Field(default="s", description="What a number counts.")
    origin: Instant | None = Field(default=None, description="What a number counts from. Default: what the file says, or 1970 UTC.")
    keep: str | None = Field(
        default=None, description="The column that keeps the time as it was: the number, its text, or the nanoseconds of a date."
    )

    @field_validator("zone")
    @classmethod
    def _known(cls, zone: str) -> str:
        if zone not in available_timezones():
            raise ValueError("allowed are names such as UTC and America/Los_Angeles")
        return zone

    @field_validator("origin", mode="before")
    @classmethod
    def _placed(cls, origin: object, settings: ValidationInfo) -> object:
        if origin is None or "zone" not in settings.data or (wall := _moment(origin)).tzinfo:
            return origin
        instant = first_instant(wall, ZoneInfo(settings.data["zone"]))
        if instant is None:
            raise ValueError(f"allowed is a time that clocks show in {settings.data['zone']}, the setting time.zone")
        return instant

    @model_validator(mode="after")
    def _check(self) -> Time:
        if bool(self.column) == bool(self.start) or bool(self.start) != (bool(self.end) != bool(self.duration)):
            raise ValueError("allowed are column, or start with end, or start with duration")
        if self.keep is not None and self.start:
            raise ValueError("keep: allowed with column only; declare start and end as columns of their own to keep them")
        if self.keep is not None and (self.keep.lower() in _RESERVED or not _NAME.fullmatch(self.keep)):
            raise ValueError(f"keep: {self.keep!r} given; allowed are letters, digits and '_', but not the log's own columns")
        for pattern in self.format or ("",):
            parts = set(re.findall("%(.?)", pattern))
            if pattern not in ("iso", "number") and not parts:
                raise ValueError(f"format: {pattern!r} given; allowed are iso, number and patterns such as '%m/%d/%Y %H:%M:%S'")
            if unknown := sorted(parts - _OF_PATTERNS):
                raise ValueError(f"format: '%{unknown[0]}' in {pattern!r} given; allowed are %{', %'.join(sorted(_OF_PATTERNS))}")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that it reads."""
        return (*self.column, *self.start, *self.end, *([self.duration] if self.duration else []))

    @property
    def tz(self) -> ZoneInfo:
        """The zone of times that name none."""
        return ZoneInfo(self.zone)


class Files(Model):
    """Which files of the stream's folder these are, and what is in them."""

    pattern: str = Field(description="Names of files, such as 'data*.csv'; compressed ones (.gz, .bz2, .zst) match too.")
    format: Format = "csv"
    header: bool = Field(default=False, description="Whether the first line names the columns.")
    delimiter: str | None = Field(default=None, min_length=1, max_length=1, description="Default: a comma, or a tab for tsv.")
    quote: str | None = Field(default='"', min_length=1, max_length=1, description="What may enclose a field; null: nothing may.")
    line_ends_in_fields: bool = Field(default=False, description="Whether a quoted field may hold line ends: then a file is not split.")
    encoding: str = Field(default="utf-8", description="How text is encoded.")
    short_records: bool = Field(default=False, description="Whether fields may be missing at the end of a record.")
    glued_after: int | None = Field(
        default=None, ge=1, description="Two records may share a line: the last field of the first has so many characters."
    )

    @model_validator(mode="after")
    def _check(self) -> Files:
        if self.line_ends_in_fields and self.quote is None:
            raise ValueError("line_ends_in_fields: allowed with quote only")
        marks = [mark for mark in (self.separator, self.quote) if mark]
        if len(set(marks)) < len(marks) or any(not mark.isascii() or mark in "\r\n" for mark in marks):
            raise ValueError("delimiter, quote: allowed are two different ASCII characters, and no line end")
        try:
            blank = "\n,0".encode(self.encoding)
        except LookupError:
            raise ValueError(f"encoding: {self.encoding!r} given; allowed are names such as utf-8 and latin-1") from None
        # Those that switch by escapes (utf-7, hz) write others as ASCII too: a line of them cannot be read alone.
        others = [letter.encode(self.encoding, "ignore") for letter in "éяあ中한"]
        if blank != b"\n,0" or any(letter and letter.isascii() for letter in others):
            raise ValueError(
                f"encoding: {self.encoding!r} given; allowed are those in which ASCII characters take one byte, and others need no escapes"
            )
        return self

    @property
    def separator(self) -> str:
        """What stands between two fields."""
        return self.delimiter or ("\t" if self.format == "tsv" else ",")


class Expect(Model):
    """How much of it is usual for this stream: more is a warning of its checks. What is left out is as for every stream."""

    rejected: float | None = Field(default=None, ge=0, le=1, description="Share of a file's records that are rejected; 0.01.")
    missing: float | None = Field(default=None, ge=0, le=1, description="Share of a column's values that a day lacks; 0.5.")
    out_of_order: float | None = Field(default=None, ge=0, le=1, description="Share of a day's tuples behind the clock; 0.3.")
    there_twice: float | None = Field(default=None, ge=0, le=1, description="Share of a day's tuples that are there twice; 0.01.")
    silence: Duration | None = Field(default=None, description="Time without tuples; 1m, or a thousand usual intervals.")
    drift: float | None = Field(default=None, ge=0, le=1, description="Distance of a column's distributions on two days; 0.3.")


class Declaration(Model):
    """A stream."""

    name: str
    title: str = Field(default="", description="What it is, in a line.")
    files: Annotated[tuple[Files, ...], BeforeValidator(lambda value: value if isinstance(value, list | tuple) else [value])] = Field(
        min_length=1
    )
    columns: tuple[Column, ...] = Field(min_length=1, description="Without a header: all columns of the file, in their order.")
    nulls: tuple[str, ...] = Field(default=("",), description="Texts that mean that there is no value.")
    time: Time
    key: Several = Field(default=(), description="The column by which tuples belong together; several are joined by '|'.")
    order: str = Field(default="file", description="What tuples arrive in the order of: file, time, or a column.")
    range: tuple[Instant, Instant] | None = Field(default=None, description="Records of other times are rejected.")
    max_jump: Duration | None = Field(
        default=None, description="A record so much later than both the one before it and the one after it is rejected."
    )

    expect: Expect = Field(default=Expect(), description="Limits of the warnings of its checks.")

    @model_validator(mode="after")
    def _check(self) -> Declaration:
        names = [column.name for column in self.columns]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"columns: {twice[0]!r} given twice; allowed is a name for each")
        read = {column.name: column for column in self.columns if column.type != "skip"}
        ordered = () if self.order in ("file", "time") else (self.order,)
        for setting, used in (("time", self.time.columns), ("key", self.key), ("order", ordered)):
            for name in used:
                if name not in read:
                    raise ValueError(f"{setting}: {name!r} given; allowed are the columns {', '.join(read)}")
        for name in self.key:
            if read[name].type == "time":
                raise ValueError(f"key: {name!r} given, a column of type time; allowed are columns with values")
        for name in ordered:
            if read[name].type not in ("int8", "int16", "int32", "int64", "time"):
                raise ValueError(f"order: {name!r} given, a column of type {read[name].type}; allowed are whole numbers and times")
        self._check_times(read)
        if self.range is not None and self.range[0] >= self.range[1]:
            raise ValueError("range: allowed is the first time, then one behind the last")
        if self.time.keep in names:
            raise ValueError(f"time.keep: {self.time.keep!r} given, which is a column; allowed is a new name")
        alike: dict[str, str] = {}
        for name in [*(name for name, column in read.items() if column.type != "time"), *([self.time.keep] if self.time.keep else [])]:
            if (other := alike.setdefault(name.lower(), name)) != name:
                raise ValueError(f"columns: {name!r} given beside {other!r}; allowed are names that differ in more than case")
        return self

    def _check_times(self, read: Mapping[str, Column]) -> None:
        """Times are texts or numbers; joined ones are texts; how long something lasts is a number."""
        for used in (self.time.column, self.time.start, self.time.end):
            # Of seconds since 1970 a float32 holds the hour.
            allowed = ("time", "string") if len(used) > 1 else ("time", "string", *(kind for kind in NUMBERS if kind != "float32"))
            for name in used:
                if read[name].type not in allowed:
                    raise ValueError(f"time: {name!r} given, a column of type {read[name].type}; allowed are {', '.join(allowed)}")
        if self.time.duration and read[self.time.duration].type not in NUMBERS:
            kind = read[self.time.duration].type
            raise ValueError(f"time.duration: {self.time.duration!r} given, a column of type {kind}; allowed are numbers")

    @property
    def by_name(self) -> dict[str, Column]:
        """The columns that are read."""
        return {column.name: column for column in self.columns if column.type != "skip"}

    @property
    def times(self) -> tuple[str, ...]:
        """The log's columns of event time."""
        return ("start", "end") if self.time.start else ("ts",)

    def fingerprint(self) -> str:
        """A short hash of everything that the log depends on: not of titles, units and what is expected of it."""
        content = self.model_dump(
            mode="json", by_alias=True, exclude={"title": True, "expect": True, "columns": {"__all__": {"unit", "description"}}}
        )
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def is_name(name: str) -> bool:
    """Whether a stream may have a name: what ends in `__rejects`, and other names with two underscores, are tables beside one.

    >>> is_name("calls_2"), is_name("calls__rejects"), is_name("1st")
    (True, False, False)
    """
    return _NAME.fullmatch(name) is not None and "__" not in name


def load(path: Path) -> Declaration:
    """The declaration in a file."""
    try:
        content: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SpecError(f"declaration {path}: there is no such file.") from None
    except OSError as problem:
        raise SpecError(f"declaration {path}: it cannot be read ({problem.strerror}).") from None
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise SpecError(f"declaration {path}: it is not YAML ({' '.join(str(problem).split())}).") from None
    if not isinstance(content, dict):
        raise SpecError(f"declaration {path}: {type(content).__name__} given; allowed is a mapping of settings.")
    if "name" in content:
        raise SpecError(f"declaration {path}: name: {content['name']!r} given; allowed is none, for the file's name is the stream's.")
    name = path.name.removesuffix(SUFFIX)
    if not is_name(name):
        raise SpecError(f"declaration {path}: the stream would be called {name!r}; allowed are letters, digits and single '_'.")
    try:
        return validate(Declaration, {"name": name, **content})
    except SpecError as problem:
        raise SpecError(f"declaration {path}: {problem}") from None


def declared(folders: Sequence[Path] = ()) -> dict[str, Path]:
    """Where each stream is declared: in these folders, then among the built-in ones.

    >>> list(declared())
    ['debs2012', 'debs2013', 'dye', 'intel_lab', 'ss7', 'traffic']
    """
    found: dict[str, Path] = {}
    for folder in (BUILT_IN, *folders):
        found |= {path.name.removesuffix(SUFFIX): path for path in sorted(folder.glob(f"*{SUFFIX}"))}
    return dict(sorted(found.items()))


def declaration(name: str, folders: Sequence[Path] = ()) -> Declaration:
    """The declaration of a stream."""
    known = declared(folders)
    if name not in known:
        raise SpecError(f"stream: {name!r} given; declared are {', '.join(known)}.")
    return load(known[name])
