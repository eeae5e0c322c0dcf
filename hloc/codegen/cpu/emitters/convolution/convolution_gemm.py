"""Large convolutions as gemms (im2col).

For one row of the result, the input elements under every window are gathered into a matrix
`[position in the row, window element and input feature]` (im2col), which is multiplied by a packed
panel of the kernel, `[window element and input feature, output feature]`. Padding becomes zeros. A
row runs along a spatial dimension of one batch element; where all spatial dimensions are short, as
in the gradient of a kernel, a row is the batch at one position.
"""

from __future__ import annotations

from functools import partial
from math import prod

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.elements.reductions import window_step
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.operands import operand_arrays, operand_bytes
from hloc.codegen.kernels.panel_gemm import (
    PanelGemm,
    accumulator_dtype,
    multiply_panel,
    panel_at,
    panel_bytes,
    strip_width,
)
from hloc.dtypes import DType
from hloc.ir.attributes import ConvolutionDimensions, Window, WindowDimension
from hloc.ir.instruction import Instruction

MIN_ROWS, MIN_DEPTH, MIN_COLUMNS = 4, 16, 16
"""For smaller matrices, a direct convolution is as fast."""

SHORT_ROW = 16
"""Rows shorter than this run along the batch instead, if that is longer."""

MAX_BYTES = 1 << 25
"""Most scratch memory for matrix and panel."""


class _Sizes:
    """The sizes of the matrices of one convolution.

    Attributes:
        row_dim: the dimension of the result along which rows run.
        input_row_dim: the corresponding dimension of the input.
        depth: window elements times input features of a group.
        columns: output features of a group.
    """

    def __init__(self, root: Instruction) -> None:
        """Choose the dimension of the rows: the longest spatial one, the batch if that is short."""
        a = root.attributes
        rhs = root.operands[1]
        self.labels: ConvolutionDimensions = a.dim_labels
        self.window: tuple[WindowDimension, ...] = (a.window or Window()).dimensions
        self.groups: int = a.feature_group_count * a.batch_group_count
        self.batch_groups: int = a.batch_group_count
        self.inputs = rhs.array.dims[self.labels.kernel_input_feature]
        self.columns = root.array.dims[self.labels.output_feature] // self.groups
        dims = root.array.dims
        self.row_dim, self.input_row_dim = self.labels.output_batch, self.labels.input_batch
        spatial = zip(self.labels.output_spatial, self.labels.input_spatial, strict=True)
        longest = max(spatial, key=lambda pair: dims[pair[0]], default=None)
        if longest and dims[longest[0]] >= min(SHORT_ROW, dims[self.row_dim]):
            self.row_dim, self.input_row_dim = longest
        self.rows = dims[self.row_dim]
        self.window_sizes = [d.size for d in self.window]
        self.depth = prod(self.window_sizes) * self.inputs
        self.dtype: DType = accumulator_dtype(root.array.dtype)
        self.strip = strip_width(self.columns, self.depth, self.dtype) if self.columns else 0

    @property
    def outer_dims(self) -> list[int]:
        """The other dimensions of the result, which enumerate the rows."""
        places = (self.labels.output_batch, *self.labels.output_spatial)
        return [d for d in places if d != self.row_dim]

    @property
    def panel_bytes(self) -> int:
        return panel_bytes(self.strip, self.depth, self.dtype)

    @property
    def matrix_bytes(self) -> int:
        return panel_bytes(self.rows, self.depth, self.dtype)

    @property
    def is_large(self) -> bool:
        """True if a gemm pays."""
        return (
            self.rows >= MIN_ROWS
            and self.depth >= MIN_DEPTH
            and self.columns >= MIN_COLUMNS
            and self.panel_bytes + self.matrix_bytes <= MAX_BYTES
        )


def plan(inst: Instruction) -> KernelPlan[KernelContext] | None:
    """Plan a large convolution: scratch memory for computed operands, the matrix and a panel.

    Every thread's part of the outermost loop, over another dimension than the row, packs all
    panels.
    """
    root = root_of(inst)
    sizes = _Sizes(root)
    if not sizes.is_large:
        return None
    computed, outer = operand_bytes(inst), sizes.outer_dims
    panels = -(-sizes.columns // sizes.strip) * sizes.groups
    return KernelPlan(
        partial(_emit, sizes, computed),
        extent=root.array.dims[outer[0]] if outer else 1,
        scratch_bytes=computed + sizes.panel_bytes + sizes.matrix_bytes,
        repeated_bytes=computed + panels * sizes.panel_bytes,
    )


def _emit(sizes: _Sizes, scratch_offset: int, k: KernelContext) -> None:
    """Write the loops: groups, panels, then batch and rows of the result."""
    _Writer(k, sizes, scratch_offset).run()


class _Writer:
    """Writes one convolution."""

    def __init__(self, k: KernelContext, s: _Sizes, offset: int) -> None:
        self.k, self.b, self.math, self.body = k, k.b, k.math, k.body
        self.lhs, self.rhs = operand_arrays(k)
        self.s = s
        self.panel = panel_at(k, offset, s.strip, s.depth, s.dtype)
        strides = self.lhs.strides
        self.by_columns = strides[s.input_row_dim] < strides[s.labels.input_feature]
        shape = (s.depth, s.rows) if self.by_columns else (s.rows, s.depth)
        self.matrix = k.scratch_array(offset + s.panel_bytes, s.dtype, shape)

    def run(self) -> None:
        """Pack each panel once and use it for the whole result."""
        s, math = self.s, self.math
        out = self.k.output.dims
        with (
            self.body.loop(0, s.groups) as group,
            self.body.loop(0, s.columns, s.strip) as first,
        ):
            width: IndexValue = s.strip
            if s.columns % s.strip:
                width = math.minimum(s.strip, math.sub(s.columns, first))
            feature = math.add(math.mul(group, s.columns), first)
            self._pack(feature, width)
            with self.body.nest(out, s.outer_dims, (self.k.begin, self.k.end)) as at:
                self._gather(at, group)
                self._multiply(at, feature, width)

    def _pack(self, feature: IndexValue, width: IndexValue) -> None:
        """Copy the kernel's elements for some output features into the panel."""
        s, labels = self.s, self.s.labels
        order = list(range(len(s.window_sizes)))
        with (
            self.body.nest(s.window_sizes, order) as within,
            self.body.loop(0, s.inputs) as channel,
            self.body.loop(0, width) as j,
        ):
            index: list[IndexValue] = [0] * len(self.rhs.dims)
            index[labels.kernel_output_feature] = self.math.add(feature, j)
            index[labels.kernel_input_feature] = channel
            for n, w in enumerate(within):
                index[labels.kernel_spatial[n]] = w
            value = self.b.convert(self.rhs.load(self.math, tuple(index)), s.dtype)
            self.panel.store(self.math, (self._step(within, channel), j), value)

    def _step(self, within: list[IndexValue], channel: IndexValue) -> IndexValue:
        """Return the index k of a window element and input feature."""
        at: IndexValue = 0
        for w, size in zip(within, self.s.window_sizes, strict=True):
            at = self.math.add(self.math.mul(at, size), w)
        return self.math.add(self.math.mul(at, self.s.inputs), channel)

    def _gather(self, at: list[IndexValue], group: IndexValue) -> None:
        """Fill the matrix with the input under the windows of one row of the result.

        The inner loop runs along the input's memory: over features, or over the row.
        """
        s = self.s
        order = list(range(len(s.window_sizes)))
        with self.body.nest(s.window_sizes, order) as within:
            if self.by_columns:
                with (
                    self.body.loop(0, s.inputs) as channel,
                    self.body.loop(0, s.rows) as row,
                ):
                    exists, index = self._position(at, group, within, row)
                    self._copy(exists, index, group, within, row, channel)
                return
            with self.body.loop(0, s.rows) as row:
                exists, index = self._position(at, group, within, row)
                with self.body.loop(0, s.inputs) as channel:
                    self._copy(exists, index, group, within, row, channel)

    def _position(
        self,
        at: list[IndexValue],
        group: IndexValue,
        within: list[IndexValue],
        row: IndexValue,
    ) -> tuple[Value, list[IndexValue]]:
        """Return whether the input element exists, and its index except for the feature."""
        s = self.s
        at = list(at)
        at[s.row_dim] = row
        index: list[IndexValue] = [0] * len(self.lhs.dims)
        conditions: list[Value] = []
        for n, d in enumerate(s.window):
            where = at[s.labels.output_spatial[n]]
            size = self.lhs.dims[s.labels.input_spatial[n]]
            inside, position = window_step(self.k.g, d, size, where, within[n])
            conditions += inside
            index[s.labels.input_spatial[n]] = position
        index[s.labels.input_batch] = self._batch(at, group)
        return self.body.all_of(conditions), index

    def _copy(
        self,
        exists: Value,
        index: list[IndexValue],
        group: IndexValue,
        within: list[IndexValue],
        row: IndexValue,
        channel: IndexValue,
    ) -> None:
        """Copy one element, or write zero if it does not exist."""
        s, math, b = self.s, self.math, self.b
        first = 0 if s.batch_groups > 1 else math.mul(group, s.inputs)
        source = list(index)
        source[s.labels.input_feature] = math.add(first, channel)
        target = self._cell(row, self._step(within, channel))
        zero = b.const(s.dtype, 0)
        if exists.text == "true":
            value = b.convert(self.lhs.load(math, tuple(source)), s.dtype)
        else:
            fn = self.body.fn
            then, after, before = fn.new_block(), fn.new_block(), fn.block
            fn.branch(exists.text, then, after)
            fn.start_block(then)
            with self.body.scope():
                loaded = b.convert(self.lhs.load(math, tuple(source)), s.dtype)
            then = fn.block
            fn.jump(after)
            fn.start_block(after)
            value = self.body.merge([(zero, before), (loaded, then)])
        self.matrix.store(math, target, value)

    def _cell(self, row: IndexValue, step: IndexValue) -> tuple[IndexValue, IndexValue]:
        return (step, row) if self.by_columns else (row, step)

    def _batch(self, at: list[IndexValue], group: IndexValue) -> IndexValue:
        batch = at[self.s.labels.output_batch]
        if self.s.batch_groups == 1:
            return batch
        size = self.k.output.dims[self.s.labels.output_batch]
        return self.math.add(batch, self.math.mul(group, size))

    def _multiply(self, at: list[IndexValue], feature: IndexValue, width: IndexValue) -> None:
        """Multiply the matrix by the panel into one row of the result."""
        s, math = self.s, self.math

        def store(row: IndexValue, column: IndexValue, value: Value) -> None:
            index = list(at)
            index[s.row_dim] = row
            index[s.labels.output_feature] = math.add(feature, column)
            output = self.k.output
            output.store(math, tuple(index), self.b.convert(value, output.dtype))

        product = PanelGemm(
            s.dtype,
            s.rows,
            s.depth,
            s.strip,
            width,
            lambda row, kk: self.matrix.load(math, self._cell(row, kk)),
            lambda kk, column: self.panel.load(math, (kk, column)),
            store,
            is_packed=True,
        )
        multiply_panel(self.k, product)


EMITTER = Emitter("row-convolution", plan, roots=("convolution",))
