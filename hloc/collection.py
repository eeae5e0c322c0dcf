"""Python's garbage collection, which is paused where nothing becomes garbage before the end."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused(is_worthwhile: bool = True) -> Iterator[None]:
    """Collect nothing inside.

    A collection walks through all objects of the process, those of JAX too: an eighth of the time
    in which a small program is compiled.
    """
    pauses = is_worthwhile and gc.isenabled()
    if pauses:
        gc.disable()
    try:
        yield
    finally:
        if pauses:
            gc.enable()
