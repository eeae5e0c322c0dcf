"""Let dots read operands of which the batches are copies, without the copies."""

from __future__ import annotations

from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.builder import Builder
from hloc.opt.contraction.dot_numbers import Side, dot_of, sides
from hloc.opt.expander import Expander, is_static


class RepeatedOperandFolding(Expander):
    """Multiply copies of a matrix by a vector each as that matrix by all the vectors.

    If a broadcast makes the batches of one operand, alone or as part of a batch dimension that a
    reshape has merged, and the other operand has a vector per batch, the copies become rows of the
    other operand: attention in which several heads share keys and values reads each of them once.
    Matrices in the other operand stay, as their results would have to be transposed. Exact but for
    the order of sums. Cost: O(instructions). Dead copies are left to `dce`.
    """

    acts_on = frozenset({"dot"})

    def when(self, inst: Instruction) -> bool:
        return len(inst.operands) == 2 and is_static(inst) and _copies_in(inst) is not None

    def expand(self, inst: Instruction) -> Instruction:
        copies = _copies_in(inst)
        assert copies is not None
        b, both = Builder(inst.computation), sides(inst)
        side, other = both[copies.number], both[1 - copies.number]
        place = side.batch.index(copies.dim)
        read, (rows, row) = copies.read(side), copies.rows(b, other, other.batch[place])
        lhs, rhs = (read, rows) if copies.number == 0 else (rows, read)
        dot = dot_of(b, inst, lhs, rhs)
        at = len(rows.batch) + rows.free.index(row) + len(read.free) * (lhs is read)
        order = [dim for dim in range(dot.array.rank) if dim != at]
        order.insert(place + copies.is_inner, at)
        return b.reshape(b.transpose(dot, order), inst.array.dims)


@dataclass(frozen=True, slots=True)
class _Copies:
    """Copies in the batches of an operand.

    Attributes:
        number: of the operand.
        dim: its dimension that holds the copies.
        broadcast: what makes them.
        new: dimension of the broadcast that its operand lacks.
        is_merged: `dim` consists of two dimensions of the broadcast, from `dim` on.
    """

    number: int
    dim: int
    broadcast: Instruction
    new: int
    is_merged: bool

    @property
    def is_inner(self) -> bool:
        """True if the copies of a matrix are side by side."""
        return self.is_merged and self.new > self.dim

    def read(self, side: Side) -> Side:
        """Return the operand without copies."""
        kept = list(self.broadcast.attributes.dimensions)
        step = int(self.is_merged)

        def source(dim: int) -> int:
            if dim == self.dim:
                return kept.index(2 * dim + 1 - self.new)
            return kept.index(dim + step * (dim > self.dim))

        batch = [source(dim) for dim in side.batch if self.is_merged or dim != self.dim]
        contracting = tuple(source(dim) for dim in side.contracting)
        return Side(self.broadcast.operands[0], tuple(batch), contracting)

    def rows(self, b: Builder, other: Side, dim: int) -> tuple[Side, int]:
        """Return the other operand, whose batch dimension is `dim`, and its new free dimension."""
        if not self.is_merged:
            batch = tuple(at for at in other.batch if at != dim)
            return Side(other.operand, batch, other.contracting), dim
        dims = list(other.operand.array.dims)
        dims[dim : dim + 1] = self.broadcast.array.dims[self.dim : self.dim + 2]
        row = dim + self.is_inner
        batch = tuple(2 * dim + 1 - row if at == dim else at + (at > dim) for at in other.batch)
        contracting = tuple(at + (at > dim) for at in other.contracting)
        return Side(b.reshape(other.operand, dims), batch, contracting), row


def _copies_in(inst: Instruction) -> _Copies | None:
    """Return the copies in the batches of an operand of a dot, None if there are none to fold."""
    both = sides(inst)
    for number, (side, other) in enumerate(zip(both, reversed(both), strict=True)):
        if all(size == 1 for size in other.sizes(other.free)):
            found = _copies_of(number, side)
            if found:
                return found
    return None


def _copies_of(number: int, side: Side) -> _Copies | None:
    """Return the copies in the batches of one operand of a dot, None if there are none.

    Either the operand is a broadcast that adds one batch dimension, or a reshape of one that
    merges the added dimension with a neighbour: `f32[2,8,d]` from `f32[2,1,d]` by way of
    `f32[2,4,2,d]`.
    """
    operand = side.operand
    is_merged = operand.is_a("reshape")
    broadcast = operand.operands[0] if is_merged else operand
    if not broadcast.is_a("broadcast"):
        return None
    kept, dims = list(broadcast.attributes.dimensions), broadcast.array.dims
    added = [dim for dim in range(len(dims)) if dim not in kept]
    if len(added) != 1 or kept != sorted(kept) or dims[added[0]] == 1:
        return None
    (new,) = added
    if not is_merged:
        return _Copies(number, new, broadcast, new, False) if new in side.batch else None
    for dim in range(max(new - 1, 0), min(new + 1, len(dims) - 1)):
        merged = (*dims[:dim], dims[dim] * dims[dim + 1], *dims[dim + 2 :])
        if dim in side.batch and operand.array.dims == merged:
            return _Copies(number, dim, broadcast, new, True)
    return None
