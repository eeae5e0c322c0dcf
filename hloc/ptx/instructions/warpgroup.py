"""wgmma: gemms of a warpgroup, whose operands are in shared memory, given by descriptors.

It is computed at the wait for its group: only then are its operands read and its accumulators
written. Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions" and
"Shared Memory Matrix Layout".
"""

from __future__ import annotations

import re
from functools import partial
from itertools import product as pairs
from math import prod

import numpy as np

from hloc.lazy_dataclass import dataclass
from hloc.ptx.faults import LaneFault
from hloc.ptx.fragments import TYPES_OF_ELEMENTS, widened
from hloc.ptx.frame import Frame
from hloc.ptx.lanes import WARPGROUP, Lanes, lanes_of, numbers_of
from hloc.ptx.narrow_sums import with_narrow_sums
from hloc.ptx.operation import Decoder, Operation
from hloc.ptx.product_registers import ProductRegisters, registers_of_product
from hloc.ptx.products import Product
from hloc.ptx.program import Immediate, Instruction, Operand, Vector
from hloc.ptx.tensor_maps import swizzled
from hloc.ptx.threads import Threads
from hloc.ptx.value_types import TYPES, Array

_GROUP = WARPGROUP
_LANE = np.arange(_GROUP)
_WARP, _QUAD, _PLACE = _LANE // 32, _LANE % 32 // 4, _LANE % 4
_ROWS = 64
_SHAPE = re.compile(r"m64n(\d+)k(\d+)")
_DEPTH_BYTES, _PIECE_BYTES = 32, 16
_HALVES = ("f16", "bf16")
"""Types whose matrices may be transposed in shared memory; there, the depth is 16."""

_HALF_DEPTH = 16
_INTEGERS, _NARROW = ("s8", "u8"), ("e4m3", "e5m2")
_FACTORS = {
    *((name, name) for name in (*_HALVES, "tf32")),
    *pairs(_NARROW, repeat=2),
    *pairs(_INTEGERS, repeat=2),
}
"""Types of A and B."""

_FIELD = (1 << 14) - 1
_FIELDS = _FIELD | _FIELD << 16 | _FIELD << 32 | 3 << 62
"""Bits of a matrix descriptor: address, leading and stride offset in units of 16 bytes, swizzle."""

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
        """Return the descriptor with these bits.

        Raises:
            LaneFault: bits without a meaning are set, or a base offset would be needed.
        """

        def field(low: int) -> int:
            return (bits >> low & _FIELD) * _PIECE_BYTES

        if bits & ~_FIELDS:
            raise LaneFault("a matrix descriptor with bits outside its fields", 0)
        result = cls(field(0), field(16), field(32), bits >> 62)
        width = _ROW_BYTES[result.mode]
        if result.mode and result.start % (8 * width) >= width:
            raise LaneFault("a matrix that begins within the 8 rows of its swizzle", 0)
        return result

    def pieces(self, size: int, transposed: bool) -> Array:
        """Return the addresses of 16-byte pieces, [size, 2] or, transposed, [size / 8, 16].

        A piece runs along the depth, or if transposed along the other dimension. Without a
        swizzle, `leading` is the offset of the next piece along the depth, `stride` that of the
        next 8 along the other dimension; if transposed, `leading` is that of the next 8 along the
        depth. With a swizzle, rows of 128 bytes or less hold several pieces: `stride` is the
        offset of the next 8 rows, `leading` that of the pieces that exceed a row.
        """
        width = _ROW_BYTES[self.mode]
        if not transposed:
            row, piece = np.arange(size)[:, None], np.arange(_DEPTH_BYTES // _PIECE_BYTES)
            along = piece * (self.leading if self.mode == 0 else _PIECE_BYTES)
            address = self.start + row // 8 * self.stride + row % 8 * width + along
        else:
            chunk, deep = np.arange(size // 8)[:, None], np.arange(_HALF_DEPTH)
            per_row = width // _PIECE_BYTES
            steps = (self.stride, self.leading) if self.mode else (self.leading, self.stride)
            across = chunk // per_row * steps[1] + chunk % per_row * _PIECE_BYTES
            address = self.start + across + deep // 8 * steps[0] + deep % 8 * width
        return swizzled(address, width)


def decode_wgmma(instruction: Instruction, frame: Frame) -> Operation:
    """wgmma.mma_async, its fences, groups and waits."""
    action = instruction.parts[1]
    if not instruction.has("aligned"):
        raise frame.fault("wgmma is for whole warpgroups: .aligned is missing")
    if action == "fence":
        return _fence
    if action == "commit_group":
        return _commit
    if action == "wait_group":
        return partial(_wait, _constant(instruction.operands[0], frame))
    shape = next((m for p in instruction.parts if (m := _SHAPE.fullmatch(p))), None)
    if shape is None or not _is_kind(instruction.parts[-3:], int(shape[1]), int(shape[2])):
        raise frame.fault(f"unknown opcode {instruction.opcode}")
    return _product(instruction, frame, int(shape[1]))


def _is_kind(types: tuple[str, ...], columns: int, depth: int) -> bool:
    """True if there is such an instruction with sums of 32 bits, given types of D, A and B."""
    sums, left, right = types
    if (left, right) not in _FACTORS:
        return False
    whole = left in _INTEGERS
    step = 16 if whole and columns > 24 else 8
    fits = 0 < columns <= 256 and columns % step == 0
    size = TYPES_OF_ELEMENTS[left].itemsize
    return fits and depth * size == _DEPTH_BYTES and sums == ("s32" if whole else "f32")


def _constant(operand: Operand, frame: Frame) -> int:
    if not isinstance(operand, Immediate):
        raise frame.fault("scales, transpositions and waits of wgmma must be constant")
    return operand.value


def _groups(lanes: Lanes) -> Array:
    """Return the lanes of each warpgroup, [groups, 128]."""
    return numbers_of(lanes).reshape(-1, _GROUP)


def _fence(threads: Threads, lanes: Lanes) -> None:
    for group in _groups(lanes):
        threads.products.fence(group)


def _commit(threads: Threads, lanes: Lanes) -> None:
    for group in _groups(lanes):
        threads.products.commit(group)


def _wait(allowed: int, threads: Threads, lanes: Lanes) -> None:
    for group in _groups(lanes):
        threads.products.wait(threads, group, allowed)
    threads.active = lanes


def _product(instruction: Instruction, frame: Frame, columns: int) -> Operation:
    """Return the operation that starts a gemm, whose operands are checked as the assembler does."""
    d, a, b, scale_d, *rest = instruction.operands
    sums, *factors = instruction.parts[-3:]
    accumulators = frame.vector(d)
    if len(accumulators) != columns // 2:
        raise frame.fault(f"the accumulator has {columns // 2} registers")
    left, in_registers = frame.vector(a), isinstance(a, Vector)
    if in_registers and len(left) != 4:
        raise frame.fault("A has 4 registers")
    scales = 0 if factors[0] in _INTEGERS else 2
    turns = (1 if in_registers else 2) if factors[0] in _HALVES else 0
    if len(rest) != scales + turns:
        what = "two scales" if scales else "no scales"
        what += " and the transpositions of A and B" if turns else " and no transpositions"
        raise frame.fault(f"after scale-d, wgmma takes {what} of {factors[0]}")
    numbers = [_constant(x, frame) for x in rest]
    signs, transposed = numbers[:scales], numbers[scales:]
    if not {*signs} <= {1, -1} or not {*transposed} <= {0, 1}:
        raise frame.fault("scales of wgmma are 1 or -1, transpositions 0 or 1")
    product = _Product(
        instruction,
        registers_of_product(instruction, frame.function.name),
        columns,
        (factors[0], factors[1]),
        sums=[frame.source(item, TYPES[sums]) for item in accumulators],
        keep=frame.predicate(scale_d),
        sign=prod(signs),
        left=[frame.source(x, TYPES["b32" if in_registers else "b64"]) for x in left],
        in_registers=in_registers,
        right=frame.source(b, TYPES["b64"]),
        transposed=(turns == 2 and transposed[0] == 1, turns > 0 and transposed[-1] == 1),
    )

    def run(threads: Threads, lanes: Lanes) -> None:
        for group in _groups(lanes):
            threads.active = group
            product.begin(threads, group)
        threads.active = lanes

    return run


@dataclass(frozen=True, slots=True, eq=False)
class _Product:
    """An instruction `wgmma.mma_async`, decoded; registers by their rows.

    Attributes:
        registers: as hazards see them.
        factors: types of A and B.
        sums: the accumulators.
        keep: the predicate scale-d and whether it is negated: accumulate if it holds.
        left: registers of A, or the one with its descriptor.
        right: the register with the descriptor of B.
        transposed: whether A and B are transposed in shared memory.
    """

    instruction: Instruction
    registers: ProductRegisters
    columns: int
    factors: tuple[str, str]
    sums: list[int]
    keep: tuple[int, bool]
    sign: int
    left: list[int]
    in_registers: bool
    right: int
    transposed: tuple[bool, bool]

    def begin(self, threads: Threads, lanes: Array) -> None:
        """Read the operands that are consumed at issue, and queue the computation."""
        keep, negated = self.keep
        use = threads.rows[keep][lanes] != negated
        at_a = None if self.in_registers else _descriptor_of(threads, lanes, self.left[0])
        at_b = _descriptor_of(threads, lanes, self.right)

        def finish(threads: Threads) -> None:
            self._finish(threads, lanes, use, at_a, at_b)

        shape = self.instruction.parts[4]
        product = Product(self.instruction, self.registers, shape, finish)
        threads.products.begin(lanes, product)

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
            matrix_a = _from_registers(values, self.factors[0])
        else:
            pieces = at_a.pieces(_ROWS, self.transposed[0])
            own = np.arange(len(pieces)) * 4 // len(pieces)  # each warp has 16 rows
            matrix_a = _from_shared(threads, lanes, pieces, own, self.factors[0])
        pieces = at_b.pieces(self.columns, self.transposed[1])
        some = np.arange(len(pieces)) % 4  # every warp reads all of it; each checks a part
        matrix_b = _from_shared(threads, lanes, pieces, some, self.factors[1])
        number = np.arange(len(self.sums))[:, None]
        rows = 16 * _WARP + _QUAD + 8 * (number // 2 % 2)
        places = 8 * (number // 4) + 2 * _PLACE + number % 2
        neighbours = lanes_of(lanes)
        sums = np.where(use, np.stack([held[register][neighbours] for register in self.sums]), 0)
        total = self._added(sums, self.sign * matrix_a, matrix_b, (rows, places))
        for register, values in zip(self.sums, total, strict=True):
            held[register][neighbours] = values

    def _added(
        self, sums: Array, matrix_a: Array, matrix_b: Array, places: tuple[Array, Array]
    ) -> Array:
        """Return sums, [registers, lanes], with the product of two matrices of f64 added.

        `places` are the rows and columns of the sums. Results are rounded when they are stored, or
        wrapped, or clipped.
        """
        if self.factors[0] in _NARROW:
            matrix = np.empty((_ROWS, self.columns))
            matrix[places] = sums
            return with_narrow_sums(matrix_a, matrix_b, matrix)[places]
        total: Array = sums + (matrix_a @ matrix_b.T)[places]  # exact for integers
        if self.instruction.has("satfinite"):
            return np.clip(total, -(1 << 31), (1 << 31) - 1)
        return total if self.factors[0] not in _INTEGERS else total.astype(np.int64)


def _from_registers(values: list[Array], element: str) -> Array:
    """Return A, [64, depth]: each warp has 16 rows in the layout of mma.sync."""
    per_register = 4 // TYPES_OF_ELEMENTS[element].itemsize
    matrix = np.empty((_ROWS, 8 * per_register))
    for i, value in enumerate(values):
        row = 16 * _WARP + _QUAD + 8 * (i % 2)
        column = per_register * (_PLACE + 4 * (i // 2))
        elements = widened(value, element).reshape(_GROUP, per_register)
        for part in range(per_register):
            matrix[row, column + part] = elements[:, part]
    return matrix


def _descriptor_of(threads: Threads, lanes: Array, row: int) -> _Descriptor:
    descriptors = threads.rows[row][lanes]
    if not (descriptors == descriptors[0]).all():
        raise LaneFault("lanes of a warpgroup hold different matrix descriptors", 0)
    return _Descriptor.of(int(descriptors[0]))


def _from_shared(threads: Threads, lanes: Array, pieces: Array, warp: Array, element: str) -> Array:
    """Return a matrix, [size, depth], given the addresses of its pieces.

    `warp` says which warp reads the pieces of each first index.
    """
    places, transposed = pieces.astype(np.uint64), pieces.shape[1] == _HALF_DEPTH
    if threads.metrics is not None:
        # 8 rows are read at once, along the last index or the first.
        in_turn = places if transposed else places.T
        one = np.full(places.size, lanes[0])
        threads.metrics.access("shared", one, np.ascontiguousarray(in_turn).reshape(-1), 16)
    threads.active = who = np.repeat(lanes[32 * warp], pieces.shape[1])
    found = threads.spaces.shared.load_asynchronously(who, places.reshape(-1))
    threads.active = lanes
    elements = widened(found, element).reshape(*pieces.shape, -1)
    if transposed:
        return elements.transpose(0, 2, 1).reshape(-1, _HALF_DEPTH)
    return elements.reshape(len(pieces), -1)


DECODERS: dict[str, Decoder] = {"wgmma": decode_wgmma}
