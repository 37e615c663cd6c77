"""What the README shows does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import SparkSession

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
(SHOWN,) = re.findall(r"```\n(shape: .*?)```", README, re.DOTALL)


@pytest.mark.spark
def test_the_examples_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(block, names)  # noqa: S102 - our own text
    printed = capsys.readouterr().out
    #   a  1 2 | 8 4 |  (25 is b's)  | 32        windows of 20 s that end at 10, 20, 30, 40, 50
    sums = [(row["key"], row["sum_v"], row["count"]) for row in names["run"].final.to_pylist()]  # type: ignore[attr-defined]
    assert sums == [("a", 3, 2), ("a", 15, 4), ("a", 12, 2), ("a", 32, 1), ("a", 32, 1), ("b", 16, 1), ("b", 16, 1)]
    assert SHOWN in printed
    frames = pl.read_delta(str(tmp_path / "lake/results/frames__sensors"))
    assert frames.select("key", "tuples", "open").rows() == [("a", 3, True)]
