"""Canonical text of a kernel request, so that equal work is compiled once.

Instructions are numbered by post order; names, metadata and the kind of a fusion do not count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import field
from typing import Any, Protocol, TypeVar

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import post_order, reachable_computations
from hloc.lazy_dataclass import dataclass
from hloc.literal import Literal
from hloc.ops.rows.custom_call import is_linalg

Result = TypeVar("Result")


class InstructionKeys:
    """Canonical texts of instructions and whole fusions; cached until the instruction changes.

    Instructions with equal texts compute the same, so a plan of one holds for the others: equal
    layers of a model are planned once.
    """

    def __init__(self) -> None:
        self._kept: dict[Instruction, tuple[object, str]] = {}
        self._texts = _AttributeTexts()

    def of(self, inst: Instruction) -> str:
        """Return the text of `inst`."""
        called = reachable_computations(*inst.called)
        versions = tuple(computation.version for computation in called)
        shapes = [operand.shape for operand in inst.operands]
        state = (inst.operands, shapes, inst.shape, inst.attributes, inst.called, versions)
        kept = self._kept.get(inst)
        if kept is None or kept[0] != state:
            kept = self._kept[inst] = (state, _key(inst, called, self._texts))
        return kept[1]

    def once(self, ask: Callable[[Instruction], Result]) -> Callable[[Instruction], Result]:
        """Return `ask` memoised by the text of the instruction."""
        answers: dict[str, Result] = {}

        def answer(inst: Instruction) -> Result:
            key = self.of(inst)
            if key not in answers:
                answers[key] = ask(inst)
            return answers[key]

        return answer


class _AttributeTexts:
    """Texts of attributes; an object that many instructions share is written once."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Any, str]] = {}

    def of(self, inst: Instruction) -> str:
        """Return the text of the attributes of `inst`, as far as they count."""
        name, attributes = inst.opcode.name, inst.attributes
        if name == "fusion" or attributes is None:
            return ""
        kept = self._kept.get(id(attributes))  # by identity: 0.0 equals -0.0
        if kept is None:
            constant = name == "constant"
            text = _literal_key(attributes.literal) if constant else repr(attributes)
            kept = self._kept[id(attributes)] = (attributes, text)
        return kept[1]


def _key(inst: Instruction, called: list[Computation], texts: _AttributeTexts) -> str:
    numbers: dict[Computation, int] = {}
    parts: list[str] = []
    for computation in called:
        numbers[computation] = len(numbers)
        parts.append(_computation_key(computation, numbers, texts))
    operands = {operand: i for i, operand in enumerate(dict.fromkeys(inst.operands))}
    shapes = ",".join(str(operand.shape) for operand in operands)
    parts.append(f"{shapes}|{_instruction_key(inst, operands, numbers, texts)}")
    return "\n".join(parts)


def _computation_key(
    computation: Computation, numbers: dict[Computation, int], texts: _AttributeTexts
) -> str:
    order = post_order(computation)
    position = {inst: i for i, inst in enumerate(order)}
    lines = [_instruction_key(inst, position, numbers, texts) for inst in order]
    return f"{{{position[computation.root]};{';'.join(lines)}}}"


def _instruction_key(
    inst: Instruction,
    position: dict[Instruction, int],
    numbers: dict[Computation, int],
    texts: _AttributeTexts,
) -> str:
    operands = ",".join(str(position[operand]) for operand in inst.operands)
    called = ",".join(str(numbers[computation]) for computation in inst.called)
    return f"{inst.opcode.name} {inst.shape}({operands}){texts.of(inst)}[{called}]"


def _literal_key(literal: Literal) -> str:
    if isinstance(literal.value, tuple):
        return "(" + ",".join(_literal_key(part) for part in literal.value) + ")"
    uniform = literal.uniform
    if uniform is not None:
        return f"={uniform.tobytes().hex()}"
    return "" if literal.value is None else f"#{literal.value.tobytes().hex()}"


class PlannedKernel(Protocol):
    """A target's plan of one kernel; the target gets it back in the `KernelRequest`."""

    @property
    def scratch_bytes(self) -> int:
        """Memory the kernel needs beside operands and results."""

    @property
    def library_function(self) -> str:
        """Name of the LAPACK routine whose address the kernel gets, "" if none."""


@dataclass(frozen=True, slots=True)
class KernelRequest:
    """A kernel to generate.

    Attributes:
        inst: a fusion or a single instruction.
        aliased: per leaf of the result, the number of the operand leaf in whose memory it is
            computed, or None.
        planned: the target's plan of it.
    """

    inst: Instruction
    aliased: tuple[int | None, ...]
    planned: PlannedKernel | None = field(default=None, compare=False, repr=False)

    @property
    def scratch_bytes(self) -> int:
        """Memory the kernel needs beside operands and results; 0 before it is planned."""
        return self.planned.scratch_bytes if self.planned else 0

    @property
    def library_function(self) -> str:
        """Name of the LAPACK routine whose address the kernel gets, "" if none."""
        return self.planned.library_function if self.planned else ""


def kernel_key(request: KernelRequest, keys: InstructionKeys) -> str:
    """Return a canonical text; equal texts mean equal machine code."""
    return f"{keys.of(request.inst)}|{request.aliased}"


def kernel_symbol(key: str) -> str:
    """Return the name of a kernel: a digest, so that equal kernels of all modules share it."""
    return "kernel_" + hashlib.sha256(key.encode()).hexdigest()[:24]


def needs_kernel(inst: Instruction) -> bool:
    """True if `inst` computes something in a kernel of its own."""
    return (inst.opcode.has_kernel and not inst.is_a("bitcast")) or is_linalg(inst)
