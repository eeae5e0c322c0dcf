"""The loops of a direct convolution over window and input features, and where operands lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hloc.codegen.builder.index import Index
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.convolution.grouped_convolution import is_long_sum
from hloc.codegen.elements.reductions import window_step
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.panel_gemm import accumulator_dtype
from hloc.dtypes import F32, F64
from hloc.ir.attributes import ConvolutionDimensions, Window, WindowDimension

_UNROLLED_WINDOW = 8
_UNROLLED_INPUTS = 8
"""Most window elements, and input features per group, whose loop is unrolled."""


def is_counted(d: WindowDimension) -> bool:
    """True if the elements that a window element reaches have one stride: no holes, or stride 1."""
    return d.base_dilation == 1 or d.stride == 1


class ConvolutionLoops:
    """Emits loops and indices of one convolution.

    Attributes:
        strip: the dimension of the result whose elements are computed together.
        outputs, inputs: numbers of output features, and of input features in a group.
        is_long: sums of f32 that are long need f64 totals.
    """

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
        self.strip = strip

    def is_plain(self) -> bool:
        """True if operands, sums and results are all f32 or all f64."""
        dtypes = {self.lhs.dtype, self.rhs.dtype, self.k.output.dtype}
        return dtypes == {self.dtype} and self.dtype in (F32, F64)

    def window_elements(self, products: int = 1) -> Iterator[list[IndexValue]]:
        """Yield the elements of the window, inside loops over all dimensions but the last.

        There is a loop over that one, too, if it has many elements of so many products each.
        """
        sizes = [d.size for d in self.window]
        order = [d for d in range(len(sizes)) if sizes[d] != 1]
        last = order.pop() if order and products * sizes[order[-1]] <= _UNROLLED_WINDOW else 0
        with self.body.nest(sizes, order) as within:
            if last in order or not sizes:
                yield within
                return
            for element in range(sizes[last]):
                yield [element if d == last else x for d, x in enumerate(within)]

    @property
    def unrolled_inputs(self) -> int:
        """The input features that are unrolled: all if they are few, else one."""
        return self.inputs if self.inputs <= _UNROLLED_INPUTS else 1

    @contextmanager
    def channels(self) -> Iterator[Sequence[IndexValue]]:
        """Yield the input features: all if they are few, else one, inside a loop."""
        if self.inputs <= _UNROLLED_INPUTS:
            yield range(self.inputs)
            return
        with self.body.loop(0, self.inputs) as channel:
            yield [channel]

    def position(
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

    def strip_reach(
        self, within: list[IndexValue], first: IndexValue, width: IndexValue
    ) -> tuple[IndexValue, IndexValue, int]:
        """Return the range of the strip that an element of the window reaches."""
        for n, d in enumerate(self.window):
            if self.labels.output_spatial[n] == self.strip and is_counted(d):
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

    def operand_indices(
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
