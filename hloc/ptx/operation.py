"""A decoded instruction: a function of the threads and the lanes that execute it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hloc.ptx.frame import Frame
from hloc.ptx.lanes import Lanes, chosen
from hloc.ptx.program import Instruction
from hloc.ptx.threads import Threads
from hloc.ptx.value_types import TYPES, Array, PtxType

Operation = Callable[[Threads, Lanes], None]
Decoder = Callable[[Instruction, Frame], Operation]
Function = Callable[..., Array]
AddressReader = Callable[[Threads, Lanes], Array]


def type_of(instruction: Instruction, frame: Frame) -> PtxType:
    """Return the type an opcode ends with."""
    return type_named(instruction.parts[-1], frame)


def type_named(name: str, frame: Frame) -> PtxType:
    """Return a type by its name."""
    if name not in TYPES:
        raise frame.fault(f"unknown type .{name}")
    return TYPES[name]


def elementwise(function: Function, target: int, *sources: int) -> Operation:
    """Return the operation rows[target] = function(rows[source], ...)."""
    if len(sources) == 1:
        return _unary(function, target, *sources)
    if len(sources) == 2:
        return _binary(function, target, *sources)

    def run(threads: Threads, lanes: Lanes) -> None:
        rows = threads.rows
        rows[target][lanes] = function(*[rows[source][lanes] for source in sources])

    return run


def mapped(
    instruction: Instruction, frame: Frame, function: Function, result: PtxType, *of: PtxType
) -> Operation:
    """Return d = function(a, ...): d is a `result`, the sources are `of` these types."""
    d, *operands = instruction.operands
    sources = [frame.source(operand, t) for operand, t in zip(operands, of, strict=True)]
    return elementwise(function, frame.target(d, result), *sources)


def of_types(function: Function, *names: str, words: tuple[str, ...] = ()) -> Decoder:
    """Return the decoder of d = function(a, ...), of these types; "" is what the opcode ends with.

    The function is also told which of `words` the opcode has.
    """

    def decode(instruction: Instruction, frame: Frame) -> Operation:
        types = [TYPES[name] if name else type_of(instruction, frame) for name in names]
        given = {word: instruction.has(word) for word in words}
        of_lanes = partial(function, **given) if given else function
        return mapped(instruction, frame, of_lanes, *types)

    return decode


def of_one_type(function: Function, sources: int) -> Decoder:
    """Return the decoder of d = function(a, ...), all of the type that the opcode ends with."""
    return of_types(function, *[""] * (sources + 1))


def _unary(function: Function, target: int, a: int) -> Operation:
    def run(threads: Threads, lanes: Lanes) -> None:
        rows = threads.rows
        rows[target][lanes] = function(rows[a][lanes])

    return run


def _binary(function: Function, target: int, a: int, b: int) -> Operation:
    def run(threads: Threads, lanes: Lanes) -> None:
        rows = threads.rows
        rows[target][lanes] = function(rows[a][lanes], rows[b][lanes])

    return run


def copy(target: int, source: int) -> Operation:
    """Return the operation rows[target] = rows[source]."""

    def run(threads: Threads, lanes: Lanes) -> None:
        rows = threads.rows
        rows[target][lanes] = rows[source][lanes]

    return run


def in_turn(operations: list[Operation]) -> Operation:
    """Return one operation that runs several in order."""
    if len(operations) == 1:
        return operations[0]

    def run(threads: Threads, lanes: Lanes) -> None:
        for operation in operations:
            operation(threads, lanes)

    return run


def nothing(threads: Threads, lanes: Lanes) -> None:
    """Do nothing: a hint, or an ordering that this machine guarantees anyway."""


def guarded(operation: Operation, predicate: int, negated: bool) -> Operation:
    """Return `operation` for the lanes whose predicate holds."""

    def run(threads: Threads, lanes: Lanes) -> None:
        mask = threads.rows[predicate][lanes]
        active = chosen(lanes, ~mask if negated else mask)
        if active is not None:
            threads.active = active
            operation(threads, active)
            threads.active = lanes

    return run
