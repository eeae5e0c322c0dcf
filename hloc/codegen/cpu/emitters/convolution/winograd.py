"""Convolutions of 3x3 windows with fewer multiplications: Winograd's F(2x2, 3x3).

A tile of 2x2 results takes 16 multiplications per pair of features instead of 36. Tiles of the
padded input and the kernel are transformed; then each of the 16 elements of a tile is a gemm, and
the sums are transformed to results (`winograd_routines`). Features are vectors; where columns are
contiguous instead, lines are transposed before and after (`winograd_planes`). A block of rows of
tiles goes through all steps while it is in the cache, a part of the output features after the
other, whose part of the kernel is transformed when it is first used. Threads share blocks, or
output features if there is only one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate

from hloc.analysis.epilogue import product_in
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.convolution.winograd_plan import Winograd, winograd_of
from hloc.codegen.cpu.emitters.convolution.winograd_planes import (
    from_planes_routine,
    to_planes_routine,
)
from hloc.codegen.cpu.emitters.convolution.winograd_products import products_routine
from hloc.codegen.cpu.emitters.convolution.winograd_routines import (
    direct_routine,
    input_routine,
    kernel_routine,
    output_routine,
)
from hloc.codegen.cpu.emitters.convolution.winograd_writer import WINDOW, WinogradNumbers
from hloc.codegen.cpu.emitters.gemm.packed import offset_table
from hloc.codegen.cpu.emitters.gemm.packed.gemm_routines import gemm_routines
from hloc.codegen.cpu.emitters.gemm.packed.gemm_schedule import modelled_schedule
from hloc.codegen.cpu.emitters.gemm.packed.gemm_tiles import arithmetic_of
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm_call import (
    Epilogue,
    emit_packed,
    number_table,
)
from hloc.codegen.cpu.emitters.gemm.packed.row_epilogue import row_epilogue
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.operands import operand_arrays, operand_bytes
from hloc.codegen.llvm.routine import Routines
from hloc.dtypes import F32, S64
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import field_values


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a convolution for which tiles pay."""
    found = winograd_of(inst)
    if found is None:
        return None
    computed = operand_bytes(inst)
    return found.plan(partial(_emit, found, computed), computed)


def _emit(found: Winograd, offset: int, k: KernelContext) -> None:
    """Emit the convolution alone."""
    if offset == 0:
        k.level = 0  # almost all time is spent in the routines
    lhs, rhs = operand_arrays(k)
    _Emission(k, found, (lhs, rhs), offset).write()


class _Emission:
    """Emits the calls of the routines."""

    def __init__(
        self,
        k: KernelContext,
        found: Winograd,
        operands: tuple[IrArray, IrArray],
        offset: int,
        epilogue: Epilogue | None = None,
    ) -> None:
        """Begin; scratch memory is free from `offset` on."""
        found = found.in_panels(k.target)
        self.k, self.b, self.math, self.found, n = k, k.b, k.math, found, found.numbers
        self.lhs, self.rhs = (operand.pointer for operand in operands)
        self.whole_rhs = self.rhs
        self.rhs = k.b.offset_pointer(self.rhs, found.first * F32.storage_bytes)
        self.out = (epilogue.sums if epilogue else k.output).pointer
        self.places = list(accumulate(found.sizes, initial=offset))
        pointers = [k.b.offset_pointer(k.scratch, place) for place in self.places[:-1]]
        self.kernel, self.tiles, self.sums, self.patch, self.lines_in, self.lines_out = pointers
        tables = self.places[-1], self.places[-1] + S64.storage_bytes * found.block * n.tiles
        self.offsets = [k.b.offset_pointer(k.scratch, place) for place in tables]
        functions = (f"@{epilogue.function}", epilogue.context) if epilogue else ("null", "null")
        self.finish = [f"ptr {x}" for x in functions]
        self.table = self._table(n)
        self.inner_table = self._table(found.lines) if found.planes else self.table

    def write(self) -> None:
        """Emit the loop over blocks and parts."""
        k, math, found = self.k, self.math, self.found
        if found.is_in_panels:
            self._fill_tables()
        with k.body.loop(k.begin, k.end) as number:
            block, part = math.div(number, found.parts), math.rem(number, found.parts)
            begin = math.mul(block, found.block)
            end = math.minimum(math.add(begin, found.block), found.rows)
            is_first = math.compare("EQ", part, 0)
            with k.body.when(self.b.or_(is_first, math.compare("EQ", number, k.begin))):
                self._transform_input(begin, end)
            feature = math.mul(part, found.numbers.outputs)
            rhs = self._moved(self.rhs, feature, found.numbers.rhs_output)
            kernel = self._moved(self.kernel, part, found.part_step)
            is_new = math.compare("LT", math.sub(number, k.begin), found.parts)
            with k.body.when(is_new):
                unit = kernel_routine(found.apart, k.target)
                self._call(unit, (rhs, kernel), found.panels, self.table)
            self._part(begin, end, feature, (rhs, kernel), self._next(number, part))

    def _fill_tables(self) -> None:
        """Emit the offsets of tiles and of input features for the micro-kernel."""
        k, n = self.k, self.found.numbers
        unit = offset_table.table_routine(k.target)
        sizes = (self.found.block * n.tiles, n.inputs), (n.inputs, 1)
        for table, (size, step) in zip(self.offsets, sizes, strict=True):
            axis = pointer_value(number_table(k, (size, step)))
            self._call(unit, (table, axis), 1)

    def _next(self, number: IndexValue, part: IndexValue) -> tuple[Value, IndexValue]:
        """Return the part of the kernel that is transformed next, and how many rows it has."""
        k, math, found, n = self.k, self.math, self.found, self.found.numbers
        if found.apart > 1:
            return self.rhs, 0
        later = math.add(number, 1)
        feature = math.mul(math.rem(math.add(part, 1), found.parts), n.outputs)
        is_new = self.b.and_(
            math.compare("LT", later, k.end),
            math.compare("LT", math.sub(later, k.begin), found.parts),
        )
        rows = WINDOW * WINDOW * n.inputs
        count = self.b.select(is_new, math.value(rows), math.value(0))
        return self._moved(self.whole_rhs, feature, 1), count

    def _transform_input(self, begin: IndexValue, end: IndexValue) -> None:
        """Emit the transform of the tiles of a block, whose lines are transposed if necessary."""
        lhs, target = self.lhs, self.k.target
        if self.found.planes:
            lhs = self.lines_in
            unit = from_planes_routine(target)
            self._call(unit, (self.lhs, lhs), begin, end, self.table)
            begin, end = 0, self.math.sub(end, begin)
        pointers = lhs, self.tiles, self.patch
        self._call(input_routine(target), pointers, begin, end, self.inner_table)

    def _part(
        self,
        begin: IndexValue,
        end: IndexValue,
        feature: IndexValue,
        kernels: tuple[Value, Value],
        later: tuple[Value, IndexValue],
    ) -> None:
        """Emit the gemms of a block and a part of the output features, and their results.

        `kernels` are this part of the kernel, as it is and transformed; `later` is the next part
        that will be transformed, and how many rows it has.
        """
        k, found, target = self.k, self.found, self.k.target
        rhs, kernel = kernels
        if found.is_in_panels:
            rows = self.math.mul(self.math.sub(end, begin), found.numbers.tiles)
            self._multiply(kernel, rows, later)
        else:
            sides = (IrArray(x, F32, (), ()) for x in (self.tiles, kernel, self.sums))
            left, right, product = sides
            emit_packed(k, found.gemm, left, right, self.places[-1], whole=product)
        direct = direct_routine(target)
        k.use(direct)
        unit, pointer = output_routine(target), f"ptr @{direct.name}"
        if not found.planes:
            arrays = self.sums, self.lhs, rhs, self._moved(self.out, feature, 1)
            numbers = begin, end, feature, self.table
            self._call(unit, arrays, *numbers, pointer, *self.finish)
            return
        arrays = self.sums, self.lines_in, rhs, self.lines_out
        numbers = 0, self.math.sub(end, begin), 0, self.inner_table
        self._call(unit, arrays, *numbers, pointer, "ptr null", "ptr null")
        numbers = begin, end, feature, self.table
        self._call(to_planes_routine(target), (self.lines_out, self.out), *numbers, *self.finish)

    def _multiply(self, kernel: Value, rows: IndexValue, later: tuple[Value, IndexValue]) -> None:
        """Emit the products of some tiles by a part of the kernel in panels."""
        k, gemm = self.k, self.found.gemm
        schedule = modelled_schedule(gemm, k.target)
        arithmetic = arithmetic_of(gemm, k.target)
        routines = gemm_routines(arithmetic, schedule.tile, gemm.sources, schedule.forms, k.target)
        for unit in routines.units:
            k.use(unit)
        following, following_rows = later
        pointers = self.tiles, kernel, *self.offsets, following, self.sums
        others = rows, following_rows, self.table, f"ptr @{routines.tiles}"
        self._call(products_routine(k.target), pointers, *others)

    def _moved(self, pointer: Value, feature: IndexValue, step: int) -> Value:
        place = self.math.value(self.math.mul(feature, step))
        return pointer_value(self.b.address(pointer, F32, place))

    def _table(self, numbers: WinogradNumbers) -> str:
        return f"ptr {number_table(self.k, field_values(numbers))}"

    def _call(self, unit: Routines, pointers: Sequence[Value], *others: IndexValue | str) -> None:
        self.k.use(unit)
        values = (x if isinstance(x, str) else self.math.value(x) for x in others)
        self.b.call_routine(unit.name, pointers, *values)


def core_of(inst: Instruction) -> Instruction | None:
    """Return the convolution of a fusion with an epilogue that `EPILOGUE` can write, else None."""
    core = product_in(inst.called[0]) if inst.is_a("fusion") else None
    if core is None or not all(operand.is_a("parameter") for operand in core.operands):
        return None
    return core if winograd_of(core) else None


def _plan_epilogue(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a fusion around a convolution for which tiles pay."""
    core = core_of(inst)
    found = winograd_of(core) if core else None
    return found.plan(partial(_emit_epilogue, core, found)) if core and found else None


def _emit_epilogue(core: Instruction, found: Winograd, k: KernelContext) -> None:
    """Emit the convolution with the loops over its finished lines."""
    n = found.numbers
    if found.planes:
        epilogue = row_epilogue(k, core, n.columns, n.columns, n.out_feature)
    else:
        epilogue = row_epilogue(k, core, found.features, n.outputs, n.out_column)
    lhs, rhs = (k.plain_array(operand) for operand in core.operands)
    assert lhs is not None
    assert rhs is not None
    _Emission(k, found, (lhs, rhs), 0, epilogue).write()


EMITTER = Emitter("winograd-convolution", plan, roots=("convolution",))
EPILOGUE = Emitter("winograd-epilogue", _plan_epilogue)
"""A convolution and the elementwise instructions that use it."""
