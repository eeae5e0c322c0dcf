"""Pausing Python's garbage collection where there is no garbage before the end."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_PROMOTED_FROM_MODULES = 10
"""A block that imports at least this many modules is taken to create objects that stay."""


@contextmanager
def collection_paused(is_worthwhile: bool = True) -> Iterator[None]:
    """Pause garbage collection in the block.

    A collection visits all objects of the process, those of JAX too: an eighth of the
    time to compile a small program. The first collection after a block that imported hloc's
    modules would visit tens of thousands of objects that stay: they are promoted unvisited.
    """
    pauses = is_worthwhile and gc.isenabled()
    if pauses:
        gc.disable()
        imported = len(sys.modules)
    try:
        yield
    finally:
        if pauses:
            if len(sys.modules) >= imported + _PROMOTED_FROM_MODULES:
                _promote()
            gc.enable()


def _promote() -> None:
    """Move all objects to the oldest generation, unless the program has frozen some itself."""
    if gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()
