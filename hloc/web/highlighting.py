"""Syntax highlighting of the page: the pattern and words of `hloc.editors`, for JavaScript."""

from __future__ import annotations

import re
from typing import Any

from hloc.dtypes import DTYPES
from hloc.editors.tokens import text_pattern
from hloc.editors.vocabulary import CONSTANTS, SECTIONS, attribute_names, roles_of_computations
from hloc.ops import OPCODES


def highlighting() -> dict[str, Any]:
    """Return the pattern of a token and the words by kind."""
    return {
        "pattern": javascript_pattern(text_pattern()),
        "opcodes": sorted(OPCODES),
        "types": sorted(DTYPES),
        "attributes": sorted(attribute_names()),
        "roles": sorted(roles_of_computations()),
        "sections": sorted(SECTIONS),
        "constants": sorted(CONSTANTS),
    }


def javascript_pattern(pattern: str) -> str:
    """Translate a Python pattern to JavaScript, which has no possessive quantifiers.

    A repetition inside a repeated group loses its own: the group repeats, so the same texts match,
    and no text is tried in more than one way.
    """
    inner_once = pattern.replace("++|", "|")
    return re.sub(r"(?<!\\)([+*])\+", r"\1", inner_once).replace("(?P<", "(?<")
