"""The command `reprise bench`: what a person types, the table and the document that come of it.

Everything that takes time to import is imported when the command runs. A target that is missed is told, not punished; wrong
results, or an experiment that breaks, end the command with status 1.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer


def bench(
    only: Annotated[list[str] | None, typer.Option("--only", metavar="NAME", help="An experiment; may be repeated. [default: all]")] = None,
    tuples: Annotated[int, typer.Option("--tuples", min=200_000, help="Tuples of the longest streams.")] = 100_000_000,
    spark_tuples: Annotated[int, typer.Option("--spark-tuples", min=200_000, help="Tuples for Spark's own operators.")] = 10_000_000,
    batch_tuples: Annotated[int, typer.Option("--batch-tuples", min=1, help="The most tuples of a batch.")] = 25_000_000,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Keep streams and results here, and use those there are.")
    ] = None,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write everything that was found as one JSON document.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--page", metavar="FILE", help="Put the table into this Markdown page, between its marks.")
    ] = None,
    list_only: Annotated[bool, typer.Option("--list", help="List the experiments and leave.")] = False,
) -> None:
    """Measure speed, side by side with other systems on the same cores."""
    import json as json_format
    from contextlib import ExitStack
    from tempfile import TemporaryDirectory

    from rich.console import Console

    from orchestration.bench.report import table, title, write_into
    from orchestration.bench.runner import EXPERIMENTS, Bench, Scale, about, run

    console = Console(stderr=True)
    names = only or list(EXPERIMENTS)
    if unknown := [name for name in names if name not in EXPERIMENTS]:
        refused = f"only: {unknown[0]!r} given; allowed are {', '.join(EXPERIMENTS)}."
    else:
        refused = _no_place_for(json, page)
    if refused:
        console.print(refused, markup=False, soft_wrap=True)
        raise typer.Exit(2)
    if list_only:
        for name in names:
            typer.echo(f"{name}: {about(name)}")
        return

    from orchestration.cli.spark import quiet_session
    from replay.lake import Lake

    scale = Scale(tuples=tuples, spark_tuples=spark_tuples, batch_tuples=batch_tuples)
    with ExitStack() as stack:
        folder = str(keep) if keep else stack.enter_context(TemporaryDirectory(prefix="reprise-bench-"))
        start = lambda: stack.enter_context(quiet_session(f"local[{scale.cores}]"))  # noqa: E731 - only if an experiment wants it
        found = run(Bench(Lake(folder), scale, start, console), names)
    # Whoever reads a pipe wants whole lines, not those of a terminal of 80 characters.
    Console(width=None if Console().is_terminal else 140).print(title(found), table(found), sep="\n", highlight=False)
    if json:
        json.write_text(json_format.dumps(found, indent=2) + "\n")
    if page:
        write_into(page, found)
    if any("error" in experiment for experiment in found["experiments"]):
        raise typer.Exit(1)


def _no_place_for(json: Path | None, page: Path | None) -> str:
    """What would keep the findings from being written, for this is to be known before anything is measured."""
    from orchestration.bench.report import places

    if json and not os.access(json if json.exists() else json.parent, os.W_OK) or json and json.is_dir():
        return f"json: {json} given; allowed is a file in a folder that is there and may be written to."
    try:
        count = places(page) if page else 1
    except (OSError, UnicodeDecodeError) as problem:
        return f"page: {page} cannot be read ({problem})."
    if count != 1:
        return f"page: {page} has {count} places for the table; needed is one, between '<!-- begin: last full run -->' and its end."
    return ""
