"""Tensor-core instructions: ldmatrix, stmatrix and mma on the fragments of a warp.

Arrays are [warps, 32] per register. Products and sums are computed in f64 and rounded once per
instruction; order and width of the hardware's sums are unspecified. Source: PTX ISA, "Warp Level
Matrix Multiply-Accumulate Instructions".
"""

from __future__ import annotations

import numpy as np

from hloc.lazy_dataclass import dataclass
from hloc.ptx.fragments import Fragment, fragments_of
from hloc.ptx.frame import Frame
from hloc.ptx.instructions.memory_access import address_reader
from hloc.ptx.lanes import WARP, Lanes, lanes_of, numbers_of
from hloc.ptx.operation import Decoder, Operation
from hloc.ptx.program import Instruction
from hloc.ptx.threads import Threads
from hloc.ptx.value_types import TYPES, Array

_LANE = np.arange(WARP)
_QUAD, _IN_QUAD = _LANE // 4, _LANE % 4
_U64 = np.dtype(np.uint64)


def _matrices(instruction: Instruction, frame: Frame) -> int:
    if not instruction.has("m8n8") or instruction.parts[-1] != "b16":
        raise frame.fault(f"unknown shape in {instruction.opcode}")
    return int(next(p for p in instruction.parts if p in ("x1", "x2", "x4"))[1:])


def decode_ldmatrix(instruction: Instruction, frame: Frame) -> Operation:
    """Ldmatrix: 8x8 matrices of 16-bit elements; lanes 8i to 8i+7 hold the row addresses of i."""
    count = _matrices(instruction, frame)
    transposed = instruction.has("trans")
    targets = [frame.target(item, TYPES["b32"]) for item in frame.vector(instruction.operands[0])]
    read = address_reader(instruction.operands[1], frame)

    def run(threads: Threads, lanes: Lanes) -> None:
        rows, warps = _row_values(threads, lanes, read(threads, lanes), count)
        matrices = rows.view(np.uint16).reshape(warps, count, 8, 8)
        if transposed:
            matrices = matrices.transpose(0, 1, 3, 2)
        pairs = np.ascontiguousarray(matrices).view(np.uint32).reshape(warps, count, WARP)
        for i, target in enumerate(targets):
            threads.rows[target][lanes] = pairs[:, i].reshape(-1)

    return run


def _row_lanes(lanes: Lanes, count: int) -> tuple[Lanes, Array, int]:
    """Return the lanes whose addresses are used, their positions, and the number of warps."""
    numbers = numbers_of(lanes)
    positions = np.flatnonzero(np.arange(len(numbers)) % WARP < 8 * count)
    return lanes_of(numbers[positions]), positions, len(numbers) // WARP


def _row_values(threads: Threads, lanes: Lanes, addresses: Array, count: int) -> tuple[Array, int]:
    chosen, positions, warps = _row_lanes(lanes, count)
    threads.active = chosen
    threads.count_access("shared", chosen, addresses[positions], 16)
    values = threads.spaces["shared"].load(chosen, addresses[positions], _U64, 2)
    return np.ascontiguousarray(values), warps


def decode_stmatrix(instruction: Instruction, frame: Frame) -> Operation:
    """Stmatrix: the inverse of ldmatrix."""
    count = _matrices(instruction, frame)
    transposed = instruction.has("trans")
    sources = [frame.source(item, TYPES["b32"]) for item in frame.vector(instruction.operands[1])]
    read = address_reader(instruction.operands[0], frame)

    def run(threads: Threads, lanes: Lanes) -> None:
        addresses = read(threads, lanes)
        chosen, positions, warps = _row_lanes(lanes, count)
        pairs = np.stack([threads.rows[row][lanes].reshape(warps, WARP) for row in sources], axis=1)
        matrices = pairs.view(np.uint16).reshape(warps, count, 8, 8)
        if transposed:
            matrices = np.ascontiguousarray(matrices.transpose(0, 1, 3, 2))
        threads.active = chosen
        threads.count_access("shared", chosen, addresses[positions], 16)
        rows = matrices.view(_U64).reshape(-1, 2)
        threads.spaces["shared"].store(chosen, addresses[positions], rows)

    return run


@dataclass(frozen=True, slots=True)
class _Rows:
    fragment: Fragment
    rows: tuple[int, ...]

    def read(self, threads: Threads, lanes: Lanes) -> Array:
        """Return the matrices as [warps, rows, columns]."""
        registers = [threads.rows[row][lanes].reshape(-1, WARP) for row in self.rows]
        return self.fragment.gather(registers)


def decode_mma(instruction: Instruction, frame: Frame) -> Operation:
    """mma.sync: D = A * B + C."""
    found = fragments_of(instruction)
    if found is None:
        raise frame.fault(f"unknown opcode {instruction.opcode}")
    result, *shapes = found
    operands = [frame.vector(operand) for operand in instruction.operands]
    targets = [frame.target(item, result.register) for item in operands[0]]
    parts = [
        _Rows(shape, tuple(frame.source(item, shape.register) for item in items))
        for shape, items in zip(shapes, operands[1:], strict=True)
    ]
    for shape, items in zip(found, operands, strict=True):
        if len(items) != shape.count:
            raise frame.fault(f"a fragment of {instruction.opcode} has {shape.count} registers")
    saturate = instruction.has("satfinite")

    def run(threads: Threads, lanes: Lanes) -> None:
        a, b, c = (part.read(threads, lanes) for part in parts)
        d = np.matmul(a, b) + c
        if saturate:
            d = np.clip(d, -(1 << 31), (1 << 31) - 1)
        for target, values in zip(targets, result.scatter(d), strict=True):
            threads.rows[target][lanes] = values.reshape(-1)

    return run


DECODERS: dict[str, Decoder] = {
    "ldmatrix": decode_ldmatrix,
    "stmatrix": decode_stmatrix,
    "mma": decode_mma,
}
