"""The functions that a kernel calls, and the layout of parameters and local variables."""

from __future__ import annotations

from hloc.ptx.faults import PtxFault
from hloc.ptx.program import Instruction, PtxFunction, PtxKernel, PtxModule, Symbol


def callee(instruction: Instruction) -> str | None:
    """Return the name of the function that an instruction calls, None if it calls none."""
    if instruction.parts[0] != "call":
        return None
    for operand in instruction.operands:
        if isinstance(operand, Symbol):
            return operand.name
    raise PtxFault(
        "calls through a register are not supported",
        line=instruction.line,
        text=instruction.text,
    )


def reachable(module: PtxModule, kernel: PtxKernel) -> list[PtxFunction]:
    """Return the kernel and every function it may call, callers first.

    Raises:
        PtxFault: a function without a body, or one that calls itself.
    """
    order: dict[str, PtxFunction] = {kernel.name: kernel}
    stack: list[tuple[PtxFunction, frozenset[str]]] = [(kernel, frozenset({kernel.name}))]
    while stack:
        function, callers = stack.pop()
        for instruction in function.instructions:
            name = callee(instruction)
            if name is None:
                continue
            where = {"kernel": kernel.name, "line": instruction.line, "text": instruction.text}
            if name not in module.functions:
                raise PtxFault(f"call of {name}, which has no body", **where)  # type: ignore[arg-type]
            if name in callers:
                raise PtxFault(f"recursive call of {name} is not supported", **where)  # type: ignore[arg-type]
            order.setdefault(name, module.functions[name])
            stack.append((module.functions[name], callers | {name}))
    return list(order.values())


def parameter_offsets(kernel: PtxKernel) -> tuple[dict[str, int], int]:
    """Return the offset of each argument in the packed bytes, and their total size."""
    offsets, end = {}, 0
    for parameter in kernel.parameters:
        end = -(-end // parameter.alignment) * parameter.alignment
        offsets[parameter.name] = end
        end += parameter.size
    return offsets, end


def local_layout(functions: list[PtxFunction]) -> tuple[dict[str, int], int]:
    """Return the offset of each local variable in a thread's local memory, and its total size."""
    offsets, end = {}, 0
    for function in functions:
        for variable in function.variables:
            if variable.space == "local":
                end = -(-end // variable.alignment) * variable.alignment
                offsets[f"{function.name}:{variable.name}"] = end
                end += variable.size or 0
    return offsets, end
