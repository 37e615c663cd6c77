"""`reprise streams`: which streams there are, their twins, their ingestion, what they are like.

Commands as a person types them; what they do is in `stream_work.py`, which takes a moment to import and is loaded when needed.
"""

from __future__ import annotations

import json as json_format
from datetime import date
from typing import Annotated, Any

import typer

from orchestration.cli.sentences import Told, sentences

app = typer.Typer(no_args_is_help=True, help="Streams: list them, make twins, ingest raw files, profile them.", rich_markup_mode="markdown")

_Name = Annotated[str, typer.Argument(metavar="STREAM", help="The stream's name, as `reprise streams list` tells it.")]
_Names = Annotated[list[str] | None, typer.Argument(metavar="[STREAM]...", help="The streams' names; none: all that are declared.")]
_Raw = Annotated[
    str, typer.Option(metavar="DIR", envvar="REPRISE_RAW", help="Raw files: originals in DIR/STREAM, twins in DIR/STREAM__twin.")
]
_Declared = Annotated[
    str, typer.Option("--declarations", metavar="DIR", envvar="REPRISE_STREAMS", help="Your own declarations, one STREAM.stream.yaml each.")
]
_Lake = Annotated[str, typer.Option(metavar="DIR", envvar="REPRISE_LAKE", help="Where the logs are.")]
_Tuples = Annotated[int | None, typer.Option(metavar="N", min=1, help="How many tuples a twin has. [default: as it is, or 100,000]")]
_Seed = Annotated[int | None, typer.Option(metavar="N", min=0, help="What a twin is drawn with. [default: as it is, or 0]")]
_Option = Annotated[list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="A further setting of a twin; may be repeated.")]
_Master = Annotated[str | None, typer.Option(help="Where Spark runs. [default: local[*] for much work; little is done in this process]")]
_Json = Annotated[bool, typer.Option("--json", help="Print what was done as one JSON document.")]
_Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")]


@app.command("list")
def list_streams(
    lake: _Lake = "lake", raw: _Raw = "raw", declarations: _Declared = "streams", json: _Json = False, debug: _Debug = False
) -> None:
    """List the streams, their raw files, and what of them is in the lake."""
    with sentences(debug=debug):
        from orchestration.cli.stream_work import known_streams

        found = known_streams(lake, raw, declarations)
        if not _printed(found, json=json):
            from orchestration.cli.showing import show_rows

            names = ["stream", "raw files", "tuples", "rejected", "days", "title"]
            show_rows(names, [[_shown(row[name.replace(" ", "_")]) for name in names] for row in found])


@app.command()
def describe(stream: _Name, lake: _Lake = "lake", declarations: _Declared = "streams", json: _Json = False, debug: _Debug = False) -> None:
    """Tell what a stream's files look like, and what became of each."""
    with sentences(debug=debug):
        from orchestration.cli.stream_work import described

        found = described(stream, lake, declarations)
        if not _printed(found, json=json):
            from orchestration.cli.showing import show_description, show_rows

            if found["declared"]:
                show_description(found)
            else:
                typer.echo(f"{stream}: {found['tuples']:,} tuples, {found['declaration']['title']}")
                show_rows(["column", "type"], [[column["name"], column["type"]] for column in found["declaration"]["columns"]])


@app.command()
def generate(
    stream: _Names = None,
    tuples: _Tuples = None,
    seed: _Seed = None,
    option: _Option = None,
    raw: _Raw = "raw",
    master: _Master = None,
    json: _Json = False,
    debug: _Debug = False,
) -> None:
    """Make the twins of streams, in the format of the originals."""
    with sentences(debug=debug):
        settings = _settings(tuples, seed, option)
        from orchestration.cli.stream_work import generate_twins

        done = generate_twins(stream, raw, settings, master)
        if not _printed(done, json=json):
            for row in done:
                typer.echo(f"{row['stream']}: {row['tuples']:,} tuples, {row['bytes']:,} bytes in {row['files']} files in {row['folder']}")


@app.command()
def ingest(
    stream: _Names = None,
    tuples: _Tuples = None,
    seed: _Seed = None,
    option: _Option = None,
    lake: _Lake = "lake",
    raw: _Raw = "raw",
    declarations: _Declared = "streams",
    master: _Master = None,
    json: _Json = False,
    debug: _Debug = False,
) -> None:
    """Bring the logs of streams up to date with their raw files; where there are none, with a twin."""
    with sentences(debug=debug):
        settings = _settings(tuples, seed, option)
        from orchestration.cli.stream_work import ingest_streams

        done = ingest_streams(stream, lake, raw, declarations, settings, master)
        if not _printed(done, json=json):
            from orchestration.cli.showing import show_ingested

            show_ingested(done)


@app.command()
def disorder(
    stream: _Name,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The name of the disordered stream.")],
    fraction: Annotated[float, typer.Option(help="The share of tuples that are delayed.")] = 0.2,
    kind: Annotated[str, typer.Option(help="How delays are distributed: uniform, gaussian or exponential.")] = "uniform",
    scale: Annotated[str, typer.Option(metavar="DURATION", help="The longest delay, the deviation, or the mean.")] = "2s",
    seed: Annotated[int, typer.Option(min=0, help="What the delays are drawn with.")] = 0,
    lake: _Lake = "lake",
    declarations: _Declared = "streams",
    master: _Master = None,
    json: _Json = False,
    debug: _Debug = False,
) -> None:
    """Make a disordered stream of an ordered one: some tuples arrive later."""
    with sentences(debug=debug):
        from orchestration.cli.stream_work import disorder_stream

        done = disorder_stream(stream, new, lake, declarations, {"fraction": fraction, "kind": kind, "seed": seed}, scale, master)
        if not _printed(done, json=json):
            inverted = "" if done["inversion_rate"] is None else f", inversion rate {done['inversion_rate']:.3g}"
            typer.echo(
                f"{new}: {done['tuples']:,} tuples, {done['out_of_order']:.2%} out of order, "
                f"the latest by {done['largest_delay_us'] / 1e6:g} s{inverted}"
            )


@app.command()
def profile(
    stream: _Name,
    out: Annotated[str | None, typer.Option(metavar="FILE.png", help="Where the plots go. [default: STREAM-profile.png]")] = None,
    lake: _Lake = "lake",
    master: _Master = None,
    json: _Json = False,
    debug: _Debug = False,
) -> None:
    """Show what a stream is like: its rate over time, what is missing, its gaps and its delays."""
    with sentences(debug=debug):
        from orchestration.cli.stream_work import profiled

        found, plot = profiled(stream, lake, out or f"{stream}-profile.png", master)
        if not _printed(found | {"plot": plot}, json=json):
            from orchestration.cli.showing import show_profile

            show_profile(found, plot)


def _settings(tuples: int | None, seed: int | None, options: list[str] | None) -> dict[str, Any]:
    """What was said about a twin."""
    import yaml

    read: dict[str, Any] = {}
    for text in options or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise Told(f"option: {text!r} given; allowed is NAME=VALUE.")
        try:
            given = yaml.safe_load(value)
        except yaml.YAMLError:
            raise Told(f"option: {text!r} given, whose value is not YAML; allowed is NAME=VALUE, such as detectors=4.") from None
        read[name] = value if isinstance(given, date) else given  # a twin's times are texts
    said = {"tuples": tuples, "seed": seed, "options": read or None}
    return {name: value for name, value in said.items() if value is not None}


def _shown(value: Any) -> str:
    """A value of a document as a table has it."""
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _printed(content: Any, *, json: bool) -> bool:
    if json:
        typer.echo(json_format.dumps(content, indent=2, default=str))
    return json
