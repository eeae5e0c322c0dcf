"""The passes of a Fourier transform: the code of one thread."""

from __future__ import annotations

from math import pi

import numpy as np

from hloc.codegen.builder.ir_array import IrArray, dense_array
from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import Value
from hloc.codegen.gpu.context import GpuContext
from hloc.codegen.kernels.butterflies import LARGEST, Butterflies, Complex
from hloc.codegen.kernels.fft_plan import is_inverse
from hloc.codegen.kernels.vectors import Vectors
from hloc.dtypes import F64, DType, component_of
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One row of complex numbers: the elements of `array` that begin with `place`."""

    k: GpuContext
    array: IrArray
    place: tuple[IndexValue, ...]

    def load(self, i: IndexValue) -> Value:
        """Return element i."""
        return self.array.load(self.k.math, (*self.place, i))

    def store(self, i: IndexValue, value: Value) -> None:
        """Write element i."""
        self.array.store(self.k.math, (*self.place, i), value)


def pass_steps(n: int, factor: int) -> int:
    """Return the number of independent steps of a pass."""
    return n // factor if factor <= LARGEST else n


def constant_table(k: GpuContext, dtype: DType, n: int, inverse: bool) -> IrArray:
    """Return the powers of exp(-2 pi i / n), or of its conjugate, as a constant array."""
    powers = np.exp((2j if inverse else -2j) * pi / n * np.arange(n))
    data = powers.astype(dtype.numpy).tobytes()
    return dense_array(pointer_value(k.fn.byte_constant(data)), dtype, (n,))


def computed_factor(k: GpuContext, dtype: DType, n: int, i: IndexValue, inverse: bool) -> Value:
    """Return power i of exp(-2 pi i / n), or of its conjugate, computed in f64."""
    b, part = k.b, component_of(dtype)
    angle = b.fmul(b.convert(k.math.value(i), F64), b.const(F64, 2 * pi / n))
    sine = b.math("sin", angle)
    sine = sine if inverse else b.fneg(sine)
    return b.complex(b.convert(b.math("cos", angle), part), b.convert(sine, part))


class Passes:
    """Writes the steps of the passes over rows of length `n`, with a table of factors."""

    def __init__(self, k: GpuContext, dtype: DType, n: int, table: IrArray) -> None:
        self.k, self.dtype, self.n, self.table = k, dtype, n, table
        self.v = Vectors(k.b, component_of(dtype), 1)
        self.butterflies = Butterflies(self.v, is_inverse(k.root))

    def step(self, factor: int, done: int, step: IndexValue, source: Line, target: Line) -> None:
        """Emit one step of the pass of `factor`; `done` is the product of the earlier factors."""
        write = self._short if factor <= LARGEST else self._long
        write(factor, done, step, source, target)

    def _short(self, factor: int, done: int, step: IndexValue, source: Line, target: Line) -> None:
        """y[j + done (q + factor s)] = w**(q s done) times transform q of x[j + done (s + ...)]."""
        m, distance = self.k.math, self.n // factor
        j, s = m.rem(step, done), m.div(step, done)
        first = m.mul(s, done)
        inputs = [self._split(source.load(m.add(step, distance * p))) for p in range(factor)]
        result = self.butterflies.transform(inputs)
        place = m.add(j, m.mul(first, factor))
        for q, x in enumerate(result):
            if q and done * factor != self.n:
                w = self._split(self.table.load(m, (m.mul(first, q),)))
                x = self.butterflies.mul(x, w)
            target.store(m.add(place, done * q), self._joined(x))

    def _long(self, factor: int, done: int, step: IndexValue, source: Line, target: Line) -> None:
        """The same by its definition, one result at a time, for factors too large to unroll."""
        k, m, b = self.k, self.k.math, self.k.b
        rest = self.n // (done * factor)
        s, q, j = m.delinear(step, [rest, factor, done])
        total = b.allocate(self.dtype)
        b.store(total, 0, b.const(self.dtype, 0))
        with k.body.loop(0, factor) as p:
            power = m.mul(q, m.add(m.mul(s, done), m.mul(p, self.n // factor)))
            w = self.table.load(m, (m.rem(power, self.n),))
            x = source.load(m.add(j, m.mul(m.add(s, m.mul(p, rest)), done)))
            b.store(total, 0, b.fadd(b.load(total, self.dtype, 0), b.fmul(x, w)))
        target.store(step, b.load(total, self.dtype, 0))

    def _split(self, value: Value) -> Complex:
        b = self.k.b
        return self.v.splat(b.real(value)), self.v.splat(b.imag(value))

    def _joined(self, x: Complex) -> Value:
        return self.k.b.complex(self.v.lane(x[0], 0), self.v.lane(x[1], 0))
