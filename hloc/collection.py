"""Pausing Python's garbage collection where there is no garbage before the end."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused(is_worthwhile: bool = True) -> Iterator[None]:
    """Pause garbage collection in the block.

    A collection visits all objects of the process, those of JAX too: an eighth of the
    time to compile a small program.
    """
    pauses = is_worthwhile and gc.isenabled()
    if pauses:
        gc.disable()
    try:
        yield
    finally:
        if pauses:
            gc.enable()
