"""Near misses: what a misspelt word may have meant."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean --passes?`, or "" if nothing known is near `word`."""
    from difflib import get_close_matches

    near = get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""
