"""A small module that shows an opcode, written for any element type.

`T` stands for the element type, `R` for the type of its real part, and `ONE` for a
nonzero number of it. An example without `T` has fixed types.
"""

from __future__ import annotations

from hloc.dtypes import component_of, dtype_named
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """The instructions of an entry computation, and the computations they call.

    Attributes:
        dtype: the value of `T` where the example is shown.
    """

    entry: str
    called: str = ""
    dtype: str = "f32"

    @property
    def is_typed(self) -> bool:
        """False if the example contains no `T`."""
        return "T" in _words(self.entry + self.called)

    def text(self, dtype: str = "") -> str:
        """Return the module with `dtype` for `T`."""
        chosen = dtype or self.dtype
        blocks = ["HloModule example"]
        blocks += [_typed(block.strip(), chosen) for block in self.called.split("\n\n") if block]
        lines = [f"  {_typed(line.strip(), chosen)}" for line in self.entry.strip().splitlines()]
        blocks.append("\n".join(["ENTRY main {", *lines, "}"]))
        return "\n\n".join(blocks) + "\n"


def _words(text: str) -> list[str]:
    return text.replace("[", " ").replace("(", " ").split()


def _typed(text: str, dtype: str) -> str:
    row = dtype_named(dtype)
    one = "(1, 0)" if row.is_complex else "-1" if dtype == "s1" else "1"
    text = text.replace("R[", f"{component_of(row)}[").replace("ONE", one)
    return text.replace("T[", f"{dtype}[")
