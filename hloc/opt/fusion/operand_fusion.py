"""Operand fusion for GPUs: products compute their operands as they read them.

A block of a gemm reads its tiles of both operands; elementwise producers can run as it does, and
their kernel and its array in memory are gone. They then run once per tile of the other operand, and
tiles are not copied asynchronously: the model of `gpu_gemm` decides.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.epilogue import PRODUCTS
from hloc.analysis.gpu_devices import DEFAULT_CHIP
from hloc.analysis.gpu_gemm import GemmSide
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.draft import Draft
from hloc.opt.fusion.fusible import Role, is_view, role_of
from hloc.opt.fusion.operand_readers import Reader, fuse_into, is_overwritten, readers_of
from hloc.opt.fusion.product_kernel import ProductKernel, producer_draft, side_of
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.shapes import ArrayShape

_MAX_MADE, _MAX_OPERATIONS = 32, 64
"""Limits on the values and instructions per element: a thread computes 16 and more elements of a
tile, each by code of its own."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A producer, the model of its kernel, and the products that read it."""

    inst: Instruction
    draft: Draft
    readers: tuple[Reader, ...]


@dataclass(frozen=True)
class OperandFusion(RewritingPass):
    """Fuse elementwise producers into the products that read them, by a GPU cost model.

    A producer joins all its users, which must be dots and convolutions that read it as a factor,
    or none; those of both sides of a product join together if neither would alone. It runs once per
    tile of the other factor; what it saves is its own kernel and its array in memory. Expects the
    fusions of `priority-fusion` and `output-fusion`; leaves `fusion` instructions of kind kOutput.
    Cost: O(instructions).

    Attributes:
        chip: LLVM's name, for the figures of the model; "" is sm_80.
    """

    chip: str = ""
    acts_on = frozenset(PRODUCTS)

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Fuse in the entry and in the bodies of loops, branches and calls."""
        for computation in control_flow_computations(module):
            pinned = computation.awaited
            # Users first: a producer may read what another one, now in a product, computes.
            for inst in reversed(post_order(computation)):
                for producer in self._chosen(inst, pinned, context):
                    if context.spent:
                        return
                    context.at = producer
                    with context.rewriting(module, self.name):
                        fuse_into(computation, producer, readers_of(producer, pinned))

    def _chosen(
        self, inst: Instruction, pinned: Collection[Instruction], context: PassContext
    ) -> list[Instruction]:
        """Return `inst` if it should be fused, or it and the producer of the other side."""
        candidate = self._candidate(inst, pinned)
        if candidate is None:
            return []
        if _is_long(candidate.draft):
            context.remark("missed", self.name, inst, "the code would be too long")
            return []
        group = [candidate]
        gain = self._gain(group)
        if gain <= 0:
            # What a product loses by computing a side, it loses only once.
            partner = self._partner(candidate, pinned)
            if partner is not None and not _is_long(partner.draft):
                group.append(partner)
                gain = self._gain(group)
        products = len(candidate.readers)
        if gain <= 0:
            text = f"{products} products would take {-gain * 1e6:.2f} microseconds more"
            context.remark("missed", self.name, inst, text)
            return []
        for member in group:
            text = f"joins {products} products, saves {gain * 1e6:.2f} microseconds"
            context.remark("passed", self.name, member.inst, text)
        return [member.inst for member in group]

    def _candidate(self, inst: Instruction, pinned: Collection[Instruction]) -> _Candidate | None:
        """Return a producer that products may take in."""
        if inst in pinned or not _is_producer(inst):
            return None
        readers = readers_of(inst, pinned)
        if not readers:
            return None
        return _Candidate(inst, producer_draft(inst, self.chip or DEFAULT_CHIP), readers)

    def _partner(self, candidate: _Candidate, pinned: Collection[Instruction]) -> _Candidate | None:
        """Return the producer of the other side, if one product reads both and nothing else."""
        reader, *others = candidate.readers
        if others or len(reader.views) > 1:
            return None
        (side,) = reader.views
        value = reader.kernel.outside(1 - side)
        while value is not None and is_view(value):
            (value,) = value.operands
        partner = None if value is None else self._candidate(value, pinned)
        return partner if partner is not None and len(partner.readers) == 1 else None

    def _gain(self, group: Sequence[_Candidate]) -> float:
        """Return the time saved if producers join their readers, negative if that is slower."""
        chip = self.chip or DEFAULT_CHIP
        computed: dict[ProductKernel, dict[int, GemmSide]] = {}
        for candidate in group:
            for reader in candidate.readers:
                sides = computed.setdefault(reader.kernel, {})
                sides |= {side: side_of(candidate.draft, v) for side, v in reader.views.items()}
        gain = sum(candidate.draft.seconds() for candidate in group)
        for kernel, sides in computed.items():
            gain += kernel.seconds(chip) - kernel.seconds(chip, sides)
        return gain


def _is_producer(inst: Instruction) -> bool:
    """True for kernels that compute one array element by element."""
    if not isinstance(inst.shape, ArrayShape) or inst.is_root or inst.control_predecessors:
        return False
    if not inst.is_a("fusion"):
        is_kernel = not inst.is_a("constant", "parameter")
        return is_kernel and role_of(inst) is Role.LOOP and not is_overwritten(inst)
    members = inst.called[0].instructions
    roles = (Role.LOOP, Role.VIEW)
    is_loop = all(m.is_a("parameter", "constant") or role_of(m) in roles for m in members)
    return is_loop and inst.attributes.kind == "kLoop" and not is_overwritten(inst)


def _is_long(draft: Draft) -> bool:
    """True for a producer whose code is too long to be written for every element of a tile."""
    return draft.made > _MAX_MADE or draft.operations > _MAX_OPERATIONS * draft.elements
