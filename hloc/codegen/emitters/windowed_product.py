"""Convolutions as packed products: packing gathers what lies under the windows.

The input is first copied into zeros where the window reaches over its edge or steps between its
elements. Then every place that a product reads is a sum of steps, one per dimension of the result
and of the window, as for matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from hloc.codegen.emitters.context import Emitter, KernelContext, root_of
from hloc.codegen.emitters.dot import operand_arrays, operand_bytes
from hloc.codegen.emitters.packed_nest import Epilogue, emit_packed
from hloc.codegen.emitters.packed_product import PackedProduct, packed_product
from hloc.codegen.emitters.products import Axis, Product, is_in_memory, merged
from hloc.codegen.index import layout_strides, row_major_strides
from hloc.codegen.ir_array import IrArray
from hloc.ir.attributes import Window, WindowDimension
from hloc.ir.instruction import Instruction

MAX_GROWTH = 6
"""A copy of the input may be this much larger than the input: the gradient of a convolution by
twos grows a little more than fourfold, and takes 0.88 of the time of a matrix per row.
"""

MIN_GROUP_FEATURES = 8
"""Output features of a group from which on packing pays; fewer are better summed side by side.

1.9 ms, not 6.0, for 32 groups of 4 features each.
"""


@dataclass(frozen=True, slots=True)
class _Padded:
    """A copy of the input with room around and between its elements.

    Attributes:
        dims, strides: of the copy, by dimension of the input.
        low, steps: where the first element of the input goes, and how far the next one is.
    """

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WindowedProduct:
    """A convolution as a product, and the copy of its input if it needs one."""

    product: PackedProduct
    padded: _Padded | None
    padded_bytes: int
    offset: int


def windowed_product(inst: Instruction) -> WindowedProduct | None:
    """Return how micro-kernels compute the root of `inst`; None if they do not."""
    root = root_of(inst)
    if root.opcode.name != "convolution" or not root.array.elements:
        return None
    groups = root.attributes.feature_group_count * root.attributes.batch_group_count
    features = root.array.dims[root.attributes.dim_labels.output_feature] // groups
    if groups > 1 and features < MIN_GROUP_FEATURES:
        return None
    lhs = root.operands[0].array
    padded = _padding(inst, root)
    size = 0
    if padded:
        size = prod(padded.dims) * lhs.dtype.storage_bytes
        if min(padded.low) < 0 or size > MAX_GROWTH * lhs.size_bytes + (1 << 16):
            return None
    strides = padded.strides if padded else _strides(inst, root.operands[0])
    product, offset = _product(inst, root, strides)
    sources = (lhs.dtype, root.operands[1].array.dtype)
    found = packed_product(product, sources, root.array.dtype)
    return WindowedProduct(found, padded, (size + 63) // 64 * 64, offset) if found else None


def _strides(inst: Instruction, operand: Instruction) -> tuple[int, ...]:
    if is_in_memory(inst, operand):
        return layout_strides(operand.array)
    return tuple(row_major_strides(operand.array.dims))


def _order(inst: Instruction, operand: Instruction) -> list[int]:
    """Return the dimensions as they lie in memory, slowest first."""
    rank = operand.array.rank
    strides = _strides(inst, operand)
    return sorted(range(rank), key=lambda d: (-strides[d], d))


def _reach(d: WindowDimension, out: int) -> int:
    return (out - 1) * d.stride + (d.size - 1) * d.window_dilation + 1


def _padding(inst: Instruction, root: Instruction) -> _Padded | None:
    """Return the copy of the input that is needed, None if there is no need."""
    labels = root.attributes.dim_labels
    operand = root.operands[0]
    dims, rank = list(operand.array.dims), operand.array.rank
    low, steps = [0] * rank, [1] * rank
    needed = False
    for d, place, out in zip(
        _window(root), labels.input_spatial, labels.output_spatial, strict=True
    ):
        reach = _reach(d, root.array.dims[out])
        held = (operand.array.dims[place] - 1) * d.base_dilation + 1
        if d.pad_low == 0 and d.base_dilation == 1 and reach <= operand.array.dims[place]:
            continue
        needed = True
        dims[place] = max(reach, d.pad_low + held)
        low[place], steps[place] = d.pad_low, d.base_dilation
    if not needed:
        return None
    strides, step = [0] * rank, 1
    for d_ in reversed(_order(inst, operand)):
        strides[d_] = step
        step *= dims[d_]
    return _Padded(tuple(dims), tuple(strides), tuple(low), tuple(steps))


def _window(root: Instruction) -> tuple[WindowDimension, ...]:
    return (root.attributes.window or Window()).dimensions


def _product(inst: Instruction, root: Instruction, left: tuple[int, ...]) -> tuple[Product, int]:
    """Return the loops, and where in the input (or its copy) they begin."""
    a = root.attributes
    labels = a.dim_labels
    right = _strides(inst, root.operands[1])
    result, dims = layout_strides(root.array), root.array.dims
    groups = a.feature_group_count * a.batch_group_count
    columns = dims[labels.output_feature] // groups
    inputs = root.operands[1].array.dims[labels.kernel_input_feature]
    per_group = inputs * left[labels.input_feature]
    if a.batch_group_count > 1:
        per_group = dims[labels.output_batch] * left[labels.input_batch]
    feature, kernel_feature = result[labels.output_feature], right[labels.kernel_output_feature]
    batch = [Axis(groups, per_group, columns * kernel_feature, columns * feature)]
    rows = [
        Axis(dims[labels.output_batch], left[labels.input_batch], 0, result[labels.output_batch])
    ]
    depth = [Axis(inputs, left[labels.input_feature], right[labels.kernel_input_feature], 0)]
    offset = 0
    for n, d in enumerate(_window(root)):
        step = left[labels.input_spatial[n]]
        out = labels.output_spatial[n]
        rows.append(Axis(dims[out], d.stride * step, 0, result[out]))
        along = d.window_dilation * step
        if d.reversal:
            offset += (d.size - 1) * along
            along = -along
        depth.append(Axis(d.size, along, right[labels.kernel_spatial[n]], 0))
    product = Product(
        merged(batch),
        merged(rows),
        merged([Axis(columns, 0, kernel_feature, feature)]),
        merged(depth),
    )
    return product, offset


def can_emit(inst: Instruction) -> bool:
    """True if the result is that of a convolution that is worth a packed product."""
    return windowed_product(inst) is not None


def scratch_bytes(inst: Instruction) -> int:
    """Return room for computed operands, the copy of the input and the packed panels."""
    found = windowed_product(inst)
    assert found is not None
    return operand_bytes(inst) + found.padded_bytes + found.product.scratch_bytes


def extent(inst: Instruction) -> int:
    """Return in how many pieces threads share the product."""
    found = windowed_product(inst)
    assert found is not None
    return found.product.pieces


def repeated_bytes(inst: Instruction) -> int:
    """Return the size of computed operands, of the copy of the input and of what is packed."""
    found = windowed_product(inst)
    assert found is not None
    return operand_bytes(inst) + found.padded_bytes + found.product.repeated_bytes


def emit(k: KernelContext) -> None:
    """Write the copy of the input and the product."""
    found = windowed_product(k.inst)
    assert found is not None
    offset = operand_bytes(k.inst)
    if offset == 0:
        k.level = 0  # little runs outside the routines
    lhs, rhs = operand_arrays(k)
    write(k, found, (lhs, rhs), offset)


def write(
    k: KernelContext,
    found: WindowedProduct,
    operands: tuple[IrArray, IrArray],
    offset: int,
    epilogue: Epilogue | None = None,
) -> None:
    """Write the copy of the input and the product; scratch memory is free from `offset` on."""
    lhs, rhs = operands
    if found.padded:
        lhs = _copy(k, lhs, found.padded, offset, found.padded_bytes)
    if found.offset:
        pointer = k.b.offset_pointer(lhs.pointer, found.offset * lhs.dtype.storage_bytes)
        lhs = IrArray(pointer, lhs.dtype, lhs.dims, lhs.strides)
    emit_packed(k, found.product, lhs, rhs, offset + found.padded_bytes, epilogue)


def _copy(k: KernelContext, lhs: IrArray, p: _Padded, offset: int, size: int) -> IrArray:
    """Copy the input into zeros, piece by piece."""
    target = k.b.offset_pointer(k.scratch, offset)
    copy = IrArray(target, lhs.dtype, p.dims, p.strides)
    order = sorted(range(len(lhs.dims)), key=lambda d: (-lhs.strides[d], d))
    run = 1
    while order and p.steps[order[-1]] == 1 and p.strides[order[-1]] == run:
        whole = p.dims[order[-1]] == lhs.dims[order[-1]]
        run *= lhs.dims[order.pop()]
        if not whole:
            break
    k.fn.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    k.fn.declare("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    k.fn.line(f"call void @llvm.memset.p0.i64(ptr {target.text}, i8 0, i64 {size}, i1 false)")
    with k.body.nest(lhs.dims, order) as at:
        source = k.b.address(lhs.pointer, lhs.dtype, k.math.value(k.math.linear(at, lhs.strides)))
        placed = [
            k.math.add(k.math.mul(x, step), low)
            for x, step, low in zip(at, p.steps, p.low, strict=True)
        ]
        to = k.b.address(target, lhs.dtype, k.math.value(k.math.linear(placed, p.strides)))
        k.fn.line(
            f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, "
            f"i64 {run * lhs.dtype.storage_bytes}, i1 false)"
        )
    return copy


EMITTER = Emitter("convolution", can_emit, emit, extent, scratch_bytes, repeated_bytes)
