"""Pictures of results: windows over time, episodes over the signal, engine beside oracle, micro-batches; and how all pictures look.

PNGs small enough for an asset's metadata, drawn from what replay/ and quality/ have measured; nothing is computed here. Every function
returns the bytes of a PNG and leaves no state of the plotting library behind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from assets.shown import Shown

INK, MARK, WARM, SOFT = "#22303c", "#1f77b4", "#d6604d", "#c8d3dc"
COLOURS = ("#1f77b4", "#d6604d", "#4d9221", "#8073ac", "#b35806")
MOST_POINTS = 2_000
"""Of a line: more cannot be told apart on the width of a page."""
MOST_QUERIES, MOST_LEVELS = 3, 12
MOST_BYTES = 100_000
_UNITS = ((86_400e6, "d"), (3_600e6, "h"), (60e6, "min"), (1e6, "s"), (1e3, "ms"), (1, "us"))
_LIMIT = re.compile(r"\s*(\w+)\s*(?:<|<=|>|>=)\s*(-?\d+(?:\.\d+)?)\s*")
_PREFIXES = {"u": 1e-6, "m": 1e-3}
_PREFIXED = re.compile(r"([um])[msgVAW]\b")
"""A unit with a prefix, such as um/s or ms; no prefix is the m of mph, min or m."""
_COUNTS = ("tuples", "count")
_STEPS = {"lift": MARK, "combine": WARM, "lower": "#4d9221"}


def picture_of_windows(shown: Shown, tuples: pa.Table, queries: Sequence[Mapping[str, Any]]) -> bytes:
    """An aggregate of each window over time, a row of the picture for each query, for the keys with most windows."""
    drawn = queries[:MOST_QUERIES]
    figure, rows = _figure(len(drawn))
    for axes, query in zip(rows, drawn, strict=True):
        count, keys = shown.total(query["name"]), len(shown.keys(query["name"]))
        if not count:
            _nothing(axes, f"{query['name']}: no windows")
            continue
        told = sorted(query["aggregates"], key=lambda one: one["kind"] == "count")  # counts are the least telling
        aggregate = next((one for one in told if _is_number(shown.rows[_named(one)].type)), None)
        if aggregate is None:
            _nothing(axes, f"{query['name']}: {count:,} windows, and no numbers to show")
            continue
        kind, column, name = aggregate["kind"], aggregate.get("column"), _named(aggregate)
        for colour, (key, part) in zip(COLOURS, shown.by_key(query["name"]), strict=False):
            part = part.sort_by("window_end")
            times, values = _broken(part["window_end"], part[name])
            axes.plot(times, values, color=colour, linewidth=1.0, label=str(key))
        _measured(axes, f"{kind} of {column}" if column else kind, tuples, None if kind == "count" else column)
        plain(axes, f"{query['name']}: {count:,} window{'s' if count != 1 else ''}, by their end")
        if len(axes.lines) > 1:
            more = keys - len(axes.lines)
            title = "key" if more <= 0 else f"key ({more:,} more)"
            axes.legend(title=title, fontsize=8, title_fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    dates(rows[-1])
    return png(figure)


def picture_of_episodes(shown: Shown, tuples: pa.Table, where: str) -> bytes:
    """Episodes over the signal that they are episodes of, for the key with most of them."""
    figure, (axes,) = _figure(1)
    signal = next((name for name in re.findall(r"\w+", where) if name in tuples.column_names), None)
    chosen, frames = next(shown.by_key(), (None, shown.rows))
    if "key" in tuples.column_names and tuples.num_rows:
        chosen = chosen if shown.total() else tuples["key"][0].as_py()
        same = pc.is_null(tuples["key"]) if chosen is None else pc.equal(tuples["key"], pa.scalar(chosen, tuples["key"].type))
        tuples = tuples.filter(same)
    if signal is None or not tuples.num_rows:
        _nothing(axes, "no tuples to show")
        return png(figure)
    tuples = tuples.sort_by("ts")
    heights, levels = _heights(tuples[signal])
    times, values = _broken(tuples["ts"], heights)
    axes.plot(times, values, color=MARK, linewidth=0.7, label=signal)
    low, high = axes.get_xlim()
    if frames.num_rows:
        start, end = (date2num(frames[side].cast(pa.timestamp("us")).to_numpy()) for side in ("start", "end"))
        # All at once, as there may be thousands; with an edge, because one of minutes in a picture of days is less than a pixel wide.
        look = {"facecolor": WARM, "edgecolor": WARM, "alpha": 0.4, "linewidth": 0.8, "label": "episode"}
        axes.broken_barh(np.column_stack([start, end - start]), (0, 1), transform=axes.get_xaxis_transform(), **look)
    if (limit := _LIMIT.fullmatch(where)) and limit[1] == signal:
        axes.axhline(float(limit[2]), color=INK, linewidth=0.8, linestyle="--", label=where)
    axes.set_xlim(low, high)
    dates(axes)
    _measured(axes, signal, tuples, signal)
    if 0 < len(levels) <= MOST_LEVELS:
        axes.set_yticks(range(len(levels)), levels)
    count = int(shown.counts["results"][0]) if shown.total() else 0
    key = "" if chosen is None else f"key {chosen}: "
    plain(axes, f"{key}{count:,} episode{'s' if count != 1 else ''} of {where}; one that is decided on a later day is shaded on that day")
    parts = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    axes.legend(parts.values(), parts.keys(), fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return png(figure)


def picture_of_comparison(joined: pl.DataFrame) -> bytes:
    """What the engine says over what the oracle says, value by value, what differs most often first; a right result lies on the line."""
    import polars as pl

    figure = Figure(figsize=(11, 3.8), dpi=90, layout="constrained")
    names = [name.removesuffix("__equal") for name in joined.columns if name.endswith("__equal")]
    differ = joined.select((~pl.col(f"{name}__equal")).sum().alias(name) for name in names).row(0, named=True) if names else {}
    numeric = (name for name in names if joined.schema[f"{name}__engine"].is_numeric())
    # Counts are the least telling: they come last.
    told = sorted(numeric, key=lambda name: (-differ[name], name in _COUNTS))[:3]
    places = figure.subplots(1, max(len(told), 1), squeeze=False)[0]
    both = joined.filter(pl.col("side") == "both")
    for axes, name in zip(places, told, strict=False):
        there = both.filter(pl.col(f"{name}__engine").is_not_null() & pl.col(f"{name}__oracle").is_not_null())
        right, wrong = (there.filter(pl.col(f"{name}__equal") == equal) for equal in (True, False))
        for rows, size, colour in ((right.sample(min(right.height, MOST_POINTS), seed=0), 14, MARK), (wrong.head(MOST_POINTS), 30, WARM)):
            axes.scatter(rows[f"{name}__oracle"], rows[f"{name}__engine"], s=size, color=colour, alpha=0.6, linewidth=0, zorder=2)
        if there.height:
            ends = [bound for side in ("engine", "oracle") for bound in (there[f"{name}__{side}"].min(), there[f"{name}__{side}"].max())]
            low, high = float(min(ends)), float(max(ends))  # type: ignore[type-var, arg-type]
            axes.plot([low, high], [low, high], color=SOFT, linewidth=0.8, zorder=1)
        for axis, label in ((axes.xaxis, "oracle"), (axes.yaxis, "engine")):
            numbers(axis)
            axis.set_label_text(label, fontsize=9, color=INK)
        plain(axes, f"{name}: {both.height:,} compared, {differ[name]:,} differ")
    if not told:
        _nothing(places[0], "no numbers to compare")
    apart, more = joined.height - both.height, [f"{name} ({differ[name]:,})" for name in names if differ[name] and name not in told]
    missed = [f"{apart:,} rows of one side only"] * bool(apart) + [f"not drawn, and differ: {', '.join(more)}"] * bool(more)
    figure.suptitle("; ".join(missed), fontsize=10, color=WARM, x=0.01, ha="left")
    return png(figure)


def picture_of_batches(metrics: pa.Table) -> bytes:
    """Where the time of each micro-batch went, and how much state it left."""
    figure = Figure(figsize=(11, 2.8), dpi=90, layout="constrained")
    time, state = figure.subplots(1, 2)
    batches, below = np.arange(metrics.num_rows), np.zeros(metrics.num_rows)
    for step, colour in _STEPS.items():
        seconds = metrics[f"{step}_seconds"].to_numpy()
        time.bar(batches, seconds, 0.9, bottom=below, color=colour, label=step)
        below += seconds
    time.legend(fontsize=8, frameon=False, ncols=len(_STEPS), loc="upper right")
    time.set_ylim(top=max(below.max(initial=0) * 1.25, 1e-3))
    plain(time, f"{metrics.num_rows:,} micro-batch{'es' if metrics.num_rows != 1 else ''}: seconds of work, of all buckets together")
    state.bar(batches, metrics["state_bytes"].to_numpy(), 0.9, color=SOFT)
    plain(state, "bytes of state that it left")
    for axes in (time, state):
        axes.set_xticks(batches[:: max(-(-metrics.num_rows // 8), 1)])
        axes.set_xlim(-0.6, max(metrics.num_rows, 4) - 0.4)
        axes.set_xlabel("micro-batch", fontsize=9, color=INK)
        numbers(axes.yaxis)
    return png(figure)


def png(figure: Figure) -> bytes:
    """The figure as the bytes of a PNG, with fewer dots if noise would make it too large for metadata."""
    for dpi in (figure.dpi, 72, 54):
        figure.set_dpi(dpi)
        out = BytesIO()
        FigureCanvasAgg(figure).print_png(out)
        if out.tell() < MOST_BYTES:
            break
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


class _Dates(AutoDateLocator):
    """Dates that do not overlap: every fourth day of a month, say, but not its 29th before the 1st of the next."""

    def __call__(self) -> Any:
        ticks = np.asarray(super().__call__(), float)
        apart = np.diff(ticks)
        return ticks if not len(apart) else ticks[np.append(apart > 0.6 * np.median(apart), True)]


def dates(axes: Axes) -> None:
    """Event time on the x axis."""
    locator = _Dates(maxticks=11)  # with fewer there is no interval for spans of nearly five days or hours, and Matplotlib warns
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.xaxis.get_offset_text().set_size(8)
    axes.set_xlabel("event time, UTC", fontsize=9, color=INK)


def numbers(axis: Axis, factor: float = 1.0) -> None:
    """Few numbers on an axis, times a factor, that can be read without an exponent in a corner."""
    axis.set_major_locator(MaxNLocator(5))
    far = EngFormatter(sep="")
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: far(value * factor) if abs(value * factor) >= 1e6 else f"{value * factor:,.6g}")
    )


def plain(axes: Axes, title: str, told: str = "") -> None:
    """What all pictures look like; what is told of one stands under its title."""
    axes.set_title(title, fontsize=10, color=INK, loc="left", pad=18 if told else None)
    axes.text(0, 1.02, told, transform=axes.transAxes, va="bottom", fontsize=8, color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(SOFT)
    axes.tick_params(colors=INK, labelsize=8)


def _figure(rows: int) -> tuple[Figure, Sequence[Axes]]:
    figure = Figure(figsize=(11, 3.6 if rows == 1 else 2.6 * rows), dpi=90, layout="constrained")
    return figure, list(figure.subplots(rows, 1, squeeze=False, sharex=True)[:, 0])


def _named(aggregate: Mapping[str, Any]) -> str:
    """The column of an aggregate."""
    kind, column = aggregate["kind"], aggregate.get("column")
    return str(aggregate.get("as") or (f"{kind}_{column}" if column else kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _heights(values: pa.ChunkedArray) -> tuple[pa.ChunkedArray, list[str]]:
    """What can be drawn of a signal: numbers as they are; texts, times, ... by their place among all that occur, which are named."""
    if _is_number(values.type):
        return values, []
    texts = values.cast(pa.string())
    levels = pc.unique(texts.drop_null()).sort()
    return pc.index_in(texts, value_set=levels), levels.to_pylist()


def _broken(times: pa.ChunkedArray, values: pa.ChunkedArray) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A line that is broken where nothing is known for long, of so many points as can be told apart."""
    known = pc.is_valid(values)
    at = times.filter(known).cast(pa.timestamp("us")).to_numpy()
    height = values.filter(known).cast(pa.float64(), safe=False).to_numpy()
    step = max(-(-len(at) // MOST_POINTS), 1)
    at, height = at[::step], height[::step]
    between = np.diff(at).astype(np.int64)
    ends = np.flatnonzero(between > 4 * max(np.median(between), 1)) + 1 if len(between) > 2 else np.array([], np.int64)
    return np.insert(at, ends, at[ends]), np.insert(height, ends, np.nan)


def _nothing(axes: Axes, told: str) -> None:
    axes.text(0.5, 0.5, told, ha="center", va="center", transform=axes.transAxes, color=INK)
    axes.set_axis_off()


def _measured(axes: Axes, what: str, tuples: pa.Table, column: str | None) -> None:
    """What the y axis measures, with the unit of the column if it has one: 12,000,000 um/s are 12 m/s."""
    known = (tuples.schema.field(column).metadata or {}) if column in tuples.column_names else {}
    unit, factor = known.get(b"unit", b"").decode(), 1.0
    prefixed = _PREFIXED.match(unit)
    if prefixed and max(map(abs, axes.get_ylim())) * _PREFIXES[prefixed[1]] >= 1:
        unit, factor = unit[1:], _PREFIXES[prefixed[1]]
    numbers(axes.yaxis, factor)
    axes.set_ylabel(f"{what}, {unit}" if unit else what, fontsize=9, color=INK)
