"""Locks that a fork must not copy while another thread holds them.

A child has only the thread that forked. A lock that another thread held would stay locked in it
for ever, and what that thread was changing would stay half-changed.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Any


def hold_at_forks(lock: AbstractContextManager[Any]) -> None:
    """Let each fork wait for `lock`; of two locks the one registered later is taken first."""
    if not hasattr(os, "register_at_fork"):
        return

    def release() -> None:
        lock.__exit__(None, None, None)

    os.register_at_fork(before=lock.__enter__, after_in_parent=release, after_in_child=release)
