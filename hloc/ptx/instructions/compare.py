"""Comparisons: setp, set and testp.

Source: PTX ISA, "Comparison and Selection Instructions".
"""

from __future__ import annotations

from functools import partial

import numpy as np

from hloc.ptx.frame import Frame
from hloc.ptx.instructions.floats import flushed
from hloc.ptx.lanes import Lanes
from hloc.ptx.operation import (
    Decoder,
    Function,
    Operation,
    elementwise,
    mapped,
    type_named,
    type_of,
)
from hloc.ptx.program import Instruction, Operand, Pair
from hloc.ptx.rounding import f32_of_bf16
from hloc.ptx.threads import Threads
from hloc.ptx.value_types import TYPES, Array, PtxType

_ORDERED: dict[str, Function] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}
_UNORDERED = {f"{name}u": name for name in ("eq", "ne", "lt", "le", "gt", "ge")}
COMBINATIONS: dict[str, Function] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}
COMPARISONS = (*_ORDERED, *_UNORDERED, "num", "nan")


def _either_nan(a: Array, b: Array) -> Array:
    return np.asarray((a != a) | (b != b))


def comparison(name: str, of: PtxType) -> Function | None:
    """Return the comparison of that name; None if there is none.

    Ordered forms are false for NaN, unordered ones (ltu, ...) true. NumPy's are ordered except
    not_equal, which is PTX's neu.
    """
    if name in _UNORDERED:
        ordered = _ORDERED[_UNORDERED[name]]
        return lambda a, b: ordered(a, b) | _either_nan(a, b)
    if name == "nan":
        return _either_nan
    if name == "num":
        return lambda a, b: ~_either_nan(a, b)
    if name == "ne" and of.is_float:
        return lambda a, b: (a != b) & ~_either_nan(a, b)
    return _ORDERED.get(name)


def _comparison_of(instruction: Instruction, of: PtxType, frame: Frame) -> Function:
    found = comparison(instruction.parts[1], of)
    if found is None:
        raise frame.fault(f"unknown comparison .{instruction.parts[1]}")
    plain = found
    if of.name.startswith("bf16"):
        return lambda a, b: plain(f32_of_bf16(a), f32_of_bf16(b))
    if instruction.has("ftz") and of.name == "f32":
        return lambda a, b: plain(flushed(a), flushed(b))
    return plain


def _targets(operand: Operand, frame: Frame) -> list[int]:
    pred = TYPES["pred"]
    if isinstance(operand, Pair):
        return [frame.target(operand.first, pred), frame.target(operand.second, pred)]
    return [frame.target(operand, pred)]


def decode_setp(instruction: Instruction, frame: Frame) -> Operation:
    """Setp: p = (a op b) combined with c, and q = not (a op b) combined with c."""
    of = type_of(instruction, frame)
    compare = _comparison_of(instruction, of, frame)
    d, a, b, *rest = instruction.operands
    rows = frame.source(a, of), frame.source(b, of)
    if of.columns > 1:
        return partial(_packed_setp, _targets(d, frame), rows, compare)
    targets = _targets(d, frame)
    if not rest and len(targets) == 1:
        return elementwise(compare, targets[0], *rows)
    combine = next((COMBINATIONS[p] for p in instruction.parts[2:] if p in COMBINATIONS), None)
    third, negated = frame.predicate(rest[0]) if rest else (0, False)

    def run(threads: Threads, lanes: Lanes) -> None:
        held = threads.rows
        result = compare(held[rows[0]][lanes], held[rows[1]][lanes])
        values = [result, ~result]
        if combine is not None:
            other = held[third][lanes]
            other = ~other if negated else other
            values = [combine(value, other) for value in values]
        for target, value in zip(targets, values, strict=False):
            held[target][lanes] = value

    return run


def _packed_setp(
    targets: list[int], rows: tuple[int, int], compare: Function, threads: Threads, lanes: Lanes
) -> None:
    """Compare pairs: the first predicate takes the low halves, the second the high ones."""
    held = threads.rows
    result = compare(held[rows[0]][lanes], held[rows[1]][lanes])
    for i, target in enumerate(targets):
        held[target][lanes] = result[:, i]


def decode_set(instruction: Instruction, frame: Frame) -> Operation:
    """Set: all ones or 1.0 where the comparison holds, else zero."""
    result = type_named(instruction.parts[-2], frame)
    of = type_of(instruction, frame)
    compare = _comparison_of(instruction, of, frame)
    d, a, b, *rest = instruction.operands
    combine = next((COMBINATIONS[p] for p in instruction.parts[2:] if p in COMBINATIONS), None)
    third, negated = frame.predicate(rest[0]) if rest else (frame.constant(0, TYPES["pred"]), False)
    if result.name.startswith("bf16"):
        yes, no = result.dtype.type(0x3F80), result.dtype.type(0)
    elif result.is_float:
        yes, no = result.dtype.type(1), result.dtype.type(0)
    else:
        yes, no = np.array(-1).astype(result.dtype)[()], result.dtype.type(0)

    def function(x: Array, y: Array, c: Array) -> Array:
        holds = compare(x, y)
        if combine is not None:
            holds = combine(holds, ~c if negated else c)
        return np.asarray(np.where(holds, yes, no))

    rows = frame.source(a, of), frame.source(b, of), third
    return elementwise(function, frame.target(d, result), *rows)


def decode_testp(instruction: Instruction, frame: Frame) -> Operation:
    """Testp: test the class of a number."""
    of = type_of(instruction, frame)
    smallest = of.dtype.type({4: 2.0**-126, 8: 2.0**-1022}[of.size])
    tests: dict[str, Function] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda x: x == x,
        "notanumber": lambda x: x != x,
        "normal": lambda x: np.isfinite(x) & (np.abs(x) >= smallest),
        "subnormal": lambda x: (np.abs(x) < smallest) & (x != 0),
    }
    return mapped(instruction, frame, tests[instruction.parts[1]], TYPES["pred"], of)


DECODERS: dict[str, Decoder] = {
    "setp": decode_setp,
    "set": decode_set,
    "testp": decode_testp,
}
