"""Loads and stores. Source: PTX ISA, "Data Movement and Conversion Instructions", ld and st."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloc.ptx.faults import LaneFault
from hloc.ptx.frame import Frame
from hloc.ptx.instructions.moves import vector_copy
from hloc.ptx.lanes import Lanes
from hloc.ptx.operation import AddressReader, Decoder, Operation, type_of
from hloc.ptx.program import Address, Immediate, Instruction, Operand, Register
from hloc.ptx.threads import Threads
from hloc.ptx.value_types import TYPES, Array, PtxType

_SPACES = ("global", "shared", "local", "const", "param")
ORDERED = ("acquire", "relaxed", "volatile", "mmio")  # intended communication between threads


def space_of(instruction: Instruction) -> str:
    """Return the state space of an opcode, "generic" if it names none."""
    for part in instruction.parts[1:]:
        name = part.partition("::")[0]
        if name in _SPACES:
            return "global" if name == "const" else name
    return "generic"


def address_reader(operand: Operand, frame: Frame) -> AddressReader:
    """Return a function that returns the addresses of the lanes, with the offset added."""
    row, offset = frame.address(operand)
    if not offset:
        return lambda threads, lanes: threads.rows[row][lanes]
    limits: dict[np.dtype[Any], int] = {np.dtype(np.uint32): 1 << 32, np.dtype(np.uint64): 1 << 64}
    added = {dtype: dtype.type(offset % limit) for dtype, limit in limits.items()}

    def read(threads: Threads, lanes: Lanes) -> Array:
        base = threads.rows[row][lanes]
        return np.asarray(base + added[base.dtype])

    return read


def _pieces(operand: Operand, of: PtxType, frame: Frame) -> tuple[tuple[Operand, ...], PtxType]:
    """Return the registers of a vector access and the type of each in memory, as plain bits."""
    plain = TYPES[f"b{of.bits}"] if of.kind != "signed" else of
    return frame.vector(operand), plain


def decode_load(instruction: Instruction, frame: Frame) -> Operation:
    """Ld and ldu in every space."""
    of = type_of(instruction, frame)
    items, plain = _pieces(instruction.operands[0], of, frame)
    space = space_of(instruction)
    targets = [frame.target(item, plain) for item in items]
    if space == "param":
        return _load_parameter(instruction, frame, targets, plain)
    read = address_reader(instruction.operands[1], frame)
    dtype, columns = plain.dtype, len(items) * plain.columns
    ordered = any(instruction.has(word) for word in ORDERED)
    wanted = [(i, target) for i, target in enumerate(targets) if frame.is_read(items[i])]
    if len(wanted) < len(targets) > 1 and not ordered:
        return _load_some(space, read, wanted, plain, len(targets))

    def run(threads: Threads, lanes: Lanes) -> None:
        addresses = read(threads, lanes)
        threads.count_access(space, lanes, addresses, dtype.itemsize * columns)
        if ordered:
            threads.spaces.synchronise(lanes)
        values = threads.spaces[space].load(lanes, addresses, dtype, columns)
        rows = threads.rows
        if len(targets) == 1:
            rows[targets[0]][lanes] = values
        else:
            for i, target in enumerate(targets):
                rows[target][lanes] = values[:, i]

    if plain.columns > 1 and len(items) > 1:
        raise frame.fault("vectors of 128-bit elements are not supported")
    return run


def _load_some(
    space: str, read: AddressReader, wanted: list[tuple[int, int]], of: PtxType, pieces: int
) -> Operation:
    """Return a vector load of which some registers are never read.

    Compilers widen loads to adjacent memory, which may be uninitialised or after the end of an
    array, within the same aligned 16 bytes. So elements that are never read are not checked.
    """
    size = of.size * pieces

    def run(threads: Threads, lanes: Lanes) -> None:
        addresses = read(threads, lanes)
        threads.count_access(space, lanes, addresses, size)
        misaligned = addresses % addresses.dtype.type(size) != 0
        if misaligned.any():
            raise LaneFault(f"misaligned {space} load of {size} bytes", int(misaligned.argmax()))
        for piece, target in wanted:
            place = addresses + addresses.dtype.type(piece * of.size)
            threads.rows[target][lanes] = threads.spaces[space].load(lanes, place, of.dtype, 1)

    return run


def decode_store(instruction: Instruction, frame: Frame) -> Operation:
    """St in every space."""
    of = type_of(instruction, frame)
    items, _ = _pieces(instruction.operands[1], of, frame)
    plain = TYPES[f"b{of.bits}"]
    space = space_of(instruction)
    sources = [frame.source(item, plain) for item in items]
    if space == "param":
        return _store_parameter(instruction, frame, sources, plain)
    read = address_reader(instruction.operands[0], frame)
    size = of.size * len(items)
    ordered = any(instruction.has(word) for word in (*ORDERED, "release"))

    def run(threads: Threads, lanes: Lanes) -> None:
        rows = threads.rows
        addresses = read(threads, lanes)
        threads.count_access(space, lanes, addresses, size)
        if ordered:
            threads.spaces.synchronise(lanes)
        if len(sources) == 1:
            values = np.ascontiguousarray(rows[sources[0]][lanes])
        else:
            values = np.stack([rows[source][lanes] for source in sources], axis=1)
        threads.spaces[space].store(lanes, addresses, values)

    return run


def _parameter_rows(operand: Operand, frame: Frame, count: int, plain: PtxType) -> list[int] | None:
    """Return the rows of `count` values in the parameter of an address; None for a register."""
    if not isinstance(operand, Address):
        raise frame.fault(f"{operand} is not an address")
    base = operand.base
    in_register = isinstance(base, Register) and base.name in frame.function.registers
    if in_register or isinstance(base, Immediate):
        return None
    first = operand.offset
    return [frame.parameter_row(base.name, first + i * plain.size, plain) for i in range(count)]


def _load_parameter(
    instruction: Instruction, frame: Frame, targets: list[int], plain: PtxType
) -> Operation:
    sources = _parameter_rows(instruction.operands[1], frame, len(targets), plain)
    if sources is None:
        return _load_parameter_space(instruction, frame, targets, plain)
    return vector_copy(targets, sources)


def _load_parameter_space(
    instruction: Instruction, frame: Frame, targets: list[int], plain: PtxType
) -> Operation:
    read = address_reader(instruction.operands[1], frame)

    def run(threads: Threads, lanes: Lanes) -> None:
        values = threads.spaces["param"].load(
            lanes, read(threads, lanes), plain.dtype, len(targets)
        )
        for i, target in enumerate(targets):
            threads.rows[target][lanes] = values if len(targets) == 1 else values[:, i]

    return run


def _store_parameter(
    instruction: Instruction, frame: Frame, sources: list[int], plain: PtxType
) -> Operation:
    targets = _parameter_rows(instruction.operands[0], frame, len(sources), plain)
    if targets is None:
        raise frame.fault("st.param through a register is not supported")
    return vector_copy(targets, sources)


def decode_fence(instruction: Instruction, frame: Frame) -> Operation:
    """Fence and membar: memory here is always in order; a wide one counts as synchronisation."""
    if instruction.parts[1:3] == ("proxy", "async"):
        return _fence_proxy
    wide = any(instruction.has(scope) for scope in ("gpu", "sys", "gl", "cluster"))

    def run(threads: Threads, lanes: Lanes) -> None:
        if wide:
            threads.spaces.synchronise(lanes)

    return run


def _fence_proxy(threads: Threads, lanes: Lanes) -> None:
    """Make stores to shared memory visible to bulk copies and wgmma."""
    proxy = threads.spaces.shared.proxy
    if proxy is not None:
        proxy.fence(lanes)


DECODERS: dict[str, Decoder] = {
    "ld": decode_load,
    "ldu": decode_load,
    "st": decode_store,
    "fence": decode_fence,
    "membar": decode_fence,
}
