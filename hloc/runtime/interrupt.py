"""Ctrl-C while generated code runs.

Python runs signal handlers between bytecode instructions only, so not during a long call into
machine code. Its C handler, however, writes to a wake-up descriptor at once; a thread that reads
from it sets a flag that every loop of the generated code checks.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hloc.runtime.arena import clear_stops, stop_all

_PATIENCE = 1.5  # seconds


@contextmanager
def interruptible(stuck: Callable[[], None] | None = None) -> Iterator[None]:
    """A region in which Ctrl-C ends loops of generated code, before `KeyboardInterrupt` is raised.

    Does nothing outside of the main thread, where Python does not allow it, and in a process that
    may open no sockets: no Ctrl-C reaches it.

    Args:
        stuck: called on another thread if the code still runs some time after Ctrl-C: kernels do
            not check the flag.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        reader, writer = socket.socketpair()
    except PermissionError:
        yield
        return
    writer.setblocking(False)
    watcher = threading.Thread(
        target=_watch, args=(reader, stuck), name="hloc-interrupt", daemon=True
    )
    watcher.start()
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        writer.close()
        watcher.join()
        clear_stops()


def _watch(reader: socket.socket, stuck: Callable[[], None] | None) -> None:
    """Stop all loops for each interrupt, until the other end is closed."""
    with reader:
        try:
            while data := reader.recv(64):
                if signal.SIGINT in data:
                    stop_all()
                    reader.settimeout(_PATIENCE if stuck else None)
        except TimeoutError:
            assert stuck is not None
            stuck()
