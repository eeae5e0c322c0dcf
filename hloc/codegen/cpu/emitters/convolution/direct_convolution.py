"""Convolution of any rank, with strides, dilations, groups and reversed windows.

Large convolutions are gemms (`convolution_gemm`). Otherwise a strip of the result along its fastest
dimension (features, a spatial dimension or the batch) stays in the L1 cache while the loops run
over window and input features. Along a spatial strip, the range that a window element can reach is
computed beforehand, so the inner loop has no bounds checks; in a dilated input it visits every n-th
element. Along contiguous rows, vectors of results are summed in registers (`row_sums`).
"""

from __future__ import annotations

from functools import partial

from hloc.codegen.builder.index import loop_order
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.convolution.convolution_loops import ConvolutionLoops, is_counted
from hloc.codegen.cpu.emitters.convolution.convolution_problem import convolution_of
from hloc.codegen.cpu.emitters.convolution.feature_vectors import FeatureVectors, features_at_once
from hloc.codegen.cpu.emitters.convolution.grouped_convolution import (
    call_grouped,
    few_features_form,
    group_form,
)
from hloc.codegen.cpu.emitters.convolution.row_sums import RowSums, fits_row
from hloc.codegen.elements.reductions import window_step
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.operands import computed_operands, operand_arrays, operand_bytes
from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS
from hloc.dtypes import F64
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass

STRIP = 256
"""Elements of the result per strip."""


@dataclass(frozen=True, slots=True)
class Loops:
    """The dimensions of the result.

    Attributes:
        strip: the dimension of strips.
        outer: dimensions with loops of their own, except features.
        is_shared: threads share the first of these.
    """

    strip: int
    outer: tuple[int, ...]
    is_shared: bool

    @property
    def shared(self) -> int | None:
        """The dimension that threads share, None if there is none."""
        return self.outer[0] if self.is_shared else None

    def extent(self, root: Instruction) -> int:
        """Return the size of the shared dimension."""
        return 1 if self.shared is None else root.array.dims[self.shared]


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a convolution: a loop over the outermost dimension of the result without strips.

    One that computes an operand first runs on one thread.
    """
    root = root_of(inst)
    loops = loops_of(root, can_share=not computed_operands(inst))
    return KernelPlan(partial(_emit, loops), loops.extent(root), operand_bytes(inst))


def loops_of(root: Instruction, *, can_share: bool = True) -> Loops:
    """Return the dimensions along which the loops of a convolution run."""
    order, feature = loop_order(root.array), root.attributes.dim_labels.output_feature
    strip = order[-1] if order else feature
    outer = tuple(d for d in order if d not in (strip, feature))
    return Loops(strip, outer, bool(outer) and can_share)


def _emit(loops: Loops, k: KernelContext) -> None:
    """Write the loops."""
    lhs, rhs = operand_arrays(k)
    stored = convolution_of(k.inst)
    form = stored and (
        group_form(k.root, stored.lhs, stored.rhs, k.target.vector_bits)
        or few_features_form(k.root, stored.lhs, stored.rhs, k.target)
    )
    if form:
        if not operand_bytes(k.inst):
            k.level = 0  # almost all time is spent in the routine
        call_grouped(k, form, k.root, (lhs, rhs), loops.shared)
        return
    writer = _Writer(k, lhs, rhs, loops.strip)
    bounds = (k.begin, k.end) if loops.is_shared else None
    with k.body.nest(k.output.dims, loops.outer, bounds) as at:
        writer.features(at)


class _Writer(ConvolutionLoops):
    """Writes one convolution."""

    def __init__(self, k: KernelContext, lhs: IrArray, rhs: IrArray, strip: int) -> None:
        super().__init__(k, lhs, rhs, strip)
        self.strip_dtype = F64 if self.is_long else self.dtype
        self.size = k.output.dims[self.strip]
        self.slot = self.b.allocate(self.strip_dtype, min(STRIP, self.size))

    def features(self, at: list[IndexValue]) -> None:
        """Run over the output features, by groups, and over the strips."""
        feature = self.labels.output_feature
        if self.strip != feature:
            spatial = self._row_dimension()
            with self.body.loop(0, self.outputs) as at[feature]:
                if spatial is None:
                    self._strips(at, 0, self.size)
                else:
                    self._rows(at, spatial)
            return
        per_group = self.outputs // self.groups
        if features := features_at_once(self):
            FeatureVectors(self, features).write(at, per_group)
            return
        if per_group == 1:
            self._strips(at, 0, self.outputs)
            return
        with self.body.loop(0, self.groups) as group:
            first = self.math.mul(group, per_group)
            self._strips(at, first, per_group, group)

    def _row_dimension(self) -> int | None:
        """Return the spatial dimension of the strip if its results are summed in registers."""
        if not self.is_plain() or self.is_long or self.k.output.strides[self.strip] != 1:
            return None
        for n, d in enumerate(self.window):
            if self.labels.output_spatial[n] == self.strip:
                source = self.labels.input_spatial[n]
                row, stride = self.lhs.dims[source], self.lhs.strides[source]
                return n if fits_row(self.k, d, row, stride) else None
        return None

    def _rows(self, at: list[IndexValue], spatial: int) -> None:
        """Run over a row of the result; LLVM keeps the sums of a block in registers."""
        self.k.level = 2 if operand_bytes(self.k.inst) else FINAL_WITH_SLOTS
        m, row = self.math, self.lhs.dims[self.labels.input_spatial[spatial]]
        sums = RowSums(self.k, self.lhs, self.window[spatial], row, self.size)
        for first, masked in sums.blocks():
            at[self.strip] = first
            sums.clear()
            for chain, within in enumerate(self.window_elements()):
                position, inside = self.position(at, within)
                start = sums.start(first, within[spatial])
                with self.body.when(inside), self.channels() as channels:
                    for channel in channels:
                        left, right = self.operand_indices(at, position, within, channel, None)
                        place = m.linear(left, self.lhs.strides)
                        sums.add(chain, place, start, self.rhs.load(m, right), masked=masked)
            sums.store(self.k.output, m.linear(tuple(at), self.k.output.strides))

    def _strips(
        self,
        at: list[IndexValue],
        start: IndexValue,
        size: int,
        group: IndexValue | None = None,
    ) -> None:
        with self.body.loop(0, size, STRIP) as offset:
            first = self.math.add(start, offset)
            width: IndexValue = min(size, STRIP)
            if size > STRIP and size % STRIP:
                width = self.math.minimum(STRIP, self.math.sub(size, offset))
            self._strip(at, first, width, group)

    def _strip(
        self,
        at: list[IndexValue],
        first: IndexValue,
        width: IndexValue,
        group: IndexValue | None,
    ) -> None:
        """Compute `width` results along the strip, from `first` on, at index `at` otherwise.

        The sums are in `slot` during the loops over window and input features.
        """
        b = self.b
        with self.body.loop(0, width) as j:
            b.store(self.slot, j, b.const(self.strip_dtype, 0))
        sizes = [d.size for d in self.window]
        order = [d for d in range(len(sizes)) if sizes[d] != 1]
        with self.body.nest(sizes, order) as within:
            position, inside = self.position(at, within)
            low, high, step = self.strip_reach(within, first, width)
            with (
                self.body.when(inside),
                self.body.loop(0, self.inputs) as channel,
                self.body.loop(low, high, step) as j,
            ):
                self._add(at, position, within, channel, first, j, group)
        with self.body.loop(0, width) as j:
            index = list(at)
            index[self.strip] = self.math.add(first, j)
            value = b.convert(b.load(self.slot, self.strip_dtype, j), self.k.output.dtype)
            self.k.output.store(self.math, tuple(index), value)

    def _add(
        self,
        at: list[IndexValue],
        position: list[IndexValue | None],
        within: list[IndexValue],
        channel: IndexValue,
        first: IndexValue,
        j: IndexValue,
        group: IndexValue | None,
    ) -> None:
        """Add one product to element `j` of the strip."""
        index = list(at)
        index[self.strip] = self.math.add(first, j)
        where = list(position)
        conditions: list[Value] = []
        for n, d in enumerate(self.window):
            if where[n] is None:
                out_dim = self.labels.output_spatial[n]
                size = self.lhs.dims[self.labels.input_spatial[n]]
                inside, where[n] = window_step(self.k.g, d, size, index[out_dim], within[n])
                conditions = [] if is_counted(d) else inside
        with self.body.when(self.body.all_of(conditions)):
            left, right = self.operand_indices(index, where, within, channel, group)
            b = self.b
            x = b.convert(self.lhs.load(self.math, left), self.strip_dtype)
            y = b.convert(self.rhs.load(self.math, right), self.strip_dtype)
            total = b.load(self.slot, self.strip_dtype, j)
            b.store(self.slot, j, b.multiply_add(x, y, total))


EMITTER = Emitter("direct-convolution", plan, roots=("convolution",))
