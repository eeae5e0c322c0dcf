"""The words of HLO text by kind, from the tables of opcodes, attributes and element types."""

from __future__ import annotations

from functools import cache

from hloc.dtypes import DTYPES
from hloc.ir.attributes import Metadata
from hloc.ir.names import KEYWORDS
from hloc.ops import OPCODES
from hloc.parser.async_sugar import async_sugar
from hloc.parser.attributes import allowed_attributes
from hloc.parser.header import HEADER_ATTRIBUTES

SECTIONS = frozenset(word for word in KEYWORDS if word[0].isupper())
"""Words that begin a part of a module: `HloModule`, `ENTRY`, `ROOT` and the stack-frame tables."""

CONSTANTS = KEYWORDS - SECTIONS
"""Words that are values: `true`, `nan`, `replicated`."""


@cache
def attribute_names() -> frozenset[str]:
    """Return the names of all attributes of instructions, of the module and of metadata."""
    names = {*HEADER_ATTRIBUTES, *Metadata._fields, "execution_thread"}
    for row in OPCODES.values():
        names |= allowed_attributes(row)
    return frozenset(names)


@cache
def roles_of_computations() -> frozenset[str]:
    """Return the attributes whose values name computations: `to_apply`, `calls`, `body`."""
    return frozenset(
        name
        for row in OPCODES.values()
        for role in row.calls
        for name in (role.name, *role.aliases)
    )


def is_opcode(name: str) -> bool:
    """Return whether `name` is an opcode; `negate-start` counts too."""
    return name in OPCODES or async_sugar(name) is not None


def is_element_type(name: str) -> bool:
    """Return whether `name` is an element type."""
    return name in DTYPES
