"""Pictures: what a stream is like, as PNGs small enough for an asset's metadata.

A picture is drawn from what replay/ and quality/ have measured; nothing is computed here. Every function returns the bytes of
a PNG and leaves no state of the plotting library behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

    from replay.streams.profile import Profile

INK, MARK, SOFT = "#22303c", "#1f77b4", "#c8d3dc"
COLOURS = ("#1f77b4", "#d6604d", "#4d9221", "#8073ac", "#b35806")
AGGREGATES = ("sum", "mean", "min", "max", "first", "last", "count")
_UNITS = ((86_400e6, "d"), (3_600e6, "h"), (60e6, "min"), (1e6, "s"), (1e3, "ms"), (1, "us"))


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
    _powers(delays, [0, *profile.delays[1:]], "at least so far behind the clock", "#d6604d")
    told = f"{profile.out_of_order:.2%} out of order\nlatest by {duration(profile.largest_delay_us)}"
    inverted = "" if profile.inversion_rate is None else f"\ninversion rate {profile.inversion_rate:.2g}"
    delays.text(0.98, 0.95, told + inverted, transform=delays.transAxes, ha="right", va="top", fontsize=8, color=INK)
    return png(figure)


def picture_of_windows(results: pa.Table, query: Mapping[str, Any]) -> bytes:
    """An aggregate of each window over time, for the keys with most of them."""
    figure = Figure(figsize=(11, 3.6), dpi=90, layout="constrained")
    axes = figure.subplots()
    names = [name for name in results.column_names if name.partition("_")[0] in AGGREGATES and name != "count"] or ["count"]
    rows = results.filter(pc.equal(results["query"], query["name"])) if results.num_rows else results
    for colour, (key, part) in zip(COLOURS, _by_key(rows), strict=False):
        part = part.sort_by("window_end")
        axes.plot(part["window_end"].to_pylist(), part[names[0]].to_pylist(), color=colour, linewidth=0.9, label=str(key))
    _over_time(axes, rows.num_rows, f"{names[0]} of windows {query['name']!r}, by their end")
    return png(figure)


def picture_of_episodes(results: pa.Table, tuples: pa.Table, where: str) -> bytes:
    """Episodes over the signal that they are episodes of, for the key with most of them."""
    figure = Figure(figsize=(11, 3.6), dpi=90, layout="constrained")
    axes = figure.subplots()
    signal = next((name for name in tuples.column_names if name in where.replace("(", " ").replace(")", " ").split()), None)
    chosen = next((key for key, _ in _by_key(results)), None) if results.num_rows else None
    if "key" in tuples.column_names:
        chosen = tuples["key"][0].as_py() if chosen is None else chosen
        tuples = tuples.filter(pc.equal(tuples["key"], pa.scalar(chosen, tuples["key"].type)))
    if signal is not None and tuples.num_rows:
        axes.plot(tuples["ts"].to_pylist(), tuples[signal].to_pylist(), color=MARK, linewidth=0.6)
        low, high = axes.get_xlim()
    frames = (
        results.filter(pc.equal(results["key"], pa.scalar(chosen, results["key"].type)))
        if chosen is not None and results.num_rows
        else results
    )
    for start, end in zip(frames["start"].to_pylist(), frames["end"].to_pylist(), strict=True) if frames.num_rows else []:
        axes.axvspan(start, end, color="#d6604d", alpha=0.35, linewidth=0)
    if signal is not None and tuples.num_rows:
        axes.set_xlim(low, high)
    _over_time(axes, frames.num_rows, f"episodes of {where}" + ("" if chosen is None else f", key {chosen}"), legend=False)
    return png(figure)


def picture_of_comparison(joined: pl.DataFrame) -> bytes:
    """What the engine says over what the oracle says, value by value; a right result lies on the line."""
    import polars as pl

    figure = Figure(figsize=(11, 3.6), dpi=90, layout="constrained")
    names = [name.removesuffix("__equal") for name in joined.columns if name.endswith("__equal")]
    numbers = [name for name in names if joined.schema[f"{name}__engine"].is_numeric()][:3]
    axes = figure.subplots(1, max(len(numbers), 1), squeeze=False)[0]
    both = joined.filter(pl.col("side") == "both")
    apart = joined.height - both.height
    for place, name in zip(axes, numbers, strict=False):
        shown = both.filter(pl.col(f"{name}__engine").is_not_null() & pl.col(f"{name}__oracle").is_not_null())
        shown = shown.sample(min(shown.height, 5000), seed=0)
        wrong = shown.filter(~pl.col(f"{name}__equal"))
        place.scatter(shown[f"{name}__oracle"], shown[f"{name}__engine"], s=6, color=MARK, alpha=0.5, linewidth=0)
        place.scatter(wrong[f"{name}__oracle"], wrong[f"{name}__engine"], s=18, color="#d6604d", linewidth=0)
        place.axline((0, 0), slope=1, color=SOFT, linewidth=0.8, zorder=0)
        place.set_xlabel("oracle", fontsize=8, color=INK)
        place.set_ylabel("engine", fontsize=8, color=INK)
        differ = both.filter(~pl.col(f"{name}__equal")).height
        _plain(place, f"{name}: {both.height:,} rows, {differ:,} differ")
    if not numbers:
        axes[0].set_axis_off()
    figure.suptitle(f"engine and oracle{f'; {apart:,} rows of one side only' if apart else ''}", fontsize=10, color=INK, x=0.01, ha="left")
    return png(figure)


def png(figure: Figure) -> bytes:
    """The figure as the bytes of a PNG."""
    out = BytesIO()
    FigureCanvasAgg(figure).print_png(out)
    return out.getvalue()


def duration(microseconds: float) -> str:
    """A duration as an axis tells it.

    >>> duration(20_000_000), duration(90_000_000), duration(0)
    ('20 s', '1.5 min', '0')
    """
    for unit, name in _UNITS:
        if microseconds >= unit:
            return f"{microseconds / unit:.3g} {name}"
    return "0"


def _by_key(rows: pa.Table) -> Iterator[tuple[Any, pa.Table]]:
    """The rows of each key, those with most of them first."""
    if not rows.num_rows:
        return
    counts = pc.value_counts(rows["key"]).to_pylist()
    for entry in sorted(counts, key=lambda entry: -entry["counts"])[: len(COLOURS)]:
        same = pc.is_null(rows["key"]) if entry["values"] is None else pc.equal(rows["key"], pa.scalar(entry["values"], rows["key"].type))
        yield entry["values"], rows.filter(same)


def _over_time(axes: Axes, rows: int, title: str, *, legend: bool = True) -> None:
    if not rows and not axes.has_data():
        axes.text(0.5, 0.5, "no results", ha="center", va="center", transform=axes.transAxes, color=INK)
        axes.set_axis_off()
        return
    locator = AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    _plain(axes, title)
    if legend and len(axes.lines) > 1:
        axes.legend(title="key", fontsize=8, title_fontsize=8, frameon=False, ncols=len(axes.lines))


def _rate(axes: Axes, profile: Profile) -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    times = [epoch + timedelta(microseconds=profile.begin_us + i * profile.bin_us) for i in range(len(profile.counts))]
    per_second = [count / (profile.bin_us / 1e6) for count in profile.counts]
    axes.fill_between(times, per_second, step="post", color=MARK, alpha=0.35, linewidth=0)
    axes.step(times, per_second, where="post", color=MARK, linewidth=0.8)
    axes.set_ylim(bottom=0)
    locator = AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    _plain(axes, "tuples a second, by event time")


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
    _plain(axes, f"missing values in % of tuples{f'; {whole} columns have all' if whole else ''}")


def _powers(axes: Axes, counts: list[int], title: str, colour: str) -> None:
    """Counts by powers of two of microseconds."""
    there = [place for place, count in enumerate(counts) if count and place]
    if not there:
        axes.text(0.5, 0.5, "none", ha="center", va="center", transform=axes.transAxes, color=INK)
        _plain(axes, title)
        axes.set_xticks([])
        axes.set_yticks([])
        return
    places = range(min(there), max(there) + 1)
    axes.bar(list(places), [counts[place] for place in places], color=colour, width=0.9)
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.7)
    step = max(len(places) // 8, 1)
    axes.set_xticks(list(places)[::step], [duration(2 ** (place - 1)) for place in places][::step], fontsize=8)
    _plain(axes, title)


def _longest(profile: Profile) -> str:
    if not profile.longest:
        return ""
    begin, length = profile.longest[0]
    when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=begin)
    return f"longest silence of all: {duration(length)}\nfrom {when:%Y-%m-%d %H:%M:%S}"


def _plain(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=10, color=INK, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(SOFT)
    axes.tick_params(colors=INK, labelsize=8)
