"""Interrupts that wait: ctrl-C and requests to terminate are noted, and raised when it does no harm.

In the middle of a call to the JVM an exception would cost the means to stop the query, and in the middle of a publication it
would leave some tables ahead of others. Who launched the process (a shell, Dagster) may have handlers of its own: they are
back when the block has ended.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interrupts_noted() -> Iterator[threading.Event]:
    """Note interrupts instead of raising them; one that nobody has raised by the end of the block is raised there.

    Signals reach the main thread alone; elsewhere there is nothing to note.
    """
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    before = {number: signal.signal(number, lambda *_: interrupted.set()) for number in _SIGNALS}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if interrupted.is_set():
        raise KeyboardInterrupt
