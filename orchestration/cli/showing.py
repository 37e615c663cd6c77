"""What the command line shows: a bar while a run goes on, or a line per batch, and what was done at its end.

Progress goes to stderr, results to stdout, so that either can be sent elsewhere. Nothing here starts or changes a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

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


def tell(now: runs.Progress) -> str:
    """How far a run has come, in a line."""
    left = now.seconds_left
    parts = [
        f"{short(now.tuples)}/{short(now.total)} tuples",
        f"{short(now.tuples_per_second)}/s",
        f"at {now.watermark:%Y-%m-%d %H:%M:%S}" if now.watermark else "at its beginning",
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
