"""The picture of drift: how far each column of a stream has moved from one day to the next.

Drawn from the table `values` of quality/measuring.py, as quality/suites/streams.py has judged it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from assets.pictures import INK, WARM, png

if TYPE_CHECKING:
    import polars as pl

MOST_COLUMNS, MOST_DAYS = 16, 60


def picture_of_drift(values: pl.DataFrame) -> bytes:
    """Columns below each other, days beside each other, the distance from the day before as a shade; what is too far has a cross.

    Of many columns those that went furthest over what is usual, of many days the last.
    """
    known = values.drop_nulls("drift").sort("drift_over", descending=True)
    columns = known["column"].unique(maintain_order=True).to_list()[:MOST_COLUMNS]
    days = known["day"].unique().sort().to_list()[-MOST_DAYS:]
    figure = Figure(figsize=(11, max(1.6, 0.8 + 0.24 * len(columns))), dpi=90, layout="constrained")
    axes = figure.subplots()
    if not days:
        axes.text(0.5, 0.5, "there are no two days to compare", ha="center", va="center", transform=axes.transAxes, color=INK)
        axes.set_axis_off()
        return png(figure)
    drift = {(row["column"], row["day"]): row for row in known.iter_rows(named=True)}
    shades = [[drift[column, day]["drift"] if (column, day) in drift else float("nan") for day in days] for column in columns]
    image = axes.imshow(shades, vmin=0, vmax=1, cmap="Blues", aspect="auto", interpolation="nearest")
    for at, column in enumerate(columns):
        over = [place for place, day in enumerate(days) if (column, day) in drift and drift[column, day]["drift_over"] > 0]
        axes.plot(over, [at] * len(over), "x", color=WARM, markersize=6)
    step = -(-len(days) // 12)
    axes.set_xticks(range(0, len(days), step), [f"{day:%m-%d}" for day in days[::step]])
    axes.set_yticks(range(len(columns)), columns)
    axes.tick_params(colors=INK, labelsize=8, length=0)
    axes.spines[:].set_visible(False)
    axes.set_title("distance of each distribution from that of the day before; a cross: too far", fontsize=10, color=INK, loc="left")
    bar = figure.colorbar(image, ax=axes, fraction=0.02, pad=0.01)
    bar.ax.tick_params(colors=INK, labelsize=8)
    bar.outline.set_visible(False)  # type: ignore[operator]
    return png(figure)
