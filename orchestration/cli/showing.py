"""What the command line shows: a bar while a run goes on, or a line per batch, and what was done at its end.

Progress goes to stderr, results to stdout, so that either can be sent elsewhere. Nothing here starts or changes a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from engines.spec import format_duration

if TYPE_CHECKING:
    from replay import runs

_PIPE_WIDTH = 160


class Display:
    """Shows how far runs have come."""

    def __init__(self) -> None:
        """A bar on a terminal, else lines."""
        self._console = Console(stderr=True, highlight=False)
        columns = (BarColumn(bar_width=None), TextColumn("{task.percentage:.0f} %"), TextColumn("{task.fields[told]}", markup=False))
        self._bar = Progress(*columns, console=self._console, expand=True) if self._console.is_terminal else None
        self._batch = -1

    def __enter__(self) -> Display:
        """Nothing is shown before the first run begins."""
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        """Leave the terminal as it was."""
        if self._bar:
            self._bar.stop()

    def say(self, sentence: str) -> None:
        """A line of its own."""
        self._console.print(sentence, soft_wrap=True, markup=False)

    def begin(self, sentence: str) -> None:
        """A new run, told in a line."""
        self.say(sentence)
        self._batch = -1
        if self._bar:
            self._bar.start()
            for task in self._bar.task_ids:
                self._bar.remove_task(task)
            self._bar.add_task("", total=None, told="the first batch is on its way")

    def progress(self, now: runs.Progress) -> None:
        """A batch has ended."""
        if self._bar:
            self._bar.update(self._bar.task_ids[-1], total=now.total, completed=now.tuples, told=tell(now))
        elif now.batch > self._batch:
            self.say(f"batch {now.batch}: {tell(now)}")
        self._batch = now.batch


@contextmanager
def working(sentence: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """A bar, or on anything but a terminal a line, for work that tells how much of it is done."""
    console = Console(stderr=True, highlight=False)
    console.print(sentence, soft_wrap=True, markup=False)
    if not console.is_terminal:
        yield lambda done: None
        return
    columns = (BarColumn(bar_width=None), TextColumn("{task.percentage:.0f} %"), TextColumn("{task.fields[told]}", markup=False))
    with Progress(*columns, console=console, expand=True, transient=True) as bar:
        task = bar.add_task("", total=total, told="")

        def advance(done: int) -> None:
            bar.advance(task, done)
            state = bar.tasks[0]
            left = f", {_minutes(state.time_remaining)} left" if state.time_remaining is not None else ""
            bar.update(task, told=f"{short(state.completed)}/{short(total)} {unit}, {short(state.speed or 0)}/s{left}")

        yield advance


def tell(now: runs.Progress) -> str:
    """How far a run has come, in a line."""
    left = now.seconds_left
    parts = [
        f"{short(now.tuples)}/{short(now.total)} tuples",
        f"{short(now.tuples_per_second)}/s",
        f"at {now.clock:%Y-%m-%d %H:%M:%S}" if now.clock else "at its beginning",
        f"watermark {now.watermark:%Y-%m-%d %H:%M:%S}" if now.watermark else "",
        f"{short(now.late)} late",
        "" if left is None else f"{_minutes(left)} left",
    ]
    return ", ".join(filter(None, parts))


def short(number: float) -> str:
    """A number as people say it.

    >>> short(950), short(25_000_000), short(8_712_345), short(999_999)
    ('950', '25M', '8.71M', '1M')
    """
    for unit in ("", "k", "M", "G"):
        # Rounded first: 999,999 is 1M, not 1000k.
        rounded = float(f"{number:.3g}")
        if rounded < 1000 or unit == "G":
            return f"{rounded:g}{unit}"
        number = rounded / 1000
    raise AssertionError


def show_done(done: Sequence[dict[str, Any]]) -> None:
    """What was done, and where it is: the runs' documents as a table."""
    console = _out()
    days = any(run["days"] for run in done)
    table = _table("run", *["days"] * days, "tuples", "late", "results", "batches", "seconds", "tuples/s", right=6)
    for run in done:
        numbers = [f"{run[name]:,}" for name in ("tuples", "late", "results", "batches")]
        table.add_row(run["run"], *([_days(run)] if days else []), *numbers, f"{run['seconds']:.1f}", f"{run['tuples_per_second']:,.0f}")
    console.print(table)
    for place in dict.fromkeys(run["published"]["address"] if run["published"] else run["outputs"]["results"] for run in done):
        console.print(f"results: {place}", soft_wrap=True, markup=False)


def show_rows(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table."""
    table = _table(*names)
    for row in rows:
        table.add_row(*row)
    _out().print(table)


def show_steps(steps: Sequence[dict[str, Any]], lake: str) -> None:
    """What was done, how fast, what was checked, and where to look."""
    from replay.lake import Lake

    names = ("what", "tuples", "results", "seconds", "tuples/s", "checks passed", "not passed")
    rows = [_step_row(step) for step in steps]
    told = [at for at in range(len(names)) if any(row[at] for row in rows)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for at in told:
        table.add_column(names[at], justify="left" if names[at] in ("what", "not passed") else "right", overflow="fold")
    for row in rows:
        table.add_row(*(row[at] for at in told))
    console, root = _out(), Lake(lake).root
    console.print(table)
    console.print(f"lake:    {root}", soft_wrap=True, markup=False)
    if any(step["report"] for step in steps):
        console.print(f"reports: {root}/reports/index.html", soft_wrap=True, markup=False)
    console.print("UI:      make ui", markup=False)


def _step_row(step: dict[str, Any]) -> list[str]:
    """A step as it is shown; nothing where there is nothing to tell."""
    numbers = ["" if step[name] is None else f"{step[name]:,}" for name in ("tuples", "results")]
    speed = f"{step['tuples'] / step['seconds']:,.0f}" if step["tuples"] and step["seconds"] else ""
    checks = f"{sum(step['checks'].values())} of {len(step['checks'])}" if step["checks"] else ""
    wrong = [name for name, passed in step["checks"].items() if not passed]
    failed = step["error"] or ", ".join(f"{name} (warning)" if name in step["warnings"] else name for name in wrong)
    return [step["what"], *numbers, f"{step['seconds']:.1f}", speed, checks, failed]


def show_ingested(done: Sequence[dict[str, Any]]) -> None:
    """What became of raw files."""
    table = _table("stream", "from", "version", "files read", "records", "rejected", "tuples in all", right=5)
    for row in done:
        read = [f"{row[name]:,}" for name in ("files_read", "records_read", "rejected", "tuples")]
        table.add_row(row["stream"], row["origin"]["kind"], str(row["version"]), *read)
    _out().print(table)


def show_description(found: dict[str, Any]) -> None:
    """A stream's declaration, and its files."""
    console, content = _out(), found["declaration"]
    console.print(f"{found['stream']}: {content.get('title', '')}", soft_wrap=True, markup=False)
    console.print(f"declared in {found['declared']}", soft_wrap=True, markup=False)
    table = _table("column", "type", "unit", "range", "description")
    for column in content["columns"]:
        limits = "" if "range" not in column else " to ".join("" if end is None else str(end) for end in column["range"])
        table.add_row(column["name"], column.get("type", "float64"), column.get("unit", ""), limits, column.get("description", ""))
    console.print(table)
    for setting in ("files", "time", "key", "order", "range", "max_jump", "expect"):
        if setting in content:
            console.print(f"{setting}: {_plainly(content[setting])}", soft_wrap=True, markup=False)
    if not found["files"]:
        console.print("not ingested yet")
        return
    console.print(f"ingested from: {_plainly(found['origin'])}", soft_wrap=True, markup=False)
    files = _table("file", "bytes", "lines", "records", "rows", "rejected", right=5)
    for file in found["files"]:
        files.add_row(file["name"], *(f"{file[name]:,}" for name in ("size", "lines", "records", "rows", "rejected")))
    console.print(files)


def show_profile(found: dict[str, Any], plot: str) -> None:
    """A stream's profile in numbers, and where its picture is."""
    lacking = ", ".join(f"{name} {share:.2%}" for name, share in found["missing"].items() if share) or "nothing"
    longest = found["longest"][0][1] if found["longest"] else 0
    inverted = "not measured" if found["inversion_rate"] is None else f"{found['inversion_rate']:.3g}"
    rows = [
        ("tuples", f"{found['tuples']:,}"),
        ("keys", "many" if found["keys"] is None else f"{found['keys']:,}"),
        ("from", found["begin"]),
        ("to", found["end"]),
        ("missing", lacking),
        ("longest silence", format_duration(longest)),
        ("out of order", f"{found['out_of_order']:.4%}"),
        ("largest delay", format_duration(found["largest_delay_us"])),
        ("inversion rate", inverted),
        ("plots", plot),
    ]
    show_rows(["measure", "value"], rows)


def _plainly(value: Any) -> str:
    """A setting without the braces of a program."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plainly(inner)}" for name, inner in value.items())
    return "; ".join(map(_plainly, value)) if isinstance(value, list | tuple) else repr(value) if isinstance(value, str) else str(value)


def _out() -> Console:
    console = Console(highlight=False)
    # Whoever reads a pipe wants whole lines, not those of a terminal of 80 characters.
    return console if console.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)


def _table(*names: str, right: int = 0) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for at, name in enumerate(names):
        table.add_column(name, justify="right" if at >= len(names) - right else "left", overflow="fold")
    return table


def _days(run: dict[str, Any]) -> str:
    first, last = run["days"]
    return first if first == last else f"{first}..{last}"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
