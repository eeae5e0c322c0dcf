"""Reductions of one array in memory by one operation: calls of routines for any size.

The routines also square the elements, and divide the results by a number or take square roots.

Adjacent dimensions that are both kept, or both reduced, count as one. The array then has rows
or columns in any number of runs; other arrays, other types, and computed operands have loops of
their own (`reduce.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import frexp, prod

from hloc.analysis.dataflow import forwards, is_row_major
from hloc.codegen.builder.index import loop_order
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import REPRESENTATIONS, is_narrow_float
from hloc.codegen.cpu.emitters.reduction.column_fold import column_routine, few_column_routine
from hloc.codegen.cpu.emitters.reduction.fold_routine import (
    LISTED_FOLDS,
    SMALL_FOLDS,
    Fold,
    group_of,
    has_masks,
    lanes_of_fold,
    narrow_target,
)
from hloc.codegen.cpu.emitters.reduction.row_fold import (
    SHORT_BYTES,
    long_row_routine,
    row_routine,
    short_row_routine,
)
from hloc.codegen.elements.reductions import plain_reducer, sum_dtype
from hloc.codegen.kernels.column_strips import COLUMN_PIECE
from hloc.codegen.kernels.context import SMALL_ELEMENTS, KernelContext, root_of
from hloc.codegen.kernels.running_sums import SUM_BLOCK
from hloc.codegen.llvm.routine import Routines
from hloc.codegen.llvm.target import Target
from hloc.dtypes import PRED, U8, U32, U64, DType
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import opcode_row
from hloc.lazy_dataclass import dataclass
from hloc.ops.folding import OF_PRED
from hloc.shapes import ArrayShape


@dataclass(frozen=True, slots=True)
class Group:
    """Adjacent dimensions, slowest first, that are all reduced or all kept.

    Attributes:
        size: elements along them.
        stride: elements from one to the next.
    """

    is_reduced: bool
    size: int
    stride: int


@dataclass(frozen=True, slots=True)
class PlainReduction:
    """A reduction that routines make.

    Attributes:
        reduce: the instruction.
        operand: the array in memory.
        groups: dimensions of the operand, reduced and kept in turn.
        is_strips: the fastest dimension is the only one that is kept.
        divisor: what results are divided by.
    """

    fold: Fold
    reduce: Instruction
    operand: Instruction
    groups: tuple[Group, ...]
    is_strips: bool
    divisor: float = 1.0

    @property
    def columns(self) -> Group | None:
        """The fastest dimensions, if they are kept."""
        last = self.groups[-1]
        return None if last.is_reduced else last


_MANY = 64
"""Fewest elements per batch of less than a vector of columns for which routines are as fast."""

_LEAST_ROW = 4
"""Shortest row for which routines are as fast. Sums of `f32[100000,3]` take 1.25 of the time of
loops with constant bounds, those of `f32[100000,8]` 0.96."""

_LEAST_FACTOR = 2.0**-100
"""Smallest factor whose reciprocal is used: that of every type is a normal number."""

_FORMS = frozenset({"R", "KR", "RKR", "RK", "KRK", "RKRK"})
"""Kept and reduced dimensions, slowest first, that the routines have loops for."""


def plain_reduction(inst: Instruction) -> PlainReduction | None:
    """Return the reduction of `inst`, None if it does more than routines do."""
    root, is_fusion = root_of(inst), inst.is_a("fusion")
    finish, divisor = _finish_of(root) if is_fusion else ("", 1.0)
    is_last = not finish and not (is_fusion and root.is_a("convert"))
    reduce = root if is_last else root.operands[0]
    if not reduce.is_a("reduce") or len(reduce.operands) != 2:
        return None
    operand, start = reduce.operands
    array = operand.array
    if is_fusion and operand.is_a("reshape") and is_row_major(array) and forwards(operand):
        operand = operand.operands[0]
    squares = is_fusion and operand.is_a("multiply") and operand.operands[0] is operand.operands[1]
    if is_fusion and (squares or operand.is_a("convert")):
        operand = operand.operands[0]
    if is_fusion and not operand.is_a("parameter"):
        return None
    if operand.array.dynamic or start.array.dtype is not reduce.array.dtype:
        return None
    fold = _fold_of(reduce, operand.array.dtype, root.array.dtype)
    if fold is not None:
        fold = replace(fold, squares=squares, finish=finish)
    if fold not in LISTED_FOLDS or not _keeps_order(array, reduce, root.array):
        return None
    groups = _groups(array, reduce.attributes.dimensions)
    if 0 in array.dims or "".join("KR"[g.is_reduced] for g in groups) not in _FORMS:
        return None
    kept = [d for d in loop_order(array) if d not in reduce.attributes.dimensions]
    is_strips = len(kept) == 1 and not groups[-1].is_reduced
    return PlainReduction(fold, reduce, operand, groups, is_strips, divisor)


def _finish_of(root: Instruction) -> tuple[str, float]:
    """Return the opcode of what a fusion does to the results of a reduction, and the divisor.

    A factor that is a power of two is the reciprocal of a divisor. "" for everything else.
    """
    if root.is_a("sqrt"):
        return "sqrt", 1.0
    if not root.is_a("divide", "multiply"):
        return "", 1.0
    number = root.operands[1]
    constant = number.operands[0] if number.is_a("broadcast") else number
    if not constant.is_a("constant") or constant.array.dims or not constant.array.dtype.is_float:
        return "", 1.0
    value = float(constant.attributes.literal.array)
    if root.is_a("divide"):
        return "divide", value
    is_power = abs(frexp(value)[0]) == 0.5 and abs(value) >= _LEAST_FACTOR
    return ("divide", 1 / value) if is_power else ("", 1.0)


def _fold_of(reduce: Instruction, source: DType, result: DType) -> Fold | None:
    """Return the operation of a routine, perhaps not of the table; None if there is none."""
    (computation,) = reduce.called
    name, dtype = plain_reducer(computation), reduce.array.dtype
    if not name or computation.root.array.dtype is not dtype:
        return None
    if is_narrow_float(dtype) and (source is not dtype or result is not dtype):
        return None  # intermediate results are rounded
    if not dtype.is_float and result is not dtype:
        return None
    if dtype.is_pred:
        if source is not PRED:
            return None
        return Fold(OF_PRED.get(name, name), U8, U8, U8)
    source = U8 if source.is_pred else source
    total = sum_dtype(computation, dtype)
    if dtype.is_integer and opcode_row(name).modular and dtype.bits >= 32:
        unsigned = U32 if dtype.bits == 32 else U64
        source = unsigned if source is dtype else source
        total = result = unsigned
    return Fold(name, source, total, result)


def _keeps_order(operand: ArrayShape, reduce: Instruction, result: ArrayShape) -> bool:
    """True if the kept dimensions have the same order in memory in operand and result."""
    reduced = set(reduce.attributes.dimensions)
    kept = [dim for dim in range(operand.rank) if dim not in reduced]
    order = [dim for dim in loop_order(operand) if dim not in reduced]
    return [kept[dim] for dim in loop_order(result)] == order


def _groups(shape: ArrayShape, dimensions: tuple[int, ...]) -> tuple[Group, ...]:
    found: list[Group] = []
    stride = 1
    for dim in reversed(loop_order(shape)):
        is_reduced, size = dim in dimensions, shape.dims[dim]
        if found and found[-1].is_reduced == is_reduced:
            last = found[-1]
            found[-1] = Group(is_reduced, last.size * size, last.stride)
        else:
            found.append(Group(is_reduced, size, stride))
        stride *= size
    return tuple(reversed(found))


def emit_plain(k: KernelContext, found: PlainReduction, steps: int) -> bool:
    """Emit a call of a routine, if there is one; `steps` is the extent of the kernel.

    Otherwise emit nothing and return False.
    """
    if not k.lanes or any(number is not None for number in k.aliased):
        return False
    call = _Call(k, found, steps)
    if found.columns is None and call.pays_for_rows():
        call.rows()
    elif found.columns is not None and call.pays_for_columns(found.columns):
        call.columns(found.columns)
    else:
        return False
    k.level = 0  # almost all time is spent in the routine
    return True


class _Call:
    """Writes the call."""

    def __init__(self, k: KernelContext, found: PlainReduction, steps: int) -> None:
        self.k, self.math, self.steps = k, k.math, steps
        self.found, self.fold, self.target = found, found.fold, k.target
        if found.operand.array.elements <= SMALL_ELEMENTS and found.fold in SMALL_FOLDS:
            self.target = narrow_target(k.target)
        self.lanes = lanes_of_fold(found.fold, self.target)
        source = k.plain_array(found.operand)
        assert source is not None
        self.source, self.start = source.pointer, found.reduce.operands[1]
        self.kept = [group for group in found.groups if not group.is_reduced]
        self.reduced = [group for group in found.groups if group.is_reduced]
        # Of two reduced groups, the slower one enumerates runs of the faster one.
        self.runs = self.reduced[0] if len(self.reduced) == 2 else Group(True, 1, 0)

    def pays_for_rows(self) -> bool:
        """True if rows are long enough for a routine to be as fast as specialised loops."""
        return not self.kept or len(self.reduced) == 2 or self.reduced[0].size >= _LEAST_ROW

    def rows(self) -> None:
        """Call the routine of rows for this part of the rows."""
        m = self.math
        length, rows = self.reduced[-1], self.kept[0] if self.kept else Group(False, 1, 0)
        maker, group = row_routine, group_of(self.lanes)
        first, end = self._part(rows.size)
        if self._is_long():
            maker = long_row_routine
        elif length.size * self.fold.source.storage_bytes <= SHORT_BYTES and rows.size >= group:
            maker = short_row_routine
            first, end = self._widened(first, end, rows.size, group)
        routine = maker(self.fold, self.target)
        numbers = (m.sub(end, first), rows.stride, self.runs.size, self.runs.stride, length.size)
        self._call(routine, m.mul(first, rows.stride), first, numbers)

    def pays_for_columns(self, columns: Group) -> bool:
        """True if a routine for this many columns is as fast as specialised loops."""
        if columns.size >= self.lanes:
            return True
        # For small batches, constant bounds make up for the routine's vectors.
        is_tiny = len(self.kept) == 2 and self.reduced[-1].size * columns.size < _MANY
        return not is_tiny and has_masks(self.fold.source, self.target)

    def columns(self, columns: Group) -> None:
        """Call the routine of columns for this part of the batches, or of the columns."""
        m, rows = self.math, self.reduced[-1]
        is_few = columns.size < self.lanes
        routine = column_routine(self.fold, self.target)
        if is_few:
            routine = few_column_routine(self.fold, self._is_long(), self.target)
        form = (self.runs.size, self.runs.stride, rows.size, rows.stride)
        if len(self.kept) == 2:
            batches = self.kept[0]
            first, end = self._part(batches.size)
            numbers = (m.sub(end, first), batches.stride, columns.size, *form)
            places = m.mul(first, batches.stride), m.mul(first, columns.size)
            self._call(routine, *places, numbers)
            return
        first, end = self._part(columns.size, COLUMN_PIECE if self.found.is_strips else 0)
        if not is_few:
            first, end = self._widened(first, end, columns.size, self.lanes)
        self._call(routine, first, first, (1, 0, m.sub(end, first), *form))

    def _is_long(self) -> bool:
        addends = prod(group.size for group in self.reduced)
        return self.fold.is_float_sum and addends > SUM_BLOCK

    def _part(self, size: int, step: int = 0) -> tuple[IndexValue, IndexValue]:
        """Return the range of `size` results, or batches of them, for this call of the kernel.

        The kernel counts pieces of `step` results; by default, equal pieces.
        """
        if self.steps == 1:
            return 0, size
        m, step = self.math, step or size // self.steps
        return m.mul(self.k.begin, step), m.minimum(m.mul(self.k.end, step), size)

    def _widened(
        self, first: IndexValue, end: IndexValue, size: int, least: int
    ) -> tuple[IndexValue, IndexValue]:
        """Return a part extended to at least `least` of `size` results.

        Another thread may compute some of them, too; it gets the same values.
        """
        m = self.math
        first = m.minimum(first, size - least)
        return first, m.maximum(end, m.add(first, least))

    def _call(
        self,
        routine: Routines,
        source: IndexValue,
        target: IndexValue,
        numbers: Sequence[IndexValue],
    ) -> None:
        """Call `routine`; `source` and `target` are positions of elements in their arrays."""
        k, b, m = self.k, self.k.b, self.math
        k.use(routine)
        places = (
            b.address(self.source, self.fold.source, m.value(source)),
            b.address(k.output.pointer, self.fold.result, m.value(target)),
        )
        init = b.convert(k.read(self.start, ()), self.fold.total)
        initial = f"{REPRESENTATIONS[self.fold.total].register} {init.text}"
        others: list[IndexValue | str] = [initial, *numbers]
        if self.fold.finish == "divide":
            divisor = b.const(self.fold.total, self.found.divisor)
            others.append(f"{REPRESENTATIONS[self.fold.total].register} {divisor.text}")
        b.call_routine(routine.name, places, *others)


def listed_routines(target: Target) -> Iterator[Routines]:
    """Yield the routines of all reductions that programs are likely to have."""
    small = narrow_target(target)
    folds = [(fold, target) for fold in LISTED_FOLDS]
    folds += [(fold, small) for fold in SMALL_FOLDS if small != target]
    for fold, machine in folds:
        yield row_routine(fold, machine)
        yield short_row_routine(fold, machine)
        yield column_routine(fold, machine)
        if fold.is_float_sum:
            yield long_row_routine(fold, machine)
        if has_masks(fold.source, machine):
            for is_long in (False, True) if fold.is_float_sum else (False,):
                yield few_column_routine(fold, is_long, machine)
