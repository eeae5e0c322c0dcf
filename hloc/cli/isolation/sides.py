"""The sides of a comparison: machine code of hloc, XLA, or another module's instruction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from hloc import driver
from hloc.cli.isolation.pieces import Piece, combined, pieces_of
from hloc.dtypes import Array
from hloc.errors import HloError
from hloc.ir.module import Module
from hloc.jax.xla_child import XlaChild
from hloc.lazy_dataclass import dataclass
from hloc.options import CompileOptions
from hloc.report.inputs import arrays_of_parameters, result_leaves

Task: TypeAlias = "tuple[Piece, list[Array]]"
Program: TypeAlias = Callable[[Sequence[Array]], Sequence[Array]]

_TOGETHER = 64
"""Most kinds in one program: each run computes all of them, needed or not."""

_OFTEN = 12
"""A kind requested more often than this gets a program of its own."""


@dataclass(slots=True)
class _Group:
    """Pieces of different kinds in one program, which takes a tenth of the time to compile.

    Attributes:
        inputs: what each piece last ran on; a run needs inputs for all of them.
    """

    pieces: list[Piece]
    inputs: list[list[Array]]
    program: Program | None = None


class Side(ABC):
    """One side of a comparison.

    Attributes:
        name: for people.
        flushes: subnormal numbers are treated as zero.
    """

    flushes = False

    def __init__(self, name: str) -> None:
        self.name = name
        self._groups: dict[str, _Group | HloError] = {}
        self._met: Counter[str] = Counter()

    def run(self, piece: Piece, arrays: Sequence[Array]) -> list[Array]:
        """Run a piece.

        Raises:
            HloError: this side cannot run the piece.
        """
        (found,) = self.run_all([(piece, list(arrays))])
        if isinstance(found, HloError):
            raise found
        return found

    def run_all(self, tasks: Sequence[Task]) -> list[list[Array] | HloError]:
        """Run pieces on their inputs; return an error for each that this side cannot run.

        Each kind is compiled once, together with other new ones, and again alone if it
        is requested often.
        """
        self._group(tasks)
        results: dict[int, list[Array] | HloError] = {}
        left = list(range(len(tasks)))
        while left:
            group = self._groups[tasks[left[0]][0].kind]
            if isinstance(group, HloError):
                results[left[0]] = group
            else:
                results.update(self._run_group(group, tasks, left))
            left = [number for number in left if number not in results]
        return [results[number] for number in range(len(tasks))]

    def _group(self, tasks: Sequence[Task]) -> None:
        """Put each kind that has no program yet into a group."""
        new: dict[str, Task] = {}
        for piece, arrays in tasks:
            self._met[piece.kind] += 1
            group = self._groups.get(piece.kind)
            if group is None:
                new.setdefault(piece.kind, (piece, arrays))
            elif self._met[piece.kind] == _OFTEN and isinstance(group, _Group):
                self._groups[piece.kind] = _Group([piece], [arrays])
        found = list(new.values())
        for start in range(0, len(found), _TOGETHER):
            self._assign(found[start : start + _TOGETHER])

    def _assign(self, tasks: Sequence[Task]) -> None:
        group = _Group([piece for piece, _ in tasks], [arrays for _, arrays in tasks])
        self._groups.update((piece.kind, group) for piece in group.pieces)

    def _run_group(
        self, group: _Group, tasks: Sequence[Task], left: Sequence[int]
    ) -> dict[int, list[Array] | HloError]:
        """Run a program on the first task of each of its kinds; where it fails, halve the group."""
        numbers: dict[str, int] = {}
        for number in left:
            if self._groups[tasks[number][0].kind] is group:
                numbers.setdefault(tasks[number][0].kind, number)
        places = {n: numbers[p.kind] for n, p in enumerate(group.pieces) if p.kind in numbers}
        for place, number in places.items():
            group.inputs[place] = tasks[number][1]
        modules = [piece.module for piece in group.pieces]
        try:
            if group.program is None:
                alone = len(modules) == 1
                group.program = self.compiled(modules[0] if alone else combined(modules))
            outputs = iter(group.program([array for given in group.inputs for array in given]))
        except HloError as fault:
            half = len(modules) // 2
            if not half:
                self._groups[group.pieces[0].kind] = fault
                return {places[0]: fault}
            whole = list(zip(group.pieces, group.inputs, strict=True))
            self._assign(whole[:half])
            self._assign(whole[half:])
            return {}
        by_module = [
            [np.asarray(next(outputs)) for _ in result_leaves(module)] for module in modules
        ]
        return {number: by_module[place] for place, number in places.items()}

    @abstractmethod
    def compiled(self, module: Module) -> Program:
        """Return a program of one piece or of several.

        Raises:
            HloError: this side cannot run it.
        """


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
    """XLA on this machine's CPU, through jaxlib."""

    flushes = True

    def __init__(self, child: XlaChild) -> None:
        super().__init__("XLA")
        self._child = child
        self._programs = 0

    def compiled(self, module: Module) -> Program:
        """Return a program that runs in the process of XLA, which compiles the text once."""
        text = module.to_text("default", large_constants=True)
        self._programs += 1
        key = str(self._programs)
        return lambda arrays: self._child.run(key, text, arrays)


class Counterpart(Side):
    """The instruction of that name in another module, in the evaluator."""

    def __init__(self, name: str, module: Module) -> None:
        super().__init__(name)
        self._named = {inst.name: inst for inst in module.entry.instructions}

    def run_all(self, tasks: Sequence[Task]) -> list[list[Array] | HloError]:
        """Run counterparts one by one."""
        return [self._counterpart(piece, arrays) for piece, arrays in tasks]

    def _counterpart(self, piece: Piece, arrays: Sequence[Array]) -> list[Array] | HloError:
        """Run the counterpart on the values of the operands with the same names."""
        other = self._named.get(piece.inst.name)
        if other is None:
            return HloError("it has no instruction of that name")
        (found,) = pieces_of(other, 0)
        values = _by_parameter(piece, arrays)
        needed: list[Array] = []
        for parameter in found.module.entry.parameters:
            if parameter.name not in values:
                return HloError(f"it gives it another operand, %{parameter.name}")
            needed += values[parameter.name]
        try:
            return list(self.compiled(found.module)(needed))
        except HloError as fault:
            return fault

    def compiled(self, module: Module) -> Program:
        """Return a run in the evaluator."""
        return lambda arrays: driver.evaluate(module, *arrays, fill_constants="zeros")


def _by_parameter(piece: Piece, arrays: Sequence[Array]) -> dict[str, list[Array]]:
    """Return the arrays of each parameter of a piece, by name."""
    given = arrays_of_parameters(piece.module, arrays)
    return {parameter.name: values for parameter, values in given.items()}
