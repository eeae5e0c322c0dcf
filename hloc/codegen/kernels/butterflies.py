"""Butterflies: unrolled Fourier transforms of a few vectors, the inner step of every FFT pass.

Source: Cooley and Tukey, "An algorithm for the machine calculation of complex Fourier series"
(1965).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin, sqrt
from typing import TypeAlias

from hloc.codegen.kernels.vectors import Vectors
from hloc.lazy_dataclass import dataclass

Complex: TypeAlias = tuple[str, str]
"""Real and imaginary parts in vectors."""

LARGEST = 13
"""Largest odd factor that is unrolled."""


@dataclass(frozen=True, slots=True)
class Butterflies:
    """Writes transforms of 2, 4, 8 and odd lengths; `inverse` ones have conjugate factors."""

    v: Vectors
    inverse: bool

    def transform(self, x: Sequence[Complex]) -> list[Complex]:
        """Return the transform of `x`."""
        match len(x):
            case 2:
                return [self.add(x[0], x[1]), self.sub(x[0], x[1])]
            case 4:
                return self._four(x)
            case 8:
                return self._eight(x)
        return self._odd(x)

    def add(self, x: Complex, y: Complex) -> Complex:
        return self.v.add(x[0], y[0]), self.v.add(x[1], y[1])

    def sub(self, x: Complex, y: Complex) -> Complex:
        return self.v.sub(x[0], y[0]), self.v.sub(x[1], y[1])

    def mul(self, x: Complex, y: Complex) -> Complex:
        v = self.v
        real = v.minus_product(v.mul(x[0], y[0]), x[1], y[1])
        return real, v.add(v.mul(x[0], y[1]), v.mul(x[1], y[0]))

    def _turn(self, x: Complex) -> Complex:
        """Return -i x, or i x for inverses."""
        if self.inverse:
            return self.v.neg(x[1]), x[0]
        return x[1], self.v.neg(x[0])

    def _four(self, x: Sequence[Complex]) -> list[Complex]:
        even, odd = self.add(x[0], x[2]), self.add(x[1], x[3])
        difference, turned = self.sub(x[0], x[2]), self._turn(self.sub(x[1], x[3]))
        return [
            self.add(even, odd),
            self.add(difference, turned),
            self.sub(even, odd),
            self.sub(difference, turned),
        ]

    def _eight(self, x: Sequence[Complex]) -> list[Complex]:
        even, odd = self._four(x[::2]), self._four(x[1::2])
        half = self.v.constant(sqrt(0.5))
        turned = self._turn(odd[1])
        one = self.add(odd[1], turned)  # (1 - i) x
        turned = self._turn(odd[3])
        three = self.sub(turned, odd[3])  # (-1 - i) x
        factors = [
            odd[0],
            (self.v.mul(one[0], half), self.v.mul(one[1], half)),
            self._turn(odd[2]),
            (self.v.mul(three[0], half), self.v.mul(three[1], half)),
        ]
        first = [self.add(e, o) for e, o in zip(even, factors, strict=True)]
        return first + [self.sub(e, o) for e, o in zip(even, factors, strict=True)]

    def _odd(self, x: Sequence[Complex]) -> list[Complex]:
        """Transform an odd number: pairs from both ends share their products."""
        v, n = self.v, len(x)
        half = range(1, n // 2 + 1)
        sums = [self.add(x[p], x[n - p]) for p in half]
        differences = [self.sub(x[p], x[n - p]) for p in half]
        first = x[0]
        for s in sums:
            first = self.add(first, s)
        found: list[Complex] = [first] * n
        for q in half:
            real, imag = x[0]
            across: Complex | None = None
            for p, s, d in zip(half, sums, differences, strict=True):
                angle = 2 * pi * (p * q % n) / n
                c, z = v.constant(cos(angle)), v.constant(sin(angle))
                real, imag = v.add(real, v.mul(s[0], c)), v.add(imag, v.mul(s[1], c))
                term = v.mul(d[0], z), v.mul(d[1], z)
                across = term if across is None else self.add(across, term)
            assert across is not None
            turned = self._turn(across)
            found[q] = self.add((real, imag), turned)
            found[n - q] = self.sub((real, imag), turned)
        return found
