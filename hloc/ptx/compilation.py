"""A kernel of a module to `Code`: its functions concatenated and split into blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TypeVar

from hloc.ptx.code import (
    Block,
    BlockBarrier,
    Branch,
    Call,
    Code,
    End,
    Fall,
    IndexedBranch,
    Leave,
    WarpCollective,
)
from hloc.ptx.faults import PtxFault
from hloc.ptx.frame import Frame, RowTable, registers_read
from hloc.ptx.functions import callee, local_layout, parameter_offsets, reachable
from hloc.ptx.granules import granules_of
from hloc.ptx.instructions.decode import COLLECTIVE, decode_operation, decoder_of, guard_of
from hloc.ptx.instructions.mbarrier_access import phase_wait, waits
from hloc.ptx.instructions.moves import vector_copy
from hloc.ptx.lanes import WARP, WARPGROUP
from hloc.ptx.operation import Operation, in_turn, nothing
from hloc.ptx.product_registers import accesses_of, registers_of_products
from hloc.ptx.program import (
    Group,
    Instruction,
    Operand,
    PtxFunction,
    PtxKernel,
    PtxModule,
    Register,
    Symbol,
)
from hloc.ptx.value_types import TYPES, PtxType

T = TypeVar("T")
_JUMPS = ("bra", "brx", "ret", "exit", "call", "bar", "barrier")


def code_of(module: PtxModule, name: str) -> Code:
    """Return the code of a kernel, cached per module.

    Raises:
        PtxFault: no such kernel, or an unsupported instruction.
    """
    found = module.caches.get(name)
    if not isinstance(found, Code):
        if name not in module.kernels:
            known = ", ".join(module.kernels) or "none"
            raise PtxFault(f"no kernel {name} in the module; it has: {known}")
        found = _compile(module, module.kernels[name])
        module.caches[name] = found
    return found


def _compile(module: PtxModule, kernel: PtxKernel) -> Code:
    """Number the blocks of all functions one after another, then translate them."""
    functions = reachable(module, kernel)
    parameters, parameter_bytes = parameter_offsets(kernel)
    local_offsets, local_bytes = local_layout(functions)
    table = RowTable()
    starts: dict[str, int] = {}
    pieces = {f.name: list(_cut(f)) for f in functions}
    count = 0
    for function in functions:
        starts[function.name] = count
        count += len(pieces[function.name])
    blocks: list[Block] = []
    for function in functions:
        frame = _frame(module, kernel, function, table, parameters)
        blocks += _Blocks(frame, module, starts).build(pieces[function.name])
    instructions = [i for f in functions for i in f.instructions]
    return Code(
        kernel,
        tuple(blocks),
        table,
        parameters,
        parameter_bytes,
        local_offsets,
        local_bytes,
        any(isinstance(b.end, WarpCollective) for b in blocks),
        granules_of(instructions),
        any(i.parts[0] == "wgmma" or i.parts[:3] == ("cp", "async", "bulk") for i in instructions),
    )


def _frame(
    module: PtxModule,
    kernel: PtxKernel,
    function: PtxFunction,
    table: RowTable,
    parameters: dict[str, int],
) -> Frame:
    addresses = {name: name for name in module.variables}
    sizes = {p.name: p.size for p in (*function.parameters, *function.results)}
    for variable in function.variables:
        if variable.space == "param":
            sizes[variable.name] = variable.size or 0
        else:
            addresses[variable.name] = f"{function.name}:{variable.name}"
    mine = parameters if function is kernel else {}
    addresses.update({name: f"param:{name}" for name in mine})
    return Frame(function, table, addresses, mine, sizes, registers_read(function.instructions))


def _is_end(instruction: Instruction) -> bool:
    """Whether a block must end here: a jump, or an instruction at which lanes wait."""
    opcode = instruction.parts[0]
    return opcode in _JUMPS or opcode in COLLECTIVE or waits(instruction)


def _cut(function: PtxFunction) -> Iterator[tuple[int, int]]:
    """Yield ranges of instructions that become blocks; an empty function has one."""
    leaders = {0, *function.labels.values()}
    for i, instruction in enumerate(function.instructions):
        if _is_end(instruction):
            leaders.add(i + 1)
        if waits(instruction):
            leaders.add(i)
    ends = sorted(leaders | {len(function.instructions)})
    yield from pairwise(ends)
    yield len(function.instructions), len(function.instructions)


class _Blocks:
    """Builds the blocks of one function."""

    def __init__(self, frame: Frame, module: PtxModule, starts: dict[str, int]) -> None:
        self._frame = frame
        self._module = module
        self._starts = starts
        self._block_at: dict[int, int] = {}
        self._watched = registers_of_products(frame.function)

    def build(self, pieces: list[tuple[int, int]]) -> list[Block]:
        first = self._starts[self._frame.function.name]
        for i, (start, _) in enumerate(pieces):
            self._block_at.setdefault(start, first + i)
        return [self._block(start, end) for start, end in pieces]

    def _block(self, start: int, end: int) -> Block:
        instructions = self._frame.function.instructions[start:end]
        if start == end:  # after the last instruction: an implicit `ret`
            is_kernel = self._frame.function.is_kernel
            return Block((), (), Leave(is_kernel, None, False))
        ends = _is_end(instructions[-1])
        body = instructions[:-1] if ends else instructions
        operations = tuple(self._decoded(decode_operation, i) for i in body)
        finish = self._decoded(self._end_of, instructions[-1]) if ends else Fall()
        name = self._frame.function.name
        accesses = accesses_of(instructions, self._watched, name)
        return Block(operations, instructions, finish, accesses)

    def _decoded(self, decode: Callable[[Instruction, Frame], T], instruction: Instruction) -> T:
        """Decode an instruction; raise a fault if its operands do not fit its opcode."""
        self._frame.instruction = instruction
        try:
            return decode(instruction, self._frame)
        except (ValueError, LookupError, StopIteration, TypeError, AttributeError) as error:
            raise self._frame.fault(
                f"operands or qualifiers do not fit {instruction.opcode}"
            ) from error

    def _end_of(self, instruction: Instruction, frame: Frame) -> End:
        opcode = instruction.parts[0]
        row, negated = guard_of(instruction, frame)
        if opcode == "bra":
            return Branch(self._target(instruction.operands[0]), row, negated)
        if opcode == "brx":
            return self._indexed(instruction, row, negated)
        if opcode in ("ret", "exit"):
            whole = opcode == "exit" or self._frame.function.is_kernel
            return Leave(whole, row, negated)
        if opcode == "call":
            return self._call(instruction, row, negated)
        if opcode in ("bar", "barrier") and not instruction.has("warp"):
            return self._barrier(instruction, row, negated)
        if waits(instruction):
            return phase_wait(instruction, self._frame, row, negated)
        return self._collective(instruction, row, negated)

    def _target(self, operand: Operand) -> int:
        name = operand.name if isinstance(operand, Symbol | Register) else ""
        labels = self._frame.function.labels
        if name not in labels:
            raise self._frame.fault(f"no label {name}")
        return self._block_at[labels[name]]

    def _indexed(self, instruction: Instruction, row: int | None, negated: bool) -> End:
        index, table = instruction.operands
        name = table.name if isinstance(table, Symbol | Register) else ""
        labels = self._frame.function.branch_targets.get(name)
        if labels is None:
            raise self._frame.fault(f"no .branchtargets {name}")
        targets = tuple(self._target(Symbol(label)) for label in labels)
        return IndexedBranch(targets, self._frame.source(index, TYPES["u32"]), row, negated)

    def _call(self, instruction: Instruction, row: int | None, negated: bool) -> End:
        name = callee(instruction)
        assert name is not None
        target = self._module.functions[name]
        position = instruction.operands.index(Symbol(name))
        results = instruction.operands[:position]
        arguments = instruction.operands[position + 1 :]
        before, after = [], []
        for operand, formal in zip(_names(arguments), target.parameters, strict=True):
            theirs = self._bytes(f"{target.name}:{formal.name}", formal.size)
            before.append(vector_copy([theirs], [self._own(operand, formal.size)]))
        for operand, formal in zip(_names(results), target.results, strict=True):
            theirs = self._bytes(f"{target.name}:{formal.name}", formal.size)
            after.append(vector_copy([self._own(operand, formal.size)], [theirs]))
        return Call(self._starts[name], _all(before), _all(after), row, negated)

    def _own(self, operand: str, size: int) -> int:
        return self._bytes(f"{self._frame.function.name}:{operand}", size)

    def _bytes(self, name: str, size: int) -> int:
        plain = PtxType("bytes", "unsigned", size, TYPES["b8"].dtype, size)
        return self._frame.storage_row(name, size, 0, plain)

    def _barrier(self, instruction: Instruction, row: int | None, negated: bool) -> End:
        frame = self._frame
        word = TYPES["u32"]
        operands = list(instruction.operands)
        aligned = instruction.parts[0] == "bar" or instruction.has("aligned")
        reduction, target, reduced = "", 0, (0, False)
        if instruction.has("red"):
            reduction = next(p for p in instruction.parts if p in ("popc", "and", "or"))
            kind = TYPES["u32" if reduction == "popc" else "pred"]
            target = frame.target(operands.pop(0), kind)
            reduced = frame.predicate(operands.pop())
        number = frame.source(operands[0], word)
        expected = frame.source(operands[1], word) if len(operands) > 1 else None
        arrive = instruction.has("arrive")
        return BlockBarrier(
            number, expected, arrive, aligned, row, negated, reduction, reduced, target
        )

    def _collective(self, instruction: Instruction, row: int | None, negated: bool) -> End:
        frame = self._frame
        if instruction.parts[:2] == ("bar", "warp"):
            mask = frame.source(instruction.operands[0], TYPES["b32"])
            return WarpCollective(nothing, mask, row, negated)
        operation = decoder_of(instruction, frame)(instruction, frame)
        if instruction.has("aligned"):
            group = WARPGROUP if instruction.parts[0] == "wgmma" else WARP
            return WarpCollective(operation, None, row, negated, group)
        mask = frame.source(instruction.operands[-1], TYPES["b32"])
        return WarpCollective(operation, mask, row, negated)


def _names(operands: tuple[Operand, ...]) -> list[str]:
    found = []
    for operand in operands:
        items = operand.items if isinstance(operand, Group) else (operand,)
        found += [item.name for item in items if isinstance(item, Symbol | Register)]
    return found


def _all(operations: list[Operation]) -> Operation:
    return in_turn(operations) if operations else nothing
