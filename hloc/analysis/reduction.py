"""Reduce a module while a property holds: delta debugging on HLO.

A test says whether a module is still interesting. Candidates are the module with another
instruction as root, with fewer outputs, with instructions replaced by a parameter, an operand or
zeros of the same shape, or without annotations. They are verified, smaller, and tried in a fixed
order, so the same test gives the same result. Dead code is removed at once if the test does not
depend on it, else it is reduced like the rest. Method: Zeller and Hildebrandt, "Simplifying and
Isolating Failure-Inducing Input" (2002).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

import numpy as np

from hloc.analysis.extract import extract, without_signature
from hloc.ir.attributes import NO_COMMON, StackFrames
from hloc.ir.clone import clone_module
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.ir.traversal import all_instructions, post_order, post_order_from
from hloc.ir.verifier import check
from hloc.lazy_dataclass import dataclass
from hloc.literal import literal_of
from hloc.shapes import ArrayShape, TupleShape

Interesting = Callable[[Module], bool]
"""True if a verified module is still interesting; it must not change the module."""

OnProgress = Callable[[Module, int], None]
"""Called after every test with the best module and the number of tests so far."""

_LIGHT = frozenset({"parameter", "constant", "broadcast"})
_HEAVY_WEIGHT = 4


@dataclass(frozen=True, slots=True)
class Reduced:
    """The result of a reduction.

    Attributes:
        module: the smallest interesting module found; the given one if there is none.
        tests: candidates that were tested.
        complete: True if no candidate is left; False if the time was up before.
    """

    module: Module
    tests: int
    complete: bool


def reduce_module(
    module: Module,
    interesting: Interesting,
    *,
    seconds: float = 120.0,
    on_progress: OnProgress | None = None,
) -> Reduced:
    """Return a small module that is interesting like `module`, which is not changed.

    Cost: O(n) tests for n instructions if few can be removed, O(k log n) if k of them remain.
    """
    reduction = _Reduction(module, interesting, time.monotonic() + seconds, on_progress)
    complete = reduction.run()
    return Reduced(reduction.best, reduction.tests, complete)


class _TimeOver(Exception):
    """Raised when there is no time for another test."""


@dataclass(slots=True, eq=False)
class _Reduction:
    """The best module so far, and the search for a better one."""

    best: Module
    interesting: Interesting
    deadline: float
    on_progress: OnProgress | None
    tests: int = 0
    _weight: int = field(default=0)

    def run(self) -> bool:
        """Try all kinds of candidates until none is accepted; False if the time was up."""
        self._weight = _weight(self.best)
        try:
            self._try(_without_dead(self.best, _dead(self.best)), lighter=False)
            self._try(_plain(self.best), lighter=False)
            while True:
                before = self._weight
                self._earlier_root()
                self._fewer_outputs()
                self._in_chunks(_dead, _without_dead)
                self._in_chunks(_cuttable, _cut)
                self._in_chunks(_with_operand_of_same_shape, _forwarded)
                self._in_chunks(_zeroable, _zeroed)
                if self._weight >= before:
                    return True
        except _TimeOver:
            return False

    def _try(self, candidate: Module | None, *, lighter: bool = True) -> bool:
        """Take `candidate` if it is valid, interesting and, if asked for, lighter."""
        if candidate is None or (lighter and _weight(candidate) >= self._weight):
            return False
        if time.monotonic() > self.deadline:
            raise _TimeOver
        if check(candidate):
            return False
        self.tests += 1
        accepted = self.interesting(candidate)
        if accepted:
            self.best, self._weight = candidate, _weight(candidate)
        if self.on_progress is not None:
            self.on_progress(self.best, self.tests)
        return accepted

    def _earlier_root(self) -> None:
        """Find the first instruction that is interesting as root, then search its operands."""
        order = post_order_from([self.best.entry.root])
        order = [inst for inst in order if inst.opcode.name not in _LIGHT]
        low, high = -1, len(order) - 1  # order[high] is interesting
        while high - low > 1:
            middle = (low + high) // 2
            if self._try(_extracted(order[middle])):
                high = middle
            else:
                low = middle
        while any(self._try(_extracted(o)) for o in dict.fromkeys(self.best.entry.root.operands)):
            pass

    def _fewer_outputs(self) -> None:
        """Drop elements of the root tuple, many at once first."""
        size = len(self.best.entry.root.operands) // 2
        while size and self.best.entry.root.is_a("tuple"):
            start = 0
            while start < len(self.best.entry.root.operands):
                if not self._try(_without_outputs(self.best, start, start + size)):
                    start += size
            size //= 2

    def _in_chunks(
        self,
        places: Callable[[Module], list[str]],
        edit: Callable[[Module, Sequence[str]], Module | None],
    ) -> None:
        """Apply `edit` to runs of `places`, long ones first; each place is the name of one."""
        names = places(self.best)
        size = max(1, len(names) // 2)
        while True:
            start = 0
            while start < len(names):
                if self._try(edit(self.best, names[start : start + size])):
                    left = set(places(self.best))
                    names = names[:start] + [n for n in names[start + size :] if n in left]
                else:
                    start += size
            if size == 1:
                return
            size //= 2


def _weight(module: Module) -> int:
    """Return a weight in which a parameter or a constant is less than an instruction."""
    return sum(
        1 if inst.opcode.name in _LIGHT else _HEAVY_WEIGHT for inst in all_instructions(module)
    )


# ---------------------------------------------------------------- candidates


def _extracted(root: Instruction) -> Module | None:
    """Return what `root` and dead code need, as a module; None for a parameter or constant."""
    if root.opcode.name in _LIGHT:
        return None
    dead = set(_dead(root.computation.module))
    return extract(root, also=[i for i in root.computation.instructions if i.name in dead])


def _plain(module: Module) -> Module:
    """Return `module` without metadata and the other annotations."""
    copy = clone_module(module)
    copy.stack_frames = StackFrames()
    for computation in copy.computations:
        for inst in computation.instructions:
            computation.set_common(inst, NO_COMMON)
    return copy


def _without_outputs(module: Module, start: int, end: int) -> Module | None:
    root = module.entry.root
    if not root.is_a("tuple") or len(root.operands) - (end - start) < 1:
        return None
    copy = _editable(module)
    entry = copy.entry
    kept = [o for i, o in enumerate(entry.root.operands) if not start <= i < end]
    if len(kept) == 1:
        entry.set_root(kept[0])
    else:
        entry.set_root(
            entry.add(opcode_row("tuple"), TupleShape(tuple(o.shape for o in kept)), kept)
        )
    return _tidied(copy, _dead(module))


def _dead(module: Module) -> list[str]:
    """Return the instructions that nothing uses, in any computation."""
    return [inst.name for inst in all_instructions(module) if _is_dead(inst)]


def _is_dead(inst: Instruction) -> bool:
    return not (inst.users or inst.is_root or inst.is_a("parameter")) and not any(
        inst in other.control_predecessors for other in inst.computation.controlled
    )


def _without_dead(module: Module, names: Sequence[str]) -> Module:
    """Return `module` without the dead instructions `names` and what only they need."""
    gone = set(names)
    return _tidied(_editable(module), [name for name in _dead(module) if name not in gone])


def _cuttable(module: Module) -> list[str]:
    """Return the instructions of the entry that a parameter can replace, users first."""
    order = post_order(module.entry)[::-1]
    return [i.name for i in order if i.opcode.name not in _LIGHT and not i.is_root]


def _cut(module: Module, names: Sequence[str]) -> Module:
    """Return `module` with parameters in place of the entry's instructions `names`."""
    copy = _editable(module)
    row = opcode_row("parameter")
    assert row.attributes is not None
    number = len(copy.entry.parameters)
    for inst in _named(copy, names):
        stand_in = copy.entry.add(
            row, inst.shape, attributes=row.attributes(number=number), name=f"{inst.name}.cut"
        )
        copy.entry.replace(inst, stand_in)
        number += 1
    return _tidied(copy, _dead(module))


def _with_operand_of_same_shape(module: Module) -> list[str]:
    """Return the instructions with an operand of the same shape."""
    return [inst.name for inst in _inner(module) if _operand_of_same_shape(inst) is not None]


def _operand_of_same_shape(inst: Instruction) -> Instruction | None:
    return next((o for o in inst.operands if o.shape == inst.shape), None)


def _forwarded(module: Module, names: Sequence[str]) -> Module:
    """Return `module` with users of `names` using the operand of the same shape."""
    copy = _editable(module)
    for inst in _named(copy, names):
        operand = _operand_of_same_shape(inst)
        assert operand is not None
        inst.computation.replace(inst, operand)
    return _tidied(copy, _dead(module))


def _zeroable(module: Module) -> list[str]:
    """Return the instructions whose arrays zeros can replace."""
    return [
        inst.name
        for inst in _inner(module)
        if inst.opcode.name not in _LIGHT
        and isinstance(inst.shape, ArrayShape)
        and not inst.shape.dtype.is_special
        and not inst.shape.dynamic
    ]


def _zeroed(module: Module, names: Sequence[str]) -> Module:
    """Return `module` with zeros in place of `names`."""
    copy = _editable(module)
    for inst in _named(copy, names):
        inst.computation.replace(inst, _zeros(inst.computation, inst.array))
    return _tidied(copy, _dead(module))


def _zeros(computation: Computation, shape: ArrayShape) -> Instruction:
    literal = literal_of(np.zeros((), shape.dtype.numpy))
    constant, broadcast = opcode_row("constant"), opcode_row("broadcast")
    assert constant.attributes is not None
    assert broadcast.attributes is not None
    scalar = computation.add(
        constant, literal.shape, attributes=constant.attributes(literal=literal)
    )
    if shape == scalar.shape:
        return scalar
    return computation.add(broadcast, shape, [scalar], broadcast.attributes(dimensions=()))


# ---------------------------------------------------------------- parts of candidates


def _editable(module: Module) -> Module:
    """Return a copy whose header does not refer to parameters and results."""
    copy = clone_module(module)
    copy.config = without_signature(copy.config)
    return copy


def _tidied(module: Module, kept: Sequence[str]) -> Module:
    """Return what the root of `module` and the dead instructions `kept` need."""
    stay = set(kept)
    for computation in module.computations:
        for inst in reversed(post_order(computation)):
            if inst.name not in stay and _is_dead(inst):
                computation.remove(inst)
    entry = module.entry
    return extract(entry.root, also=[i for i in entry.instructions if i.name in stay])


def _inner(module: Module) -> Iterator[Instruction]:
    """Yield the instructions that may be replaced, users before operands."""
    for computation in reversed(module.computations):
        for inst in reversed(post_order(computation)):
            if inst.opcode.name != "parameter" and not inst.is_a("tuple"):
                yield inst


def _named(module: Module, names: Sequence[str]) -> list[Instruction]:
    wanted = set(names)
    return [inst for inst in all_instructions(module) if inst.name in wanted]
