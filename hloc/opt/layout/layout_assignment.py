"""Choose layouts so that transposes of dots cost nothing."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.analysis.dataflow import forwards
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.opt.movement.walk import candidates, is_elementwise
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.opt.values import is_splat
from hloc.shapes import ArrayShape, Layout

_LONGEST_CHAIN = 8
_LARGEST_REGION = 32

_LEAST_ROW = 8
"""Rows of fewer contiguous elements than this are not written by a gemm for a transpose.

Resizing f32[224,224,3] to 96x96 multiplies by two matrices: 1.1 ms with rows of 3, 0.35 without.
"""


class LayoutAssignment(RewritingPass):
    """Let a dot write its result in the layout that a transpose, copy or dot needs.

    `transpose(dot(a, b))` costs a pass over memory; a dot can write its rows anywhere. Where one
    transpose (or copy to another layout) is the only user, perhaps after elementwise work, the dot
    gets the layout that makes the transpose a bitcast with a row-major result, and then a reshape
    of it is a bitcast as well. Layouts of parameters, results of computations and everything else
    stay: kernels read any layout, and fused transposes cost no pass of their own. A dot that only
    another one reads, as matrices numbered by the fastest dimension, writes them one by one. A dot
    with another layout that no user needs becomes row-major. Skipped if only the new order makes
    the dot write, or read, with large strides. Measured: 64 products of 256x8 by 8x256 and a
    transpose that puts the batch between rows and columns take a fifth of the time.
    Cost: O(instructions).
    """

    acts_on = frozenset({"copy", "dot", "transpose"})

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Process every dot, then every transpose and copy."""
        for inst in candidates(module, context, "dot"):
            region = _region_without_needed_layout(inst)
            if region:
                with context.rewriting(module, self.name):
                    for part in region:
                        part.computation.set_shape(part, part.array.with_layout(None))
        for inst in candidates(module, context, "dot"):
            for number, operand in enumerate(inst.operands):
                before = operand.array.minor_to_major
                order = _order_by_batch(inst, number, before)
                chain = _chain(operand) if order != before else None
                if chain is not None:
                    self._write_in(order, chain, inst, context)
        for inst in candidates(module, context, "transpose", "copy"):
            chain = _chain(inst.operands[0])
            if chain is None:
                continue
            order = _written_order(inst)
            if _changes(inst, chain[-1], order):
                self._write_in(order, chain, inst, context)

    def _write_in(
        self,
        order: tuple[int, ...],
        chain: list[Instruction],
        inst: Instruction,
        context: PassContext,
    ) -> None:
        """Let the dot at the end of `chain` write its result in `order` for `inst`, if it can."""
        if not _writes_contiguously(chain[-1], order):
            text = f"{chain[-1].name} would write, or read an operand, with large strides"
            context.remark("missed", self.name, inst, text)
            return
        with context.rewriting(inst.computation.module, self.name):
            for part in chain:
                shape = part.array.with_layout(Layout(order))
                inst.computation.set_shape(part, shape)
            if not inst.is_root and not inst.is_a("dot"):
                inst.computation.set_shape(inst, _wanted(inst))


def _order_by_batch(dot: Instruction, number: int, order: tuple[int, ...]) -> tuple[int, ...]:
    """Return the order in which `dot` reads the matrices of operand `number` one by one.

    That is `order`, unless its fastest dimension numbers the matrices.
    """
    batch = (dot.attributes.lhs_batch_dims, dot.attributes.rhs_batch_dims)[number]
    if next(iter(_without_ones(dot.operands[number], order)), -1) not in batch:
        return order
    inner = [dim for dim in order if dim not in batch]
    return (*inner, *(dim for dim in order if dim in batch))


def _region_without_needed_layout(dot: Instruction) -> list[Instruction]:
    """Return `dot` and the elementwise users with its layout, if no reader needs that layout.

    Elementwise readers with a row-major result can reuse the memory of row-major operands. Empty if
    the dot is row-major, if a reader needs the layout, or if the dot would write with large
    strides.
    """
    if dot.array.layout is None or not dot.users:
        return []
    order = dot.array.minor_to_major
    region = {dot: None}
    stack = [dot]
    while stack:
        inst = stack.pop()
        if inst.is_root or inst.control_predecessors or len(region) > _LARGEST_REGION:
            return []
        for user in inst.users:
            fixed = not isinstance(user.shape, ArrayShape) or fixes_layout(user)
            if fixed or forwards(user) or user.is_a("transpose", "copy"):
                return []
            if user.is_a("dot") and not _reads_row_major(user, inst):
                return []
            same = is_elementwise(user) and user.array.minor_to_major == order
            if same and user not in region:
                region[user] = None
                stack.append(user)
    minor = dot.array.with_layout(None).minor_to_major[:1]
    return list(region) if all(_writes_rows_of(dot, dim) for dim in minor) else []


def _reads_row_major(dot: Instruction, operand: Instruction) -> bool:
    """True if `dot` reads the matrices of `operand` one by one where it is row-major."""
    order = operand.array.with_layout(None).minor_to_major
    numbers = [number for number, other in enumerate(dot.operands) if other is operand]
    return all(_order_by_batch(dot, number, order) == order for number in numbers)


def _wanted(inst: Instruction) -> ArrayShape:
    """Return the shape for users: row-major, except that a copy and a result keep theirs."""
    plain = inst.opcode.name == "transpose" and not inst.is_root and _users_read_any(inst)
    return inst.array.with_layout(None) if plain else inst.array


def fixes_layout(user: Instruction) -> bool:
    """True if `user` depends on the layout of its operands: on bytes, or as a parameter."""
    row = user.opcode
    if row.forwards or row.control_flow or row.side_effect:
        return True
    return user.is_a("bitcast", "bitcast-convert", "custom-call", "fusion")


def _users_read_any(inst: Instruction) -> bool:
    """False if a user fixes the layout, or if all are elementwise in the present layout."""
    users = inst.users
    if any(not isinstance(u.shape, ArrayShape) or fixes_layout(u) for u in users):
        return False
    return any(not is_elementwise(user) or user.array.layout is None for user in users)


def _written_order(inst: Instruction) -> tuple[int, ...]:
    """Return the minor-to-major order of the operand that makes `inst` a bitcast."""
    order = _wanted(inst).minor_to_major
    if inst.opcode.name == "copy":
        return order
    permutation = inst.attributes.dimensions
    return tuple(permutation[dim] for dim in order)


def _chain(part: Instruction) -> list[Instruction] | None:
    """Return the instructions from `part` up to a dot, each with one user."""
    chain: list[Instruction] = []
    while len(chain) < _LONGEST_CHAIN:
        if len(part.users) != 1 or part.is_root or part.control_predecessors:
            return None
        if not isinstance(part.shape, ArrayShape) or part.shape.dynamic:
            return None
        chain.append(part)
        if part.opcode.name == "dot":
            return chain
        if not is_elementwise(part):
            return None
        arrays = [o for o in part.operands if not o.array.is_scalar and not is_splat(o)]
        if len(arrays) != 1:
            return None
        part = arrays[0]
    return None


def _changes(inst: Instruction, dot: Instruction, order: tuple[int, ...]) -> bool:
    return inst.shape != _wanted(inst) or _without_ones(dot, order) != _without_ones(
        dot, dot.array.minor_to_major
    )


def _without_ones(inst: Instruction, order: tuple[int, ...]) -> list[int]:
    """Return `order` without the dimensions of size 1, whose position does not matter."""
    return [dim for dim in order if inst.array.dims[dim] != 1]


def _writes_contiguously(dot: Instruction, order: tuple[int, ...]) -> bool:
    """True if `dot` can write its result in `order` without larger strides, and in long rows."""
    kept, before = _without_ones(dot, order), _without_ones(dot, dot.array.minor_to_major)
    if _row_length(dot, kept) < _LEAST_ROW <= _row_length(dot, before):
        return False
    is_no_worse = kept[:1] == before[:1] or not _writes_rows_of(dot, before[0])
    return is_no_worse or _writes_rows_of(dot, kept[0])


def _row_length(dot: Instruction, order: Sequence[int]) -> int:
    """Return how many contiguous elements of the result are of one operand's free dimensions."""
    length = 1
    for dim in order:
        if not _side(dot, dim) or _side(dot, dim) != _side(dot, order[0]):
            break
        length *= dot.array.dims[dim]
    return length


def _side(dot: Instruction, dim: int) -> str:
    """Return "lhs" or "rhs", the operand that has result dimension `dim`; "" for a batch."""
    attributes = dot.attributes
    batch = len(attributes.lhs_batch_dims)
    lhs_free = dot.operands[0].array.rank - batch - len(attributes.lhs_contracting_dims)
    if dim < batch:
        return ""
    return "lhs" if dim < batch + lhs_free else "rhs"


def _writes_rows_of(dot: Instruction, dim: int) -> bool:
    """True if the operand that has result dimension `dim` is minor in that dimension too.

    A panel of a gemm is read along the dimension that is written fastest; one
    whose contracted dimension is minor has to be transposed first (twice the time, measured).
    """
    attributes, side = dot.attributes, _side(dot, dim)
    if not side:
        return False
    operand = dot.operands[0 if side == "lhs" else 1].array
    bound = (
        *getattr(attributes, f"{side}_batch_dims"),
        *getattr(attributes, f"{side}_contracting_dims"),
    )
    minor = next((d for d in operand.minor_to_major if operand.dims[d] != 1), None)
    return minor is not None and minor not in bound
