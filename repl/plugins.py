"""Plug-ins of a session: loaded once, and again when their files change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from os.path import abspath
from typing import TYPE_CHECKING

from hloc.errors import HloError
from hloc.opt.plugin import load_plugin
from hloc.opt.registry import PASSES, registered_rules
from hloc.report.text import plural

if TYPE_CHECKING:
    from repl.session import Session


def load(session: Session, path: str) -> str:
    """Load a plug-in and record it; return a line that lists what it registered.

    Raises:
        HloError: it cannot be read, or fails.
    """
    passes, rules = set(PASSES), {rule.name: rule for rule in registered_rules()}
    stamp = _stamp(path)
    load_plugin(path)
    session.plugins[abspath(path)] = stamp
    new_passes = [name for name in PASSES if name not in passes]
    new_rules = [rule.name for rule in registered_rules() if rules.get(rule.name) is not rule]
    parts = [f"pass {name}" for name in new_passes]
    if new_rules:
        parts.append(f"{plural(len(new_rules), 'rule')} ({', '.join(new_rules[:4])})")
    brought = ", ".join(parts) or "nothing new"
    return f"loaded {os.path.basename(path)}: {brought}; it is read again when it changes"


def reload_all(session: Session, *, only_changed: bool) -> Iterator[str]:
    """Reload plug-ins and yield a line for each; a broken one keeps its earlier passes."""
    for path, stamp in list(session.plugins.items()):
        now = _stamp(path)
        if only_changed and now == stamp:
            continue
        session.plugins[path] = now
        session.stepping = None
        try:
            load_plugin(path)
        except HloError as fault:
            yield f"{os.path.basename(path)} has changed, but: {fault.message}"
        else:
            yield f"{os.path.basename(path)} is loaded again"


def _stamp(path: str) -> float:
    """Return the time of a file's last change, 0 if unknown."""
    try:
        return os.stat(path).st_mtime_ns / 1e9
    except OSError:
        return 0.0
