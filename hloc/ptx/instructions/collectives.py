"""Warp-level instructions: shuffles, votes, matches and reductions.

The machine calls these only with whole warps, or with the lanes of their masks. Arrays have the
shape [warps, 32]. Source: PTX ISA, "shfl.sync", "vote.sync", "match.sync", "redux.sync".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from hloc.ptx.faults import LaneFault
from hloc.ptx.frame import Frame
from hloc.ptx.lanes import WARP, Lanes, numbers_of
from hloc.ptx.operation import Decoder, Function, Operation, type_of
from hloc.ptx.program import Instruction, Operand, Pair
from hloc.ptx.threads import Threads
from hloc.ptx.value_types import TYPES, Array

_LANE = np.arange(WARP)


def spread(values: Array, lanes: Lanes) -> tuple[Array, Array]:
    """Return values as [warps, 32] and a mask of the lanes that take part; others are zero."""
    if isinstance(lanes, slice) and lanes.start % WARP == 0 and lanes.stop % WARP == 0:
        grid = np.ascontiguousarray(values).reshape(-1, WARP)
        return grid, np.ones(grid.shape, bool)
    numbers = numbers_of(lanes)
    warps, position = np.unique(numbers // WARP, return_inverse=True)
    grid = np.zeros((len(warps), WARP), values.dtype)
    present = np.zeros(grid.shape, bool)
    grid[position, numbers % WARP] = values
    present[position, numbers % WARP] = True
    return grid, present


def gathered(grid: Array, present: Array) -> Array:
    """Return the values of the lanes that take part, in order: the inverse of `spread`."""
    return grid.reshape(-1) if present.all() else grid[present]


def _to_all(of_warps: Array, present: Array) -> Array:
    """Return the one value of each warp for all its lanes that take part."""
    return gathered(np.repeat(of_warps[:, None], WARP, axis=1), present)


def _result(operand: Operand, frame: Frame, type_name: str) -> tuple[int, int | None]:
    """Return the rows of d and of p in `d|p`."""
    of = TYPES[type_name]
    if isinstance(operand, Pair):
        return frame.target(operand.first, of), frame.target(operand.second, TYPES["pred"])
    return frame.target(operand, of), None


def decode_shuffle(instruction: Instruction, frame: Frame) -> Operation:
    """shfl.sync: read a register of another lane of the warp."""
    d, a, b, c, *_ = instruction.operands
    target, flag = _result(d, frame, "b32")
    rows = [frame.source(x, TYPES["b32"]) for x in (a, b, c)]
    mode = instruction.parts[2]
    if mode not in _SOURCE_LANE:
        raise frame.fault(f"unknown mode .{mode} of shfl")
    source_lane = _SOURCE_LANE[mode]

    def run(threads: Threads, lanes: Lanes) -> None:
        held = threads.rows
        value, present = spread(held[rows[0]][lanes], lanes)
        shift, control = (spread(held[r][lanes], lanes)[0].astype(np.int64) for r in rows[1:])
        source, valid = source_lane(shift & 31, control & 31, control >> 8 & 31)
        source = np.where(valid, source, _LANE)
        absent = present & ~np.take_along_axis(present, source, axis=1)
        if absent.any():
            position = int(np.argmax(gathered(absent, present)))
            raise LaneFault("shuffle reads a lane that is not in the mask", position)
        result = np.take_along_axis(value, source, axis=1)
        held[target][lanes] = gathered(result, present)
        if flag is not None:
            held[flag][lanes] = gathered(valid, present)

    return run


def _up(shift: Array, clamp: Array, mask: Array) -> tuple[Array, Array]:
    lane = _LANE - shift
    return lane, lane >= (_LANE & mask | clamp & ~mask)


def _down(shift: Array, clamp: Array, mask: Array) -> tuple[Array, Array]:
    lane = _LANE + shift
    return lane, lane <= (_LANE & mask | clamp & ~mask)


def _butterfly(shift: Array, clamp: Array, mask: Array) -> tuple[Array, Array]:
    lane = _LANE ^ shift
    return lane, lane <= (_LANE & mask | clamp & ~mask)


def _index(shift: Array, clamp: Array, mask: Array) -> tuple[Array, Array]:
    lane = (_LANE & mask) | (shift & ~mask)
    return lane, lane <= (_LANE & mask | clamp & ~mask)


_SOURCE_LANE: dict[str, Callable[[Array, Array, Array], tuple[Array, Array]]] = {
    "up": _up,
    "down": _down,
    "bfly": _butterfly,
    "idx": _index,
}


def _mask_of(present: Array) -> Array:
    """Return the lanes that take part as bits, one u32 per warp."""
    weights = np.uint64(1) << _LANE.astype(np.uint64)
    return np.asarray((present * weights).sum(axis=1, dtype=np.uint64)).astype(np.uint32)


def decode_vote(instruction: Instruction, frame: Frame) -> Operation:
    """vote.sync: .all, .any and .uni of a predicate, or .ballot of it."""
    mode = instruction.parts[2]
    d, a, *_ = instruction.operands
    target = frame.target(d, TYPES["b32" if mode == "ballot" else "pred"])
    row, negated = frame.predicate(a)

    def run(threads: Threads, lanes: Lanes) -> None:
        value = threads.rows[row][lanes]
        votes, present = spread(~value if negated else value, lanes)
        if mode == "ballot":
            result = _mask_of(votes & present)
        else:
            whole, part = (votes | ~present).all(axis=1), (votes & present).any(axis=1)
            result = np.asarray({"all": whole, "any": part, "uni": whole | ~part}[mode])
        threads.rows[target][lanes] = _to_all(result, present)

    return run


def decode_match(instruction: Instruction, frame: Frame) -> Operation:
    """match.sync: which lanes hold the same value (.any), or whether all do (.all)."""
    of = type_of(instruction, frame)
    d, a, *_ = instruction.operands
    target, flag = _result(d, frame, "b32")
    row = frame.source(a, of)
    every = instruction.has("all")

    def run(threads: Threads, lanes: Lanes) -> None:
        value, present = spread(threads.rows[row][lanes], lanes)
        equal = np.equal(value[:, :, None], value[:, None, :]) & present[:, None, :]
        mask = _mask_of(equal.reshape(-1, WARP)).reshape(-1, WARP)
        if every:
            same = mask == _mask_of(present)[:, None]
            mask = np.where(same, mask, np.uint32(0))
            if flag is not None:
                threads.rows[flag][lanes] = gathered(same, present)
        threads.rows[target][lanes] = gathered(mask, present)

    return run


REDUCTIONS: dict[str, Function] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def decode_redux(instruction: Instruction, frame: Frame) -> Operation:
    """redux.sync: reduce over the lanes of the mask."""
    of = type_of(instruction, frame)
    function = REDUCTIONS.get(instruction.parts[2])
    if function is None:
        raise frame.fault(f"unknown reduction .{instruction.parts[2]}")
    d, a, *_ = instruction.operands
    target, row = frame.target(d, of), frame.source(a, of)

    def run(threads: Threads, lanes: Lanes) -> None:
        value, present = spread(threads.rows[row][lanes], lanes)
        warps = zip(value, present, strict=True)
        result = np.array([reduce(function, held[mask]) for held, mask in warps], value.dtype)
        threads.rows[target][lanes] = _to_all(result, present)

    return run


def decode_active_mask(instruction: Instruction, frame: Frame) -> Operation:
    """Activemask: the lanes of the warp that execute the instruction together."""
    target = frame.target(instruction.operands[0], TYPES["b32"])

    def run(threads: Threads, lanes: Lanes) -> None:
        _, present = spread(np.zeros(len(threads.rows[target][lanes]), bool), lanes)
        threads.rows[target][lanes] = _to_all(_mask_of(present), present)

    return run


def decode_elect(instruction: Instruction, frame: Frame) -> Operation:
    """elect.sync: choose the lowest lane of the mask."""
    d, _ = instruction.operands
    target, flag = _result(d, frame, "b32")

    def run(threads: Threads, lanes: Lanes) -> None:
        _, present = spread(np.zeros(len(threads.rows[target][lanes]), bool), lanes)
        first = np.argmax(present, axis=1)
        threads.rows[target][lanes] = _to_all(first, present)
        if flag is not None:
            threads.rows[flag][lanes] = gathered(first[:, None] == _LANE, present)

    return run


DECODERS: dict[str, Decoder] = {
    "shfl": decode_shuffle,
    "vote": decode_vote,
    "match": decode_match,
    "redux": decode_redux,
    "elect": decode_elect,
}
