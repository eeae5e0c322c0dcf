"""Convert sorts of which only a prefix is read to topk."""

from __future__ import annotations

from hloc.dtypes import S32
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ops.builder import Builder
from hloc.opt.expander import is_static
from hloc.opt.make import make
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.walk import each_instruction


class TopkRewriter(RewritingPass):
    """Replace a sort of values, or of values and indices, by topk if only k are read.

    The comparator must be one comparison of the values, and every user must slice `[0:k]` with the
    same k. A stable sort of floats by plain comparison stays, since topk orders -0 and 0, unless
    fast-math is on. A sort along another dimension than the last is transposed. Cost:
    O(instructions). Source: XLA's pass of this name.
    """

    acts_on = frozenset({"sort"})

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Rewrite in every computation."""
        for inst in each_instruction(module, context, "sort"):
            found = _reads(inst)
            if found is None:
                continue
            if not context.fast_math and _orders_zeros(inst):
                text = "a stable sort keeps -0 and 0 in place, topk orders them"
                context.remark("missed", self.name, inst, text)
                continue
            with context.rewriting(module, self.name):
                _rewrite(inst, *found)


def _orders_zeros(inst: Instruction) -> bool:
    root = inst.called[0].root
    plain = root.attributes.type != "TOTALORDER"
    return bool(inst.operands[0].array.dtype.is_float and plain and inst.attributes.is_stable)


def _reads(inst: Instruction) -> tuple[int, list[tuple[int, Instruction]]] | None:
    """Return k and the slices that read the sort, each with the number of its operand."""
    if not is_static(inst) or len(inst.operands) > 2 or _direction(inst) is None:
        return None
    (dim,) = inst.attributes.dimensions
    if len(inst.operands) == 2 and not _is_places(inst.operands[1], dim):
        return None
    slices = _slices(inst)
    if not slices or inst.is_root:
        return None
    (first, *others) = (part for _, part in slices)
    k = first.array.dims[dim]
    whole = inst.operands[0].array.dims
    wanted = (*whole[:dim], k, *whole[dim + 1 :])
    if k == whole[dim] or any(part.array.dims != wanted for part in (first, *others)):
        return None
    return (k, slices) if all(_starts_at_zero(part) for _, part in slices) else None


def _direction(inst: Instruction) -> str | None:
    """Return GT or LT if that comparison of the first operand's elements is the comparator."""
    body = inst.called[0]
    root, dtype = body.root, inst.operands[0].array.dtype
    if not root.is_a("compare") or dtype.is_complex or dtype.is_pred:
        return None
    kind, direction = root.attributes.type, root.attributes.direction
    if kind in ("SIGNED", "UNSIGNED") and (kind == "SIGNED") != dtype.is_signed:
        return None
    x, y = body.parameters[:2]
    turned = {"GT": "LT", "LT": "GT"}
    if direction not in turned:
        return None
    if root.operands == (x, y):
        return str(direction)
    return turned[direction] if root.operands == (y, x) else None


def _is_places(inst: Instruction, dim: int) -> bool:
    """True if `inst` numbers the elements along `dim`; an iota, perhaps of one row."""
    if inst.is_a("iota"):
        return bool(inst.attributes.iota_dimension == dim and inst.array.dtype.is_integer)
    if inst.is_a("broadcast") and inst.operands[0].is_a("iota"):
        (iota,) = inst.operands
        at = inst.attributes.dimensions
        is_along = at[iota.attributes.iota_dimension] == dim
        return bool(is_along and iota.array.dtype.is_integer)
    return False


def _slices(inst: Instruction) -> list[tuple[int, Instruction]]:
    """Return the slices that are all that reads the sort, [] if something else does."""
    if len(inst.operands) == 1:
        readers = [(0, user) for user in inst.users]
    else:
        readers = []
        for part in inst.users:
            if not part.is_a("get-tuple-element") or part.is_root or part.control_predecessors:
                return []
            readers += [(part.attributes.index, user) for user in part.users]
    fits = all(user.is_a("slice") and not user.control_predecessors for _, user in readers)
    return readers if fits else []


def _starts_at_zero(inst: Instruction) -> bool:
    return all(part.start == 0 and part.stride == 1 for part in inst.attributes.slice)


def _rewrite(inst: Instruction, k: int, slices: list[tuple[int, Instruction]]) -> None:
    """Replace the slices of a sort by results of `topk` of the sorted dimension, moved last.

    `slices` are the readers of the sort, each with the number of its operand; `k` is their length.
    """
    b = Builder(inst.computation)
    (dim,) = inst.attributes.dimensions
    x = inst.operands[0]
    rank = x.array.rank
    order = [*(d for d in range(rank) if d != dim), dim]
    back = [order.index(d) for d in range(rank)]
    last = dim == rank - 1
    found = b.instruction(
        "topk", (x if last else b.transpose(x, order),), k=k, largest=_direction(inst) == "GT"
    )
    for number, part in slices:
        value = b.get_tuple_element(found, number)
        value = value if last else b.transpose(value, back)
        if number:
            assert value.array.dtype is S32
            value = b.convert(value, part.array.dtype)
        if value.shape != part.shape:
            value = make(inst.computation, "copy", part.shape, value)
        inst.computation.replace(part, value)
