"""Fourier transforms along one to three dimensions, by Stockham's passes, one per factor.

Rows that fit stay in shared memory from the first pass to the last: some threads share a row, and
short rows share a block. The passes of longer rows are launches of their own over all rows, from
one array in scratch memory to another.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from hloc.codegen.builder.index import Index
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
from hloc.codegen.kernels.fft_plan import complex_dtype, copies_spectrum, factors, is_transform
from hloc.dtypes import DType
from hloc.ir.instruction import Instruction

_SHARED_BYTES = 32 << 10
"""Shared memory that a block takes: its rows before and after a pass."""

_SHORT_ROW_THREADS = 128
"""Threads of a block that has more than one row."""

_EACH = 8
"""Elements of a row per thread."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension to transform.

    Attributes:
        dims: of the array that is read; `axis` is transformed.
        n: length of the transform; `results` of its elements are written.
        source, target: `operand`, `spectrum` (a copy of it in scratch memory) or `result`.
    """

    dims: tuple[int, ...]
    axis: int
    n: int
    results: int
    source: str
    target: str

    @property
    def others(self) -> list[int]:
        """The sizes of all other dimensions."""
        return [size for dim, size in enumerate(self.dims) if dim != self.axis]

    @property
    def rows(self) -> int:
        """How many transforms there are."""
        return prod(self.others)


def axes_of(root: Instruction) -> list[Axis]:
    """Return the dimensions that `root` transforms, in order."""
    length, dims, results = root.attributes.fft_length, root.operands[0].array.dims, root.array.dims
    axes = list(range(len(dims) - len(length), len(dims)))
    sizes = dict(zip(axes, length, strict=True))
    last = axes.pop()
    if copies_spectrum(root):
        result = [Axis(dims, d, sizes[d], dims[d], "spectrum", "spectrum") for d in axes]
        return [*result, Axis(dims, last, sizes[last], results[last], "spectrum", "result")]
    result = [Axis(dims, last, sizes[last], results[last], "operand", "result")]
    return result + [Axis(results, d, sizes[d], results[d], "result", "result") for d in axes]


def _fits(n: int, dtype: DType) -> bool:
    """True if a row fits into shared memory twice."""
    return 2 * n * dtype.storage_bytes <= _SHARED_BYTES


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // 64) * 64


@dataclass(frozen=True, slots=True)
class _Room:
    """Scratch memory: rows before and after a pass, a table, a copy of the spectrum, in bytes."""

    rows: int
    table: int
    spectrum: int


def _room(root: Instruction) -> _Room:
    size = complex_dtype(root).storage_bytes
    long = [a for a in axes_of(root) if not _fits(a.n, complex_dtype(root))]
    return _Room(
        _aligned(max((a.rows * a.n for a in long), default=0) * size),
        _aligned(max((a.n for a in long), default=0) * size),
        root.operands[0].array.elements * size if copies_spectrum(root) else 0,
    )


def plan(inst: Instruction) -> GpuPlan | None:
    """Plan a transform; long rows and a copy of the spectrum are in scratch memory."""
    if not is_transform(inst):
        return None
    room = _room(root_of(inst))
    return GpuPlan(emit, scratch_bytes=2 * room.rows + room.table + room.spectrum)


def emit(w: LaunchWriter) -> None:
    """Write the launches of one dimension after another."""
    root = root_of(w.inst)
    operand = root.operands[0]
    if copies_spectrum(root):
        with w.each(operand.array.elements) as (k, thread):
            index = tuple(k.math.delinear(thread, operand.array.dims))
            _Transform.array(k, "spectrum").store(
                k.math, index, k.b.convert(k.read(operand, index), complex_dtype(root))
            )
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
    per_block = max(1, min(_SHORT_ROW_THREADS // threads, most, a.rows))
    with w.launch((-(-a.rows // per_block), 1, 1), (threads, per_block, 1)) as k:
        m, thread, mine = k.math, k.thread("x"), k.thread("y")
        row = m.add(m.mul(k.block_index("x"), per_block), mine)
        inside = k.body.all_of([m.compare("LT", row, a.rows)] if a.rows % per_block else [])
        # Threads beyond the last row do it again, and write nothing.
        row = m.minimum(row, a.rows - 1) if a.rows % per_block else row
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
    """Write a launch for the table, one that brings rows in, one per pass, one that writes."""
    with w.each(a.n) as (k, i):
        t = _Transform(k, a)
        t.table().store(k.math, (i,), computed_factor(k, t.dtype, a.n, i, t.inverse))
    with w.each(a.rows * a.n) as (k, thread):
        row, i = k.math.delinear(thread, [a.rows, a.n])
        t = _Transform(k, a)
        t.line(0, row).store(i, t.input(row, i))
    half, done = 0, 1
    for factor in factors(a.n):
        steps = pass_steps(a.n, factor)
        with w.each(a.rows * steps) as (k, thread):
            row, step = k.math.delinear(thread, [a.rows, steps])
            t = _Transform(k, a)
            passes = Passes(k, t.dtype, a.n, t.table())
            passes.step(factor, done, step, t.line(half, row), t.line(1 - half, row))
        half, done = 1 - half, done * factor
    with w.each(a.rows * a.results) as (k, thread):
        row, i = k.math.delinear(thread, [a.rows, a.results])
        t = _Transform(k, a)
        t.output(row, i, t.line(half, row).load(i))


class _Transform:
    """Where the rows of one dimension come from and go to, in one launch."""

    def __init__(self, k: GpuContext, a: Axis) -> None:
        self.k, self.a = k, a
        self.dtype = complex_dtype(k.root)
        self.inverse = k.root.attributes.fft_type in ("IFFT", "IRFFT")

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
        array = self.k.scratch_array(offset, self.dtype, (self.a.rows, self.a.n))
        return Line(self.k, array, (row,))

    def _index(self, row: IndexValue, i: IndexValue) -> Index:
        result = self.k.math.delinear(row, self.a.others)
        return (*result[: self.a.axis], i, *result[self.a.axis :])

    def input(self, row: IndexValue, i: IndexValue) -> Value:
        """Return element i of a row; half a spectrum is continued by its mirror image."""
        k, b, m, size = self.k, self.k.b, self.k.math, self.a.dims[self.a.axis]
        mirrored = None
        if size < self.a.n:
            mirrored = m.compare("GE", i, size)
            i = b.select(mirrored, m.value(m.sub(self.a.n, i)), m.value(i))
        index = self._index(row, i)
        if self.a.source == "operand":
            value = k.read(k.root.operands[0], index)
        else:
            value = self.array(k, self.a.source).load(m, index)
        value = b.convert(value, self.dtype)
        if mirrored is None:
            return value
        return b.select(mirrored, b.complex(b.real(value), b.fneg(b.imag(value))), value)

    def output(self, row: IndexValue, i: IndexValue, value: Value) -> None:
        """Write element i of a row."""
        b, target = self.k.b, self.array(self.k, self.a.target)
        real, imag = b.real(value), b.imag(value)
        if self.inverse:
            scale = b.const(real.dtype, 1 / self.a.n)
            real, imag = b.fmul(real, scale), b.fmul(imag, scale)
        value = b.complex(real, imag) if target.dtype.is_complex else real
        target.store(self.k.math, self._index(row, i), value)


EMITTER = Emitter("fft", plan)
