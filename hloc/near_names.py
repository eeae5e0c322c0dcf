"""The known name nearest to a misspelt one, for messages."""

from __future__ import annotations

from collections.abc import Iterable

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
    found = get_close_matches(name, similar, 3, 0.7)
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
