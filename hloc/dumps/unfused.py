"""Arrays that one kernel writes and another reads, and why the two are not fused.

XLA does not report why it did not fuse two kernels. hloc's fusion pass does: all fusions are undone
in a copy of the module, and the pass `fusion` runs on it with its remarks. Kernels that it would
fuse and XLA did not are marked. Copies are left out: they keep two buffers apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import count

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.dataflow import forwards
from hloc.analysis.kernel_count import is_kernel
from hloc.ir.clone import clone_module, copy_instructions
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.origin import origin_of
from hloc.lazy_dataclass import dataclass
from hloc.opt.fusion.cost_model import Limits
from hloc.opt.fusion.fusible import Role, role_of
from hloc.opt.fusion.instruction_fusion import InstructionFusion, fusion_groups
from hloc.opt.pass_base import PassContext

MOST_INSTRUCTIONS = 200_000
"""Maximum number of instructions, fusions undone, of a module that is analysed."""

_WHERE_ROLES_END = {
    Role.REDUCE: "{} ends a kernel: a result is known only after all its elements are read",
    Role.SCAN: "{} ends a kernel: it goes through its operand once, element after element",
    Role.UPDATE: "{} ends a kernel: it writes into a buffer in place",
}


@dataclass(frozen=True, slots=True)
class Unfused:
    """An array between two kernels.

    Attributes:
        name: the kernel that writes it, `fusion.1{0}` for one of several results; `readers` are
            those that read it.
        size_bytes: size of the array.
        traffic_bytes: bytes of one write and one read per reader.
        why: hloc's reason.
        fusible: True if hloc would fuse them.
    """

    name: str
    readers: tuple[str, ...]
    shape: str
    size_bytes: int
    traffic_bytes: int
    why: str
    fusible: bool
    source: str


def unfused(module: Module) -> tuple[Unfused, ...]:
    """Return the arrays between kernels of `module`, most traffic first."""
    if module.instruction_count > MOST_INSTRUCTIONS:
        return ()
    flat = _Flat(module)
    rows = [
        row
        for computation in control_flow_computations(module)
        for inst in computation.instructions
        if is_kernel(inst) and inst.opcode.exchange is None
        if not inst.is_a("constant", "copy")
        for row in _rows(inst, flat)
    ]
    return tuple(sorted(rows, key=lambda row: -row.traffic_bytes))


def _rows(inst: Instruction, flat: _Flat) -> Iterator[Unfused]:
    """Yield a row for the result of `inst`, or each element of it, that a kernel reads."""
    elements = [user for user in inst.users if user.is_a("get-tuple-element")]
    for array in elements or [inst]:
        readers = list(dict.fromkeys(_readers(array)))
        if not readers:
            continue
        why, fusible = flat.reason(inst, readers)
        size = array.shape.size_bytes
        yield Unfused(
            f"{inst.name}{{{array.attributes.index}}}" if elements else inst.name,
            tuple(reader.name for reader in readers),
            array.shape.text_without_layout,
            size,
            size * (1 + len(readers)),
            why,
            fusible,
            origin_of(inst),
        )


def _readers(inst: Instruction) -> Iterator[Instruction]:
    """Yield the kernels that read the result, also through bitcasts and tuple elements."""
    seen: set[Instruction] = set()
    waiting = list(inst.users)
    while waiting:
        user = waiting.pop(0)
        if user in seen:
            continue
        seen.add(user)
        if user.opcode.control_flow or user.is_a("tuple"):
            continue
        if is_kernel(user):
            yield user
        elif forwards(user) or user.opcode.forwards:
            waiting += user.users


class _Flat:
    """A copy of a module without fusions, and what hloc's fusion would do with it.

    Attributes:
        stands_for: the instruction that computes the result of a kernel, by the kernel's uid.
        reads: the instructions of a kernel that read its operands.
        groups: for an instruction, the fusions that hloc would compute it in.
    """

    def __init__(self, module: Module) -> None:
        flat = clone_module(module)
        self.stands_for: dict[int, Instruction] = {}
        self.reads: dict[int, list[Instruction]] = {}
        self.groups: dict[Instruction, set[int]] = defaultdict(set)
        context = PassContext(remarks=[])
        limits = Limits(InstructionFusion.max_operands, InstructionFusion.max_instructions)
        number = count()
        for computation in control_flow_computations(flat):
            self._undo(computation)
            for group in fusion_groups(computation, limits, context):
                this = next(number)
                for member in group.maps:
                    self.groups[member].add(this)
        self.remarks = {r.at: r.text for r in context.remarks or () if r.kind == "missed"}

    def _undo(self, computation: Computation) -> None:
        """Replace each fusion by its instructions."""
        for inst in tuple(computation.instructions):
            self.stands_for[inst.uid] = inst
            self.reads[inst.uid] = [inst]
            if not inst.is_a("fusion"):
                continue
            (body,) = inst.called
            values = dict(zip(body.parameters, inst.operands, strict=True))
            found = copy_instructions(body, computation, values, caller=inst.common)
            result = found[body.root]
            self.stands_for[inst.uid] = result
            self.reads[inst.uid] = [found[i] for p in body.parameters for i in p.users]
            computation.replace(inst, result)
            computation.remove(inst)

    def reason(self, inst: Instruction, readers: list[Instruction]) -> tuple[str, bool]:
        """Return why `inst` is not fused with `readers`; True if hloc would fuse them."""
        result = self.stands_for[inst.uid]
        role, opcode = role_of(result), result.opcode.name
        if role in _WHERE_ROLES_END:
            return _WHERE_ROLES_END[role].format(_a(opcode)), False
        if opcode == "tuple":
            return "it has several results, and reads of one do not join it", False
        if role is Role.NONE:
            return f"{_a(opcode)} is a kernel of its own", False
        mine = self.groups[result]
        apart = [r for r in readers if not any(mine & self.groups[i] for i in self.reads[r.uid])]
        if not apart:
            return f"hloc's rules would compute its {opcode} in what reads it", True
        for reader in apart:
            roles = [(i.opcode.name, role_of(i)) for i in self.reads[reader.uid]]
            if all(role is Role.NONE for _, role in roles):
                names = ", ".join(dict.fromkeys(name for name, _ in roles))
                return f"{_a(names)} ({reader.name}) takes its operands from memory", False
        return self.remarks.get(result.name, "it is a result of the computation too"), False


def _a(word: str) -> str:
    return f"an {word}" if word[:1] in "aeiou" or word == "fft" else f"a {word}"
