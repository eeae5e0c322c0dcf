"""Convolutions of 3x3 windows with fewer multiplications: Winograd's F(2x2, 3x3).

A tile of 2x2 results takes 16 multiplications per pair of features instead of 36. Tiles of the
padded input and the kernel are transformed; then each of the 16 elements of a tile is a gemm, and
the sums are transformed to results (`winograd_routines`). A block of rows of tiles goes through all
steps while it is in the cache; threads share blocks, or output features if there is only one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, replace
from functools import lru_cache, partial
from itertools import accumulate

from hloc.analysis.epilogue import product_in
from hloc.codegen.builder.index import layout_strides
from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.cpu.emitters.convolution.windowed_gemm import (
    REMEMBERED,
    Convolution,
    convolution_of,
)
from hloc.codegen.cpu.emitters.convolution.winograd_routines import (
    RESULTS,
    SIZE,
    WINDOW,
    WinogradNumbers,
    direct_routine,
    input_routine,
    kernel_routine,
    output_routine,
)
from hloc.codegen.cpu.emitters.gemm.gemm_tiles import arithmetic_of, tile_of
from hloc.codegen.cpu.emitters.gemm.packed_gemm import ALIGNMENT, PackedGemm
from hloc.codegen.cpu.emitters.gemm.packed_gemm_call import Epilogue, emit_packed, number_table
from hloc.codegen.cpu.emitters.gemm.packed_gemm_choice import packed_gemm
from hloc.codegen.cpu.emitters.gemm.row_epilogue import row_epilogue
from hloc.codegen.cpu.emitters.gemm.tile_arithmetic import lanes
from hloc.codegen.kernels.context import KernelContext, root_of
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.codegen.kernels.gemm_problem import Axis, GemmProblem
from hloc.codegen.kernels.operands import operand_arrays, operand_bytes
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32
from hloc.ir.attributes import WindowDimension
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass

_MULTIPLE = 16
"""Features are whole vectors on every machine."""

MIN_FEATURES = 32
"""Fewest input and output features for which the transforms pay."""

MIN_TILES = 48
"""Fewest tiles: the kernel is transformed once for all of them."""

MIN_DEEP_TILES, DEEP_KERNEL = 192, 1 << 17
"""The same for kernels of more than so many pairs of features, which no cache holds.

Time over that of a gemm without transforms, AVX-512: 0.62 for 8x56x56x64, 0.65 for 56x56x64 and
28x28x128, 0.63 for 8x14x14x256, 0.88 for 14x14x256; 0.9 for 8x7x7x512 with 128 tiles. AVX2: 0.59,
0.59, 0.62, 0.61, 0.85; 0.98.
"""

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
    """

    numbers: WinogradNumbers
    images: int
    block: int
    features: int
    first: int

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
        """Number of panels of the transformed kernel."""
        return self.numbers.kernel_matrix // (self.numbers.steps * self.numbers.width)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of a patch, and of the transformed kernel, tiles and sums."""
        n = self.numbers
        elements = n.inputs, n.kernel_matrix, n.input_matrix, n.sums_matrix
        return tuple(SIZE * SIZE * F32.storage_bytes * x for x in elements)

    @property
    def is_in_panels(self) -> bool:
        """True if the transformed kernel is in panels of output features."""
        return self.numbers.panel == self.numbers.width

    @property
    def part_step(self) -> int:
        """Elements of the transformed kernel from an output feature to the next, between parts."""
        return self.numbers.inputs if self.is_in_panels else self.numbers.rhs_output

    @property
    def gemm(self) -> PackedGemm:
        """The product of the tiles of a block and a part of the kernel."""
        n = self.numbers
        outer = Axis(SIZE * SIZE, n.input_matrix, n.kernel_matrix, n.sums_matrix)
        rows = Axis(self.block * n.tiles, n.inputs, 0, n.outputs)
        columns = [Axis(n.outputs, 0, n.rhs_output, 1)]
        depth = Axis(n.inputs, 1, n.width if n.rhs_output == 1 else 1, 0)
        if self.is_in_panels:
            panels = Axis(n.outputs // n.width, 0, n.inputs * n.width, n.width)
            columns = [panels, Axis(n.width, 0, 1, 1)]
        product = GemmProblem((outer,), (rows,), tuple(columns), (depth,))
        found = packed_gemm(product, (F32, F32), F32)
        assert found is not None
        return found

    def plan(
        self, emit: Callable[[KernelContext], None], computed_bytes: int = 0
    ) -> KernelPlan[KernelContext]:
        """Return the plan of a kernel around the convolution."""
        _, kernel, tiles, _ = self.sizes
        return KernelPlan(
            emit,
            extent=self.blocks * self.parts,
            scratch_bytes=computed_bytes + sum(self.sizes) + self.gemm.scratch_bytes,
            repeated_bytes=computed_bytes + (kernel if self.blocks > 1 else tiles),
        )

    def in_panels(self, target: Target) -> Winograd:
        """Return the same with the transformed kernel in panels, if these fit the parts."""
        n, arithmetic = self.numbers, arithmetic_of(self.gemm, target)
        width = tile_of(self.gemm, arithmetic, target).vectors * lanes(arithmetic, target)
        if n.rhs_output != 1 or n.outputs % width:
            return self
        return replace(self, numbers=replace(n, panel=width, width=width))


def winograd_of(inst: Instruction) -> Winograd | None:
    """Return the tiles of the convolution at the root of `inst`; None if they do not pay."""
    c = convolution_of(inst)
    if c is None or "highest" in root_of(inst).attributes.operand_precision:
        return None
    return _winograd(c)


@lru_cache(REMEMBERED)
def _winograd(c: Convolution) -> Winograd | None:
    labels, dims = c.dims, c.result.dims
    if len(c.window) != 2 or not all(map(_is_plain, c.window)) or c.groups * c.batch_groups > 1:
        return None
    if not c.lhs.dtype is c.rhs.dtype is c.result.dtype is F32:
        return None
    lhs, rhs, out = (layout_strides(x) for x in (c.lhs, c.rhs, c.result))
    inputs, features = c.lhs.dims[labels.input_feature], dims[labels.output_feature]
    is_whole = inputs % _MULTIPLE == features % _MULTIPLE == 0
    if not is_whole or min(inputs, features) < MIN_FEATURES:
        return None
    rhs_input, rhs_output = rhs[labels.kernel_input_feature], rhs[labels.kernel_output_feature]
    if (rhs_input, rhs_output) not in ((features, 1), (1, inputs)):
        return None
    if lhs[labels.input_feature] != 1 or out[labels.output_feature] != 1:
        return None
    rows, tiles = (-(-dims[place] // RESULTS) for place in labels.output_spatial)
    images, is_deep = dims[labels.output_batch], inputs * features > DEEP_KERNEL
    if images * rows * tiles < (MIN_DEEP_TILES if is_deep else MIN_TILES):
        return None
    fitting = -(-BLOCK_TILES * (2 if is_deep else 1) // tiles)
    block = -(-images * rows // -(-images * rows // fitting))
    part = PART if features % PART == 0 else features
    input_matrix, sums_matrix = (
        block * tiles * x + ALIGNMENT // F32.storage_bytes for x in (inputs, part)
    )
    along = [rhs[place] for place in labels.kernel_spatial]
    first = sum((WINDOW - 1) * x for x, d in zip(along, c.window, strict=True) if d.reversal)
    rhs_line, rhs_column = (-x if d.reversal else x for x, d in zip(along, c.window, strict=True))
    low_lines, low_columns = (d.pad_low for d in c.window)
    (in_line, in_column), (out_line, out_column) = labels.input_spatial, labels.output_spatial
    numbers = WinogradNumbers(
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
        out_image=out[labels.output_batch],
        out_line=out[out_line],
        out_column=out[out_column],
        rhs_line=rhs_line,
        rhs_column=rhs_column,
        rhs_input=rhs_input,
        rhs_output=rhs_output,
        panel=inputs * part,
        steps=inputs if rhs_output == 1 else part,
        step=max(rhs_input, rhs_output),
        width=max(rhs_input, rhs_output),
        kernel_matrix=inputs * features,
        input_matrix=input_matrix,
        sums_matrix=sums_matrix,
    )
    return Winograd(numbers, images, block, features, first)


def _is_plain(d: WindowDimension) -> bool:
    return (d.size, d.stride, d.window_dilation, d.base_dilation) == (WINDOW, 1, 1, 1)


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
    write(k, found, (lhs, rhs), offset)


def write(
    k: KernelContext,
    found: Winograd,
    operands: tuple[IrArray, IrArray],
    offset: int,
    epilogue: Epilogue | None = None,
) -> None:
    """Emit the loop over blocks and parts; scratch memory is free from `offset` on."""
    found = found.in_panels(k.target)
    math, b, n, (lhs, rhs) = k.math, k.b, found.numbers, operands
    out = epilogue.sums if epilogue else k.output
    places = list(accumulate(found.sizes, initial=offset))
    patch, kernel, tiles, sums = (b.offset_pointer(k.scratch, place) for place in places[:-1])
    table = f"ptr {number_table(k, astuple(n))}"
    units = [
        make(k.target) for make in (kernel_routine, input_routine, output_routine, direct_routine)
    ]
    for unit in units:
        k.use(unit)
    transform_kernel, transform_input, transform_sums, direct = (unit.name for unit in units)
    finish = (f"@{epilogue.function}", epilogue.context) if epilogue else ("null", "null")
    window = b.offset_pointer(rhs.pointer, found.first * F32.storage_bytes)
    panels: tuple[IndexValue, IndexValue] = 0, found.panels
    if found.blocks == 1 and found.panels > 1:
        each = found.panels // found.parts
        panels = math.mul(k.begin, each), math.mul(k.end, each)
    b.call_routine(transform_kernel, (window, kernel), *map(math.value, panels), table)
    with k.body.loop(k.begin, k.end) as number:
        block, part = math.div(number, found.parts), math.rem(number, found.parts)
        first = math.mul(block, found.block)
        rows = first, math.minimum(math.add(first, found.block), found.rows)
        begin, end = map(math.value, rows)
        is_new = b.or_(math.compare("EQ", part, 0), math.compare("EQ", number, k.begin))
        with k.body.when(is_new):
            b.call_routine(transform_input, (lhs.pointer, tiles, patch), begin, end, table)
        feature = math.mul(part, n.outputs)

        def moved(pointer: Value, step: int) -> Value:
            at = math.value(math.mul(feature, step))
            return pointer_value(b.address(pointer, F32, at))

        arrays = tiles, moved(kernel, found.part_step), sums
        left, right, product = (IrArray(x, F32, (), ()) for x in arrays)
        emit_packed(k, found.gemm, left, right, places[-1], whole=product)
        functions = (f"ptr {x}" for x in (f"@{direct}", *finish))
        pointers = sums, lhs.pointer, moved(window, n.rhs_output), moved(out.pointer, 1)
        numbers = begin, end, math.value(feature)
        b.call_routine(transform_sums, pointers, *numbers, table, *functions)


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
    epilogue = row_epilogue(k, core, found.features, n.outputs, n.out_column)
    lhs, rhs = (k.plain_array(operand) for operand in core.operands)
    assert lhs is not None
    assert rhs is not None
    write(k, found, (lhs, rhs), 0, epilogue)


EMITTER = Emitter("winograd-convolution", plan, roots=("convolution",))
EPILOGUE = Emitter("winograd-epilogue", _plan_epilogue)
"""A convolution and the elementwise instructions that use it."""
