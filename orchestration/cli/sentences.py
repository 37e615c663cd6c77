"""Failures as the command line tells them: one sentence on stderr, and an exit status.

2 is input that cannot be run, 1 a run that failed, 130 one that was interrupted. Whatever reaches the user when something
goes wrong passes through here; what went wrong is told by whoever raised it.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import typer

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
_NOT_THERE = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


class Told(Exception):  # noqa: N818 - named for what it is to the user
    """A sentence for the user, and the exit status that goes with it."""

    def __init__(self, sentence: str, status: int = BAD_INPUT) -> None:
        """A sentence of the command line's own."""
        super().__init__(sentence)
        self.status = status


@contextmanager
def sentences(*, debug: bool) -> Iterator[None]:
    """Tell what goes wrong inside in one sentence and leave; with `debug` after its traceback."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as problem:
        if debug:
            traceback.print_exc()
        sentence, status = told(problem)
        print(sentence, file=sys.stderr)
        raise typer.Exit(status) from None


def told(problem: BaseException) -> tuple[str, int]:
    """The sentence of a failure, with the notes that were added on its way, and its exit status.

    >>> told(Told("speed: 'fast' given; allowed is 'max' or a positive number."))
    ("speed: 'fast' given; allowed is 'max' or a positive number.", 2)
    >>> told(KeyError("v"))
    ("KeyError: 'v' (this is a defect; --debug shows where).", 1)
    """
    sentence, status = _told(problem)
    return " ".join(" ".join([sentence, *getattr(problem, "__notes__", [])]).split()), status


def _told(problem: BaseException) -> tuple[str, int]:
    # Imported here, as they bring half of the libraries with them, and an error of typing should be told at once.
    if isinstance(problem, Told):
        return str(problem), problem.status
    if isinstance(problem, KeyboardInterrupt):
        return str(problem) or "Stopped before anything was begun.", INTERRUPTED

    from engines.spec import SpecError
    from engines.state import StateError
    from replay.lake import LakeError
    from replay.streams.parsed import StreamError

    if isinstance(problem, SpecError | StateError | LakeError | StreamError):
        return str(problem), BAD_INPUT

    from deltalake.exceptions import DeltaError

    if isinstance(problem, OSError):
        what = f"{problem.filename}: {problem.strerror}" if problem.filename else _first_line(problem)
        return f"{what}; see whether it is there, and may be read and written.", BAD_INPUT if isinstance(problem, _NOT_THERE) else FAILED
    if isinstance(problem, DeltaError):
        return f"A Delta table could not be read or written: {_first_line(problem)}; --debug shows where.", FAILED

    from replay.runs import RunError

    if isinstance(problem, RunError):
        return str(problem), FAILED
    return f"{type(problem).__name__}: {str(problem) or 'no more is known'} (this is a defect; --debug shows where).", FAILED


def _first_line(problem: Exception) -> str:
    line = (str(problem) or type(problem).__name__).splitlines()[0]
    return re.sub(r"^\[Errno \d+\] | Detail: \[errno \d+\]", "", line).rstrip(".")
