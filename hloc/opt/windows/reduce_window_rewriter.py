"""Rewrite cumulative reduce-windows as blocked scans."""

from __future__ import annotations

from hloc.analysis.cumulative import Cumulative, cumulative, plain_scan
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander, is_static
from hloc.opt.windows.regrouping import Regrouping, window_regrouping


@dataclass(frozen=True)
class ReduceWindowRewriter(Expander):
    """Compute a reduce-window that is a cumulative fold in O(n) instead of O(n * window).

    The dimension, of size n, is cut into blocks of `base_length`. Each block is scanned in place by
    doubling: `x + shifted(x, 1)`, that shifted by 2, by 4 ... The last elements of the blocks are
    scanned in the same way, and what came before a block is added to all of it. Forward and
    reverse, with and without the element itself, several arrays at once.

    Reducers are those whose folds may be regrouped (regrouping.py); of floats this is another order
    of summing, with an error that grows like log(n) instead of n. `any_reducer` takes every
    elementwise reducer for associative and its init for neutral, as XLA does. Cost: O(log n)
    instructions per reduce-window. Source: XLA's pass of this name.
    """

    acts_on = frozenset({"reduce-window"})
    base_length: int = 16
    any_reducer: bool = False
    leave_plain: bool = False

    def when(self, inst: Instruction) -> bool | str:
        form = cumulative(inst) if is_static(inst) else None
        if form is None or inst.operands[0].array.dims[form.dim] <= self._base:
            return False
        if self.leave_plain and plain_scan(inst) is not None:
            return False
        if window_regrouping(inst, trusted=self.any_reducer) is None:
            return f"{inst.called[0].name} is not known to be associative"
        return True

    def expand(self, inst: Instruction) -> Instruction:
        b, form = Builder(inst.computation), cumulative(inst)
        regrouping = window_regrouping(inst, trusted=self.any_reducer)
        assert form is not None
        assert regrouping is not None
        neutral = regrouping.identities(b, inst.operands[len(inst.operands) // 2 :])
        scan = _Scan(b, regrouping, neutral, form.dim, form.reverse, self._base)
        scans = scan.of(regrouping.arrays(b, inst))
        found = [_picked(b, x, e, form) for x, e in zip(scans, neutral, strict=True)]
        return regrouping.finished(b, inst, found)

    @property
    def _base(self) -> int:
        return max(2, self.base_length)


def _picked(b: Builder, x: Instruction, neutral: Instruction, form: Cumulative) -> Instruction:
    """Return the results of scan `x`, and those of empty windows."""
    starts, limits = [0] * x.array.rank, list(x.array.dims)
    starts[form.dim], limits[form.dim] = form.start, form.limit
    if (form.start, form.limit) != (0, x.array.dims[form.dim]):
        x = b.slice(x, starts, limits)
    return _padded(b, x, neutral, form.dim, form.empty, at_end=form.reverse)


def _padded(
    b: Builder, x: Instruction, value: Instruction, dim: int, count: int, *, at_end: bool
) -> Instruction:
    if not count:
        return x
    low, high = [0] * x.array.rank, [0] * x.array.rank
    (high if at_end else low)[dim] = count
    return b.pad(x, value, low, high)


@dataclass(frozen=True, slots=True)
class _Scan:
    """Adds inclusive scans along one dimension.

    Attributes:
        neutral: the neutral element of each array, used where there is no element.
        base: largest size that is scanned by doubling.
    """

    b: Builder
    regrouping: Regrouping
    neutral: list[Instruction]
    dim: int
    reverse: bool
    base: int

    def of(self, arrays: list[Instruction]) -> list[Instruction]:
        """Return the scans of `arrays`."""
        levels: list[tuple[int, list[Instruction]]] = []
        while (size := self._size(arrays)) > self.base:
            blocks = self._doubled([self._in_blocks(i, x) for i, x in enumerate(arrays)], 1)
            levels.append((size, blocks))
            arrays = [self._totals(x) for x in blocks]
        found = self._doubled(arrays, 0)
        for size, blocks in reversed(levels):
            before = [self._spread(i, x, blocks[i]) for i, x in enumerate(found)]
            joined = self._combined(before, blocks)
            found = [self._flat(x, size) for x in joined]
        return found

    def _size(self, arrays: list[Instruction]) -> int:
        return arrays[0].array.dims[self.dim]

    def _combined(self, before: list[Instruction], here: list[Instruction]) -> list[Instruction]:
        """Fold two neighbouring ranges, the one scanned first as the first argument."""
        pair = (here, before) if self.reverse else (before, here)
        return self.regrouping.combined(self.b, *pair)

    def _shifted(self, number: int, x: Instruction, dim: int, count: int) -> Instruction:
        """Return `x` shifted by `count` positions in the direction of the scan."""
        starts, limits = [0] * x.array.rank, list(x.array.dims)
        if self.reverse:
            starts[dim] = count
        else:
            limits[dim] -= count
        rest = self.b.slice(x, starts, limits)
        return _padded(self.b, rest, self.neutral[number], dim, count, at_end=self.reverse)

    def _doubled(self, arrays: list[Instruction], offset: int) -> list[Instruction]:
        """Scan along dimension `dim + offset`: after k steps, of 2**k elements."""
        dim, count = self.dim + offset, 1
        while count < arrays[0].array.dims[dim]:
            before = [self._shifted(i, x, dim, count) for i, x in enumerate(arrays)]
            arrays = self._combined(before, arrays)
            count *= 2
        return arrays

    def _in_blocks(self, number: int, x: Instruction) -> Instruction:
        """Return `[..., n, ...]` as `[..., blocks, base, ...]`, filled up at the far end."""
        dims, dim = x.array.dims, self.dim
        blocks = -(-dims[dim] // self.base)
        missing = blocks * self.base - dims[dim]
        x = _padded(self.b, x, self.neutral[number], dim, missing, at_end=not self.reverse)
        return self.b.reshape(x, (*dims[:dim], blocks, self.base, *dims[dim + 1 :]))

    def _totals(self, x: Instruction) -> Instruction:
        """Return the fold of each block, which is the last element of its scan."""
        dims, dim = x.array.dims, self.dim
        starts, limits = [0] * len(dims), list(dims)
        last = 0 if self.reverse else self.base - 1
        starts[dim + 1], limits[dim + 1] = last, last + 1
        part = self.b.slice(x, starts, limits)
        return self.b.reshape(part, (*dims[: dim + 1], *dims[dim + 2 :]))

    def _spread(self, number: int, totals: Instruction, blocks: Instruction) -> Instruction:
        """Return for every element the fold of the blocks before its own."""
        before = self._shifted(number, totals, self.dim, 1)
        kept = [d for d in range(blocks.array.rank) if d != self.dim + 1]
        return self.b.broadcast(before, blocks.array.dims, kept)

    def _flat(self, x: Instruction, size: int) -> Instruction:
        """Undo `_in_blocks`."""
        dims, dim = x.array.dims, self.dim
        whole = dims[dim] * dims[dim + 1]
        x = self.b.reshape(x, (*dims[:dim], whole, *dims[dim + 2 :]))
        if whole == size:
            return x
        starts, limits = [0] * x.array.rank, list(x.array.dims)
        if self.reverse:
            starts[dim] = whole - size
        else:
            limits[dim] = size
        return self.b.slice(x, starts, limits)
