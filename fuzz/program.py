"""Random modules: a few cases of the opcode table that take each other's results.

Each case (`cases/`) draws one opcode with its types and attributes. Here its operands are results
of earlier cases more often than parameters, converted and reshaped to what the case asks for, and
groups of instructions move into fusions, calls, loops and branches (`wrapping.py`).

What makes answers comparable: each result has a rule of comparison (`agreement.py`). Where rounding
is open ("ulps", "table"), a result is taken by sums and products only, once, if it is of moderate
size; where NaN appears, it is replaced before the next case, since its sign and payload are open.
Types without NaN make a zero of it, whose sign is open then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod

import numpy as np

from fuzz.agreement import EXACT, TABLE
from fuzz.cases import elementwise, structured
from fuzz.choices import Seeded
from fuzz.draft import MAX_ELEMENTS, SIZES, Array, Draft
from fuzz.wrapping import wrap
from hloc.dtypes import PRED, DType
from hloc.evaluator.run import evaluate_module
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import HostValue
from hloc.parser import parse
from hloc.shapes import ArrayShape, leaves
from hloc.source import SourceFile
from tests.inputs import inputs_for
from tests.unit.memory.random_programs import random_module
from tests.unit.opt.random_loops import RandomLoop
from tests.unit.opt.random_modules import RandomModule

CASES: dict[str, Callable[[Draft], str]] = {**elementwise.CASES, **structured.CASES}

MODERATE = 64.0

DYNAMIC = frozenset({"dynamic-reshape"})
"""Cases whose results no other case takes: which dimension of a reshape varies is not decided."""


@dataclass(frozen=True)
class Value:
    """A result that later cases may take.

    Attributes:
        array: its value.
        how: the rule by which it is compared.
        rounded: how many cases that round freely it went through.
        free: later cases may take it.
    """

    inst: Instruction
    array: Array
    how: str
    rounded: int
    free: bool


@dataclass(frozen=True)
class Program:
    """A module with arguments, and the rule of comparison of each result."""

    seed: int
    module: Module
    arguments: tuple[Array, ...]
    hows: tuple[str, ...]


@dataclass
class ProgramDraft(Draft):
    """A draft whose cases take results of earlier ones."""

    values: list[Value] = field(default_factory=list)
    taken: list[Value] = field(default_factory=list)

    # ---- sizes and arrays that exist already

    def dims(
        self, low: int = 0, high: int = 4, sizes: Sequence[int] = SIZES, limit: int = MAX_ELEMENTS
    ) -> tuple[int, ...]:
        """Return sizes as a case asks for them, more often than not those of an earlier result."""
        fitting = [
            value.array.shape
            for value in self.values
            if low <= value.array.ndim <= high
            and value.array.size <= limit
            and set(value.array.shape) <= set(sizes)
        ]
        if fitting and self.flag():
            return self.pick(fitting[::-1])
        return super().dims(low, high, sizes, limit)

    def any_array(self, dtype: DType, dims: Sequence[int]) -> Instruction:
        """Return an exact earlier result as `dtype[dims]`, or a parameter."""
        if dtype.is_complex or self.integer(0, 3) == 0:
            return super().any_array(dtype, dims)
        fitting = [v for v in self.values if v.how == EXACT and not v.inst.array.dtype.is_complex]
        found = self._best(fitting, dtype, tuple(dims))
        return super().any_array(dtype, dims) if found is None else found

    def tame_array(self, dtype: DType, dims: Sequence[int], special: bool = False) -> Instruction:
        """Return an earlier result of `dtype` that is of moderate size, or a parameter."""
        if self.integer(0, 3) == 0:
            return super().tame_array(dtype, dims, special)
        fitting = [
            v for v in self.values if v.inst.array.dtype is dtype and v.rounded < 2 and is_tame(v)
        ]
        found = self._best(fitting, dtype, tuple(dims))
        return super().tame_array(dtype, dims, special) if found is None else found

    def _best(
        self, fitting: Sequence[Value], dtype: DType, dims: tuple[int, ...]
    ) -> Instruction | None:
        """Return one of `fitting` as `dtype[dims]`, of the same sizes if there is one."""
        fitting = [value for value in fitting if value.free]
        equal = [value for value in fitting if value.array.shape == dims]
        fitting = equal if equal and self.integer(0, 3) else fitting
        if not fitting:
            return None
        value = self.pick(fitting[::-1])
        self.taken.append(value)
        return self._resized(self._converted(self._without_nan(value), dtype), dims)

    def _without_nan(self, value: Value) -> Instruction:
        x, b = value.inst, self.entry
        if value.array.dtype.kind in "biuc" or not np.isnan(value.array.astype(np.float64)).any():
            return x
        zero = b.broadcast(b.constant(0, x.array.dtype), x.array.dims, ())
        return b.select(b.compare(x, x, "EQ"), x, zero)

    def _converted(self, x: Instruction, dtype: DType) -> Instruction:
        return x if x.array.dtype is dtype else self.entry.convert(x, dtype)

    def _resized(self, x: Instruction, dims: tuple[int, ...]) -> Instruction:
        """Return `x` cut, repeated or extended to `dims`."""
        b = self.entry
        if x.array.dims == dims:
            return x
        if not x.array.dims:
            return b.broadcast(x, dims, ())
        wanted, given = prod(dims), x.array.elements
        flat = x if x.array.rank == 1 else b.reshape(x, (given,))
        if given > wanted:
            start = self.integer(0, given - wanted)
            flat = b.slice(flat, (start,), (start + wanted,), (1,))
        elif given < wanted:
            low = self.integer(0, wanted - given)
            filling = b.constant(1 if x.array.dtype is not PRED else True, x.array.dtype)
            flat = b.pad(flat, filling, (low,), (wanted - given - low,))
        return b.reshape(flat, dims) if flat.array.dims != dims else flat

    # ---- one case after another

    def extend(self, name: str) -> None:
        """Add a case, and what it gave to the values; results that may differ are left out."""
        before, known = len(self.results), set(self.entry.computation.instructions)
        self.taken = []
        how = CASES[name](self)
        made = self.results[before:]
        del self.results[before:]
        rounded = max((value.rounded for value in self.taken), default=0)
        if rounded:
            new = [i for i in self.entry.computation.instructions if i not in known]
            if how not in (EXACT, TABLE) or (how == EXACT and not all(map(is_moved, new))):
                return
            how = TABLE
        if how != EXACT:
            rounded += 1
        arrays = iter(self._evaluated(made))
        for inst in made:
            array = next(arrays)
            if isinstance(inst.shape, ArrayShape):
                self.results.append(inst)
                self.values.append(self._value(inst, array, how, rounded, name))

    def _value(self, inst: Instruction, array: Array, how: str, rounded: int, name: str) -> Value:
        if how == EXACT and not has_nan(inst.array.dtype):
            how, rounded = "values", rounded + 1
        return Value(inst, array, how, rounded, name not in DYNAMIC)

    def _evaluated(self, made: Sequence[Instruction]) -> list[Array]:
        computation = self.entry.computation
        old = computation.root if computation.has_root else None
        root = self.entry.tuple(made)
        computation.set_root(root)
        if old is not None:
            computation.remove(old)
        self.module.set_entry(computation)
        return evaluate_module(self.module, self.arguments)


def is_tame(value: Value) -> bool:
    """True if sums of such numbers in any order are close."""
    if value.array.dtype == np.bool_ or not value.array.size:
        return True
    kind = np.complex128 if value.array.dtype.kind == "c" else np.float64
    size = np.abs(value.array.astype(kind))
    return bool(np.all(size <= MODERATE))  # False for NaN


OTHERS: dict[int, Callable[[int], Module]] = {
    5: lambda seed: RandomModule(seed).grown(10 + seed % 40),
    6: lambda seed: RandomLoop(seed).module_with_loop(),
    7: lambda seed: parse(SourceFile(random_module(seed))),
}
"""Generators of modules with a theme, by the remainder of the seed."""


@cache
def has_nan(dtype: DType) -> bool:
    """False for floats that make a zero of NaN, whose sign is then that of the NaN: open."""
    return not dtype.is_float or bool(np.isnan(np.float32("nan").astype(dtype.numpy)))


def is_moved(inst: Instruction) -> bool:
    """True if an instruction computes nothing."""
    row = inst.opcode
    return row.data_movement or row.nop or row.forwards or row.name in ("parameter", "constant")


def largest_product(module: Module, arguments: Sequence[Array]) -> float:
    """Return the largest finite product of floats that a run computes."""
    largest = 0.0

    def look(inst: Instruction, value: HostValue) -> HostValue:
        nonlocal largest
        if inst.is_a("multiply") and (inst.array.dtype.is_float or inst.array.dtype.is_complex):
            sizes = np.abs(value.astype(np.complex128))
            largest = max(largest, float(np.max(sizes, initial=0.0, where=np.isfinite(sizes))))
        return value

    evaluate_module(module, arguments, changed=look)
    return largest


def random_program(seed: int, steps: int = 0) -> Program:
    """Return the program of `seed`: of about `steps` cases, by default one to eight.

    Without `steps`, one seed in eight gives a module for rules, one in eight a loop, and one in
    eight calls, branches and updates of buffers, all from the generators of other tests.
    """
    if not steps and seed % 8 in OTHERS:
        module = OTHERS[seed % 8](seed)
        root = module.entry.root
        arguments = tuple(inputs_for(module, seed))
        how = f"{TABLE} {largest_product(module, arguments)}"
        return Program(seed, module, arguments, (how,) * sum(1 for _ in leaves(root.shape)))
    choices = Seeded(seed)
    draft = ProgramDraft(choices)
    names = sorted(CASES)
    for _ in range(steps or choices.integer(1, 8)):
        draft.extend(choices.random.choice(names))
    while not draft.values:
        draft.extend("constant")
    kept = [v for v in draft.values if choices.integer(0, 3)] or draft.values[:1]
    old = draft.entry.computation.root
    draft.entry.computation.set_root(draft.entry.tuple([value.inst for value in kept]))
    draft.entry.computation.remove(old)
    wrap(draft.module, choices)
    return Program(seed, draft.module, tuple(draft.arguments), tuple(v.how for v in kept))
