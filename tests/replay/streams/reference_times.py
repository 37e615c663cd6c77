"""How the slow reader takes times: numbers by decimals, ISO by its parts, patterns by Python's own strptime.

By integers and `datetime` alone; the zone's rules are those of zoneinfo.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from replay.streams.declaration import UNITS_PER_SECOND, Declaration

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_US = (datetime(1, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
LAST_US = (datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](?P<hour>\d\d)(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d+))?)?)?"
    r"(?P<zone>Z|[+-]\d\d(?::?\d\d)?|(?(minute)(?: *UTC| +Z| +[+-]\d\d(?::?\d\d)?)))?)?",
    re.ASCII,
)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class Rejected(Exception):  # noqa: N818 - it is no error
    """A record that cannot be read, and why."""


def units_of(text: str, declaration: Declaration, origin_us: int) -> tuple[int, int] | None:
    """Microseconds, and the number as it was, of a number of units since the origin."""
    if not NUMBER.fullmatch(text):
        return None
    number = Decimal(text)
    per_second = UNITS_PER_SECOND[declaration.time.unit]
    us = math.floor(number * 10**6 / per_second) if number.adjusted() < 30 else FIRST_US - 1
    kept = math.floor(number) if number.adjusted() < 30 else 0
    return (origin_us + us, kept) if FIRST_US <= origin_us + us <= LAST_US and -(2**63) <= kept < 2**63 else None


def iso_of(text: str, declaration: Declaration) -> tuple[int, int] | None:
    """Microseconds and nanoseconds since 1970 of an ISO time; finer digits are cut."""
    match = ISO.fullmatch(text)
    if match is None:
        return None
    try:
        local = datetime.fromisoformat(match[1]).replace(
            hour=int(match["hour"] or 0), minute=int(match["minute"] or 0), second=int(match["second"] or 0)
        )
    except ValueError:
        return None
    nanoseconds = int((match["fraction"] or "0").ljust(9, "0")[:9])
    if match["zone"] in (None, ""):
        return placed(local, nanoseconds, declaration)
    digits = match["zone"].strip(" ").replace(":", "").replace("UTC", "Z").replace("Z", "+00")
    hours, minutes = int(digits[1:3]), int(digits[3:] or 0)
    if hours > 23 or minutes > 59:
        return None
    offset = timedelta(hours=hours, minutes=minutes) * (-1 if digits[0] == "-" else 1)
    return since_1970((local - datetime(1970, 1, 1) - offset) // timedelta(seconds=1), nanoseconds)


def pattern_of(text: str, pattern: str, declaration: Declaration) -> tuple[int, int] | None:
    try:
        local = datetime.strptime(text, pattern)
    except ValueError:
        return None
    return placed(local, 0, declaration)


def placed(local: datetime, nanoseconds: int, declaration: Declaration) -> tuple[int, int] | None:
    """A time of the declared zone: the first of two that read alike; None if the clocks never showed it."""
    if since_1970((local - datetime(1970, 1, 1)) // timedelta(seconds=1), nanoseconds) is None:
        return None
    aware = local.replace(tzinfo=declaration.time.tz, fold=0)
    seconds = (aware - EPOCH) // timedelta(seconds=1)
    back = (EPOCH + timedelta(seconds=seconds)).astimezone(declaration.time.tz)
    return since_1970(seconds, nanoseconds) if back.replace(tzinfo=None) == local else None


def since_1970(seconds: int, nanoseconds: int) -> tuple[int, int] | None:
    total = seconds * 10**9 + nanoseconds
    return (total // 1000, total) if -(2**63) <= total < 2**63 else None


def time_of(names: Sequence[str], taken: Mapping[str, Any], declaration: Declaration, origin_us: int) -> tuple[int, int]:
    if any(taken[name] is None for name in names):
        raise Rejected(f"missing: {' '.join(names)}")
    text = " ".join(str(taken[name]) for name in names).strip(" \t")
    for pattern in declaration.time.format:
        if pattern == "number":
            found = units_of(text, declaration, origin_us)
        elif pattern == "iso":
            found = iso_of(text, declaration)
        else:
            found = pattern_of(text, pattern, declaration)
        if found is not None:
            return found
    raise Rejected(f"not a time: {' '.join(names)}")
