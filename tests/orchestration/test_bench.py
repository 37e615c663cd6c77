"""Benchmarks at a tiny scale: every experiment runs, compares its results and gives what it promises. No time is asserted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from pyspark.sql import SparkSession
from rich.console import Console
from typer.testing import CliRunner

from orchestration.bench import duck, report, runner, windows
from orchestration.bench.command import bench
from orchestration.bench.report import Measure
from orchestration.bench.runner import EXPERIMENTS, Bench, Scale, WrongResultsError, run
from orchestration.bench.streams import DISORDERED, MANY_KEYS, TEXT_KEYS, WAVES, Stream
from replay.disorder import measure
from replay.lake import Lake

pytest.importorskip("duckdb", reason="the extra 'bench' is not installed")

WITHOUT_SPARK = {"kernels"}
PROMISED = {
    "sliding": {"reprise", "duckdb", "spark", "rows_equal_to_duckdb"},
    "fixed_cost": {"tuples_of_a_batch", "seconds_of_batches", "small", "large"},
    "frames": {"reprise", "sliding", "spark_sql", "frames", "tuples_of_a_frame", "rows_equal_to_spark_sql"},
    "keys": {"text_keys", "many_keys"},
    "kernels": {"tuples", "milliseconds"},
    "windows": {"1 queries", "10 queries"},
    "ingestion": {"debs2013", "traffic", "intel_lab", "ss7", "debs2012"},
}


def no_spark() -> SparkSession:
    raise AssertionError("this experiment needs no JVM")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in WITHOUT_SPARK else [pytest.mark.spark, pytest.mark.slow]) for name in EXPERIMENTS]
)
def test_an_experiment_gives_what_it_promises(
    name: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "_QUERIES", (1, 10))  # with more, results are most of what it takes
    start = no_spark if name in WITHOUT_SPARK else lambda: request.getfixturevalue("spark")
    scale = Scale(tuples=200_000, spark_tuples=200_000, repeats=1)
    found = json.loads(json.dumps(run(Bench(Lake(str(tmp_path)), scale, start, Console(quiet=True)), [name])))
    (experiment,) = found["experiments"]
    assert "error" not in experiment
    assert experiment["name"] == name
    assert experiment["about"]
    assert PROMISED[name] <= experiment["details"].keys()
    assert {"name", "value", "unit", "at_least", "at_most", "goal", "met"} == set.intersection(*map(set, experiment["measures"]))
    assert found["scale"]["tuples"] == 200_000
    assert found["machine"]["libraries"]["duckdb"]
    assert experiment["measures"][0]["name"] in report.markdown(found)


@pytest.mark.parametrize("stream", [DISORDERED, TEXT_KEYS, WAVES, MANY_KEYS], ids=lambda stream: stream.name)
def test_a_part_of_a_stream_is_the_same_whenever_it_is_made(stream: Stream) -> None:
    assert stream.part(1000, 500).equals(stream.part(1000, 500))
    assert not stream.part(1000, 500).equals(stream.part(1500, 500))


def test_a_fifth_of_the_disordered_stream_is_late_by_less_than_the_delay() -> None:
    found = measure(DISORDERED.part(0, 100_000))
    assert found.out_of_order == pytest.approx(0.2, abs=0.01)
    assert 1_900_000 < found.largest_delay_us < 2_000_000
    assert measure(WAVES.part(0, 10_000)).out_of_order == 0


def test_results_that_differ_are_refused() -> None:
    rows = DISORDERED.part(0, 100).append_column("n", [list(range(100))])
    settings = {"identity": ["n"], "exact": ["key"], "close": ["v"]}
    assert duck.agree("rows", rows, rows, **settings) == 100
    with pytest.raises(WrongResultsError, match="rows: 1 of 100 rows differ"):
        duck.agree("rows", rows, rows.slice(1), **settings)
    with pytest.raises(WrongResultsError, match="100 of 100 rows differ"):
        duck.agree("rows", rows, WAVES.part(0, 100).append_column("n", [list(range(100))]), **settings)


def test_the_command_writes_table_document_and_page(tmp_path: Path) -> None:
    app, page = typer.Typer(), tmp_path / "page.md"
    app.command()(bench)
    page.write_text("before\n<!-- begin: last full run -->\nold\n<!-- end: last full run -->\nafter\n")
    arguments = ["--only", "kernels", "--tuples", "200000", "--json", str(tmp_path / "found.json"), "--page", str(page)]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert "slicing, in order: lift" in shown.output
    assert json.loads((tmp_path / "found.json").read_text())["experiments"][0]["name"] == "kernels"
    assert page.read_text().startswith("before\n<!-- begin")
    assert "| kernels | slicing, in order: lift |" in page.read_text()
    assert "old" not in page.read_text()


def test_the_command_lists_experiments_and_refuses_others() -> None:
    app = typer.Typer()
    app.command()(bench)
    listed = CliRunner().invoke(app, ["--list"])
    assert [line.partition(":")[0] for line in listed.output.splitlines()] == list(EXPERIMENTS)
    refused = CliRunner().invoke(app, ["--only", "luck"])
    assert refused.exit_code == 2
    assert "only: 'luck' given; allowed are sliding," in refused.output


@pytest.mark.parametrize(
    ("option", "file", "sentence"),
    [
        ("--json", "none/found.json", "json: PATH given; allowed is a file in a folder that is there and may be written to."),
        ("--json", "", "json: PATH given; allowed is a file in a folder that is there and may be written to."),
        ("--page", "none.md", "page: PATH cannot be read ([Errno 2] No such file or directory: 'PATH')."),
        (
            "--page",
            "a.md",
            "page: PATH has 0 places for the table; needed is one, between '<!-- begin: last full run -->' and its end.",
        ),
    ],
)
def test_findings_that_could_not_be_written_are_refused_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, file: str, sentence: str
) -> None:
    monkeypatch.setattr(runner, "run", None)
    (tmp_path / "a.md").write_text("no marks\n")
    app = typer.Typer()
    app.command()(bench)
    refused = CliRunner().invoke(app, [option, str(tmp_path / file)])
    assert (refused.exit_code, refused.output.replace(str(tmp_path / file), "PATH")) == (2, f"{sentence}\n")


def test_a_missed_target_is_told() -> None:
    measures = [Measure("fast", 20, at_least=15, goal=20), Measure("slow", 0.8, "s", at_most=0.7), Measure("plain", 3)]
    assert [(measure.target, measure.met) for measure in measures] == [(">= 15 (goal 20)", True), ("<= 0.7", False), ("", None)]
