"""Plans of Winograd convolutions: which ones pay, and their tiles, blocks and parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from hloc.codegen.builder.index import layout_strides
from hloc.codegen.cpu.emitters.convolution.convolution_problem import Convolution, convolution_of
from hloc.codegen.cpu.emitters.convolution.windowed_gemm import REMEMBERED
from hloc.codegen.cpu.emitters.convolution.winograd_planes import MARGIN
from hloc.codegen.cpu.emitters.convolution.winograd_writer import (
    RESULTS,
    SIZE,
    WINDOW,
    WinogradNumbers,
)
from hloc.codegen.cpu.emitters.gemm.packed.gemm_routines import IN_PLACE
from hloc.codegen.cpu.emitters.gemm.packed.gemm_schedule import modelled_schedule
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import PackedGemm
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm_choice import MIN_WORK, packed_gemm
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.codegen.kernels.gemm_problem import Axis, GemmProblem
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32
from hloc.ir.attributes import WindowDimension
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import CACHE_LINE_BYTES

KERNEL_STEPS = (1, WINDOW * WINDOW)
"""Distances of features in kernels: the window is the slowest, or the fastest."""

_MULTIPLE = 16
"""Features are whole vectors on every machine."""

MIN_FEATURES = 32
"""Fewest input and output features for which the transforms pay."""

FEWEST_TILES, FEWEST_OF_LARGE = ((1 << 14, 16), (1 << 16, 24)), 48
"""Fewest tiles, by the most pairs of features of a kernel: it is transformed once for all of them.

Time over that of a gemm without transforms, AVX-512: 0.62 for 8x56x56x64, 0.65 for 56x56x64 and
28x28x128, 0.63 for 8x14x14x256; 0.65 for 12x12x128, 0.75 for 8x8x128, 0.98 for 10x10x256, 0.85 for
14x14x512, 0.80 for 8x7x7x512; with bf16 parts on matrix registers 0.76, 0.77, 0.94, 0.95 and 1.01
for the latter five, 1.28 for 8x8x512. AVX2: 0.67, 0.84, 0.92, 0.82, 0.78; 1.17.
"""

DEEP_KERNEL = 1 << 17
"""Pairs of features above which no cache holds the kernel."""

BLOCK_TILES = 96
"""Tiles of a block, or twice as many for such kernels: rows of the gemms."""

PART = 64
"""Output features of a part."""


@dataclass(frozen=True, slots=True)
class Winograd:
    """A convolution in tiles.

    Attributes:
        numbers: arguments of the routines.
        images: their number.
        block: rows of tiles of a block.
        features: output features of the result; `numbers.outputs` are those of a part.
        first: offset of the first element of the window in the kernel.
        apart: distance of the features of the kernel in the faster order.
        planes: true if columns are contiguous in input and result, and not features.
    """

    numbers: WinogradNumbers
    images: int
    block: int
    features: int
    first: int
    apart: int
    planes: bool

    @property
    def rows(self) -> int:
        """Rows of tiles of all images."""
        return self.images * self.numbers.rows

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return -(-self.rows // self.block)

    @property
    def parts(self) -> int:
        """Number of parts of the output features."""
        return self.features // self.numbers.outputs

    @property
    def panels(self) -> int:
        """Number of panels of a part of the transformed kernel."""
        n = self.numbers
        return n.inputs * n.outputs // (n.steps * n.width)

    @property
    def part_step(self) -> int:
        """Elements from a part of the transformed kernel to the next, 0 if a part is used once."""
        return SIZE * SIZE * self.numbers.kernel_matrix if self.blocks > 1 else 0

    @property
    def lines(self) -> WinogradNumbers:
        """The numbers for the transposed lines of a block: each row of tiles is an image."""
        n = self.numbers
        wide, narrow = n.tiles * RESULTS + WINDOW - 1, n.tiles * RESULTS
        return replace(
            n,
            lines=RESULTS,
            columns=narrow,
            rows=1,
            lhs_lines=SIZE,
            lhs_columns=wide,
            low_lines=0,
            low_columns=0,
            lhs_image=n.patch_lines * wide * n.inputs,
            lhs_line=wide * n.inputs,
            lhs_column=n.inputs,
            lhs_feature=1,
            out_image=RESULTS * narrow * n.outputs,
            out_line=narrow * n.outputs,
            out_column=n.outputs,
            out_feature=1,
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of transformed kernel, tiles and sums, of a patch, of lines of input and result."""
        n, found = self.numbers, [0, 0]
        if self.planes:
            x = self.lines
            found = [
                self.block * x.lhs_image + SIZE * x.lhs_line + MARGIN * x.inputs,
                self.block * x.out_image + MARGIN * x.outputs,
            ]
        kernel = n.kernel_matrix * (self.parts if self.blocks > 1 else 1)
        matrices = kernel, n.input_matrix, n.sums_matrix, n.inputs
        return tuple(F32.storage_bytes * x for x in (*(SIZE * SIZE * m for m in matrices), *found))

    @property
    def is_in_panels(self) -> bool:
        """True if the transformed kernel is in panels of output features."""
        return self.numbers.panel == self.numbers.width

    @property
    def has_columns(self) -> bool:
        """True if output features are contiguous in the transformed kernel, as in the kernel."""
        return self.numbers.rhs_output == self.apart

    @property
    def gemm(self) -> PackedGemm:
        """The product of the tiles of a block and a part of the kernel."""
        return _gemm(self)

    def plan(
        self, emit: Callable[[KernelContext], None], computed_bytes: int = 0
    ) -> KernelPlan[KernelContext]:
        """Return the plan of a kernel around the convolution."""
        kernel, tiles, *_ = self.sizes
        return KernelPlan(
            emit,
            extent=self.blocks * self.parts,
            scratch_bytes=computed_bytes + sum(self.sizes) + self.gemm.scratch_bytes,
            repeated_bytes=computed_bytes + (kernel if self.blocks > 1 else tiles),
        )

    def in_panels(self, target: Target) -> Winograd:
        """Return the same with the transformed kernel in panels, if a micro-kernel reads these."""
        n, schedule = self.numbers, modelled_schedule(self.gemm, target)
        width, is_direct = schedule.width, schedule.rows in IN_PLACE
        if not self.has_columns or not is_direct or n.outputs % width:
            return self
        found = replace(n, panel=width, width=width, height=schedule.tile.rows, deep=schedule.deep)
        return replace(self, numbers=found)


@lru_cache(REMEMBERED)
def _gemm(w: Winograd) -> PackedGemm:
    n = w.numbers
    outer = Axis(SIZE * SIZE, n.input_matrix, n.kernel_matrix, n.sums_matrix)
    rows = Axis(w.block * n.tiles, n.inputs, 0, n.outputs)
    columns = [Axis(n.outputs, 0, 1 if w.has_columns else n.inputs, 1)]
    depth = Axis(n.inputs, 1, n.width if w.has_columns else 1, 0)
    if w.is_in_panels:
        panels = Axis(n.outputs // n.width, 0, n.inputs * n.width, n.width)
        columns = [panels, Axis(n.width, 0, 1, 1)]
    product = GemmProblem((outer,), (rows,), tuple(columns), (depth,))
    found = packed_gemm(product, (F32, F32), F32)
    assert found is not None
    return found


def winograd_of(inst: Instruction) -> Winograd | None:
    """Return the tiles of the convolution at the root of `inst`; None if they do not pay."""
    c = convolution_of(inst)
    if c is None or "highest" in root_of(inst).attributes.operand_precision:
        return None
    return _winograd(c)


@lru_cache(REMEMBERED)
def _winograd(c: Convolution) -> Winograd | None:
    """Return the plan of a convolution by Winograd, None if it has too few tiles to pay.

    A block is as many rows of tiles as fit into the cache, in equal shares; the kernel is
    transformed in parts of features.
    """
    if not _is_supported(c):
        return None
    labels, dims = c.dims, c.result.dims
    inputs, features = c.lhs.dims[labels.input_feature], dims[labels.output_feature]
    rows, tiles = (-(-dims[place] // RESULTS) for place in labels.output_spatial)
    images, pairs = dims[labels.output_batch], inputs * features
    part = PART if features % PART == 0 else features
    count = images * rows * tiles
    if count < _fewest_tiles(pairs) or count * inputs * part < MIN_WORK:
        return None
    fitting = -(-BLOCK_TILES * (2 if pairs > DEEP_KERNEL else 1) // tiles)
    block = -(-images * rows // -(-images * rows // fitting))
    rhs, lhs = layout_strides(c.rhs), layout_strides(c.lhs)
    along = [rhs[place] for place in labels.kernel_spatial]
    first = sum((WINDOW - 1) * x for x, d in zip(along, c.window, strict=True) if d.reversal)
    apart = min(rhs[labels.kernel_input_feature], rhs[labels.kernel_output_feature])
    planes = lhs[labels.input_feature] != 1
    numbers = _numbers(c, part, block)
    return Winograd(numbers, images, block, features, first, apart, planes)


def _is_supported(c: Convolution) -> bool:
    """True for types, windows, features and layouts that the routines take."""
    labels = c.dims
    if len(c.window) != 2 or not all(map(_is_plain, c.window)) or c.groups * c.batch_groups > 1:
        return False
    if not c.lhs.dtype is c.rhs.dtype is c.result.dtype is F32:
        return False
    inputs, features = c.lhs.dims[labels.input_feature], c.result.dims[labels.output_feature]
    is_whole = inputs % _MULTIPLE == features % _MULTIPLE == 0
    if not is_whole or min(inputs, features) < MIN_FEATURES:
        return False
    lhs, rhs, out = (layout_strides(x) for x in (c.lhs, c.rhs, c.result))
    rhs_steps = rhs[labels.kernel_input_feature], rhs[labels.kernel_output_feature]
    apart = min(rhs_steps)
    if apart not in KERNEL_STEPS:
        return False
    if rhs_steps not in ((features * apart, apart), (apart, inputs * apart)):
        return False
    if lhs[labels.input_feature] != 1:
        return lhs[labels.input_spatial[1]] == out[labels.output_spatial[1]] == 1
    return out[labels.output_feature] == 1


def _numbers(c: Convolution, part: int, block: int) -> WinogradNumbers:
    """Return the arguments of the routines for `part` features and `block` rows of tiles."""
    labels, dims = c.dims, c.result.dims
    lhs, rhs, out = (layout_strides(x) for x in (c.lhs, c.rhs, c.result))
    inputs = c.lhs.dims[labels.input_feature]
    (in_line, in_column), (out_line, out_column) = labels.input_spatial, labels.output_spatial
    rows, tiles = (-(-dims[place] // RESULTS) for place in labels.output_spatial)
    rhs_input, rhs_output = rhs[labels.kernel_input_feature], rhs[labels.kernel_output_feature]
    apart = min(rhs_input, rhs_output)
    rhs_line, rhs_column = (
        -rhs[place] if d.reversal else rhs[place]
        for place, d in zip(labels.kernel_spatial, c.window, strict=True)
    )
    low_lines, low_columns = (d.pad_low for d in c.window)
    kernel_matrix, input_matrix, sums_matrix = (
        x + CACHE_LINE_BYTES // F32.storage_bytes
        for x in (inputs * part, block * tiles * inputs, block * tiles * part)
    )
    return WinogradNumbers(
        inputs=inputs,
        outputs=part,
        lines=dims[out_line],
        columns=dims[out_column],
        rows=rows,
        tiles=tiles,
        lhs_lines=c.lhs.dims[in_line],
        lhs_columns=c.lhs.dims[in_column],
        low_lines=low_lines,
        low_columns=low_columns,
        lhs_image=lhs[labels.input_batch],
        lhs_line=lhs[in_line],
        lhs_column=lhs[in_column],
        lhs_feature=lhs[labels.input_feature],
        out_image=out[labels.output_batch],
        out_line=out[out_line],
        out_column=out[out_column],
        out_feature=out[labels.output_feature],
        rhs_line=rhs_line,
        rhs_column=rhs_column,
        rhs_input=rhs_input,
        rhs_output=rhs_output,
        patch_lines=SIZE if rows % block else RESULTS,
        panel=0,
        steps=inputs if rhs_output == apart else part,
        step=max(rhs_input, rhs_output) // apart,
        width=part if rhs_output == apart else inputs,
        kernel_matrix=kernel_matrix,
        input_matrix=input_matrix,
        sums_matrix=sums_matrix,
    )


def _fewest_tiles(pairs: int) -> int:
    """Return the fewest tiles for which a kernel with `pairs` pairs of features is transformed."""
    return next((tiles for most, tiles in FEWEST_TILES if pairs <= most), FEWEST_OF_LARGE)


def _is_plain(d: WindowDimension) -> bool:
    return (d.size, d.stride, d.window_dilation, d.base_dilation) == (WINDOW, 1, 1, 1)
