"""Verdicts: which published days are red, as the last execution of each check has told.

Dagster shows one verdict per check, whatever days it is about; its partitioned checks (1.13) run for single days only, neither for a range
nor for all that is published. So a check tells the days that are red in its metadata, and judges them again whenever it runs, until they
are right: a red day is never covered by the next green one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import dagster as dg

RED_DAYS, RED_KEYS, PUBLISHED_AS = "red_days", "red_keys", "published_as"
NONE = "none"
_RANGES = 5


@dataclass(frozen=True)
class Red:
    """What the last verdicts have found wrong."""

    days: Mapping[date, Sequence[str]]
    """The days, and the checks that are red for them."""
    keys: frozenset[int] = frozenset()
    """Hashes of keys with wrong rows, where only some keys of a log are verified: the same are to be looked at again."""


NOTHING = Red({})


def last_verdicts(instance: dg.DagsterInstance, key: dg.AssetKey, checks: Iterable[str], publish: str) -> Red:
    """What the last execution of each of these checks has found wrong of results that are published under this name."""
    days, keys = defaultdict[date, list[str]](list), set[int]()
    for name in checks:
        told = _last_told(instance, dg.AssetCheckKey(key, name))
        if told.get(PUBLISHED_AS) == publish:
            for day in read_days(str(told[RED_DAYS])):
                days[day].append(name)
            keys.update(int(one) for one in str(told.get(RED_KEYS, "")).split())
    return Red(dict(sorted(days.items())), frozenset(keys))


def verdict(publish: str, days: Collection[date], keys: Collection[int] = ()) -> dict[str, Any]:
    """What a check tells for the next one: the days that are red, and keys with wrong rows if only some are verified."""
    told = {PUBLISHED_AS: publish, RED_DAYS: tell_days(days)}
    return told | ({RED_KEYS: " ".join(str(one) for one in sorted(keys))} if keys else {})


def tell_days(days: Collection[date], most: int | None = None) -> str:
    """Days as ranges.

    >>> tell_days([date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 4)])
    '2024-01-01 to 2024-01-02, 2024-01-04'

    Args:
        days: in any order.
        most: so many ranges are told, and how many there are beyond them; None: all.
    """
    from replay.span import neighbours

    ranges = [str(first) if first == last else f"{first} to {last}" for first, last in neighbours(sorted(days))]
    left_out = len(ranges) - len(ranges[:most])
    return ", ".join(ranges[:most]) + (f" and {left_out:,} more" if left_out else "") or NONE


def tell_few_days(days: Collection[date]) -> str:
    """Days as ranges, the first of them where there are many."""
    return tell_days(days, _RANGES)


def read_days(told: str) -> list[date]:
    """The days that `tell_days` has told.

    >>> read_days("2024-01-01 to 2024-01-02, 2024-01-04") == [date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 4)]
    True
    """
    ranges = [part.partition(" to ") for part in told.split(", ") if told != NONE]
    return [day for first, _, last in ranges for day in days_from(first, last or first)]


def days_from(first: str, last: str) -> list[date]:
    """All days from one to another."""
    begin, end = date.fromisoformat(first), date.fromisoformat(last)
    return [date.fromordinal(n) for n in range(begin.toordinal(), end.toordinal() + 1)]


def _last_told(instance: dg.DagsterInstance, check: dg.AssetCheckKey) -> dict[str, Any]:
    """The metadata of the last execution of a check that came to a verdict: the one that is under way has none yet."""
    from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus as Status

    judged = {Status.SUCCEEDED, Status.FAILED}
    records = instance.event_log_storage.get_asset_check_execution_history(check, limit=1, status=judged)
    evaluation = records[0].evaluation if records else None
    return {name: value.value for name, value in evaluation.metadata.items()} if evaluation else {}
