"""Convolution of any rank, with strides, dilations, groups and reversed windows.

Large convolutions are gemms (`convolution_gemm`). Otherwise a strip of the result along its fastest
dimension (features, a spatial dimension or the batch) stays in the L1 cache while the loops run
over window and input features. Along a spatial strip, the range that a window element can reach is
computed beforehand, so the inner loop has no bounds checks; in a dilated input it visits every n-th
element. Along contiguous rows, vectors of results are summed in registers (`row_sums`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from hloc.codegen.builder.index import Index, loop_order
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import REPRESENTATIONS, Value
from hloc.codegen.cpu.emitters.convolution.grouped_convolution import (
    call_grouped,
    group_form,
    is_long_sum,
    one_feature_form,
)
from hloc.codegen.cpu.emitters.convolution.row_sums import RowSums, fits_row
from hloc.codegen.cpu.emitters.convolution.windowed_gemm import convolution_of
from hloc.codegen.elements.reductions import window_step
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.operands import computed_operands, operand_arrays, operand_bytes
from hloc.codegen.kernels.panel_gemm import accumulator_dtype
from hloc.codegen.kernels.running_sums import SUM_BLOCK, block_end
from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS
from hloc.dtypes import F32, F64
from hloc.ir.attributes import ConvolutionDimensions, Window, WindowDimension
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass

STRIP = 256
"""Elements of the result per strip."""

_REGISTERS = 8
"""Vectors of output features that are summed in registers at a time."""

_FEWEST_LANES = 4
_CHAINS = 4
"""Independent accumulators per register, to hide the latency of additions."""

_FEWEST_IN_BLOCK = 64
"""Fewest input features that are summed in registers before they are added to the f64 total of a
long sum; fewer are summed in f64."""

_UNROLLED_WINDOW = 8
_UNROLLED_INPUTS = 8
"""Most window elements, and input features per group, whose loop is unrolled."""


def _is_counted(d: WindowDimension) -> bool:
    """True if the elements that a window element reaches have one stride: no holes, or stride 1."""
    return d.base_dilation == 1 or d.stride == 1


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
        or one_feature_form(k.root, stored.lhs, stored.rhs, k.target)
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


class _Writer:
    """Writes one convolution."""

    def __init__(self, k: KernelContext, lhs: IrArray, rhs: IrArray, strip: int) -> None:
        self.k, self.b, self.math, self.body = k, k.b, k.math, k.body
        self.lhs, self.rhs = lhs, rhs
        a = k.root.attributes
        self.labels: ConvolutionDimensions = a.dim_labels
        self.window: tuple[WindowDimension, ...] = (a.window or Window()).dimensions
        self.batch_groups: int = a.batch_group_count
        self.groups: int = a.feature_group_count * a.batch_group_count
        self.outputs = k.output.dims[self.labels.output_feature]
        self.inputs = self.rhs.dims[self.labels.kernel_input_feature]
        self.dtype = accumulator_dtype(k.root.array.dtype)
        self.is_long = is_long_sum(k.root)
        self.strip_dtype = F64 if self.is_long else self.dtype
        self.strip = strip
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
        lanes = self._lanes()
        if lanes:
            self._vector_strips(at, per_group, lanes)
            return
        if per_group == 1:
            self._strips(at, 0, self.outputs)
            return
        with self.body.loop(0, self.groups) as group:
            first = self.math.mul(group, per_group)
            self._strips(at, first, per_group, group)

    def _is_plain(self) -> bool:
        """True if operands, sums and results are all f32 or all f64."""
        dtypes = {self.lhs.dtype, self.rhs.dtype, self.k.output.dtype}
        return dtypes == {self.dtype} and self.dtype in (F32, F64)

    def _row_dimension(self) -> int | None:
        """Return the spatial dimension of the strip if its results are summed in registers."""
        if not self._is_plain() or self.is_long or self.k.output.strides[self.strip] != 1:
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
            for chain, within in enumerate(self._window_elements()):
                position, inside = self._position(at, within)
                start = sums.start(first, within[spatial])
                with self.body.when(inside), self._channels() as channels:
                    for channel in channels:
                        left, right = self._operand_indices(at, position, within, channel, None)
                        place = m.linear(left, self.lhs.strides)
                        sums.add(chain, place, start, self.rhs.load(m, right), masked=masked)
            sums.store(self.k.output, m.linear(tuple(at), self.k.output.strides))

    @contextmanager
    def _channels(self) -> Iterator[Sequence[IndexValue]]:
        """Yield the input features: all if they are few, else one, inside a loop."""
        if self.inputs <= _UNROLLED_INPUTS:
            yield range(self.inputs)
            return
        with self.body.loop(0, self.inputs) as channel:
            yield [channel]

    def _lanes(self) -> int:
        """Return how many features are accumulated in registers, 0 for strips in memory.

        Their kernel elements must be contiguous, with one input feature for all or one for each.
        """
        lhs, rhs, labels = self.lhs, self.rhs, self.labels
        span = self.outputs // self.groups
        if span == 1:
            if self.inputs != 1 or lhs.strides[labels.input_feature] != 1:
                return 0
            span = self.outputs
        if (
            not self._is_plain()
            or self.batch_groups > 1
            or rhs.strides[labels.kernel_output_feature] != 1
        ):
            return 0
        if self.is_long and self.inputs < _FEWEST_IN_BLOCK:
            return 0
        lanes = min(span & -span, _REGISTERS * self.k.target.vector_bits // self.dtype.bits)
        return lanes if lanes >= _FEWEST_LANES else 0

    def _vector_strips(self, at: list[IndexValue], per_group: int, lanes: int) -> None:
        """Run over the output features, `lanes` at a time, which LLVM keeps in registers."""
        self.k.level = FINAL_WITH_SLOTS
        m, fn = self.math, self.k.fn
        kind = f"<{lanes} x {REPRESENTATIONS[self.dtype].memory}>"
        is_one_register = lanes * self.dtype.bits <= self.k.target.vector_bits
        chains = min(self.inputs, _CHAINS) if is_one_register else 1
        slots = [fn.allocate(kind) for _ in range(chains)]
        total64 = _LongTotal(self, lanes) if self.is_long else None
        with self.body.loop(0, self.outputs, lanes) as first:
            at[self.strip] = first
            group = None if per_group == 1 else m.div(first, per_group)
            for slot in slots:
                fn.line(f"store {kind} zeroinitializer, ptr {slot}")
            if total64:
                total64.clear()
            for within in self._window_elements():
                position, inside = self._position(at, within)
                features = total64.blocks(slots[0]) if total64 else self._channels()
                with self.body.when(inside), features as channels:
                    for number, channel in enumerate(channels):
                        left, right = self._operand_indices(at, position, within, channel, group)
                        slot = slots[number % len(slots)]
                        self._add_vector(kind, slot, left, right, is_shared=group is not None)
            to = self.b.address(
                self.k.output.pointer,
                self.dtype,
                m.value(m.linear(tuple(at), self.k.output.strides)),
            )
            if total64:
                total64.move_to(slots[0])
            total, *others = (fn.value(f"load {kind}, ptr {slot}") for slot in slots)
            for other in others:
                total = fn.value(f"fadd {kind} {total}, {other}")
            fn.line(f"store {kind} {total}, ptr {to}, align {self.dtype.storage_bytes}")

    def _window_elements(self) -> Iterator[list[IndexValue]]:
        """Yield the elements of the window, inside loops over all dimensions but the last."""
        sizes = [d.size for d in self.window]
        order = [d for d in range(len(sizes)) if sizes[d] != 1]
        last = order.pop() if order and sizes[order[-1]] <= _UNROLLED_WINDOW else 0
        with self.body.nest(sizes, order) as within:
            if last in order or not sizes:
                yield within
                return
            for element in range(sizes[last]):
                yield [element if d == last else x for d, x in enumerate(within)]

    def _add_vector(
        self, kind: str, slot: str, left: Index, right: Index, *, is_shared: bool
    ) -> None:
        """Add the products of some features; `is_shared` if they have one input feature."""
        fn, m = self.k.fn, self.math

        def load(array: IrArray, index: Index) -> str:
            place = m.value(m.linear(index, array.strides))
            at = self.b.address(array.pointer, array.dtype, place)
            return fn.value(f"load {kind}, ptr {at}, align {array.dtype.storage_bytes}")

        if is_shared:
            element = REPRESENTATIONS[self.dtype].memory
            lanes = kind[1 : kind.index(" ")]
            one = self.lhs.load(m, left).text
            put = fn.value(f"insertelement {kind} poison, {element} {one}, i64 0")
            mask = f"<{lanes} x i32> zeroinitializer"
            x = fn.value(f"shufflevector {kind} {put}, {kind} poison, {mask}")
        else:
            x = load(self.lhs, left)
        product = fn.value(f"fmul contract {kind} {x}, {load(self.rhs, right)}")
        total = fn.value(f"load {kind}, ptr {slot}")
        added = fn.value(f"fadd contract {kind} {total}, {product}")
        fn.line(f"store {kind} {added}, ptr {slot}")

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
        b = self.b
        with self.body.loop(0, width) as j:
            b.store(self.slot, j, b.const(self.strip_dtype, 0))
        sizes = [d.size for d in self.window]
        order = [d for d in range(len(sizes)) if sizes[d] != 1]
        with self.body.nest(sizes, order) as within:
            position, inside = self._position(at, within)
            low, high, step = self._strip_reach(within, first, width)
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

    def _position(
        self, at: list[IndexValue], within: list[IndexValue]
    ) -> tuple[list[IndexValue | None], Value]:
        """Return the input position per spatial dimension, and whether it exists.

        The dimension of the strip has no position yet.
        """
        position: list[IndexValue | None] = []
        conditions: list[Value] = []
        for n, d in enumerate(self.window):
            out_dim = self.labels.output_spatial[n]
            if out_dim == self.strip:
                position.append(None)
                continue
            size = self.lhs.dims[self.labels.input_spatial[n]]
            inside, where = window_step(self.k.g, d, size, at[out_dim], within[n])
            conditions.extend(inside)
            position.append(where)
        return position, self.body.all_of(conditions)

    def _strip_reach(
        self, within: list[IndexValue], first: IndexValue, width: IndexValue
    ) -> tuple[IndexValue, IndexValue, int]:
        """Return the range of the strip that an element of the window reaches."""
        for n, d in enumerate(self.window):
            if self.labels.output_spatial[n] == self.strip and _is_counted(d):
                size = self.lhs.dims[self.labels.input_spatial[n]]
                return self._reach(d, size, within[n], first, width)
        return 0, width, 1

    def _reach(
        self,
        d: WindowDimension,
        size: int,
        w: IndexValue,
        first: IndexValue,
        width: IndexValue,
    ) -> tuple[IndexValue, IndexValue, int]:
        """Return the part of the strip whose windows have element `w` inside the input: a range."""
        m = self.math
        if d.reversal:
            w = m.sub(d.size - 1, w)
        begin = m.sub(d.pad_low, m.mul(w, d.window_dilation))
        if d.base_dilation > 1:
            holes = d.base_dilation
            past = m.sub(first, begin)  # position in the dilated input, perhaps in a hole
            skipped = m.rem(m.sub(holes, m.rem(m.maximum(past, 0), holes)), holes)
            low = m.add(m.maximum(m.sub(0, past), 0), skipped)
            high = m.sub((size - 1) * holes + 1, past)
            return low, m.minimum(high, width), holes
        low = m.div(m.add(m.maximum(begin, 0), d.stride - 1), d.stride)
        high = m.div(m.maximum(m.add(begin, size - 1 + d.stride), 0), d.stride)
        return m.maximum(m.sub(low, first), 0), m.minimum(m.sub(high, first), width), 1

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
                conditions = [] if _is_counted(d) else inside
        with self.body.when(self.body.all_of(conditions)):
            left, right = self._operand_indices(index, where, within, channel, group)
            b = self.b
            x = b.convert(self.lhs.load(self.math, left), self.strip_dtype)
            y = b.convert(self.rhs.load(self.math, right), self.strip_dtype)
            total = b.load(self.slot, self.strip_dtype, j)
            b.store(self.slot, j, b.multiply_add(x, y, total))

    def _operand_indices(
        self,
        index: list[IndexValue],
        where: list[IndexValue | None],
        within: list[IndexValue],
        channel: IndexValue,
        group: IndexValue | None,
    ) -> tuple[Index, Index]:
        """Return the indices of the factors; one without a position is at the start of the row."""
        m, labels = self.math, self.labels
        feature, batch = index[labels.output_feature], index[labels.output_batch]
        if group is None:
            group = m.div(feature, self.outputs // self.groups)
        if self.groups == 1:
            group = 0
        if self.batch_groups > 1:
            batch = m.add(batch, m.mul(group, self.k.output.dims[labels.output_batch]))
            group = 0
        left: list[IndexValue] = [0] * len(self.lhs.dims)
        left[labels.input_batch] = batch
        left[labels.input_feature] = m.add(m.mul(group, self.inputs), channel)
        right: list[IndexValue] = [0] * len(self.rhs.dims)
        right[labels.kernel_output_feature] = feature
        right[labels.kernel_input_feature] = channel
        for n, at in enumerate(where):
            left[labels.input_spatial[n]] = 0 if at is None else at
            right[labels.kernel_spatial[n]] = within[n]
        return tuple(left), tuple(right)


class _LongTotal:
    """The f64 totals of a long sum of f32, to which blocks of it are added."""

    def __init__(self, writer: _Writer, lanes: int) -> None:
        self.k, self.inputs = writer.k, writer.inputs
        self.narrow, self.wide = f"<{lanes} x float>", f"<{lanes} x double>"
        self.slot = self.k.fn.allocate(self.wide)

    def clear(self) -> None:
        """Set the totals to zero."""
        self.k.fn.line(f"store {self.wide} zeroinitializer, ptr {self.slot}")

    @contextmanager
    def blocks(self, slot: str) -> Iterator[Sequence[IndexValue]]:
        """Loop over the input features; the sums in `slot` are added to the totals per block."""
        k, fn = self.k, self.k.fn
        with k.body.loop(0, self.inputs, SUM_BLOCK) as first:
            with k.body.loop(first, block_end(k, first, self.inputs, SUM_BLOCK)) as channel:
                yield [channel]
            block = fn.value(f"load {self.narrow}, ptr {slot}")
            part = fn.value(f"fpext {self.narrow} {block} to {self.wide}")
            total = fn.value(f"load {self.wide}, ptr {self.slot}")
            fn.line(f"store {self.narrow} zeroinitializer, ptr {slot}")
            total = fn.value(f"fadd {self.wide} {total}, {part}")
            fn.line(f"store {self.wide} {total}, ptr {self.slot}")

    def move_to(self, slot: str) -> None:
        """Round the totals into `slot`."""
        fn = self.k.fn
        total = fn.value(f"load {self.wide}, ptr {self.slot}")
        rounded = fn.value(f"fptrunc {self.wide} {total} to {self.narrow}")
        fn.line(f"store {self.narrow} {rounded}, ptr {slot}")


EMITTER = Emitter("direct-convolution", plan, roots=("convolution",))
