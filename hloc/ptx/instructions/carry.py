"""Arithmetic with carry: add.cc, addc, sub.cc, subc, mad.cc, madc.

The carry is a separate predicate of each function. Source: PTX ISA, "Extended-Precision Integer
Arithmetic Instructions".
"""

from __future__ import annotations

import numpy as np

from hloc.ptx.frame import Frame
from hloc.ptx.instructions.integer import high_half
from hloc.ptx.lanes import Lanes
from hloc.ptx.operation import Operation, type_of
from hloc.ptx.program import Instruction
from hloc.ptx.threads import Threads
from hloc.ptx.value_types import TYPES, Array


def decode(instruction: Instruction, frame: Frame) -> Operation:
    """Return the operation of any instruction that reads or writes the carry."""
    of = TYPES[f"u{type_of(instruction, frame).bits}"]
    signed = TYPES[f"s{of.bits}"]
    opcode = instruction.parts[0]
    reads, writes = opcode.endswith("c"), instruction.has("cc")
    subtract = opcode.startswith("sub")
    carry = frame.storage_row(f"{frame.function.name}:carry", 1, 0, TYPES["pred"])
    d, *operands = instruction.operands
    target = frame.target(d, of)
    product = opcode.startswith("mad")
    is_signed = instruction.parts[-1].startswith("s")
    source_type = signed if product and is_signed else of
    rows = [frame.source(operand, source_type) for operand in operands]
    high = instruction.has("hi")

    def run(threads: Threads, lanes: Lanes) -> None:
        values = [threads.rows[row][lanes] for row in rows]
        if product:
            multiplied = high_half(*values[:2]) if high else values[0] * values[1]
            a, b = multiplied.view(of.dtype), values[2].astype(of.dtype)
        else:
            a, b = values
        flag = threads.rows[carry][lanes]
        incoming = flag.astype(of.dtype) if reads else np.zeros_like(a)
        total, outgoing = _difference(a, b, incoming) if subtract else _sum(a, b, incoming)
        threads.rows[target][lanes] = total
        if writes:
            threads.rows[carry][lanes] = outgoing

    return run


def _sum(a: Array, b: Array, incoming: Array) -> tuple[Array, Array]:
    partial = a + b
    total = partial + incoming
    return total, (partial < a) | (total < partial)


def _difference(a: Array, b: Array, borrow: Array) -> tuple[Array, Array]:
    partial = a - b
    return partial - borrow, (a < b) | (partial < borrow)
