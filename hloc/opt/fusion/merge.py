"""Build the fusion of a region: one body, equal instructions merged, a tuple of results."""

from __future__ import annotations

from hloc.ir.clone import Inside
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import Opcode, opcode_row
from hloc.opt.fusion.outline_fusion import add_fusion
from hloc.opt.fusion.region import Form, Kernel, Region, outputs_of
from hloc.opt.make import make
from hloc.shapes import TupleShape


def merge(computation: Computation, region: Region) -> None:
    """Replace the kernels of `region` by one fusion, and their results by its results."""
    outputs = list(outputs_of(region))
    body = _Body(computation)
    for kernel in region.kernels:
        body.add(kernel)
    body.finish(outputs)
    last = region.kernels[-1].inst
    kind = "kLoop" if region.form is Form.LOOP else "kInput"
    fusion = add_fusion(
        computation, body.computation, body.inner.operands, kind, _name(region), last
    )
    for number, value in enumerate(outputs):
        result = fusion
        if len(outputs) > 1:
            result = make(computation, "get-tuple-element", value.shape, fusion, index=number)
        computation.replace(value, result)
    for kernel in reversed(region.kernels):
        for inst in dict.fromkeys((*kernel.values, kernel.inst)):
            if not inst.users:
                computation.remove(inst)


def _name(region: Region) -> str:
    names = {kernel.inst.name.removesuffix("_fusion") for kernel in region.kernels}
    shortest = min(names, key=lambda name: (len(name), name))
    return f"{shortest}_multi_fusion"


class _Body:
    """The fused computation under construction."""

    def __init__(self, outside: Computation) -> None:
        self.computation = outside.module.add_computation("fused_computation")
        self.inner = Inside(self.computation)
        self.known: dict[tuple[Opcode | Instruction, ...], list[Instruction]] = {}
        """The members by opcode and operands."""

    def add(self, kernel: Kernel) -> None:
        """Copy the members of a kernel, after the kernels that it reads."""
        found: dict[Instruction, Instruction] = {}
        inst = kernel.inst
        names = inst.called[0].parameters if inst.opcode.name == "fusion" else inst.operands
        live = set(kernel.order)
        for name, operand in zip(names, inst.operands, strict=True):
            if name in live or inst.opcode.name != "fusion":
                found[name] = self.inner[operand]
        for member in kernel.order:
            if member not in found:
                found[member] = self._copy(member, [found[o] for o in member.operands])
        for value in kernel.values:
            self.inner[value] = self._result(kernel, value, found)

    def _result(
        self, kernel: Kernel, value: Instruction, found: dict[Instruction, Instruction]
    ) -> Instruction:
        """Return the member that computes `value`."""
        if value is kernel.inst:
            return found[kernel.outputs[0]]
        root = kernel.outputs[0]
        if len(kernel.outputs) == 1 and isinstance(root.shape, TupleShape):  # of several arrays
            return self._copy(value, [found[root]])
        return found[kernel.outputs[value.attributes.index]]

    def _copy(self, inst: Instruction, operands: list[Instruction]) -> Instruction:
        alike = self.known.setdefault((inst.opcode, *operands), [])
        for same in alike:
            if not inst.called and same.shape == inst.shape and same.attributes == inst.attributes:
                return same
        copy = self.computation.add_copy(inst, operands)
        alike.append(copy)
        return copy

    def finish(self, outputs: list[Instruction]) -> None:
        """Set the results of the body to the counterparts of `outputs`."""
        results = [self.inner[value] for value in outputs]
        if len(results) == 1:
            self.computation.set_root(results[0])
            return
        shape = TupleShape(tuple(result.shape for result in results))
        self.computation.set_root(self.computation.add(opcode_row("tuple"), shape, results))
