"""Writes one function of a unit of routines, with the same tools as a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from hloc.codegen.builder.index import IndexMath
from hloc.codegen.builder.lane_builder import LaneBuilder
from hloc.codegen.builder.loops import Body, IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import LaneIndex, Value
from hloc.codegen.llvm.routine import FINAL_FORM, Routines
from hloc.codegen.llvm.target import Target
from hloc.codegen.llvm.writer import FunctionWriter
from hloc.dtypes import S64


class RoutineWriter:
    """A function that is being emitted, with the same tools as a kernel.

    With `lanes`, the builder also emits vectors of `lanes` elements.
    """

    def __init__(
        self, name: str, parameters: tuple[str, ...], target: Target, lanes: int = 0
    ) -> None:
        bits = target.vector_bits
        self.fn = FunctionWriter(
            name,
            list(parameters),
            f'nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}" ',
        )
        self.b = LaneBuilder(self.fn, target, lanes)
        self.body = Body(self.fn, self.b)
        self.math = IndexMath(self.body)

    def text(self) -> str:
        """Return the function."""
        return self.fn.finish()

    def unit_text(self) -> str:
        """Return the unit of this function alone, with its declarations."""
        return "\n".join([*self.fn.declarations, "", self.text()])

    @contextmanager
    def whole_vectors(self, start: IndexValue, stop: IndexValue) -> Iterator[LaneIndex]:
        """Run the region for whole vectors of positions."""
        with self.body.loop(start, stop, self.b.lanes) as first:
            yield LaneIndex(S64, self.math.value(first).text)

    def offset(self, table: str, index: IndexValue) -> Value:
        """Return an entry of a table of offsets."""
        return self.b.load(pointer_value(table), S64, index)


def routine_unit(
    name: str,
    parameters: tuple[str, ...],
    write: Callable[[RoutineWriter], object],
    target: Target,
    level: int = FINAL_FORM,
    lanes: int = 0,
) -> Routines:
    """Return a unit of one function; `write` generates its text on demand."""
    texts: list[str] = []

    def text() -> str:
        if not texts:
            w = RoutineWriter(name, parameters, target, lanes)
            write(w)
            texts.append(w.unit_text())
        return texts[0]

    return Routines(name, (declaration(name, parameters),), text, level)


def named_parameters(reads: str = "", writes: str = "", numbers: str = "") -> tuple[str, ...]:
    """Return parameters by names: read-only arrays, other arrays (none overlap), and integers."""
    return (
        *(f"ptr noalias readonly %{name}" for name in reads.split()),
        *(f"ptr noalias %{name}" for name in writes.split()),
        *(f"i64 %{name}" for name in numbers.split()),
    )


def declaration(name: str, parameters: Iterable[str]) -> str:
    """Return the declaration of a function; parameters are given with types first."""
    types = ", ".join(parameter.split()[0] for parameter in parameters)
    return f"declare void @{name}({types})"


def argument(name: str) -> Value:
    """Return an s64 parameter."""
    return Value(S64, name)
