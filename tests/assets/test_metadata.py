"""Metadata: tables of rows, as the UI shows them."""

from __future__ import annotations

import polars as pl

from assets.metadata import preview
from quality.joining import compared, worst


def test_rows_that_differ_are_told_to_the_digit_in_which_they_do() -> None:
    expected = pl.DataFrame({"key": ["a"], "sum_v": [123456.789]})
    rows = worst(compared(expected.with_columns(pl.col("sum_v") * (1 + 1e-6)), expected, ["key"], []), 5).to_dicts()
    *_, cells = str(preview(rows, exact=True).value).splitlines()
    found, wanted = (float(cell) for cell in cells.strip("| ").split(" | ")[-3:-1])
    assert (found, wanted) == (123456.789 * (1 + 1e-6), 123456.789)
    assert "| 123457 | 123457 |" in str(preview(rows).value)
