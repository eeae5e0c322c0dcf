"""What a piece runs on: machine code of hloc, XLA, or another module's instruction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from hloc import driver
from hloc.cli.isolation.pieces import Piece, combined, pieces_of
from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.jax.xla_child import XlaChild
from hloc.options import CompileOptions
from hloc.report.inputs import array_leaves, result_leaves

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Task: TypeAlias = "tuple[Piece, list[Array]]"
Program: TypeAlias = Callable[[Sequence[Array]], Sequence[Array]]

_OFTEN = 2
"""Meetings with a kind after which it gets a program of its own."""


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
        self._met: Counter[str] = Counter()

    def run_all(self, tasks: Sequence[Task]) -> list[list[Array] | HloError]:
        """Run pieces on their inputs; a fault stands for one that this side does not take.

        Pieces of new kinds are compiled together, which takes a tenth of the time.
        """
        together, results = [], dict[int, list[Array] | HloError]()
        for number, (piece, arrays) in enumerate(tasks):
            self._met[piece.kind] += 1
            if piece.kind in self._programs or self._met[piece.kind] > _OFTEN:
                results[number] = self._run_alone(piece, arrays)
            else:
                together.append(number)
        self._run_together(together, tasks, results)
        return [results[number] for number in range(len(tasks))]

    def run(self, piece: Piece, arrays: Sequence[Array]) -> list[Array]:
        """Run a piece; pieces of one kind share a program.

        Raises:
            HloError: this side does not take the piece.
        """
        program = self._programs.get(piece.kind)
        if program is None:
            try:
                program = self.compiled(piece.module, piece.kind)
            except HloError as fault:
                program = fault
            self._programs[piece.kind] = program
        if isinstance(program, HloError):
            raise program
        return [np.asarray(array) for array in program(arrays)]

    def _run_alone(self, piece: Piece, arrays: Sequence[Array]) -> list[Array] | HloError:
        try:
            return self.run(piece, arrays)
        except HloError as fault:
            return fault

    def _run_together(
        self,
        numbers: Sequence[int],
        tasks: Sequence[Task],
        results: dict[int, list[Array] | HloError],
    ) -> None:
        """Run some of the tasks as one module; where that fails, halves of them."""
        if len(numbers) < 2:
            results.update((n, self._run_alone(*tasks[n])) for n in numbers)
            return
        modules = [tasks[number][0].module for number in numbers]
        given = [array for number in numbers for array in tasks[number][1]]
        try:
            outputs = iter(self.compiled(combined(modules), "")(given))
        except HloError:
            half = len(numbers) // 2
            self._run_together(numbers[:half], tasks, results)
            self._run_together(numbers[half:], tasks, results)
            return
        for number, module in zip(numbers, modules, strict=True):
            results[number] = [np.asarray(next(outputs)) for _ in result_leaves(module)]

    @abstractmethod
    def compiled(self, module: Module, key: str) -> Program:
        """Return a program of a piece, of the kind `key`, or of several, once ("").

        Raises:
            HloError: this side does not take it.
        """


class Compiled(Side):
    """Machine code of hloc."""

    def __init__(self, level: int) -> None:
        super().__init__(f"hloc -O{level}")
        self._options = CompileOptions(opt_level=level)

    def compiled(self, module: Module, key: str) -> Program:
        """Compile a piece with the passes of the level."""
        executable = driver.compile_module(module, self._options)
        return lambda arrays: executable(*arrays)


class Xla(Side):
    """XLA on this machine's CPU, by way of jaxlib."""

    flushes = True

    def __init__(self, child: XlaChild) -> None:
        super().__init__("XLA")
        self._child = child

    def compiled(self, module: Module, key: str) -> Program:
        """Return a run in the process of XLA, which compiles the text of a piece once."""
        text = module.to_text("default", large_constants=True)
        return lambda arrays: self._child.run(key, text, arrays)


class Counterpart(Side):
    """The instruction of that name in another module, in the evaluator."""

    def __init__(self, name: str, module: Module) -> None:
        super().__init__(name)
        self._named = {inst.name: inst for inst in module.entry.instructions}

    def run_all(self, tasks: Sequence[Task]) -> list[list[Array] | HloError]:
        """Run counterparts one by one."""
        return [self._run_alone(piece, arrays) for piece, arrays in tasks]

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
        return list(self.compiled(found.module, "")(needed))

    def compiled(self, module: Module, key: str) -> Program:
        """Return a run in the evaluator."""
        return lambda arrays: driver.evaluate(module, *arrays, fill_constants="zeros")


def _by_parameter(piece: Piece, arrays: Sequence[Array]) -> dict[str, list[Array]]:
    """Return the arrays of each parameter of a piece, by name."""
    given = iter(arrays)
    return {
        parameter.name: [next(given) for _ in array_leaves([parameter.shape])]
        for parameter in piece.module.entry.parameters
    }
