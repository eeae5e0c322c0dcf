"""The walk over a module: each instruction's true value, and its pieces on every side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field

import numpy as np

from hloc import driver
from hloc.analysis.extract import extract
from hloc.cli.isolation.judge import Finding, judge, without_subnormals
from hloc.cli.isolation.pieces import NO_CODE, Piece, opened, pieces_of, takes_arrays
from hloc.cli.isolation.sides import Compiled, Side, Task
from hloc.cli.isolation.values import Values, walk
from hloc.dtypes import Array, dtype_of_numpy
from hloc.errors import HloError
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.report.answers import evaluated, is_random, is_too_large
from hloc.report.compare import Bounds
from hloc.report.progress import Progress
from hloc.report.time_limit import TookTooLong

MOST_WORST = 10
"""Number of pieces listed as the least exact."""

MOST_KEPT = 10
"""Number of diverging pieces that are written."""


@dataclass(frozen=True, slots=True)
class Case:
    """A piece that diverges, its inputs, and the evaluator's results."""

    finding: Finding
    inputs: list[Array]
    want: list[Array]


@dataclass(slots=True)
class Isolation:
    """The result of a search.

    Attributes:
        instructions: of the entry computation.
        compared: instructions that ran alone on at least one side.
        kinds: number of distinct pieces among them.
        diverging: in the order of execution, the smallest piece of each instruction and side.
        ill: beyond the bounds, but explained by rounding.
        worst: the others with the largest differences.
        first_nan, first_infinity: the instruction where one arises from finite numbers.
        left: reasons why instructions were not compared, with their names.
        by_machine: instructions too large for the evaluator, whose values are those of -O0.
        spilled: values that were kept in files.
        kept: the first of the diverging pieces, to be written.
    """

    instructions: int = 0
    compared: int = 0
    kinds: int = 0
    diverging: list[Finding] = field(default_factory=list)
    ill: list[Finding] = field(default_factory=list)
    worst: list[Finding] = field(default_factory=list)
    first_nan: Instruction | None = None
    first_infinity: Instruction | None = None
    left: dict[str, list[str]] = field(default_factory=dict)
    by_machine: int = 0
    spilled: int = 0
    kept: list[Case] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An instruction whose pieces are to run, with their inputs and the true results."""

    tasks: list[Task]
    want: list[Array]


_TOGETHER = 256
"""Number of instructions whose pieces are compiled and run together."""

_MOST_BYTES = 1 << 28
"""Bytes of inputs of waiting pieces."""


@dataclass(slots=True)
class Search:
    """Runs the pieces of a module.

    Attributes:
        sides: what each piece runs on.
        levels: levels of operands in the largest pieces.
        enters_loops: the bodies of loops are searched too, in their first iteration.
        chosen: only instructions whose name, opcode or operation name matches; "" for all.
    """

    module: Module
    sides: Sequence[Side]
    bounds: Bounds
    levels: int = 1
    chosen: str = ""
    enters_loops: bool = True
    found: Isolation = field(default_factory=Isolation)
    _unoptimised: Side = field(default_factory=lambda: Compiled(0))
    _kinds: set[str] = field(default_factory=set)
    _places: dict[Instruction, int] = field(default_factory=dict)

    def run(self, inputs: Sequence[Array], progress: Progress) -> Isolation:
        """Walk the entry computation, then the bodies of its loops.

        Raises:
            HloError: an instruction cannot be evaluated.
        """
        waiting = [(self.module, list(inputs))]
        while waiting:
            waiting += self._walk(*waiting.pop(0), progress)
        self.found.kinds = len(self._kinds)
        return self.found

    def _walk(
        self, module: Module, inputs: Sequence[Array], progress: Progress
    ) -> list[tuple[Module, list[Array]]]:
        """Walk an entry computation, operands first; return its loops and their initial states."""
        loops: list[tuple[Module, list[Array]]] = []
        numbers: dict[Instruction, tuple[bool, bool]] = {}
        waiting: list[_Waiting] = []
        with Values() as values:
            for inst in walk(module, inputs, self.levels, values, progress):
                self._places[inst] = len(self._places)
                if inst.is_a("parameter"):
                    numbers[inst] = _not_numbers(values.get(inst))
                    continue
                is_chosen = self._is_chosen(inst)
                pieces = pieces_of(inst, self.levels if is_chosen else 0)
                want = self._reference(pieces[0], _inputs(pieces[0], values))
                values.put(inst, want)
                self._note_numbers(inst, want, numbers)
                if is_chosen and is_random(pieces[0].module):
                    self._leave(pieces[0], "it draws random numbers")
                elif is_chosen:
                    self._kinds.add(pieces[0].kind)
                    tasks = [(piece, _inputs(piece, values)) for piece in pieces]
                    waiting.append(_Waiting(tasks, want))
                if len(waiting) == _TOGETHER or _bytes_of(waiting) > _MOST_BYTES:
                    self._compare_all(waiting)
                    waiting = []
                if self.enters_loops and inst.is_a("while"):
                    body = opened(extract(inst.called[1].root))
                    loops.append((body, values.get(inst.operands[0])))
            self._compare_all(waiting)
            self.found.spilled += values.spilled
        self.found.instructions = len(self._places)
        return loops

    def _reference(self, piece: Piece, arrays: list[Array]) -> list[Array]:
        """Return the true values of a piece of one instruction."""
        if is_too_large(piece.module):
            self.found.by_machine += 1
            return self._unoptimised.run(piece, arrays)
        try:
            if piece.inst.called:
                return evaluated(piece.module, arrays)
            return driver.evaluate(piece.module, *arrays, fill_constants="zeros")
        except TookTooLong:
            self.found.by_machine += 1
            return self._unoptimised.run(piece, arrays)

    def _note_numbers(
        self,
        inst: Instruction,
        arrays: Sequence[Array],
        numbers: dict[Instruction, tuple[bool, bool]],
    ) -> None:
        numbers[inst] = _not_numbers(arrays)
        if inst.is_a("constant"):
            return
        for number, name in enumerate(("first_nan", "first_infinity")):
            arises = numbers[inst][number] and not any(numbers[o][number] for o in inst.operands)
            if arises and getattr(self.found, name) is None:
                setattr(self.found, name, inst)

    def _is_chosen(self, inst: Instruction) -> bool:
        if inst.is_a(*NO_CODE) or not takes_arrays(inst):
            return False
        if not self.chosen:
            return True
        texts = (inst.name, inst.opcode.name, inst.op_name)
        return any(re.search(self.chosen, text) for text in texts)

    def _compare_all(self, waiting: Sequence[_Waiting]) -> None:
        """Run the pieces of some instructions on every side, and judge them, smallest first."""
        tasks = [(piece, arrays) for one in waiting for piece, arrays in one.tasks]
        ran = set[Instruction]()
        for side in self.sides:
            results = iter(side.run_all(tasks))
            for one in waiting:
                decided = False
                for piece, arrays in one.tasks:
                    got = next(results)
                    if decided:
                        continue
                    if isinstance(got, HloError):
                        if not piece.height:
                            self._leave(piece, f"{side.name}: {got.message}")
                        decided = True
                        continue
                    ran.add(piece.inst)
                    decided = self._judge(piece, side, arrays, got, one.want)
        self.found.compared += len(ran)

    def _judge(
        self, piece: Piece, side: Side, arrays: list[Array], got: list[Array], want: list[Array]
    ) -> bool:
        """Record the results of a side for a piece; return whether it diverges."""
        if [(a.shape, a.dtype) for a in got] != [(a.shape, a.dtype) for a in want]:
            self._leave(piece, f"{side.name}: results of another shape")
            return True
        finding = judge(piece, side.name, arrays, got, want, self.bounds)
        if finding.diverges and side.flushes:
            pair = without_subnormals(arrays, got, want, lambda given: self._again(piece, given))
            finding = judge(piece, side.name, arrays, *pair, self.bounds)
        if finding.diverges:
            self.found.diverging.append(finding)
            if len(self.found.kept) < MOST_KEPT:
                self.found.kept.append(Case(finding, arrays, want))
        elif not finding.comparison.ok:
            self.found.ill.append(finding)
        elif finding.comparison.max_ulp and piece.height == 0:
            self.found.worst.append(finding)
            self.found.worst.sort(key=self._rank)
            del self.found.worst[MOST_WORST:]
        return finding.diverges

    def _rank(self, row: Finding) -> tuple[int, int]:
        return -row.comparison.max_ulp, self._places[row.piece.inst]

    def _leave(self, piece: Piece, reason: str) -> None:
        self.found.left.setdefault(reason, []).append(piece.inst.name)

    def _again(self, piece: Piece, arrays: Sequence[Array]) -> list[Array]:
        return driver.evaluate(piece.module, *arrays, fill_constants="zeros")


def _inputs(piece: Piece, values: Values) -> list[Array]:
    return [array for operand in piece.operands for array in values.get(operand)]


def _bytes_of(waiting: Sequence[_Waiting]) -> int:
    return sum(array.nbytes for one in waiting for _, arrays in one.tasks for array in arrays)


def _not_numbers(arrays: Sequence[Array]) -> tuple[bool, bool]:
    """Return whether some element is NaN, and whether one is infinite."""
    floats = list(_floats(arrays))
    if all(bool(np.isfinite(array).all()) for array in floats):
        return False, False
    return any(np.isnan(a).any() for a in floats), any(np.isinf(a).any() for a in floats)


def _floats(arrays: Sequence[Array]) -> Iterator[Array]:
    for array in arrays:
        dtype = dtype_of_numpy(array.dtype)
        if dtype is not None and (dtype.is_float or dtype.is_complex):
            yield array
