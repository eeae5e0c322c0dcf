"""Products that read a producer as a factor, and the fusions of both."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.in_place import overwritten_operands
from hloc.ir.clone import inline, outline
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.fusible import is_view
from hloc.opt.fusion.outline_fusion import add_fusion, remove_dead
from hloc.opt.fusion.product_kernel import ProductKernel
from hloc.opt.pass_base import PassContext, RewritingPass

_MAX_OPERANDS = 96

_MOST_USERS = 200
"""An array with more users than this counts as overwritten: to look at all of them for each of many
slices of it would take long."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A kernel that reads the result of a producer as factors of its product.

    Attributes:
        views: the reshapes between the result and each side that it is.
    """

    kernel: ProductKernel
    views: Mapping[int, tuple[Instruction, ...]]


def is_overwritten(producer: Instruction) -> bool:
    """True if an operand is changed in place by another user, which would have to wait or copy."""
    return any(
        len(o.users) > _MOST_USERS
        or any(
            user.is_a("while") or any(user.operands[n] is o for n in overwritten_operands(user))
            for user in o.users
        )
        for o in producer.operands
    )


def readers_of(producer: Instruction, pinned: Collection[Instruction]) -> tuple[Reader, ...]:
    """Return the products that read `producer`; none if something else reads it too."""
    found: dict[Instruction, dict[int, tuple[Instruction, ...]]] = {}
    kernels: dict[Instruction, ProductKernel] = {}
    for value, views in _values(producer):
        if value.is_root or value in pinned:
            return ()
        for user in value.users:
            if is_view(user):
                continue
            kernel = kernels.get(user) or ProductKernel.of(user)
            if kernel is None or user.control_predecessors:
                return ()
            sides = [side for side in range(2) if kernel.outside(side) is value]
            if not sides or not kernel.reads_only_as_factor(value):
                return ()
            kernels[user] = kernel
            found.setdefault(user, {}).update(dict.fromkeys(sides, views))
    readers = tuple(Reader(kernel, found[user]) for user, kernel in kernels.items())
    fits = all(_fits(producer, reader) for reader in readers)
    return readers if fits else ()


def _values(producer: Instruction) -> Iterator[tuple[Instruction, tuple[Instruction, ...]]]:
    """Yield the result and the reshapes of it, each with the reshapes that lead there."""
    pending: list[tuple[Instruction, tuple[Instruction, ...]]] = [(producer, ())]
    while pending:
        value, views = pending.pop()
        yield value, views
        pending += [(user, (user, *views)) for user in value.users if is_view(user)]


def _fits(producer: Instruction, reader: Reader) -> bool:
    inst = reader.kernel.inst
    return len({*producer.operands, *inst.operands}) <= _MAX_OPERANDS


def fuse_into(computation: Computation, producer: Instruction, readers: Sequence[Reader]) -> None:
    """Replace `producer` and its readers by one fusion per reader."""
    gone: dict[Instruction, None] = {producer: None}
    for reader in readers:
        kernel = reader.kernel.inst
        between = dict.fromkeys(view for views in reader.views.values() for view in reversed(views))
        members = [producer, *between, kernel]
        body, operands = outline(computation, members, [kernel], name="fused_computation")
        for member in list(body.instructions):
            if member.is_a("fusion"):
                inline(member)
        name = f"{_short_name(producer)}_{_short_name(kernel)}_fusion"
        fusion = add_fusion(computation, body, operands, "kOutput", name, kernel)
        computation.replace(kernel, fusion)
        computation.remove(kernel)
        gone.update(between)
    remove_dead(list(gone))


def _short_name(inst: Instruction) -> str:
    name = inst.name if inst.is_a("fusion") else inst.opcode.name.replace("-", "_")
    return re.sub(r"_fusion|\.\d+", "", name)


class ReaderFusion(RewritingPass):
    """Base of passes that fuse a producer into all products that read it."""

    def readers(self, _inst: Instruction, _pinned: Collection[Instruction]) -> tuple[Reader, ...]:
        """Return the products that an instruction is fused into, none if it stays as it is."""
        raise NotImplementedError

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Fuse in the entry and in the bodies of loops, branches and calls."""
        for computation in control_flow_computations(module):
            pinned = computation.awaited
            for inst in post_order(computation):
                is_free = inst not in pinned and not inst.is_root and not inst.control_predecessors
                readers = self.readers(inst, pinned) if is_free else ()
                if not readers:
                    continue
                if context.spent:
                    return
                context.at = inst
                context.remark("passed", self.name, inst, f"joins {len(readers)} products")
                with context.rewriting(module, self.name):
                    fuse_into(computation, inst, readers)
