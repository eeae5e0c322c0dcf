"""Atom and red: lanes execute one after the other, in ascending order.

Source: PTX ISA, "atom" and "red".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hloc.ptx.frame import Frame
from hloc.ptx.instructions.collectives import REDUCTIONS
from hloc.ptx.instructions.floats import maximum, minimum
from hloc.ptx.instructions.memory_access import address_reader, space_of
from hloc.ptx.lanes import Lanes, lanes_of, numbers_of
from hloc.ptx.operation import Decoder, Function, Operation, type_of
from hloc.ptx.program import Instruction, Register
from hloc.ptx.rounding import bf16_of_f32, f32_of_bf16
from hloc.ptx.threads import Threads
from hloc.ptx.value_types import TYPES, Array, PtxType


def _increment(old: Array, limit: Array) -> Array:
    return np.asarray(np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1)))


def _decrement(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


_FUNCTIONS: dict[str, Function] = {
    **REDUCTIONS,
    "exch": lambda old, new: new,
    "inc": _increment,
    "dec": _decrement,
    "cas": lambda old, compare, new: np.asarray(np.where(old == compare, new, old)),
}


def _function(name: str, of: PtxType) -> Function:
    """Return the function (old, operands...) -> new, all as plain bits."""
    plain = _FUNCTIONS[name]
    if name in ("exch", "cas") or not of.is_float:
        return lambda *values: plain(*(v.view(of.dtype) for v in values)).view(values[0].dtype)
    chosen: Function = {"min": minimum, "max": maximum}.get(name, plain)
    if of.name.startswith("bf16"):
        return lambda *values: _paired(
            values, of, lambda *v: bf16_of_f32(chosen(*(f32_of_bf16(x) for x in v)))
        )
    return lambda *values: _paired(values, of, chosen)


def _paired(values: tuple[Array, ...], of: PtxType, function: Function) -> Array:
    typed = [np.ascontiguousarray(v).view(of.dtype) for v in values]
    return np.asarray(function(*typed)).view(values[0].dtype)


def _turns(addresses: Array) -> Iterator[Array]:
    """Yield positions such that no address occurs twice in one turn, lowest lanes first."""
    _, which, counts = np.unique(addresses, return_inverse=True, return_counts=True)
    if counts.max() == 1:
        yield np.arange(len(addresses))
        return
    order = np.argsort(which, kind="stable")
    starts = np.cumsum(counts) - counts
    rank = np.empty(len(addresses), np.int64)
    rank[order] = np.arange(len(addresses)) - np.repeat(starts, counts)
    by_rank = np.argsort(rank, kind="stable")
    ends = np.cumsum(np.bincount(rank))
    begin = 0
    for end in ends:
        yield np.sort(by_rank[begin:end])
        begin = end


def decode_atomic(instruction: Instruction, frame: Frame) -> Operation:
    """Atom, which returns the old value, and red, which does not."""
    of = type_of(instruction, frame)
    name = next((p for p in instruction.parts[1:] if p in _FUNCTIONS), None)
    if name is None:
        raise frame.fault(f"unknown opcode {instruction.opcode}")
    plain = TYPES[f"b{of.bits}"]
    operands = list(instruction.operands)
    target = None
    if instruction.parts[0] == "atom":
        result = operands.pop(0)
        if isinstance(result, Register) and frame.is_read(result):
            target = frame.target(result, plain)
    address, *sources = operands
    if any(len(frame.vector(source)) > 1 for source in sources) or of.columns * of.size > 8:
        raise frame.fault(f"vectors are not supported in {instruction.opcode}")
    read = address_reader(address, frame)
    rows = [frame.source(source, plain) for source in sources]
    function = _function(name, of)
    space = space_of(instruction)

    def run(threads: Threads, lanes: Lanes) -> None:
        """Run in turns, in each of which no two lanes have the same address."""
        addresses = read(threads, lanes)
        threads.count_access(space, lanes, addresses, of.size)
        values = [threads.rows[row][lanes] for row in rows]
        memory = threads.spaces.atomic(space)
        numbers = numbers_of(lanes)
        found = np.empty(len(numbers), plain.dtype)
        for turn in _turns(addresses):
            here = lanes_of(numbers[turn])
            threads.active = here
            old = memory.load(here, addresses[turn], plain.dtype, 1)
            found[turn] = old
            memory.store(here, addresses[turn], function(old, *(v[turn] for v in values)))
        threads.active = lanes
        if target is not None:
            threads.rows[target][lanes] = found
            if space != "shared":
                threads.spaces.synchronise(lanes)

    return run


DECODERS: dict[str, Decoder] = {"atom": decode_atomic, "red": decode_atomic}
