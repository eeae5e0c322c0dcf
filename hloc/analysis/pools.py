"""Pooling: reduce-windows over one or two spatial dimensions, with channels innermost."""

from __future__ import annotations

from math import prod

from hloc.dtypes import BF16, F16, F32, F64, S8, U8, DType
from hloc.ir.attributes import WindowDimension
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.folding import recognised_reducer
from hloc.shapes import ArrayShape

MOST_READS, MOST_POOLED = 32, 256
"""Most reads per element and elements per window for which folding every window is better than
doubling steps, which are also more accurate for long sums."""

LEAST_BYTES = 32
"""Minimum bytes of channels: they fill a vector on machines without partial vector loads."""

POOLED_TYPES: dict[str, tuple[DType, ...]] = {
    "add": (F32, F64, BF16, F16),
    "maximum": (F32, F64, BF16, F16, S8, U8),
    "minimum": (F32,),
}
"""Element types of windows that are common in programs, by the folding opcode."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A dimension along which windows move.

    Attributes:
        size, count: elements of the operand and of the result.
        window: window attributes of the dimension.
    """

    size: int
    count: int
    window: WindowDimension


@dataclass(frozen=True, slots=True)
class Pool:
    """A reduce-window of a row-major array [batch, y, x, channels].

    Attributes:
        y, x: the spatial dimensions; of one, the other has one element.
        channels: number of neighbouring elements that are folded alike.
    """

    batch: int
    y: Axis
    x: Axis
    channels: int


_LINE = Axis(1, 1, WindowDimension(1))
_LEAST_SHARED = 1 << 14
"""Windows of a single batch that are worth several threads."""


def pool_of(inst: Instruction) -> Pool | None:
    """Return the pooling that reduce-window `inst` of static shape computes, None if it is none."""
    window = inst.attributes.window
    if window is None or len(inst.operands) != 2 or not isinstance(inst.shape, ArrayShape):
        return None
    source, result = inst.operands[0].array, inst.array
    types = POOLED_TYPES.get(recognised_reducer(inst.called[0]), ())
    if result.dtype not in types or any(o.array.dtype is not result.dtype for o in inst.operands):
        return None
    if inst.called[0].root.array.dtype is not result.dtype or source.dynamic or result.dynamic:
        return None
    if 0 in source.dims or 0 in result.dims:
        return None
    if source.minor_to_major != result.minor_to_major:
        return None
    order = tuple(reversed(source.minor_to_major))
    moved = [i for i, dim in enumerate(order) if not _is_still(window.dimensions[dim])]
    if len(moved) not in (1, 2) or moved[-1] - moved[0] != len(moved) - 1:
        return None
    if any(window.dimensions[order[i]].base_dilation != 1 for i in moved):
        return None
    axes = [Axis(source.dims[d], result.dims[d], window.dimensions[d]) for d in order[moved[0] :]]
    channels = prod(axis.size for axis in axes[len(moved) :])
    if channels == 1:
        return None
    batch = prod(source.dims[d] for d in order[: moved[0]])
    y, x = axes[:2] if len(moved) == 2 else _of_line(axes[0], batch)
    return Pool(batch, y, x, channels)


def _of_line(axis: Axis, batch: int) -> tuple[Axis, Axis]:
    """Return `y` and `x` of a pooling along one dimension.

    Windows one element apart are fastest along `x`, but threads share `batch` and `y` only.
    """
    is_shared = batch == 1 and axis.count >= _LEAST_SHARED
    return (_LINE, axis) if axis.window.stride == 1 and not is_shared else (axis, _LINE)


def _is_still(d: WindowDimension) -> bool:
    return d.size == 1 and d.stride == 1 and d.pad_low == d.pad_high == 0 and d.base_dilation == 1


def folds_every_window(inst: Instruction) -> bool:
    """True if reduce-window `inst` is best folded window by window, several channels at a time."""
    pool = pool_of(inst)
    if pool is None:
        return False
    window = pool.y.window.size * pool.x.window.size
    reads = window * pool.y.count * pool.x.count
    is_repeated = window > MOST_READS and reads > MOST_READS * pool.y.size * pool.x.size
    if is_repeated or window > MOST_POOLED:
        return False
    dtype = inst.array.dtype
    size = F32.storage_bytes if dtype in (BF16, F16) else dtype.storage_bytes
    return pool.channels * size >= LEAST_BYTES


def scaled_pool(root: Instruction) -> tuple[Instruction, Instruction | None]:
    """Return the operand that `root` scales by a constant, and that scalar; `root` if none.

    The mean of a window is its sum times a constant, or divided by one; floats only.
    """
    if not root.is_a("multiply", "divide") or not root.array.dtype.is_float:
        return root, None
    source, factor = root.operands
    if root.is_a("multiply") and source.is_a("broadcast"):
        source, factor = factor, source
    if factor.is_a("broadcast") and factor.operands[0].is_a("constant"):
        scalar = factor.operands[0]
        if scalar.array.is_scalar:
            return source, scalar
    return root, None
