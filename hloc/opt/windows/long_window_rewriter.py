"""Rewrite long windows as folds by doubling, dimension by dimension."""

from __future__ import annotations

from math import prod

from hloc.analysis.cumulative import plain_scan
from hloc.analysis.pools import folds_every_window
from hloc.ir.attributes import Window, WindowDimension
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander, is_static
from hloc.opt.windows.regrouping import Regrouping, window_regrouping

_VECTORISED = 16
"""Windows of at least this size in the minor dimension are vectorised."""


@dataclass(frozen=True)
class LongWindowRewriter(Expander):
    """Compute a reduce-window of long windows in O(n * log(window)) instead of O(n * window).

    Folds each dimension separately: windows of 1, 2, 4 ... elements combine to one of any size;
    padding becomes the neutral value. Needs an associative reducer (regrouping.py) and reassociates
    sums of floats. Cost: O(log(window)) instructions per reduce-window.

    Applies to at least `min_work` folded elements, if the steps are `gain` times less work than
    folding every window. Elements of windows that are padded or short in the minor dimension count
    fourfold: their loop is not vectorised, while every step is. With `leave_pools`, short windows
    around many neighbours stay for the pooling kernel.
    """

    acts_on = frozenset({"reduce-window"})
    gain: int = 1
    min_work: int = 4096
    leave_pools: bool = False

    def when(self, inst: Instruction) -> bool:
        """True if folding by doubling is allowed and clearly less work than folding each window."""
        window = inst.attributes.window
        if (
            window is None
            or not window.dimensions
            or not is_static(inst)
            or 0 in inst.operands[0].array.dims
        ):
            return False
        if plain_scan(inst) is not None:
            return False  # it has a kernel that reads every element once
        if self.leave_pools and folds_every_window(inst):
            return False
        if any(d.base_dilation != 1 for d in window.dimensions):
            return False
        direct = _direct_work(inst)
        pays = direct >= self.min_work and direct * _weight(inst) > self.gain * _work(inst)
        return pays and window_regrouping(inst) is not None

    def expand(self, inst: Instruction) -> Instruction:
        b, regrouping = Builder(inst.computation), window_regrouping(inst)
        assert regrouping is not None
        neutral = regrouping.identities(b, inst.operands[len(inst.operands) // 2 :])
        arrays = regrouping.arrays(b, inst)
        for dim, d in enumerate(inst.attributes.window.dimensions):
            if d != WindowDimension(1):
                arrays = _folded(b, regrouping, arrays, neutral, dim, d)
        return regrouping.finished(b, inst, arrays)


def _padded(size: int, d: WindowDimension) -> int:
    return size + d.pad_low + d.pad_high


def _windows(size: int, d: WindowDimension) -> int:
    """Return how many windows fit, before the stride."""
    return _padded(size, d) - (d.size - 1) * d.window_dilation


def _direct_work(inst: Instruction) -> int:
    """Return how many elements are folded window by window; 0 if there is no window."""
    window: Window = inst.attributes.window
    dims = inst.operands[0].array.dims
    counts = [_windows(n, d) for n, d in zip(dims, window.dimensions, strict=True)]
    if min(counts, default=1) < 1:
        return 0
    strided = (-(-count // d.stride) for count, d in zip(counts, window.dimensions, strict=True))
    return prod(strided) * prod(d.size for d in window.dimensions)


def _weight(inst: Instruction) -> int:
    """Return the cost of folding an element of a window, in elements of a step."""
    dims = inst.attributes.window.dimensions
    padded = any(d.pad_low > 0 or d.pad_high > 0 for d in dims)
    return 4 if padded or dims[-1].size < _VECTORISED else 1


def _work(inst: Instruction) -> int:
    """Return how many elements the steps have together."""
    dims = list(inst.operands[0].array.dims)
    total = 0
    for dim, d in enumerate(inst.attributes.window.dimensions):
        dims[dim] = _padded(dims[dim], d)
        steps = d.size.bit_length() + d.size.bit_count() - 2
        total += prod(dims) * steps
        dims[dim] = -(-(dims[dim] - (d.size - 1) * d.window_dilation) // d.stride)
    return total


def _folded(
    b: Builder,
    regrouping: Regrouping,
    arrays: list[Instruction],
    neutral: list[Instruction],
    dim: int,
    d: WindowDimension,
) -> list[Instruction]:
    """Return the folds of windows `d` along `dim`."""
    if d.pad_low or d.pad_high:
        low, high = [0] * arrays[0].array.rank, [0] * arrays[0].array.rank
        low[dim], high[dim] = d.pad_low, d.pad_high
        arrays = [b.pad(x, e, low, high) for x, e in zip(arrays, neutral, strict=True)]
    count = arrays[0].array.dims[dim] - (d.size - 1) * d.window_dilation
    found: list[Instruction] = []
    done, width = 0, 1  # `found` are folds of the first `done` elements, `arrays` of `width`
    while True:
        if d.size & width:
            rest = [_from(b, x, dim, done * d.window_dilation) for x in arrays]
            found = _joined(b, regrouping, found, rest, dim) if found else rest
            done += width
        if done == d.size:
            break
        next_ones = [_from(b, x, dim, width * d.window_dilation) for x in arrays]
        arrays = _joined(b, regrouping, arrays, next_ones, dim)
        width *= 2
    return [_cut(b, x, dim, 0, count, d.stride) for x in found]


def _joined(
    b: Builder,
    regrouping: Regrouping,
    left: list[Instruction],
    right: list[Instruction],
    dim: int,
) -> list[Instruction]:
    """Fold neighbouring windows, as many as both have."""
    count = min(left[0].array.dims[dim], right[0].array.dims[dim])
    left = [_cut(b, x, dim, 0, count) for x in left]
    right = [_cut(b, x, dim, 0, count) for x in right]
    return regrouping.combined(b, left, right)


def _from(b: Builder, x: Instruction, dim: int, start: int) -> Instruction:
    return _cut(b, x, dim, start, x.array.dims[dim])


def _cut(
    b: Builder, x: Instruction, dim: int, start: int, limit: int, stride: int = 1
) -> Instruction:
    """Return `x[start:limit:stride]` along `dim`; `x` itself if that is all of it."""
    if (start, limit, stride) == (0, x.array.dims[dim], 1):
        return x
    starts, limits, strides = [0] * x.array.rank, list(x.array.dims), [1] * x.array.rank
    starts[dim], limits[dim], strides[dim] = start, limit, stride
    return b.slice(x, starts, limits, strides)
