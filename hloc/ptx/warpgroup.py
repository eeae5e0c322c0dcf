"""wgmma: gemms of a warpgroup, whose operands are in shared memory, given by descriptors.

It is computed at the wait for its group: only then are its operands read and its accumulators
written. Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions" and
"Shared Memory Matrix Layout".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import numpy as np

from hloc.lazy_dataclass import dataclass
from hloc.ptx.faults import LaneFault
from hloc.ptx.frame import Frame
from hloc.ptx.lanes import Lanes, lanes_of, numbers_of
from hloc.ptx.operation import Decoder, Operation, nothing
from hloc.ptx.program import Immediate, Instruction, Operand, Vector
from hloc.ptx.rounding import f32_of_bf16
from hloc.ptx.tensor_maps import swizzled
from hloc.ptx.threads import Threads
from hloc.ptx.value_types import TYPES, Array

Widened = Callable[[Array], Array]
_GROUP = 128
_LANE = np.arange(_GROUP)
_WARP, _QUAD, _PLACE = _LANE // 32, _LANE % 32 // 4, _LANE % 4
_ROWS, _DEPTH = 64, 16
_SHAPE = re.compile(r"m64n(\d+)k16")
_ROW_BYTES = {0: 16, 1: 128, 2: 64, 3: 32}  # by the swizzle mode of the descriptor


@dataclass(frozen=True, slots=True)
class _Descriptor:
    """The fields of a 64-bit matrix descriptor; offsets in bytes."""

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

        A piece runs along the depth, or if transposed along the other dimension. Without a
        swizzle, `leading` is the offset of the next 8 along the depth, `stride` that of the next 8
        along the other dimension. With one, rows of 128 bytes or less hold several pieces: `stride`
        is the offset of the next 8 rows, `leading` that of the pieces that exceed a row.
        """
        width = _ROW_BYTES[self.mode]
        if not transposed:
            row, piece = np.arange(size)[:, None], np.arange(_DEPTH // 8)
            along = piece * (self.leading if self.mode == 0 else 16)
            address = self.start + row // 8 * self.stride + row % 8 * width + along
        else:
            chunk, deep = np.arange(size // 8)[:, None], np.arange(_DEPTH)
            per_row = width // 16
            steps = (self.stride, self.leading) if self.mode else (self.leading, self.stride)
            across = chunk // per_row * steps[1] + chunk % per_row * 16
            address = self.start + across + deep // 8 * steps[0] + deep % 8 * width
        return swizzled(address, width)


def decode_wgmma(instruction: Instruction, frame: Frame) -> Operation:
    """wgmma.mma_async for 16-bit floats, its groups and waits; fences do nothing."""
    action = instruction.parts[1]
    if not instruction.has("aligned"):
        raise frame.fault("wgmma is for whole warpgroups: .aligned is missing")
    if action == "fence":
        return nothing
    if action == "commit_group":
        return _commit
    if action == "wait_group":
        return partial(_wait, _constant(instruction.operands[0], frame))
    shape = next((m for p in instruction.parts if (m := _SHAPE.fullmatch(p))), None)
    types = instruction.parts[-3:]
    if shape is None or types[0] != "f32" or types[1:] not in (("f16",) * 2, ("bf16",) * 2):
        raise frame.fault(f"unknown opcode {instruction.opcode}")
    return _product(instruction, frame, int(shape[1]), types[1] == "bf16")


def _constant(operand: Operand, frame: Frame) -> int:
    if not isinstance(operand, Immediate):
        raise frame.fault("scales, transpositions and waits of wgmma must be constant")
    return operand.value


def _groups(lanes: Lanes) -> Array:
    """Return the lanes of each warpgroup, [groups, 128]."""
    return numbers_of(lanes).reshape(-1, _GROUP)


def _commit(threads: Threads, lanes: Lanes) -> None:
    for group in _groups(lanes):
        threads.products.commit(group)


def _wait(allowed: int, threads: Threads, lanes: Lanes) -> None:
    for group in _groups(lanes):
        threads.products.wait(threads, group, allowed)
    threads.active = lanes


def _product(instruction: Instruction, frame: Frame, columns: int, brain: bool) -> Operation:
    d, a, b, scale_d, *rest = instruction.operands
    accumulators = frame.vector(d)
    if len(accumulators) != columns // 2:
        raise frame.fault(f"the accumulator has {columns // 2} registers")
    in_registers = isinstance(a, Vector)
    if len(rest) != (3 if in_registers else 4):
        raise frame.fault("after scale-d, wgmma takes two scales and the transpositions of A and B")
    sign_a, sign_b, *transposed = (_constant(x, frame) for x in rest)
    if in_registers:
        transposed.insert(0, False)
    product = _Product(
        instruction,
        columns,
        _widened_bf16 if brain else _widened_f16,
        sums=[frame.source(item, TYPES["f32"]) for item in accumulators],
        keep=frame.predicate(scale_d),
        sign=sign_a * sign_b,
        left=[frame.source(x, TYPES["b32" if in_registers else "b64"]) for x in frame.vector(a)],
        in_registers=in_registers,
        right=frame.source(b, TYPES["b64"]),
        transposed=[bool(x) for x in transposed],
    )

    def run(threads: Threads, lanes: Lanes) -> None:
        for group in _groups(lanes):
            threads.active = group
            product.begin(threads, group)
        threads.active = lanes

    return run


def _widened_bf16(values: Array) -> Array:
    return f32_of_bf16(values.view(np.uint16)).astype(np.float64)


def _widened_f16(values: Array) -> Array:
    return values.view(np.float16).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class _Product:
    """An instruction `wgmma.mma_async`, decoded; registers by their rows.

    Attributes:
        sums: the accumulators.
        keep: the predicate scale-d and whether it is negated: accumulate if it holds.
        left: registers of A, or the one with its descriptor.
        right: the register with the descriptor of B.
        transposed: whether A and B are transposed in shared memory.
    """

    instruction: Instruction
    columns: int
    widened: Widened
    sums: list[int]
    keep: tuple[int, bool]
    sign: int
    left: list[int]
    in_registers: bool
    right: int
    transposed: list[bool]

    def begin(self, threads: Threads, lanes: Array) -> None:
        """Read the operands that are consumed at issue, and queue the computation."""
        keep, negated = self.keep
        use = threads.rows[keep][lanes] != negated
        at_a = None if self.in_registers else _descriptor_of(threads, lanes, self.left[0])
        at_b = _descriptor_of(threads, lanes, self.right)

        def finish(threads: Threads) -> None:
            self._finish(threads, lanes, use, at_a, at_b)

        threads.products.begin(lanes, (self.instruction, finish))

    def _finish(
        self,
        threads: Threads,
        lanes: Array,
        use: Array,
        at_a: _Descriptor | None,
        at_b: _Descriptor,
    ) -> None:
        """Read the operands in shared memory and update the accumulators."""
        held = threads.rows
        if at_a is None:
            values = [held[row][lanes] for row in self.left]
            matrix_a = _from_registers(values, self.widened)
        else:
            pieces = at_a.pieces(_ROWS, self.transposed[0])
            own = np.arange(len(pieces)) * 4 // len(pieces)  # each warp has 16 rows
            matrix_a = _from_shared(threads, lanes, pieces, own, self.widened)
        pieces = at_b.pieces(self.columns, self.transposed[1])
        some = np.arange(len(pieces)) % 4  # every warp reads all of it; each checks a part
        matrix_b = _from_shared(threads, lanes, pieces, some, self.widened)
        number = np.arange(len(self.sums))[:, None]
        rows = 16 * _WARP + _QUAD + 8 * (number // 2 % 2)
        places = 8 * (number // 4) + 2 * _PLACE + number % 2
        product = self.sign * (matrix_a @ matrix_b.T)[rows, places]
        neighbours = lanes_of(lanes)
        for register, values_of_lanes in zip(self.sums, product, strict=True):
            sums = held[register][neighbours]
            held[register][neighbours] = values_of_lanes + np.where(use, sums, np.float32(0))


def _from_registers(values: list[Array], widened: Widened) -> Array:
    """Return A, [64, 16]: each warp has 16 rows in the layout of mma.m16n8k16."""
    matrix = np.empty((64, _DEPTH))
    for i, value in enumerate(values):
        pair = widened(np.ascontiguousarray(value)).reshape(_GROUP, 2)
        row = 16 * _WARP + _QUAD + 8 * (i % 2)
        column = 2 * _PLACE + 8 * (i // 2)
        matrix[row, column], matrix[row, column + 1] = pair[:, 0], pair[:, 1]
    return matrix


def _descriptor_of(threads: Threads, lanes: Array, row: int) -> _Descriptor:
    descriptors = threads.rows[row][lanes]
    if not (descriptors == descriptors[0]).all():
        raise LaneFault("lanes of a warpgroup hold different matrix descriptors", 0)
    return _Descriptor.of(int(descriptors[0]))


def _from_shared(
    threads: Threads, lanes: Array, pieces: Array, warp: Array, widened: Widened
) -> Array:
    """Return a matrix, [size, 16], given the addresses of its pieces.

    `warp` says which warp reads the pieces of each first index.
    """
    places, transposed = pieces.astype(np.uint64), pieces.shape[1] == _DEPTH
    if threads.metrics is not None:
        # 8 rows are read at once, along the last index or the first.
        in_turn = places if transposed else places.T
        one = np.full(places.size, lanes[0])
        threads.metrics.access("shared", one, np.ascontiguousarray(in_turn).reshape(-1), 16)
    threads.active = who = np.repeat(lanes[32 * warp], pieces.shape[1])
    found = threads.spaces.shared.load(who, places.reshape(-1), np.dtype(np.uint64), 2)
    threads.active = lanes
    elements = widened(np.ascontiguousarray(found)).reshape(*pieces.shape, 8)
    if transposed:
        elements = elements.transpose(0, 2, 1)
    return elements.reshape(-1, _DEPTH)


DECODERS: dict[str, Decoder] = {"wgmma": decode_wgmma}
