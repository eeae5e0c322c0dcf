"""Fourier transforms of the last one to three dimensions, row by row along each of them.

A row of length n goes through Stockham's passes, one per prime factor (4 for pairs of 2), between
two buffers; the powers of exp(-2 pi i / n) are tabulated first. Lengths with a prime factor so
large that the passes would be quadratic are refused.
"""

from __future__ import annotations

from math import pi

from hloc.codegen.emitters.context import Emitter, KernelContext, no_split, root_of
from hloc.codegen.index import Index
from hloc.codegen.ir_array import IrArray
from hloc.codegen.loops import IndexValue
from hloc.codegen.values import Value
from hloc.dtypes import C64, C128, F32, F64, DType
from hloc.ir.instruction import Instruction

MAX_WORK = 1 << 28
"""Length times largest prime factor, above which a transform is refused."""

UNROLLED = 8
"""Largest factor whose sums are written out."""


def can_emit(inst: Instruction) -> bool:
    """True if the result is that of a transform whose lengths have small enough factors."""
    root = root_of(inst)
    if root.opcode.name != "fft":
        return False
    return all(n * max(_factors(n), default=1) <= MAX_WORK for n in root.attributes.fft_length)


def _factors(n: int) -> list[int]:
    """Return 4s, then primes in ascending order, whose product is n."""
    found: list[int] = []
    while n % 4 == 0 and n:
        found.append(4)
        n //= 4
    prime = 2
    while prime * prime <= n:
        while n % prime == 0:
            found.append(prime)
            n //= prime
        prime += 1
    return [*found, n] if n > 1 else found


def _complex_dtype(root: Instruction) -> DType:
    narrow = (F32, C64)
    return C64 if root.operands[0].array.dtype in narrow else C128


def _is_inverse_real(root: Instruction) -> bool:
    return bool(root.attributes.fft_type == "IRFFT")


def scratch_bytes(inst: Instruction) -> int:
    """Return room for a table, two rows, and a copy of the spectrum of an IRFFT."""
    root = root_of(inst)
    size = _complex_dtype(root).storage_bytes
    total: int = 3 * max(root.attributes.fft_length) * size
    if _is_inverse_real(root):
        total += root.operands[0].array.elements * size
    return total


def emit(k: KernelContext) -> None:
    """Transform one dimension after another."""
    if k.root.array.elements == 0:
        return
    kind, length = k.root.attributes.fft_type, k.root.attributes.fft_length
    rank = k.root.array.rank
    axes = list(range(rank - len(length), rank))
    lengths = dict(zip(axes, length, strict=True))
    writer = _Writer(k, max(length), kind in ("IFFT", "IRFFT"))
    operand = k.root.operands[0]
    last = axes.pop()
    if kind == "IRFFT":
        size = 3 * max(length) * writer.dtype.storage_bytes
        spectrum = k.scratch_array(size, writer.dtype, operand.array.dims)
        k.copy_array(operand, spectrum)
        for axis in axes:
            writer.along(spectrum.dims, axis, lengths[axis], spectrum, spectrum)
        writer.along(spectrum.dims, last, lengths[last], spectrum, k.output)
        return
    writer.along(operand.array.dims, last, lengths[last], operand, k.output)
    for axis in axes:
        writer.along(k.output.dims, axis, lengths[axis], k.output, k.output)


class _Writer:
    """Writes the passes."""

    def __init__(self, k: KernelContext, longest: int, inverse: bool) -> None:
        self.k, self.b, self.math, self.body = k, k.b, k.math, k.body
        self.dtype = _complex_dtype(k.root)
        self.inverse = inverse
        size = longest * self.dtype.storage_bytes
        self.table = k.scratch_array(0, self.dtype, (longest,))
        self.rows = [k.scratch_array(size * i, self.dtype, (longest,)) for i in (1, 2)]

    def along(
        self,
        dims: tuple[int, ...],
        axis: int,
        n: int,
        source: Instruction | IrArray,
        target: IrArray,
    ) -> None:
        """Transform all rows along `axis`; what lies outside `target` is not written."""
        self._tabulate(n)
        others = [d for d in range(len(dims)) if d != axis]
        with self.body.nest(dims, others) as at:
            with self.body.loop(0, n) as i:
                self.rows[0].store(self.math, (i,), self._input(source, at, axis, i, n))
            row = self._passes(n)
            with self.body.loop(0, target.dims[axis]) as i:
                value = row.load(self.math, (i,))
                if self.inverse:
                    value = self._scaled(value, 1 / n)
                if not target.dtype.is_complex:
                    value = self.b.real(value)
                target.store(self.math, (*at[:axis], i, *at[axis + 1 :]), value)

    def _input(
        self,
        source: Instruction | IrArray,
        at: list[IndexValue],
        axis: int,
        i: IndexValue,
        n: int,
    ) -> Value:
        """Return element i of a row; half a spectrum is continued by its mirror image."""
        dims = source.dims if isinstance(source, IrArray) else source.array.dims
        mirrored = None
        if dims[axis] < n:
            mirrored = self.math.compare("GE", i, dims[axis])
            back = self.math.value(self.math.sub(n, i))
            i = self.b.select(mirrored, back, self.math.value(i))
        index: Index = (*at[:axis], i, *at[axis + 1 :])
        if isinstance(source, IrArray):
            value = source.load(self.math, index)
        else:
            value = self.k.read(source, index)
        value = self.b.convert(value, self.dtype)
        if mirrored is None:
            return value
        conjugate = self.b.complex(self.b.real(value), self.b.fneg(self.b.imag(value)))
        return self.b.select(mirrored, conjugate, value)

    def _scaled(self, value: Value, factor: float) -> Value:
        b = self.b
        part = b.const(b.real(value).dtype, factor)
        return b.complex(b.fmul(b.real(value), part), b.fmul(b.imag(value), part))

    def _tabulate(self, n: int) -> None:
        """Fill the table with exp(-2 pi i t / n), or its conjugate for inverses."""
        b = self.b
        with self.body.loop(0, n) as t:
            angle = b.fmul(b.convert(self.math.value(t), F64), b.const(F64, 2 * pi / n))
            sine = b.libm("sin", angle)
            part = F32 if self.dtype is C64 else F64
            imag = b.convert(sine if self.inverse else b.fneg(sine), part)
            value = b.complex(b.convert(b.libm("cos", angle), part), imag)
            self.table.store(self.math, (t,), value)

    def _passes(self, n: int) -> IrArray:
        """Transform the first row; return the one that holds the result."""
        source, target = self.rows
        done = 1
        for factor in _factors(n):
            if factor <= UNROLLED:
                self._short_pass(source, target, n, done, factor)
            else:
                self._long_pass(source, target, n, done, factor)
            source, target = target, source
            done *= factor
        return source

    def _factor(self, n: int, q: IndexValue, step: IndexValue) -> Value:
        """Return exp(-2 pi i q step / n)."""
        return self.table.load(self.math, (self.math.rem(self.math.mul(q, step), n),))

    def _short_pass(self, source: IrArray, target: IrArray, n: int, done: int, factor: int) -> None:
        """y[j + done (q + factor s)] = sum over p of w**(q (s done + p n / factor)) x[...]."""
        m, b = self.math, self.b
        rest = n // (done * factor)
        with self.body.loop(0, rest) as s, self.body.loop(0, factor) as q:
            steps = [m.add(m.mul(s, done), p * (n // factor)) for p in range(factor)]
            factors = [self._factor(n, q, step) for step in steps]
            out = m.mul(m.add(q, m.mul(s, factor)), done)
            with self.body.loop(0, done) as j:
                total: Value | None = None
                for p, w in enumerate(factors):
                    at = m.add(j, m.mul(m.add(s, rest * p), done))
                    term = b.fmul(w, source.load(m, (at,)))
                    total = term if total is None else b.fadd(total, term)
                assert total is not None
                target.store(m, (m.add(out, j),), total)

    def _long_pass(self, source: IrArray, target: IrArray, n: int, done: int, factor: int) -> None:
        """The same sum, gathered in the target, for factors too large to write out."""
        m, b = self.math, self.b
        rest = n // (done * factor)
        with self.body.loop(0, rest) as s, self.body.loop(0, factor) as q:
            out = m.mul(m.add(q, m.mul(s, factor)), done)
            with self.body.loop(0, done) as j:
                target.store(m, (m.add(out, j),), b.const(self.dtype, 0))
            with self.body.loop(0, factor) as p:
                step = m.add(m.mul(s, done), m.mul(p, n // factor))
                w = self._factor(n, q, step)
                first = m.mul(m.add(s, m.mul(p, rest)), done)
                with self.body.loop(0, done) as j:
                    term = b.fmul(w, source.load(m, (m.add(first, j),)))
                    at = m.add(out, j)
                    target.store(m, (at,), b.fadd(target.load(m, (at,)), term))


EMITTER = Emitter("fft", can_emit, emit, no_split, scratch_bytes)
