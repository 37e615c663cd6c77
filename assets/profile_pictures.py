"""The picture of a stream: its rate over time, what is missing, its gaps and its delays.

Drawn from a profile, which is measured in replay/streams/profile.py; how pictures look is in pictures.py.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from assets.pictures import INK, MARK, WARM, dates, duration, plain, png

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from replay.streams.profile import Profile


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
    _powers(gaps, profile.intervals, f"at least so long between two tuples{' of a key' if keyed else ''}", MARK)
    gaps.text(0.98, 0.95, _longest(profile), transform=gaps.transAxes, ha="right", va="top", fontsize=8, color=INK)
    _powers(delays, [0, *profile.delays[1:]], "at least so far behind the clock", WARM)
    told = f"{profile.out_of_order:.2%} out of order\nlatest by {duration(profile.largest_delay_us)}"
    inverted = "" if profile.inversion_rate is None else f"\ninversion rate {profile.inversion_rate:.2g}"
    delays.text(0.98, 0.95, told + inverted, transform=delays.transAxes, ha="right", va="top", fontsize=8, color=INK)
    return png(figure)


def _rate(axes: Axes, profile: Profile) -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    times = [epoch + timedelta(microseconds=profile.begin_us + i * profile.bin_us) for i in range(len(profile.counts))]
    per_second = [count / (profile.bin_us / 1e6) for count in profile.counts]
    axes.fill_between(times, per_second, step="post", color=MARK, alpha=0.35, linewidth=0)
    axes.step(times, per_second, where="post", color=MARK, linewidth=0.8)
    axes.set_ylim(bottom=0)
    dates(axes)
    plain(axes, "tuples a second, by event time")


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


def _powers(axes: Axes, counts: list[int], title: str, colour: str) -> None:
    """Counts by powers of two of microseconds."""
    there = [place for place, count in enumerate(counts) if count and place]
    if not there:
        axes.text(0.5, 0.5, "none", ha="center", va="center", transform=axes.transAxes, color=INK)
        plain(axes, title)
        axes.set_xticks([])
        axes.set_yticks([])
        return
    places = range(min(there), max(there) + 1)
    axes.bar(list(places), [counts[place] for place in places], color=colour, width=0.9)
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.7)
    step = max(len(places) // 8, 1)
    axes.set_xticks(list(places)[::step], [duration(2 ** (place - 1)) for place in places][::step], fontsize=8)
    plain(axes, title)


def _longest(profile: Profile) -> str:
    if not profile.longest:
        return ""
    begin, length = profile.longest[0]
    when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=begin)
    return f"longest silence of all: {duration(length)}\nfrom {when:%Y-%m-%d %H:%M:%S}"
