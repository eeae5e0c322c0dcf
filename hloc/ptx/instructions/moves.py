"""Moves between registers: mov with packing, cvta, selp, parameters, and hints without effect.

Source: PTX ISA, "Data Movement and Conversion Instructions".
"""

from __future__ import annotations

from functools import partial

import numpy as np

from hloc.ptx.faults import LaneFault
from hloc.ptx.frame import Frame
from hloc.ptx.lanes import Lanes
from hloc.ptx.operation import (
    Decoder,
    Operation,
    copy,
    elementwise,
    in_turn,
    mapped,
    nothing,
    type_of,
)
from hloc.ptx.program import Instruction, Register, Vector
from hloc.ptx.spaces import WINDOW_END, WINDOWS
from hloc.ptx.threads import Threads
from hloc.ptx.value_types import TYPES, Array, unsigned

_COUNTERS = ("%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo")


def decode_mov(instruction: Instruction, frame: Frame) -> Operation:
    """Mov: copy, read a special register, take an address, pack or unpack a vector."""
    of = type_of(instruction, frame)
    target, source = instruction.operands
    if isinstance(target, Vector):
        return _unpack(target, source, of.size, frame)
    if isinstance(source, Vector):
        return _pack(target, source, of.size, frame)
    if isinstance(source, Register) and source.name in _COUNTERS:
        return partial(_read_clock, frame.target(target, of))
    plain = of if of.kind == "predicate" else TYPES[f"b{of.bits}"]
    return copy(frame.target(target, plain), frame.source(source, plain))


def _unpack(target: Vector, source: object, size: int, frame: Frame) -> Operation:
    piece = unsigned(size // len(target.items))
    whole = unsigned(size) if size <= 8 else TYPES["b128"]
    if isinstance(source, Register) and source.name in frame.function.registers:
        name = f"{frame.function.name}:{source.name}"
        rows = [
            frame.storage_row(name, frame.size_of(source), i * piece.size, piece)
            for i in range(len(target.items))
        ]
        return partial(_copy_all, [frame.target(item, piece) for item in target.items], rows)
    raise frame.fault(f"cannot unpack {source} as .{whole.name}")


def _pack(target: object, source: Vector, size: int, frame: Frame) -> Operation:
    piece = unsigned(size // len(source.items))
    if not isinstance(target, Register) or frame.size_of(target) != size:
        raise frame.fault(f"cannot pack into {target}")
    name = f"{frame.function.name}:{target.name}"
    sources = [frame.source(item, piece) for item in source.items]
    targets = [frame.storage_row(name, size, i * piece.size, piece) for i in range(len(sources))]
    return partial(_copy_all, targets, sources)


def _copy_all(targets: list[int], sources: list[int], threads: Threads, lanes: Lanes) -> None:
    """Copy rows; all are read before any is written, since a target may be part of a source."""
    values = [threads.rows[row][lanes].copy() for row in sources]
    for row, value in zip(targets, values, strict=True):
        threads.rows[row][lanes] = value


def _read_clock(target: int, threads: Threads, lanes: Lanes) -> None:
    """%clock and its relatives count instructions here, not cycles."""
    row = threads.rows[target]
    row[lanes] = np.array(threads.clock).astype(row.dtype)


def decode_cvta(instruction: Instruction, frame: Frame) -> Operation:
    """Cvta: an address of a space to a generic one, or with .to back."""
    to_space = instruction.has("to")
    space = next(
        (p.partition("::")[0] for p in instruction.parts if p.partition("::")[0] in WINDOWS), ""
    )
    if not space:
        raise frame.fault("cvta without a state space")
    of = type_of(instruction, frame)
    target = frame.target(instruction.operands[0], of)
    source = frame.source(instruction.operands[1], of)
    window = np.uint64(WINDOWS[space])
    if not window:
        return copy(target, source)

    def to_generic(address: Array) -> Array:
        return address.astype(np.uint64) + window

    def to_window(address: Array) -> Array:
        inner = address - window
        wrong = inner >= np.uint64(WINDOW_END)
        if wrong.any():
            raise LaneFault(
                f"cvta.to.{space} of an address of another space", int(np.argmax(wrong))
            )
        return inner

    return elementwise(to_window if to_space else to_generic, target, source)


def decode_isspacep(instruction: Instruction, frame: Frame) -> Operation:
    """Isspacep: whether a generic address is in a space."""
    space = instruction.parts[1].partition("::")[0]
    starts = sorted({*WINDOWS.values(), WINDOW_END})
    low = WINDOWS.get(space, WINDOW_END)
    high = next((s for s in starts if s > low), WINDOW_END)
    bounds = np.uint64(low), np.uint64(high)
    target = frame.target(instruction.operands[0], TYPES["pred"])
    source = frame.source(instruction.operands[1], unsigned(8))
    return elementwise(lambda a: (a >= bounds[0]) & (a < bounds[1]), target, source)


def _choose(condition: Array, yes: Array, no: Array) -> Array:
    return np.asarray(np.where(condition, yes, no))


def decode_selp(instruction: Instruction, frame: Frame) -> Operation:
    """Selp: a if the predicate holds, else b."""
    of = TYPES[f"b{type_of(instruction, frame).bits}"]
    d, a, b, c = instruction.operands
    predicate, negated = frame.predicate(c)
    yes, no = frame.source(a, of), frame.source(b, of)
    if negated:
        yes, no = no, yes
    return elementwise(_choose, frame.target(d, of), predicate, yes, no)


def decode_slct(instruction: Instruction, frame: Frame) -> Operation:
    """Slct: a if c >= 0, else b; NaN selects b, and -0 counts as zero."""
    of = TYPES[f"b{TYPES[instruction.parts[-2]].bits}"]
    judge = type_of(instruction, frame)
    return mapped(instruction, frame, lambda x, y, z: _choose(z >= 0, x, y), of, of, of, judge)


def decode_hint(instruction: Instruction, frame: Frame) -> Operation:
    """Return no operation."""
    return nothing


def _trap(threads: Threads, lanes: Lanes) -> None:
    raise LaneFault("the kernel executed trap", 0)


def vector_copy(targets: list[int], sources: list[int]) -> Operation:
    """Return the operation that copies row by row."""
    return in_turn([copy(t, s) for t, s in zip(targets, sources, strict=True)])


DECODERS: dict[str, Decoder] = {
    "mov": decode_mov,
    "cvta": decode_cvta,
    "isspacep": decode_isspacep,
    "selp": decode_selp,
    "slct": decode_slct,
    "trap": lambda _instruction, _frame: _trap,
    "brkpt": lambda _instruction, _frame: _trap,
    "nanosleep": decode_hint,
    "prefetch": decode_hint,
    "prefetchu": decode_hint,
    "discard": decode_hint,
    "applypriority": decode_hint,
    "setmaxnreg": decode_hint,
    "griddepcontrol": decode_hint,
    "pmevent": decode_hint,
    "createpolicy": decode_hint,
}
