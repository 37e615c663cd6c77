"""Verdicts: which published days are red, and which were judged at all, as the last execution of each check has told.

Dagster shows one verdict per check, whatever days it is about; its partitioned checks (1.13) run for single days only, neither for a range
nor for all that is published. So a check tells the days that are red in its metadata, and critical ones judge them again whenever they run,
until they are right: a red day is never covered by the next green one. And it hands on which days were judged, however long ago.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import dagster as dg

RED_DAYS, RED_KEYS, ABOUT, JUDGED_DAYS, JUDGED_AT = "red_days", "red_keys", "about", "judged_days", "judged_at"
NONE = "none"
_RANGES = 5
_BACK = 100
"""So many executions of a check are looked through for one that is about the same results: several lakes may share an instance."""


@dataclass(frozen=True)
class Red:
    """What the last verdicts have found wrong."""

    days: Mapping[date, Sequence[str]]
    """The days, and the checks that are red for them."""
    keys: frozenset[int] = frozenset()
    """Hashes of keys with wrong rows, where only some keys of a log are verified: the same are to be looked at again."""


NOTHING = Red({})


@dataclass(frozen=True)
class Verdict:
    """What the last execution of a check has told of some results."""

    red: frozenset[date] = frozenset()
    """The days that are."""
    keys: frozenset[int] = frozenset()
    """Hashes of keys with wrong rows, where only some are verified."""
    judged: frozenset[date] = frozenset()
    """The days that it has judged, or an execution before it."""
    at: datetime = datetime.min.replace(tzinfo=UTC)
    """When it began: of what was published since then nothing is known."""

    def stands_for(self, known: Mapping[date, Mapping[str, Any]]) -> set[date]:
        """The days that were judged as they are published now.

        Args:
            known: the record of each published day, read no earlier than this verdict.
        """
        return {day for day in self.judged & known.keys() if known[day]["published"] <= self.at}


def last_verdicts(instance: dg.DagsterInstance, key: dg.AssetKey, checks: Iterable[str], results: str) -> dict[str, Verdict]:
    """What the last execution of each of these checks has told of the results at an address; nothing of checks that never were."""
    found = {}
    for name in checks:
        told = last_told(instance, dg.AssetCheckKey(key, name), results)
        if told is not None:
            found[name] = Verdict(
                frozenset(read_days(str(told[RED_DAYS]))),
                frozenset(int(one) for one in str(told.get(RED_KEYS, "")).split()),
                frozenset(read_days(str(told[JUDGED_DAYS]))),
                datetime.fromisoformat(str(told[JUDGED_AT])),
            )
    return found


def red_of(verdicts: Mapping[str, Verdict]) -> Red:
    """What verdicts have found wrong, together."""
    days = defaultdict[date, list[str]](list)
    for name, verdict in verdicts.items():
        for day in verdict.red:
            days[day].append(name)
    return Red(dict(sorted(days.items())), frozenset(key for verdict in verdicts.values() for key in verdict.keys))


def tell_red(days: Collection[date], keys: Collection[int] = ()) -> dict[str, Any]:
    """What a check tells for the next one: the days that are red, and keys with wrong rows if only some are verified."""
    return {RED_DAYS: tell_days(days)} | ({RED_KEYS: " ".join(str(one) for one in sorted(keys))} if keys else {})


def tell_judged(results: str, days: Collection[date], at: datetime) -> dict[str, Any]:
    """What a check tells for the next one, and for the schedule: which days, of what results, were judged by now."""
    return {ABOUT: results, JUDGED_DAYS: tell_days(days), JUDGED_AT: at.isoformat()}


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


def last_told(instance: dg.DagsterInstance, check: dg.AssetCheckKey, place: str) -> dict[str, Any] | None:
    """The metadata of the last execution of a check that came to a verdict on what is at an address, and whether it `passed`."""
    from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus as Status

    judged = {Status.SUCCEEDED, Status.FAILED}  # the one that is under way has none yet
    cursor = None
    for limit in (1, _BACK):  # mostly it is the last one
        records = instance.event_log_storage.get_asset_check_execution_history(check, limit=limit, cursor=cursor, status=judged)
        for record in records:
            told = {name: value.value for name, value in record.evaluation.metadata.items()} if record.evaluation else {}
            if record.evaluation and told.get(ABOUT) == place:
                return told | {"passed": record.evaluation.passed}
        cursor = records[-1].id if records else None
    return None
