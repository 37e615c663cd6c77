"""What a person gives the command line, read and checked: specifications and profiles, days, speed.

A profile is a specification that comes with the project: a file in orchestration/profiles/, known by its name. What the
settings of a specification mean is checked by the engines.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable
from datetime import date
from math import isfinite
from pathlib import Path
from typing import Any

import yaml

from orchestration.cli.sentences import Told

PROFILES = Path(__file__).parent.parent / "profiles"
_ENDINGS = (".yaml", ".yml", ".json")


def read_spec(given: str) -> dict[str, Any]:
    """The specification in a file, or of a profile.

    >>> read_spec("slicing_sliding")["technique"]
    'slicing'
    """
    path = Path(given)
    if path.suffix not in _ENDINGS:
        if given not in profiles():
            known = ", ".join(profiles())
            raise Told(
                f"specification: {given!r} given; allowed are a file that ends with {', '.join(_ENDINGS)}, and the profiles {known}."
            )
        path = PROFILES / f"{given}.yaml"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise Told(f"specification {path}: it cannot be read ({problem.strerror}).") from None
    except UnicodeDecodeError as problem:
        raise Told(f"specification {path}: it is not UTF-8 text (at byte {problem.start + 1}).") from None
    content = _parsed(path, text)
    if not isinstance(content, dict):
        raise Told(f"specification {path}: {type(content).__name__} found; allowed is a mapping with the setting 'technique'.")
    return content


def profiles() -> list[str]:
    """The names of the profiles.

    >>> profiles()
    ['frames_threshold', 'slicing_sliding']
    """
    return sorted(path.stem for path in PROFILES.glob("*.yaml"))


def read_days(given: str) -> tuple[date, date] | None:
    """The first and the last day that are asked for; None: all.

    >>> read_days("2024-01-01..2024-01-05")
    (datetime.date(2024, 1, 1), datetime.date(2024, 1, 5))
    """
    if given == "all":
        return None
    first, _, last = given.partition("..")
    try:
        span = date.fromisoformat(first), date.fromisoformat(last or first)
    except ValueError:
        span = date.max, date.min
    if span[0] > span[1]:
        raise Told(f"days: {given!r} given; allowed are 'all', a day such as 2024-01-31, and days in order such as 2024-01-01..2024-01-31.")
    return span


def read_speed(given: str) -> float | None:
    """How many times faster than its event time a stream is replayed; None: as fast as possible.

    >>> read_speed("max"), read_speed("60")
    (None, 60.0)
    """
    if given == "max":
        return None
    try:
        speed = float(given)
    except ValueError:
        speed = 0.0
    if not (isfinite(speed) and speed > 0):
        raise Told(f"speed: {given!r} given; allowed are 'max' and positive numbers.")
    return speed


def _parsed(path: Path, text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_distinct) if path.suffix == ".json" else yaml.load(text, _Loader)  # noqa: S506 - a safe one
    except json.JSONDecodeError as problem:
        raise Told(f"specification {path}, line {problem.lineno}: it is not JSON ({problem.msg}).") from None
    except yaml.MarkedYAMLError as problem:
        line = problem.problem_mark.line + 1 if problem.problem_mark else 1
        raise Told(f"specification {path}, line {line}: it is not YAML ({problem.problem}).") from None
    except yaml.reader.ReaderError as problem:
        line = text.count("\n", 0, problem.position) + 1
        raise Told(f"specification {path}, line {line}: it is not YAML ({problem.reason}).") from None
    except _TwiceError as problem:
        raise Told(f"specification {path}: the setting {problem.args[0]!r} occurs twice.") from None
    except RecursionError:
        raise Told(f"specification {path}: it is nested too deeply; allowed are lists and mappings a few levels deep.") from None
    except (ValueError, LookupError, AttributeError) as problem:  # of a value such as 2024-99-99, !!int x, !!bool maybe
        raise Told(f"specification {path}: a value in it is not what it is written as ({problem}); put quotes around text.") from None


class _TwiceError(Exception):
    """A setting that would silently replace an earlier one of the same name."""


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    for name, times in Counter(name for name, _ in pairs).items():
        if times > 1:
            raise _TwiceError(name)
    return dict(pairs)


class _Loader(yaml.SafeLoader):
    """YAML of plain values, in which no setting may occur twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping with distinct names."""
        _distinct([(name.value, None) for name, _ in node.value if isinstance(name, yaml.ScalarNode)])
        return super().construct_mapping(node, deep)
