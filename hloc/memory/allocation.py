"""A buffer assignment as plain values: slices, aliased outputs, bytes by kind.

No IR and no analysis, so that a program from the cache needs neither.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape

ARENA, CONSTANT, PARAMETER, OUTPUT = "arena", "constant", "parameter", "output"
How: TypeAlias = Literal["in place", "overwritten", "copied", "apart"]


@dataclass(frozen=True, slots=True)
class Slice:
    """An allocation and an offset in it.

    Attributes:
        kind: `arena`, `constant`, `parameter` or `output`.
        number: which constant, parameter leaf or output leaf; 0 for the arena.
        offset: in bytes; 0 except in the arena and in outputs that hold temporaries.
    """

    kind: str
    number: int
    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class AliasedOutput:
    """Output leaf `output`, which may lie in the memory of parameter leaf `parameter`.

    Attributes:
        how: `in place`: both share the output's buffer, which saves a copy in the program; an
            argument that is not donated is copied there before the run. `overwritten`: they are
            two buffers, which may have the same address. `copied`: both are live at one time, but
            the module demands the alias (`must-alias`), so the result is copied into the argument
            after the run. `apart`: both are live at one time and nothing demands the alias.
        group: aliases of one group are donated together or not at all, since one kernel
            overwrites their parameters.
    """

    parameter: int
    output: int
    how: How
    size_bytes: int
    group: int = -1

    @property
    def is_shared(self) -> bool:
        """True if the output needs no memory of its own once the argument is donated."""
        return self.how in ("in place", "overwritten")


@dataclass(frozen=True, slots=True)
class NamedLeaf:
    """An array leaf of a parameter; `name` is what messages call it."""

    name: str
    shape: ArrayShape


@dataclass(frozen=True, slots=True)
class BufferReport:
    """Bytes by kind of allocation, and what sharing saved.

    Attributes:
        output_bytes: outputs that need memory of their own even if all arguments are donated.
        aliased_bytes: the other outputs, which count among the parameters.
        peak_bytes: temporaries at the peak; a lower bound on the arena.
        in_place: results that lie in the buffer of an operand, copies left out.
        copies, copies_elided: copies of the module, and those that cost nothing at run time.
    """

    arena_bytes: int
    constant_bytes: int
    parameter_bytes: int
    output_bytes: int
    peak_bytes: int
    in_place: int
    copies: int
    copies_elided: int
    aliased_bytes: int = 0

    def __str__(self) -> str:
        aliased = f", aliased outputs {self.aliased_bytes}" if self.aliased_bytes else ""
        return (
            f"arena {self.arena_bytes} bytes (at least {self.peak_bytes}), "
            f"constants {self.constant_bytes}, parameters {self.parameter_bytes}, "
            f"outputs {self.output_bytes}{aliased}; {self.in_place} results in place, "
            f"{self.copies_elided} of {self.copies} copies elided"
        )
