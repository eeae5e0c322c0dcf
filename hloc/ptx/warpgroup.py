"""wgmma: products of a warpgroup, whose operands lie in shared memory behind descriptors.

The product is made when it is issued; the groups that order it are taken for granted. Source: PTX
ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions" and "Shared Memory
Matrix Layout".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hloc.ptx.faults import LaneFault
from hloc.ptx.frame import Frame
from hloc.ptx.operation import Decoder, Operation, nothing
from hloc.ptx.program import Immediate, Instruction, Operand, Vector
from hloc.ptx.rounding import f32_of_bf16
from hloc.ptx.threads import Lanes, Threads, numbers_of
from hloc.ptx.value_types import TYPES, Array

Widened = Callable[[Array], Array]
_GROUP = 128
_LANE = np.arange(_GROUP)
_WARP, _QUAD, _PLACE = _LANE // 32, _LANE % 32 // 4, _LANE % 4
_DEPTH = 16
_SHAPE = re.compile(r"m64n(\d+)k16")
_ROW_BYTES = {0: 16, 1: 128, 2: 64, 3: 32}  # by the swizzle mode of the descriptor


@dataclass(frozen=True, slots=True)
class _Descriptor:
    """What the 64 bits of a matrix descriptor say; offsets in bytes."""

    start: int
    leading: int
    stride: int
    mode: int

    @classmethod
    def of(cls, bits: int) -> _Descriptor:
        def field(low: int) -> int:
            return (bits >> low & 0x3FFF) * 16

        return cls(field(0), field(16), field(32), bits >> 62)

    def pieces(self, size: int, transposed: bool) -> Array:
        """Return the addresses of pieces of 8 elements, [size, 2] or, transposed, [size / 8, 16].

        A piece runs along the depth, or if transposed along the other dimension.
        """
        width = _ROW_BYTES[self.mode]
        if not transposed:
            row, piece = np.arange(size)[:, None], np.arange(_DEPTH // 8)
            along = piece * (self.leading if self.mode == 0 else 16)
            address = self.start + row // 8 * self.stride + row % 8 * width + along
        else:
            chunk, deep = np.arange(size // 8)[:, None], np.arange(_DEPTH)
            per_row = width // 16
            across = chunk // per_row * self.leading + chunk % per_row * 16
            address = self.start + across + deep // 8 * self.stride + deep % 8 * width
        return self._swizzled(address)

    def _swizzled(self, address: Array) -> Array:
        """Exchange pieces of 16 bytes within a row, by the number of the row of 128 bytes."""
        mask = _ROW_BYTES[self.mode] // 16 - 1
        return np.asarray(address ^ (address >> 7 & mask) << 4)


def decode_wgmma(instruction: Instruction, frame: Frame) -> Operation:
    """wgmma.mma_async for 16-bit floats; the fences and groups around it do nothing."""
    if instruction.parts[1] != "mma_async":
        return nothing
    shape = next((m for p in instruction.parts if (m := _SHAPE.fullmatch(p))), None)
    types = instruction.parts[-3:]
    if shape is None or types[0] != "f32" or types[1:] not in (("f16",) * 2, ("bf16",) * 2):
        raise frame.fault(f"unknown opcode {instruction.opcode}")
    return _product(instruction, frame, int(shape[1]), types[1] == "bf16")


def _constant(operand: Operand, frame: Frame) -> int:
    if not isinstance(operand, Immediate):
        raise frame.fault("scales and transpositions of wgmma must be constant")
    return operand.value


def _product(instruction: Instruction, frame: Frame, columns: int, brain: bool) -> Operation:
    d, a, b, scale_d, *rest = instruction.operands
    accumulators = frame.vector(d)
    if len(accumulators) != columns // 2:
        raise frame.fault(f"the accumulator has {columns // 2} registers")
    registers = [frame.source(item, TYPES["f32"]) for item in accumulators]
    left = isinstance(a, Vector)
    a_rows = [frame.source(x, TYPES["b32" if left else "b64"]) for x in frame.vector(a)]
    b_row = frame.source(b, TYPES["b64"])
    keep, negated = frame.predicate(scale_d)
    signs = [_constant(x, frame) for x in rest[:2]]
    transposed = [bool(_constant(x, frame)) for x in rest[2:]]
    if left:
        transposed.insert(0, False)
    sign = signs[0] * signs[1]

    def widened(values: Array) -> Array:
        narrow = values.view(np.uint16)
        wide = f32_of_bf16(narrow) if brain else narrow.view(np.float16)
        return wide.astype(np.float64)

    def one(threads: Threads, lanes: Array) -> None:
        held = threads.rows
        if left:
            matrix_a = _from_registers([held[row][lanes] for row in a_rows], widened)
        else:
            matrix_a = _from_shared(
                threads, lanes, held[a_rows[0]][lanes], 64, transposed[0], widened
            )
        matrix_b = _from_shared(threads, lanes, held[b_row][lanes], columns, transposed[1], widened)
        product = sign * (matrix_a @ matrix_b.T)
        use = held[keep][lanes] != negated
        for i, register in enumerate(registers):
            row = 16 * _WARP + _QUAD + 8 * (i // 2 % 2)
            column = 8 * (i // 4) + 2 * _PLACE + i % 2
            before = np.where(use, held[register][lanes], np.float32(0))
            held[register][lanes] = product[row, column] + before

    def run(threads: Threads, lanes: Lanes) -> None:
        for group in numbers_of(lanes).reshape(-1, _GROUP):
            one(threads, group)

    return run


def _from_registers(values: list[Array], widened: Widened) -> Array:
    """Return A, [64, 16]: each warp holds 16 rows as mma.m16n8k16 does."""
    matrix = np.empty((64, _DEPTH))
    for i, value in enumerate(values):
        pair = widened(np.ascontiguousarray(value)).reshape(_GROUP, 2)
        row = 16 * _WARP + _QUAD + 8 * (i % 2)
        column = 2 * _PLACE + 8 * (i // 2)
        matrix[row, column], matrix[row, column + 1] = pair[:, 0], pair[:, 1]
    return matrix


def _from_shared(
    threads: Threads,
    lanes: Array,
    descriptors: Array,
    size: int,
    transposed: bool,
    widened: Widened,
) -> Array:
    """Return a matrix of [size, 16] that a descriptor points to."""
    if not (descriptors == descriptors[0]).all():
        raise LaneFault("lanes of a warpgroup hold different matrix descriptors", 0)
    addresses = _Descriptor.of(int(descriptors[0])).pieces(size, transposed)
    who = np.full(addresses.size, lanes[0])
    threads.active = who
    flat = addresses.reshape(-1).astype(np.uint64)
    pieces = threads.spaces.shared.load(who, flat, np.dtype(np.uint64), 2)
    threads.active = lanes
    elements = widened(np.ascontiguousarray(pieces)).reshape(*addresses.shape, 8)
    if transposed:
        elements = elements.transpose(0, 2, 1)
    return elements.reshape(size, _DEPTH)


DECODERS: dict[str, Decoder] = {"wgmma": decode_wgmma}
