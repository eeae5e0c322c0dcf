"""Matrix products: any dimension numbers, layouts and element types.

The loops are those of `products`; convolutions whose window is one element have such loops too.
Rows go through panels of columns (`gemm`), which are copied into one piece of memory if there are
many rows; few rows with contiguous k are inner products in registers.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import lru_cache
from math import prod

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.gemm.gemv_streaming import (
    GemvStreaming,
    emit_gemv_streaming,
    gemv_streaming,
)
from hloc.codegen.cpu.emitters.gemm.inner_gemm import InnerGemm, emit_inner, inner_gemm
from hloc.codegen.cpu.emitters.gemm.matrix_rows_gemm import emit_rows, reads_rows
from hloc.codegen.cpu.emitters.gemm.packed_gemm import PackedGemm
from hloc.codegen.cpu.emitters.gemm.packed_gemm_call import emit_packed
from hloc.codegen.cpu.emitters.gemm.packed_gemm_choice import packed_gemm, small_packed_gemm
from hloc.codegen.cpu.emitters.reduction.row_groups import grouped_gemm
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.emitter import emitter_of
from hloc.codegen.kernels.gemm_problem import (
    Axis,
    GemmProblem,
    column_axis,
    gemm_problem_of,
    is_gemm_convolution,
    is_inner,
    oriented,
    other_columns,
    row_axis,
)
from hloc.codegen.kernels.operands import operand_arrays, operand_bytes
from hloc.codegen.kernels.panel_gemm import (
    MIN_ROWS_TO_PACK,
    LoadFunction,
    PanelGemm,
    accumulator_dtype,
    multiply_add,
    multiply_panel,
    panel_at,
    panel_bytes,
    strip_width,
)
from hloc.dtypes import DType
from hloc.ir.instruction import Instruction

MAX_PANEL_BYTES = 1 << 26
"""Panels above this size are read where they are."""


def can_emit(inst: Instruction) -> bool:
    """True if the result is that of a dot."""
    return root_of(inst).opcode.name == "dot"


def can_emit_convolution(inst: Instruction) -> bool:
    """True if the result is that of a convolution without a window."""
    return is_gemm_convolution(root_of(inst))


def scratch_bytes(inst: Instruction) -> int:
    """Return room for the operands that are computed by fused producers, and for a panel."""
    return operand_bytes(inst) + _packed_bytes(inst)


def micro_gemm(inst: Instruction) -> PackedGemm | GemvStreaming | InnerGemm | None:
    """Return how routines compute the root of `inst`, None if they do not."""
    root = root_of(inst)
    sources = (root.operands[0].array.dtype, root.operands[1].array.dtype)
    algorithm = root.attributes.algorithm if root.is_a("dot") else ""
    return _micro_gemm(gemm_problem_of(inst), sources, root.array.dtype, algorithm)


@lru_cache(maxsize=256)
def _micro_gemm(
    p: GemmProblem, sources: tuple[DType, DType], result: DType, algorithm: str
) -> PackedGemm | GemvStreaming | InnerGemm | None:
    return (
        inner_gemm(p, sources, result)
        or grouped_gemm(p, sources, result)
        or packed_gemm(p, sources, result, algorithm)
        or gemv_streaming(p, sources, result)
        or small_packed_gemm(p, sources, result)
    )


def _packed_bytes(inst: Instruction) -> int:
    """Return room for a panel of columns; 0 if panels are read where they are."""
    tiled = micro_gemm(inst)
    if tiled:
        return tiled.scratch_bytes
    p = gemm_problem_of(inst)
    if is_inner(p):
        return 0
    p, _ = oriented(p)
    if prod(axis.size for axis in p.rows) < MIN_ROWS_TO_PACK:
        return 0
    dtype = accumulator_dtype(root_of(inst).array.dtype)
    depth = prod(axis.size for axis in p.contracted)
    strip = strip_width(column_axis(p).size, depth, dtype)
    size = panel_bytes(strip, depth, dtype)
    return size if size <= MAX_PANEL_BYTES else 0


def extent(inst: Instruction) -> int:
    """Return the size of the outermost loop, or in how many pieces threads share a product."""
    tiled = micro_gemm(inst)
    if tiled:
        return tiled.pieces
    outer = _outer_axes(inst)
    return outer[0].size if outer else 1


def _outer_axes(inst: Instruction) -> tuple[Axis, ...]:
    p = gemm_problem_of(inst)
    if is_inner(p):
        return (*p.batch, *p.rows, *p.columns)
    p, _ = oriented(p)
    # All rows use a panel that is packed.
    return p.batch if _packed_bytes(inst) else (*p.batch, *p.rows[:-1])


def repeated_bytes(inst: Instruction) -> int:
    """Return what every part of the outermost loop computes or packs again."""
    tiled = micro_gemm(inst)
    return operand_bytes(inst) + (tiled.repeated_bytes if tiled else 0)


def emit(k: KernelContext) -> None:
    """Write the loops."""
    if k.root.array.elements == 0:
        return
    arrays = operand_arrays(k)
    p = gemm_problem_of(k.inst)
    if any(axis.size == 0 for axis in p.contracted):
        _zero(k)
        return
    tiled = micro_gemm(k.inst)
    if tiled:
        if not operand_bytes(k.inst):
            k.level = 0  # little runs outside the routines
        offset = operand_bytes(k.inst)
        if isinstance(tiled, GemvStreaming):
            emit_gemv_streaming(k, tiled, arrays[0], arrays[1], offset)
        elif isinstance(tiled, InnerGemm):
            emit_inner(k, tiled, arrays[0], arrays[1], offset)
        elif reads_rows(tiled, k.target):
            emit_rows(k, tiled, arrays[0], arrays[1], offset)
        else:
            emit_packed(k, tiled, arrays[0], arrays[1], offset)
        return
    if is_inner(p):
        _Writer(k, p, arrays[0], arrays[1]).inner_gemms()
        return
    p, exchanged = oriented(p)
    lhs, rhs = reversed(arrays) if exchanged else arrays
    packed = _packed_bytes(k.inst) > 0
    _Writer(k, p, lhs, rhs).panels(packed, operand_bytes(k.inst))


def _zero(k: KernelContext) -> None:
    with k.body.loop(0, prod(k.output.dims)) as position:
        k.b.store(k.output.pointer, position, k.b.const(k.output.dtype, 0))


class _Writer:
    """Writes one product."""

    def __init__(self, k: KernelContext, p: GemmProblem, lhs: IrArray, rhs: IrArray) -> None:
        self.k, self.b, self.math, self.body = k, k.b, k.math, k.body
        self.p, self.lhs, self.rhs = p, lhs, rhs
        self.dtype = accumulator_dtype(k.root.array.dtype)

    def _loops(
        self, stack: ExitStack, axes: tuple[Axis, ...], at: tuple[IndexValue, ...], first: bool
    ) -> tuple[IndexValue, ...]:
        """Open a loop per axis; return the positions in lhs, rhs and out."""
        for number, axis in enumerate(axes):
            outermost = first and number == 0
            start, stop = (self.k.begin, self.k.end) if outermost else (0, axis.size)
            i = stack.enter_context(self.body.loop(start, stop))
            at = self._moved(at, axis, i)
        return at

    def _moved(
        self, at: tuple[IndexValue, ...], axis: Axis, i: IndexValue
    ) -> tuple[IndexValue, ...]:
        steps = (axis.lhs, axis.rhs, axis.out)
        return tuple(
            self.math.add(position, self.math.mul(i, step))
            for position, step in zip(at, steps, strict=True)
        )

    def _load(self, array: IrArray, position: IndexValue) -> Value:
        return self.b.convert(self.b.load(array.pointer, array.dtype, position), self.dtype)

    def _store(self, position: IndexValue, value: Value) -> None:
        out = self.k.output
        self.b.store(out.pointer, position, self.b.convert(value, out.dtype))

    # ---- contiguous k

    def inner_gemms(self) -> None:
        """One sum per element of the result, along memory on both sides."""
        b, p = self.b, self.p
        slot = b.allocate(self.dtype)
        with ExitStack() as stack:
            at = self._loops(stack, (*p.batch, *p.rows, *p.columns), (0, 0, 0), True)
            b.store(slot, 0, b.const(self.dtype, 0))
            with ExitStack() as inner:
                left, right, _ = self._loops(inner, p.contracted, at, False)
                x, y = self._load(self.lhs, left), self._load(self.rhs, right)
                b.float_flags = "reassoc contract"
                b.store(slot, 0, multiply_add(b, x, y, b.load(slot, self.dtype, 0)))
                b.float_flags = "contract"
            self._store(at[2], b.load(slot, self.dtype, 0))

    # ---- panels of columns

    def panels(self, packed: bool, offset_bytes: int) -> None:
        """Rows through panels of columns, k inside."""
        p, math = self.p, self.math
        row, column, others = row_axis(p), column_axis(p), other_columns(p)
        depth = prod(axis.size for axis in p.contracted)
        strip = strip_width(column.size, depth, self.dtype)
        outer_rows = p.rows[:-1]
        with ExitStack() as stack:
            outer = p.batch if packed else (*p.batch, *outer_rows)
            at = self._loops(stack, outer, (0, 0, 0), True)
            at = self._loops(stack, others, at, False)
            first = stack.enter_context(self.body.loop(0, column.size, strip))
            at = self._moved(at, column, first)
            width: IndexValue = strip
            if column.size % strip:
                width = math.minimum(strip, math.sub(column.size, first))
            right = at[1]

            def load_right(kk: IndexValue, j: IndexValue) -> Value:
                base = math.add(right, self._depth_offset(kk, "rhs"))
                return self._load(self.rhs, math.add(base, math.mul(j, column.rhs)))

            load: LoadFunction = load_right
            if packed:
                load = self._packed(load_right, offset_bytes, depth, strip, width, column.rhs == 1)
                at = self._loops(stack, outer_rows, at, False)  # all rows use one panel
            left, _, out = at

            def load_left(r: IndexValue, kk: IndexValue) -> Value:
                base = math.add(left, math.mul(r, row.lhs))
                return self._load(self.lhs, math.add(base, self._depth_offset(kk, "lhs")))

            def store(r: IndexValue, j: IndexValue, value: Value) -> None:
                base = math.add(out, math.mul(r, row.out))
                self._store(math.add(base, math.mul(j, column.out)), value)

            multiply_panel(
                self.k,
                PanelGemm(
                    self.dtype, row.size, depth, strip, width, load_left, load, store, packed
                ),
            )

    def _packed(
        self,
        load: LoadFunction,
        offset_bytes: int,
        depth: int,
        strip: int,
        width: IndexValue,
        by_rows: bool,
    ) -> LoadFunction:
        """Copy a panel, along the memory it comes from; return how to read the copy."""
        panel = panel_at(self.k, offset_bytes, strip, depth, self.dtype)
        outer, inner = (depth, width) if by_rows else (width, depth)
        with self.body.loop(0, outer) as i, self.body.loop(0, inner) as j:
            kk, column = (i, j) if by_rows else (j, i)
            panel.store(self.math, (kk, column), load(kk, column))
        return lambda kk, column: panel.load(self.math, (kk, column))

    def _depth_offset(self, kk: IndexValue, side: str) -> IndexValue:
        """Return how far step `kk` of all contracted dimensions moves in one array."""
        axes = self.p.contracted
        index = self.math.delinear(kk, [axis.size for axis in axes])
        strides = [axis.lhs if side == "lhs" else axis.rhs for axis in axes]
        return self.math.linear(index, strides)


EMITTER = emitter_of("dot", can_emit, emit, extent, scratch_bytes, repeated_bytes)
CONVOLUTION = emitter_of(
    "convolution", can_emit_convolution, emit, extent, scratch_bytes, repeated_bytes
)
"""Convolutions that are products of matrices."""
