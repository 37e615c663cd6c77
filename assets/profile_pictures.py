"""The picture of a stream: its rate over time, what is missing, its gaps and its delays.

Drawn from a profile, which is measured in replay/streams/profile.py; how pictures look is in pictures.py.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import log2
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from assets.pictures import INK, MARK, WARM, dates, duration, plain, png
from replay.log import FIRST_US, LAST_US

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from replay.streams.profile import Profile

_ROUND_US = [
    *(digit * 10**power for power in range(6) for digit in (1, 2, 5)),
    *(seconds * 1_000_000 for seconds in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 21_600, 43_200)),
    *(days * 86_400_000_000 for days in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)),
]
"""Durations that people count in, from a microsecond to a thousand days."""
_SHOWN_US = FIRST_US + 3_650 * 86_400_000_000, LAST_US - 3_650 * 86_400_000_000
"""Of the first and the last ten years there are no pictures: the plotting library looks at the years around, and there are none."""


def picture_of_profile(profile: Profile) -> bytes:
    """A stream's rate over time, what is missing, its gaps and its delays."""
    figure = Figure(figsize=(11, 6.5), dpi=90, layout="constrained")
    axes = figure.subplots(2, 2)
    rate, missing, gaps, delays = axes[0][0], axes[0][1], axes[1][0], axes[1][1]
    keys = "" if profile.keys in (None, 1) else f", {profile.keys:,} keys"
    figure.suptitle(f"{profile.stream}: {profile.tuples:,} tuples{keys}", color=INK, fontsize=13, x=0.01, ha="left")
    _rate(rate, profile)
    _missing(missing, profile)
    keyed = profile.keys != 1
    plain(gaps, f"time between two tuples{' of a key' if keyed else ''}", _longest(profile))
    _powers(gaps, profile.intervals, "pairs of tuples", MARK)
    plain(delays, "how far tuples are behind the clock", _disorder(profile))
    _powers(delays, [0, *profile.delays[1:]], "tuples", WARM)
    return png(figure)


def _rate(axes: Axes, profile: Profile) -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    shown_us = [min(max(profile.begin_us + i * profile.bin_us, _SHOWN_US[0]), _SHOWN_US[1]) for i in range(len(profile.counts))]
    times = [epoch + timedelta(microseconds=us) for us in shown_us]
    per_second = [count / (profile.bin_us / 1e6) for count in profile.counts]
    axes.fill_between(times, per_second, step="post", color=MARK, alpha=0.35, linewidth=0)
    axes.step(times, per_second, where="post", color=MARK, linewidth=0.8)
    axes.set_ylim(bottom=0)
    if times[0] < times[-1]:
        axes.set_xlim(times[0], times[-1])  # margins may lie outside of the years that there are
    axes.set_ylabel("tuples a second", fontsize=9, color=INK)
    dates(axes)
    plain(axes, "rate over event time")


def _missing(axes: Axes, profile: Profile) -> None:
    shares = sorted(profile.missing.items(), key=lambda item: item[1], reverse=True)
    lacking = [(name, share) for name, share in shares if share > 0][:10]
    if not lacking:
        axes.text(0.5, 0.5, f"nothing is missing in {len(shares)} columns", ha="center", va="center", transform=axes.transAxes, color=INK)
        axes.set_axis_off()
        return
    names = [name for name, _ in lacking][::-1]
    bars = axes.barh(names, [100 * share for _, share in lacking][::-1], color=MARK, height=0.6)
    axes.bar_label(bars, labels=[f"{share:.2%}" for _, share in lacking][::-1], padding=3, fontsize=8, color=INK)
    axes.set_xlim(0, max(100 * lacking[0][1] * 1.25, 0.01))
    whole = len(shares) - len(lacking)
    plain(axes, f"missing values in % of tuples{f'; {whole} columns have all' if whole else ''}")


def _powers(axes: Axes, counts: list[int], counted: str, colour: str) -> None:
    """Counts by powers of two of microseconds, each bar over its range of durations."""
    there = [place for place, count in enumerate(counts) if count and place]
    if not there:
        axes.text(0.5, 0.5, "none", ha="center", va="center", transform=axes.transAxes, color=INK)
        axes.set_xticks([])
        axes.set_yticks([])
        return
    first, last = min(there), max(there)
    # The place p counts durations from 2^(p - 1) to 2^p.
    axes.bar(range(first - 1, last), counts[first : last + 1], color=colour, width=0.92, align="edge")
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.7)
    axes.set_ylabel(counted, fontsize=9, color=INK)
    # With room on both sides, so that some round duration is in it.
    axes.set_xlim(first - 2, last + 1)
    rounded = [us for us in _ROUND_US if first - 2 <= log2(us) <= last + 1]
    shown: list[int] = []
    for us in rounded:
        if not shown or log2(us) - log2(shown[-1]) >= (last + 3 - first) / 9:
            shown.append(us)
    axes.set_xticks([log2(us) for us in shown], [duration(us) for us in shown], fontsize=8)


def _longest(profile: Profile) -> str:
    if not profile.longest:
        return ""
    begin, length = profile.longest[0]
    when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=begin)
    return f"longest silence of all: {duration(length)} from {when:%Y-%m-%d %H:%M:%S}"


def _disorder(profile: Profile) -> str:
    late = f", latest by {duration(profile.largest_delay_us)}" if profile.largest_delay_us else ""
    inverted = "" if profile.inversion_rate is None else f", inversion rate {profile.inversion_rate:.2g}"
    return f"{profile.out_of_order:.2%} out of order{late}{inverted}"
