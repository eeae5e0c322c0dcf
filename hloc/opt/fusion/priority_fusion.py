"""Priority fusion for GPUs: fuse the most profitable producer into its users first.

A producer is duplicated into all kernels that read it, or into none. The gain is the time of its
own kernel plus what the readers save, by the model of `gpu_performance`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from heapq import heappop, heappush

from hloc.analysis.call_graph import control_flow_computations, live_instructions
from hloc.analysis.gpu_devices import DEFAULT_CHIP, spec_of_chip
from hloc.analysis.gpu_performance import LAUNCH_SECONDS
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.draft import Draft, Setting
from hloc.opt.fusion.fusible import Role, producer_of, role_of
from hloc.opt.fusion.multi_output import MultiOutputFusion, row_regions
from hloc.opt.fusion.outline_fusion import outline_fusion
from hloc.opt.fusion.region import Region
from hloc.opt.fusion.row_parts import needed_in_memory, row_parts
from hloc.opt.pass_base import PassContext, RewritingPass

_MAX_MAPS = 12
"""Limit on index maps of a producer: each repeats its code."""

_MAX_MADE = 1024
"""Limit on the values computed per thread, a bound on code size."""

_MAX_DUPLICATED = 128
"""Limit on the instructions that one step adds by duplicating a producer."""


@dataclass(frozen=True)
class PriorityFusion(RewritingPass):
    """Fuse producers into all their users, most profitable first, by a GPU cost model.

    Reductions, scans and updates in place are roots of fusions only, so that no kernel reduces
    twice, or loops over the result of its own reduction. Expects a module without dead code. Leaves
    `fusion` instructions of kind kLoop, or kInput with a reduce as root. Cost: O(n log n) for n
    instructions, times the operands and readers of a kernel, which are bounded.

    Attributes:
        chip: LLVM's name, for the figures of the model; "" is sm_80.
    """

    chip: str = ""
    max_operands: int = 96
    max_instructions: int = 512

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Fuse in the entry and in the bodies of loops, branches and calls."""
        for computation in control_flow_computations(module):
            for draft in _Queue(computation, self, context).drafts():
                if context.spent:
                    return
                context.at = draft.root
                with context.rewriting(module, self.name):
                    order = sorted(draft.members, key=draft.setting.positions.__getitem__)
                    outline_fusion(computation, order, draft.results, draft.root)


class _Queue:
    """The kernels of one computation, and the producers among them ordered by gain."""

    def __init__(
        self, computation: Computation, limits: PriorityFusion, context: PassContext
    ) -> None:
        """Make the kernels: row-wise regions, then each instruction that needs one, users first."""
        order = live_instructions(computation)
        self.limits, self.context = limits, context
        self.chip = limits.chip or DEFAULT_CHIP
        self.setting = Setting(
            spec_of_chip(self.chip), {inst: place for place, inst in enumerate(order)}
        )
        self.pinned = computation.awaited
        self.kernels: dict[Instruction, Draft] = {}
        """The kernel of each root."""

        self.holders: dict[Instruction, dict[Draft, None]] = {}
        """The kernels that each instruction is a member of."""

        self.waiting: list[tuple[float, int, int, Draft]] = []
        self.asked: dict[Draft, int] = {}
        self.gains: dict[tuple[Draft, Draft], tuple[int, int, float]] = {}
        self.copied: set[Instruction] = set()
        """Instructions that row-wise kernels also compute, and can write."""

        self.written: set[Instruction] = set()
        """Results of row-wise kernels: others read them, even if recomputing would be free."""

        in_memory = needed_in_memory(order, self.pinned)
        for region in row_regions(computation, MultiOutputFusion(chip=self.chip), context):
            self._add_rows(region, in_memory)
        for inst in reversed(order):
            missing = inst not in self.holders or inst in self.copied
            if missing and self._may_be_kernel(inst):
                self._add(Draft.of(inst, self.setting, self._is_taken_along))

    def drafts(self) -> Iterator[Draft]:
        """Yield the kernels of more than one instruction, users before producers."""
        self._join_views()
        for draft in self.kernels.values():
            self._weigh(draft)
        while self.waiting:
            _, _, asked, draft = heappop(self.waiting)
            if asked == self.asked[draft] and self.kernels.get(draft.root) is draft:
                self._fuse(draft)
        # Members copied into a row-wise kernel are replaced after that kernel has been written.
        for draft in sorted(self.kernels.values(), key=self._place, reverse=True):
            _let_go_of_views(draft)
            if len(draft.members) > 1:
                yield draft

    # ---- kernels

    def _may_be_kernel(self, inst: Instruction) -> bool:
        if inst in self.pinned or role_of(inst) is Role.NONE or inst.opcode.name == "constant":
            return False
        return not _is_free(inst) or inst.is_root

    def _is_taken_along(self, inst: Instruction) -> bool:
        return _is_free(inst) and inst not in self.written

    def _add_rows(self, region: Region, in_memory: Collection[Instruction]) -> None:
        """Add the row-wise kernel of a region."""
        parts = row_parts(region, self.setting.positions, in_memory)
        if parts is None:
            return
        inside = set(parts.members)
        draft = Draft.of_results(
            parts.results,
            max(
                (member for member in parts.members if member.is_a("reduce")),
                key=lambda inst: inst.operands[0].array.elements,
            ),
            region.rows,
            self.setting,
            lambda inst: inst in inside or self._is_taken_along(inst),
        )
        self._add(draft)
        self.written.update(parts.results)
        self.copied.update(parts.copied)

    def _add(self, draft: Draft) -> None:
        self.kernels[draft.root] = draft
        for member in draft.members:
            self.holders.setdefault(member, {})[draft] = None

    def _readers(self, draft: Draft) -> list[Draft] | None:
        """Return the kernels that read a result, None if something else reads it too."""
        if draft.root.is_root or len(draft.root.users) > _MAX_DUPLICATED:
            return None
        found: dict[Draft, None] = {}
        for user in draft.root.users:
            holders = self.holders.get(user)
            if not holders or any(holder.is_view for holder in holders):
                return None
            found.update(holders)
        return [reader for reader in found if draft.root in reader.operands]

    def _merge(self, producer: Draft, readers: list[Draft]) -> None:
        for reader in readers:
            reader.absorb(producer)
        for member in producer.members:
            holders = self.holders[member]
            del holders[producer]
            holders.update(dict.fromkeys(readers))
        del self.kernels[producer.root]

    def _join_views(self) -> None:
        """Fuse reshapes that move no bytes into their users, if all of these are kernels."""
        for draft in list(self.kernels.values()):
            readers = self._readers(draft) if draft.is_view else None
            if readers and not self._why_not(draft, readers):
                self._merge(draft, readers)

    # ---- the queue

    def _weigh(self, draft: Draft) -> None:
        """Put `draft` in the queue with its current gain, if positive."""
        self.asked[draft] = self.asked.get(draft, 0) + 1
        readers = None if draft.role is not Role.LOOP else self._readers(draft)
        if not readers or self._why_not(draft, readers):
            return
        gain = self._whole_gain(draft, readers)
        if gain > 0:
            place = self.setting.positions[draft.root]
            heappush(self.waiting, (-gain, -place, self.asked[draft], draft))

    def _whole_gain(self, producer: Draft, readers: list[Draft]) -> float:
        """Return the time saved if `producer` joins `readers`.

        A reader that can write the producer's result as a second output, and depends on no other
        reader, also saves the kernel of the producer; since the two may turn out not to fit, this
        counts as half a launch.
        """
        gains = {reader: self._gain(producer, reader) for reader in readers}
        written = LAUNCH_SECONDS / 2 + producer.write_seconds
        if producer.root in self.copied:
            return written + sum(gains.values())
        gain = producer.seconds() + sum(gains.values())
        first = min(readers, key=self._place)
        if len(readers) > 1 and first.may_write(producer):
            gain = min(gain, written + sum(gains.values()) - gains[first])
        return gain

    def _place(self, draft: Draft) -> int:
        """Return a position in the order at which all operands of a kernel have been computed."""
        return max(self.setting.positions[result] for result in draft.results)

    def _gain(self, producer: Draft, reader: Draft) -> float:
        """Return the time that `reader` saves if `producer` joins it."""
        known = self.gains.get((producer, reader))
        if known is None or known[:2] != (producer.version, reader.version):
            gain = reader.seconds() - reader.seconds_with(producer)
            known = self.gains[producer, reader] = (producer.version, reader.version, gain)
        return known[2]

    def _fuse(self, producer: Draft) -> None:
        readers = self._readers(producer)
        assert readers
        sources = dict.fromkeys(producer.operands)
        self._remark(producer, readers)
        self._merge(producer, readers)
        for reader in readers:
            sources.update(dict.fromkeys(reader.operands))
            self._weigh(reader)
        for source in sources:
            if source in self.kernels:
                self._weigh(self.kernels[source])

    # ---- limits

    def _why_not(self, producer: Draft, readers: list[Draft]) -> str:
        """Return why `producer` may not join all `readers`, "" if it may."""
        if len(producer.members) * (len(readers) - 1) > _MAX_DUPLICATED:
            return f"{len(readers)} kernels would compute {len(producer.members)} instructions each"
        for reader in readers:
            if len(reader.operands[producer.root]) > _MAX_MAPS:
                return "it is read at too many places"
            if reader.made_with(producer) > _MAX_MADE:
                return "the code would be too long"
            if len(reader.members) + len(producer.members) > self.limits.max_instructions:
                return f"a fusion would pass {self.limits.max_instructions} instructions"
            if len({*reader.operands, *producer.operands}) - 1 > self.limits.max_operands:
                return f"a fusion would pass {self.limits.max_operands} operands"
            if _changes_what_it_reads(producer, reader):
                return "a user changes its operand in place"
        return ""

    def _remark(self, producer: Draft, readers: list[Draft]) -> None:
        if self.context.remarks is None:
            return
        gain = self._whole_gain(producer, readers)
        text = f"joins {len(readers)} kernels, saves {gain * 1e6:.2f} microseconds"
        self.context.remark("passed", self.limits.name, producer.root, text)


def _is_free(inst: Instruction) -> bool:
    """True if it reads no memory: constants, broadcasts of one, iotas."""
    if role_of(inst) is not Role.LOOP:
        return False
    name = inst.opcode.name
    return name in ("constant", "iota") or (
        name == "broadcast" and inst.operands[0].opcode.name == "constant"
    )


def _changes_what_it_reads(producer: Draft, reader: Draft) -> bool:
    """True if an in-place update would read its buffer elsewhere or compute it in the fusion."""
    if reader.role is not Role.UPDATE:
        return False
    buffer = reader.root.operands[0]
    return producer.root is buffer or producer_of(buffer) in map(producer_of, producer.operands)


def _let_go_of_views(draft: Draft) -> None:
    """Remove reshapes at the boundary: outside they are free, inside they cost divisions."""
    places = draft.setting.positions
    for member in sorted(draft.members, key=places.__getitem__):
        if member is draft.root or role_of(member) is not Role.VIEW:
            continue
        if not any(operand in draft.members for operand in member.operands):
            draft.release(member)
