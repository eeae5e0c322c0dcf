"""What a piece runs on: machine code of hloc, XLA, or another module's instruction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from hloc import driver
from hloc.cli.isolation.pieces import Piece, pieces_of
from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.options import CompileOptions
from hloc.report.inputs import array_leaves

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Program: TypeAlias = Callable[[Sequence[Array]], Sequence[Array]]


class Side(ABC):
    """One side of a comparison.

    Attributes:
        name: for people.
        flushes: subnormal numbers count as zero.
    """

    flushes = False

    def __init__(self, name: str) -> None:
        self.name = name
        self._programs: dict[str, Program | HloError] = {}

    def run(self, piece: Piece, arrays: Sequence[Array]) -> list[Array]:
        """Run a piece; pieces of one kind share a program.

        Raises:
            HloError: this side does not take the piece.
        """
        program = self._programs.get(piece.kind)
        if program is None:
            try:
                program = self.compiled(piece.module)
            except HloError as fault:
                program = fault
            self._programs[piece.kind] = program
        if isinstance(program, HloError):
            raise program
        return [np.asarray(array) for array in program(arrays)]

    @abstractmethod
    def compiled(self, module: Module) -> Program:
        """Return a program of a piece."""


class Compiled(Side):
    """Machine code of hloc."""

    def __init__(self, level: int) -> None:
        super().__init__(f"hloc -O{level}")
        self._options = CompileOptions(opt_level=level)

    def compiled(self, module: Module) -> Program:
        """Compile a piece with the passes of the level."""
        executable = driver.compile_module(module, self._options)
        return lambda arrays: executable(*arrays)


class Xla(Side):
    """XLA on this machine's CPU, by way of jaxlib."""

    flushes = True

    def __init__(self) -> None:
        from hloc.jax.xla_program import is_installed

        if not is_installed():
            raise HloError("--against=xla needs jax", notes=("pip install 'hloc[jax]'",))
        super().__init__("XLA")

    def compiled(self, module: Module) -> Program:
        """Compile the text of a piece."""
        from hloc.jax.xla_program import XlaProgram

        program = XlaProgram.from_text(module.to_text("default", large_constants=True))
        return lambda arrays: program.run(arrays)[0]


class Counterpart(Side):
    """The instruction of that name in another module, in the evaluator."""

    def __init__(self, name: str, module: Module) -> None:
        super().__init__(name)
        self._named = {inst.name: inst for inst in module.entry.instructions}

    def run(self, piece: Piece, arrays: Sequence[Array]) -> list[Array]:
        """Run the counterpart on the values of its operands' namesakes.

        Raises:
            HloError: there is none, or it reads what the piece does not.
        """
        other = self._named.get(piece.inst.name)
        if other is None:
            raise HloError(f"{self.name} has no instruction of that name")
        (found,) = pieces_of(other, 0)
        values = _by_parameter(piece, arrays)
        needed: list[Array] = []
        for parameter in found.module.entry.parameters:
            if parameter.name not in values:
                raise HloError(f"{self.name} gives it another operand, %{parameter.name}")
            needed += values[parameter.name]
        return list(self.compiled(found.module)(needed))

    def compiled(self, module: Module) -> Program:
        """Return a run in the evaluator."""
        return lambda arrays: driver.evaluate(module, *arrays, fill_constants="zeros")


def _by_parameter(piece: Piece, arrays: Sequence[Array]) -> dict[str, list[Array]]:
    """Return the arrays of each parameter of a piece, by name."""
    given = iter(arrays)
    return {
        parameter.name: [next(given) for _ in array_leaves([parameter.shape])]
        for parameter in piece.module.entry.parameters
    }
