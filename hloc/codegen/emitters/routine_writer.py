"""Writes one function of a unit of routines, with the same tools as a kernel."""

from __future__ import annotations

from hloc.codegen.index import IndexMath
from hloc.codegen.llvm_text import FunctionWriter
from hloc.codegen.loops import Body, IndexValue
from hloc.codegen.scalar_builder import LlvmBuilder, pointer_value
from hloc.codegen.target import Target
from hloc.codegen.values import Value
from hloc.dtypes import S64


class RoutineWriter:
    """A function in its final form being written, with the same tools as a kernel."""

    def __init__(self, name: str, parameters: tuple[str, ...], target: Target) -> None:
        bits = target.vector_bits
        self.fn = FunctionWriter(
            name,
            list(parameters),
            f'nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}" ',
        )
        self.b = LlvmBuilder(self.fn, target)
        self.body = Body(self.fn, self.b)
        self.math = IndexMath(self.body)

    def text(self) -> str:
        """Return the function."""
        return self.fn.finish()

    def offset(self, table: str, index: IndexValue) -> Value:
        """Return an entry of a table of offsets."""
        return self.b.load(pointer_value(table), S64, index)


def argument(name: str) -> Value:
    """Return an s64 parameter."""
    return Value(S64, name)
