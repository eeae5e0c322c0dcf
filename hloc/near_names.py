"""Spelling suggestions for messages: the known name nearest to a misspelt one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import islice

_MOST_NAMES = 2000


def near_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name nearest to `name`, None if none is near.

    Only names of similar length are compared, and at most 2,000 of them: each comparison costs
    microseconds, and a wrong hint is worse than none.
    """
    from difflib import get_close_matches

    if len(name) > 80:
        return None
    similar = [other for other in known if abs(len(other) - len(name)) <= 3][-_MOST_NAMES:]
    found = [other for other in similar if sorted(other) == sorted(name)]  # `rnu` for `run`
    found = found or get_close_matches(name, similar, 3, 0.7)
    found.sort(key=lambda other: other[:1] != name[:1])  # people rarely mistype the first letter
    return found[0] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean X?` to append to a message, "" if no name is near."""
    near = near_name(name, known)
    return f"; did you mean {near}?" if near else ""


def near_name_notes(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the note `did you mean 'X'?`, none if no name is near."""
    near = near_name(name, known)
    return (f"did you mean {near!r}?",) if near else ()


def near_file_notes(path: str) -> tuple[str, ...]:
    """Return the note `did you mean 'softmax.hlo'?` for a path that does not exist."""
    folder, name = os.path.split(path)
    try:
        with os.scandir(folder or ".") as entries:
            near = near_name(name, [entry.name for entry in islice(entries, _MOST_NAMES)])
    except (OSError, ValueError):  # no such folder; a path with a NUL
        return ()
    return (f"did you mean {os.path.join(folder, near)!r}?",) if near else ()
