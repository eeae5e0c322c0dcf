"""Gemms by loops that are written for their sizes, for any axes: inner products and panels."""

from __future__ import annotations

from contextlib import ExitStack
from math import prod

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.gemm_problem import (
    Axis,
    GemmProblem,
    column_axis,
    other_columns,
    row_axis,
)
from hloc.codegen.kernels.panel_gemm import (
    LoadFunction,
    PanelGemm,
    accumulator_dtype,
    multiply_panel,
    panel_at,
    strip_width,
)


class SizedGemm:
    """Writes one product."""

    def __init__(self, k: KernelContext, p: GemmProblem, lhs: IrArray, rhs: IrArray) -> None:
        self.k, self.b, self.math, self.body = k, k.b, k.math, k.body
        self.p, self.lhs, self.rhs = p, lhs, rhs
        self.dtype = accumulator_dtype(k.root.array.dtype)

    def _loops(
        self, stack: ExitStack, axes: tuple[Axis, ...], at: tuple[IndexValue, ...], first: bool
    ) -> tuple[IndexValue, ...]:
        """Open a loop per axis; return the offsets in lhs, rhs and out."""
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
        """Emit an inner product per element of the result, contiguous on both sides."""
        b, p = self.b, self.p
        slot = b.allocate(self.dtype)
        with ExitStack() as stack:
            at = self._loops(stack, (*p.batch, *p.rows, *p.columns), (0, 0, 0), True)
            b.store(slot, 0, b.const(self.dtype, 0))
            with ExitStack() as inner:
                left, right, _ = self._loops(inner, p.contracted, at, False)
                x, y = self._load(self.lhs, left), self._load(self.rhs, right)
                b.float_flags = "reassoc contract"
                b.store(slot, 0, b.multiply_add(x, y, b.load(slot, self.dtype, 0)))
                b.float_flags = "contract"
            self._store(at[2], b.load(slot, self.dtype, 0))

    # ---- panels of columns

    def panels(self, pack_at: int | None) -> None:
        """Emit the loops over panels of columns and rows, with k innermost."""
        p, math = self.p, self.math
        row, column, others = row_axis(p), column_axis(p), other_columns(p)
        depth = prod(axis.size for axis in p.contracted)
        strip = strip_width(column.size, depth, self.dtype)
        outer_rows, is_packed = p.rows[:-1], pack_at is not None
        with ExitStack() as stack:
            outer = p.batch if is_packed else (*p.batch, *outer_rows)
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
            if pack_at is not None:
                load = self._packed(load_right, pack_at, depth, strip, width, column.rhs == 1)
                at = self._loops(stack, outer_rows, at, False)  # all rows use one panel
            left, _, out = at

            def load_left(r: IndexValue, kk: IndexValue) -> Value:
                base = math.add(left, math.mul(r, row.lhs))
                return self._load(self.lhs, math.add(base, self._depth_offset(kk, "lhs")))

            def store(r: IndexValue, j: IndexValue, value: Value) -> None:
                base = math.add(out, math.mul(r, row.out))
                self._store(math.add(base, math.mul(j, column.out)), value)

            panel = PanelGemm(
                self.dtype, row.size, depth, strip, width, load_left, load, store, is_packed
            )
            multiply_panel(self.k, panel)

    def _packed(
        self,
        load: LoadFunction,
        offset_bytes: int,
        depth: int,
        strip: int,
        width: IndexValue,
        by_rows: bool,
    ) -> LoadFunction:
        """Pack a panel in memory order of the operand; return how to read it."""
        panel = panel_at(self.k, offset_bytes, strip, depth, self.dtype)
        outer, inner = (depth, width) if by_rows else (width, depth)
        with self.body.loop(0, outer) as i, self.body.loop(0, inner) as j:
            kk, column = (i, j) if by_rows else (j, i)
            panel.store(self.math, (kk, column), load(kk, column))
        return lambda kk, column: panel.load(self.math, (kk, column))

    def _depth_offset(self, kk: IndexValue, side: str) -> IndexValue:
        """Return the offset of step `kk` of all contracted dimensions in one array."""
        axes = self.p.contracted
        index = self.math.delinear(kk, [axis.size for axis in axes])
        strides = [axis.lhs if side == "lhs" else axis.rhs for axis in axes]
        return self.math.linear(index, strides)
