"""Did-you-mean hints for names of opcodes, attributes, types, instructions."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_MOST_NAMES = 2000


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean X?` for the known name nearest to `name`, or nothing.

    Only names of similar length are compared, and at most 2,000 of them: each comparison costs
    microseconds, and a wrong hint is worse than none.
    """
    if len(name) > 80:
        return ""
    near = [other for other in known if abs(len(other) - len(name)) <= 3][-_MOST_NAMES:]
    found = get_close_matches(name, near, 3, 0.7)
    found.sort(key=lambda other: other[:1] != name[:1])  # people rarely mistype the first letter
    return f"; did you mean {found[0]}?" if found else ""
