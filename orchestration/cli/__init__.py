"""The command line `reprise`: what a person types, and nothing else.

A command reads what was given, calls the functions of replay/ and shows what they return. Everything that takes time to
import is imported by the command that needs it, so that `reprise --help` answers at once.
"""

from __future__ import annotations

import json as json_format
from importlib import import_module
from typing import Annotated, Any

import typer

from orchestration.cli import streams
from orchestration.cli.sentences import FAILED, Told, sentences

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")

app.add_typer(streams.app, name="streams")

_Spec = Annotated[str, typer.Argument(metavar="SPEC", help="A specification: a YAML or JSON file, or the name of a profile.")]
_Streams = Annotated[
    list[str], typer.Option("--stream", metavar="NAME", help="A stream, or the path of a log in the lake; may be repeated.")
]
_Lake = Annotated[str, typer.Option(metavar="DIR", envvar="REPRISE_LAKE", help="Where the logs are and the results go.")]
_Raw = Annotated[str, typer.Option(metavar="DIR", envvar="REPRISE_RAW", help="Raw files: originals in DIR/STREAM, twins beside them.")]
_Master = Annotated[str, typer.Option(envvar="REPRISE_MASTER", help="Where Spark runs.")]
_Json = Annotated[bool, typer.Option("--json", help="Print what was done as one JSON document.")]
_Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")]


@app.callback()
def reprise() -> None:
    """Replays historical event streams through Spark micro-batch engines and proves every result."""


@app.command()
def replay(
    spec: _Spec,
    stream: _Streams,
    lake: _Lake = "lake",
    days: Annotated[str | None, typer.Option(metavar="DAYS", help="Publish these days: all, 2024-01-01 or 2024-01-01..2024-01-05.")] = None,
    again: Annotated[bool, typer.Option("--again", help="With --days: also those that are published and stand.")] = False,
    one_by_one: Annotated[bool, typer.Option("--one-by-one", help="With --days: a run for each day.")] = False,
    publish_as: Annotated[str | None, typer.Option(metavar="NAME", help="With --days: the name of the published results.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="With --days: in the place of results that another specification has under this name.")
    ] = False,
    early: Annotated[
        bool | None,
        typer.Option("--early/--no-early", help="Without --days: write results when they are due and revise them. [default: early]"),
    ] = None,
    flush: Annotated[
        bool | None, typer.Option("--flush/--no-flush", help="Without --days: release everything at the end of the log. [default: flush]")
    ] = None,
    speed: Annotated[str, typer.Option(metavar="max|60", help="As fast as possible, or so many times as fast as event time.")] = "max",
    batch_tuples: Annotated[int | None, typer.Option(metavar="N", help="The most tuples of a batch.")] = None,
    batch_files: Annotated[int | None, typer.Option(metavar="N", help="The most files of a batch.")] = None,
    buckets: Annotated[
        int | None, typer.Option(metavar="N", envvar="REPRISE_BUCKETS", help="Into how many parts the keys are divided.")
    ] = None,
    tasks: Annotated[
        int | None, typer.Option(metavar="N", envvar="REPRISE_TASKS", help="The most tasks that read a stream's part of a batch.")
    ] = None,
    run: Annotated[str | None, typer.Option(metavar="ID", help="The run's name.")] = None,
    master: _Master = "local[*]",
    json: _Json = False,
    debug: _Debug = False,
) -> None:
    """Replay streams: into a run of its own, or with --days into the published results."""
    with sentences(debug=debug):
        from orchestration.cli.given import read_days, read_spec, read_speed

        for option, name in _given(run=run, publish_as=publish_as).items():
            if not name:
                raise Told(f"{option}: '' given; allowed is a name of letters, digits, '_', '-' and '.'.")
        content = read_spec(spec)
        settings = _given(
            run=run, speed=read_speed(speed), batch_tuples=batch_tuples, batch_files=batch_files, buckets=buckets, tasks=tasks
        )
        span = read_days(days) if days is not None else None

        from orchestration.cli.replaying import carry_out, plan_backfill, plan_whole
        from replay.lake import Lake

        if days is None:
            _refuse("without", again=again or None, one_by_one=one_by_one or None, publish_as=publish_as, replace=replace or None)
            plans = plan_whole(Lake(lake), content, stream, **settings, **_given(early=early, flush=flush))
        else:
            _refuse("with", early=early, flush=flush)
            settings |= _given(publish=publish_as)
            plans = plan_backfill(Lake(lake), content, stream, span, again=again, one_by_one=one_by_one, replace=replace, **settings)
        _show([done.document() for done in carry_out(plans, master=master)], json=json)


@app.command()
def resume(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's name, as `reprise runs` lists it.")],
    lake: _Lake = "lake",
    master: _Master = "local[*]",
    json: _Json = False,
    debug: _Debug = False,
) -> None:
    """Go on with a run that was stopped or has failed, exactly as it was begun."""
    with sentences(debug=debug):
        from orchestration.cli.replaying import carry_out, plan_resumed
        from replay.lake import Lake

        _show([done.document() for done in carry_out(plan_resumed(Lake(lake), run), master=master)], json=json)


@app.command()
def explain(
    spec: _Spec,
    stream: Annotated[
        list[str] | None, typer.Option("--stream", metavar="NAME", help="Tell also what the results on this stream look like.")
    ] = None,
    lake: _Lake = "lake",
    debug: _Debug = False,
) -> None:
    """Tell what a specification does, and why; nothing is run."""
    with sentences(debug=debug):
        from orchestration.cli.given import read_spec
        from orchestration.cli.telling import explained

        typer.echo(explained(read_spec(spec), stream or [], lake))


@app.command()
def runs(lake: _Lake = "lake", debug: _Debug = False) -> None:
    """List the runs of a lake."""
    with sentences(debug=debug):
        from orchestration.cli.showing import show_rows
        from orchestration.cli.telling import known_runs
        from replay.lake import Lake

        show_rows(["run", "status", "technique", "streams", "tuples", "when"], known_runs(Lake(lake)))


@app.command()
def techniques(debug: _Debug = False) -> None:
    """List the techniques, and the profiles of each."""
    with sentences(debug=debug):
        from orchestration.cli.showing import show_rows
        from orchestration.cli.telling import known_techniques

        show_rows(["technique", "what it does", "profiles"], known_techniques())


@app.command()
def demo(lake: _Lake = "lake", raw: _Raw = "raw", master: _Master = "local[*]", json: _Json = False, debug: _Debug = False) -> None:
    """Show everything in small: streams, replays, backfills, checks, reports; `make ui` then shows what it made."""
    with sentences(debug=debug):
        from orchestration.cli.platform import run_demo

        _end(run_demo(lake, raw, master), json=json, lake=lake)


@app.command()
def backfill(
    results: Annotated[str, typer.Argument(metavar="TECHNIQUE/STREAM", help="A results asset, such as frames/traffic.")],
    days: Annotated[
        str, typer.Option(metavar="DAYS", help="missing (those that are red or outdated too), all, 2024-01-01 or 2024-01-01..2024-01-05.")
    ] = "missing",
    lake: _Lake = "lake",
    raw: _Raw = "raw",
    master: _Master = "local[*]",
    json: _Json = False,
    debug: _Debug = False,
) -> None:
    """Replay days of a results asset through Dagster, neighbouring ones in one run, and check them."""
    with sentences(debug=debug):
        from orchestration.cli.platform import run_backfill

        _end(run_backfill(results, days, lake, raw, master), json=json, lake=lake)


@app.command()
def quality(lake: _Lake = "lake", raw: _Raw = "raw", master: _Master = "local[*]", json: _Json = False, debug: _Debug = False) -> None:
    """Run every check on what is ingested and published and recompute nothing; the exit status is 1 if a critical one fails."""
    with sentences(debug=debug):
        from orchestration.cli.platform import run_quality

        _end(run_quality(lake, raw, master), json=json, lake=lake)


@app.command(add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def bench(context: typer.Context) -> None:
    """Measure speed, side by side with other systems on the same cores."""
    try:
        command = import_module("orchestration.bench.command").bench
    except ImportError as problem:
        with sentences(debug=False):
            raise Told(f"bench: it cannot be loaded ({problem}); install the project with its extra 'bench'.", FAILED) from None
    benchmarks = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    benchmarks.command()(command)
    benchmarks(context.args, prog_name="reprise bench")


def main() -> None:
    """The console script."""
    app(prog_name="reprise")


def _end(steps: list[dict[str, Any]], *, json: bool, lake: str) -> None:
    """Tell what was done; a check that failed is a failure."""
    if json:
        typer.echo(json_format.dumps({"steps": steps}, indent=2))
    elif steps:
        from orchestration.cli.showing import show_steps

        show_steps(steps, lake)
    if undone := [step["what"] for step in steps if step["error"]]:
        raise Told(f"Not done: {', '.join(undone)}.", FAILED)
    if failed := [step for step in steps if not step["passed"]]:
        from replay.lake import Lake

        page = f"{Lake(lake).root}/reports/index.html" if any(step["report"] for step in failed) else "the asset's page in the UI"
        raise Told(f"A check has failed: {', '.join(step['what'] for step in failed)}; {page} shows what is wrong.", FAILED)


def _given(**options: Any) -> dict[str, Any]:
    """The options that were given: the defaults of the others are known to whoever takes them."""
    return {name: value for name, value in options.items() if value is not None}


def _refuse(where: str, **options: Any) -> None:
    for name in _given(**options):
        raise Told(f"{name}: given {where} --days; allowed is it only {'with' if where == 'without' else 'without'} --days.")


def _show(done: list[dict[str, object]], *, json: bool) -> None:
    if json:
        typer.echo(json_format.dumps({"runs": done}, indent=2))
    elif done:
        from orchestration.cli.showing import show_done

        show_done(done)
    else:
        typer.echo("There is nothing to do: all of these days are published and stand; --again replays them.")
