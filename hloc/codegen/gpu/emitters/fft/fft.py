"""Fourier transforms along one to three dimensions, by Stockham's passes, one per factor.

Rows that fit stay in shared memory from the first pass to the last: several threads share a row,
and short rows share a block. For longer rows, each pass is a launch over all rows, from one array
in scratch memory to another.
"""

from __future__ import annotations

from math import prod

from hloc.codegen.builder.ir_array import IrArray
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext, LaunchWriter
from hloc.codegen.gpu.emitter import GpuPlan
from hloc.codegen.gpu.emitters.fft.fft_passes import (
    Line,
    Passes,
    computed_factor,
    constant_table,
    pass_steps,
)
from hloc.codegen.gpu.kernel import BLOCK_THREADS
from hloc.codegen.kernels.butterflies import LARGEST
from hloc.codegen.kernels.context import root_of
from hloc.codegen.kernels.emitter import Emitter
from hloc.codegen.kernels.fft_plan import (
    Axis,
    Place,
    axes_of,
    complex_dtype,
    factors,
    is_inverse,
    is_transform,
    needs_spectrum,
    row_element,
    write_element,
)
from hloc.dtypes import DType
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.memory.heap import aligned_bytes

_SHARED_BYTES = 32 << 10
"""Most shared memory of a block: its rows before and after a pass."""

_SHORT_ROW_THREADS = 128
"""Threads of a block that has more than one row."""

_EACH = 8
"""Elements of a row per thread."""


def _others(a: Axis) -> list[int]:
    """Return the sizes of the dimensions that are not transformed."""
    return [size for dim, size in enumerate(a.dims) if dim != a.axis]


def _rows(a: Axis) -> int:
    """Return the number of transforms."""
    return prod(_others(a))


def _fits(n: int, dtype: DType) -> bool:
    """True if a row fits into shared memory twice."""
    return 2 * n * dtype.storage_bytes <= _SHARED_BYTES


@dataclass(frozen=True, slots=True)
class _Room:
    """Scratch memory: rows before and after a pass, a table, a spectrum, in bytes."""

    rows: int
    table: int
    spectrum: int


def _room(root: Instruction) -> _Room:
    size = complex_dtype(root).storage_bytes
    long = [a for a in axes_of(root) if not _fits(a.n, complex_dtype(root))]
    return _Room(
        aligned_bytes(max((_rows(a) * a.n for a in long), default=0) * size),
        aligned_bytes(max((a.n for a in long), default=0) * size),
        root.operands[0].array.elements * size if needs_spectrum(root) else 0,
    )


def plan(inst: Instruction) -> GpuPlan | None:
    """Plan a transform; long rows and a spectrum are in scratch memory."""
    if not is_transform(inst):
        return None
    root = root_of(inst)
    if not root.operands[0].array.elements:
        return GpuPlan(_emit_zeros)
    room = _room(root)
    return GpuPlan(emit, scratch_bytes=2 * room.rows + room.table + room.spectrum)


def _emit_zeros(w: LaunchWriter) -> None:
    """Write zeros, the transforms of empty rows."""
    shape = w.inst.array
    with w.each(shape.elements) as (k, thread):
        zero = k.b.const_element(shape.dtype, shape.dtype.numpy.type(0))
        k.output.store(k.math, tuple(k.math.delinear(thread, shape.dims)), zero)


def emit(w: LaunchWriter) -> None:
    """Write the launches of one dimension after another."""
    root = root_of(w.inst)
    for axis in axes_of(root):
        if _fits(axis.n, complex_dtype(root)):
            _in_blocks(w, axis)
        else:
            _by_launches(w, axis)


def _in_blocks(w: LaunchWriter, a: Axis) -> None:
    """Write one launch that transforms all rows."""
    dtype = complex_dtype(root_of(w.inst))
    is_short = max(factors(a.n), default=1) <= LARGEST
    threads = max(1, min(BLOCK_THREADS, a.n // _EACH if is_short else a.n))
    most = _SHARED_BYTES // (2 * a.n * dtype.storage_bytes)
    per_block = max(1, min(_SHORT_ROW_THREADS // threads, most, _rows(a)))
    with w.launch((-(-_rows(a) // per_block), 1, 1), (threads, per_block, 1)) as k:
        m, thread, mine = k.math, k.thread("x"), k.thread("y")
        row = m.add(m.mul(k.block_index("x"), per_block), mine)
        inside = k.body.all_of([m.compare("LT", row, _rows(a))] if _rows(a) % per_block else [])
        # Threads beyond the last row repeat it, and write nothing.
        row = m.minimum(row, _rows(a) - 1) if _rows(a) % per_block else row
        shared = k.shared_array(dtype, (2, per_block, a.n))
        lines = [Line(k, shared, (half, mine)) for half in (0, 1)]
        transform = _Transform(k, a)
        passes = Passes(k, dtype, a.n, constant_table(k, dtype, a.n, transform.inverse))
        with k.body.loop(thread, a.n, threads) as i:
            lines[0].store(i, transform.input(row, i))
        half, done = 0, 1
        for factor in factors(a.n):
            k.barrier()
            with k.body.loop(thread, pass_steps(a.n, factor), threads) as step:
                passes.step(factor, done, step, lines[half], lines[1 - half])
            half, done = 1 - half, done * factor
        k.barrier()
        with k.body.when(inside), k.body.loop(thread, a.results, threads) as i:
            transform.output(row, i, lines[half].load(i))


def _by_launches(w: LaunchWriter, a: Axis) -> None:
    """Emit a launch for the table, one that loads rows, one per pass, and one that stores."""
    with w.each(a.n) as (k, i):
        t = _Transform(k, a)
        t.table().store(k.math, (i,), computed_factor(k, t.dtype, a.n, i, t.inverse))
    with w.each(_rows(a) * a.n) as (k, thread):
        row, i = k.math.delinear(thread, [_rows(a), a.n])
        t = _Transform(k, a)
        t.line(0, row).store(i, t.input(row, i))
    half, done = 0, 1
    for factor in factors(a.n):
        steps = pass_steps(a.n, factor)
        with w.each(_rows(a) * steps) as (k, thread):
            row, step = k.math.delinear(thread, [_rows(a), steps])
            t = _Transform(k, a)
            passes = Passes(k, t.dtype, a.n, t.table())
            passes.step(factor, done, step, t.line(half, row), t.line(1 - half, row))
        half, done = 1 - half, done * factor
    with w.each(_rows(a) * a.results) as (k, thread):
        row, i = k.math.delinear(thread, [_rows(a), a.results])
        t = _Transform(k, a)
        t.output(row, i, t.line(half, row).load(i))


class _Transform:
    """Source and target of the rows of one dimension, in one launch."""

    def __init__(self, k: GpuContext, a: Axis) -> None:
        self.k, self.a = k, a
        self.dtype = complex_dtype(k.root)
        self.inverse = is_inverse(k.root)

    @staticmethod
    def array(k: GpuContext, name: str) -> IrArray:
        """Return the array `spectrum` or `result`."""
        if name == "result":
            return k.output
        room = _room(k.root)
        dims = k.root.operands[0].array.dims
        return k.scratch_array(2 * room.rows + room.table, complex_dtype(k.root), dims)

    def table(self) -> IrArray:
        """Return the table of powers of the root of unity, in scratch memory."""
        return self.k.scratch_array(2 * _room(self.k.root).rows, self.dtype, (self.a.n,))

    def line(self, half: int, row: IndexValue) -> Line:
        """Return a row in scratch memory, before or after a pass."""
        offset = half * _room(self.k.root).rows
        array = self.k.scratch_array(offset, self.dtype, (_rows(self.a), self.a.n))
        return Line(self.k, array, (row,))

    def _place(self, row: IndexValue) -> Place:
        """Return the function from positions in a row to indices."""
        others, axis = self.k.math.delinear(row, _others(self.a)), self.a.axis
        return lambda i: (*others[:axis], i, *others[axis:])

    def input(self, row: IndexValue, i: IndexValue) -> Value:
        """Return element i of a row."""
        is_operand = self.a.source == "operand"
        source = self.k.root.operands[0] if is_operand else self.array(self.k, self.a.source)
        return row_element(self.k, self.a, source, self._place(row), i)

    def output(self, row: IndexValue, i: IndexValue, value: Value) -> None:
        """Write element i of a row."""
        target = self.array(self.k, self.a.target)
        write_element(self.k, self.a.n, target, self._place(row), i, value)


EMITTER = Emitter("fft", plan)
