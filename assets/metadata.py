"""Metadata that every materialization has, under the same names each time, so that the UI draws them over time.

Numbers, a picture and a preview; where they come from is the business of the assets.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import dagster as dg

SHOWN_ROWS = 10


def picture(png: bytes) -> dg.MarkdownMetadataValue:
    """A PNG that the UI shows in place."""
    return dg.MetadataValue.md(f"![picture](data:image/png;base64,{base64.b64encode(png).decode()})")


def drawn(draw: Callable[[], bytes]) -> dg.MarkdownMetadataValue:
    """A picture, or why there is none: what it would show is right all the same."""
    try:
        return picture(draw())
    except Exception as problem:
        dg.get_dagster_logger().exception("a picture could not be drawn")
        return dg.MetadataValue.md(f"it could not be drawn: {str(problem) or type(problem).__name__}")


def preview(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None, *, exact: bool = False) -> dg.MarkdownMetadataValue:
    """Some rows as a table; `exact`: numbers to the last digit, which may be the one that differs."""
    if not rows:
        return dg.MetadataValue.md("no rows")
    names = list(columns or rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(_cell(row.get(name), exact=exact) for name in names) + " |" for row in rows[:SHOWN_ROWS]]
    return dg.MetadataValue.md("\n".join(lines))


def _cell(value: Any, *, exact: bool) -> str:
    if isinstance(value, float) and not exact:
        return f"{value:.6g}"
    if isinstance(value, datetime):
        value = value.replace(tzinfo=None)  # all times are UTC, and there is little room
    text = str(value) if value is not None else ""
    return text.replace("|", "\\|").replace("\n", " ")[:120]
