"""Complex functions on arrays for the evaluator, where NumPy has none or loses accuracy.

Numbers are scaled by powers of two before they are squared. Infinities and NaN are those of C99,
Annex G.
"""

from __future__ import annotations

import numpy as np

from hloc.dtypes import Array


def _complex(real: Array, imag: Array) -> Array:
    """Return real + i imag without arithmetic, which would turn 0 times infinity into NaN."""
    result = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imag)), np.complex128)
    result.real, result.imag = real, imag
    return result


def _exponent(*values: Array) -> Array:
    """Return the exponent of the largest part, 0 for infinities and NaN."""
    sizes = [np.abs(part) for z in values for part in (z.real, z.imag)]
    return np.asarray(np.frexp(np.maximum.reduce(np.broadcast_arrays(*sizes)))[1])


def _scaled(z: Array, exponent: Array) -> Array:
    """Return z times 2^exponent."""
    return _complex(np.ldexp(z.real, exponent), np.ldexp(z.imag, exponent))


def divide(z: Array, w: Array) -> Array:
    """Divide; where the formula gives NaN + i NaN, take the limit that C99 (G.5.1) prescribes."""
    z, w = np.broadcast_arrays(np.asarray(z, np.complex128), np.asarray(w, np.complex128))
    above, below = _exponent(z), _exponent(w)
    a, b = _scaled(z, -above), _scaled(w, -below)
    square = b.real * b.real + b.imag * b.imag
    real = (a.real * b.real + a.imag * b.imag) / square
    imag = (a.imag * b.real - a.real * b.imag) / square
    return _recovered(z, w, _scaled(_complex(real, imag), above - below))


def _recovered(z: Array, w: Array, quotient: Array) -> Array:
    lost = np.isnan(quotient.real) & np.isnan(quotient.imag)
    by_zero = lost & (w == 0)
    huge = lost & np.isinf(z) & np.isfinite(w) & (w != 0)
    tiny = lost & np.isfinite(z) & np.isinf(w)
    pole = np.copysign(np.inf, w.real)
    quotient = _where_parts(by_zero, pole * z.real, pole * z.imag, quotient)
    (x, y), (u, v) = _directions(z), (w.real, w.imag)
    quotient = _where_parts(huge, np.inf * (x * u + y * v), np.inf * (y * u - x * v), quotient)
    (x, y), (u, v) = (z.real, z.imag), _directions(w)
    # The sum of two large parts may be infinite: 0 times that is NaN, but its sign counts.
    real, imag = (np.copysign(0.0, part) for part in (x * u + y * v, y * u - x * v))
    return _where_parts(tiny, real, imag, quotient)


def _directions(z: Array) -> tuple[Array, Array]:
    """Return 1 for infinite parts and 0 for others, with their signs."""
    real, imag = (np.copysign(np.where(np.isinf(p), 1.0, 0.0), p) for p in (z.real, z.imag))
    return real, imag


def _where_parts(case: Array, real: Array, imag: Array, otherwise: Array) -> Array:
    return _complex(np.where(case, real, otherwise.real), np.where(case, imag, otherwise.imag))


def sign(z: Array) -> Array:
    """Return z / |z|, 0 for 0."""
    near = _scaled(z, -_exponent(z))
    size = np.abs(near)
    none = size == 0
    size = np.where(none, 1.0, size)
    return _where_parts(none, z.real, z.imag, _complex(near.real / size, near.imag / size))


def expm1(z: Array) -> Array:
    """Return e^z - 1, accurate near 0."""
    x, y = z.real, z.imag
    power = np.exp(z)
    lost = 2 * np.sin(y / 2) ** 2
    real = np.where(x > 60, power.real, np.expm1(x) * np.cos(y) - lost)
    real = np.where(x == -np.inf, -1.0, np.where(y == 0, np.expm1(x), real))
    return _complex(real, power.imag)


def log1p(z: Array) -> Array:
    """Return log(1 + z), accurate near 0."""
    x, y = z.real, z.imag
    shifted = _complex(1 + x, y)
    near = np.maximum(np.abs(x), np.abs(y)) < 0.5
    real = np.where(near, 0.5 * np.log1p(x * (2 + x) + y * y), np.log(shifted).real)
    return _complex(real, np.arctan2(y, shifted.real))


def logistic(z: Array) -> Array:
    """Return 1 / (1 + e^-z); e^z / (1 + e^z) on the left, where e^-z overflows."""
    left = z.real < 0
    w = np.where(left, z, -z)
    power, cos = np.exp(w), np.cos(w.imag)
    # Near the poles 1 + e^x cos y cancels.
    near = 2 * np.cos(w.imag / 2) ** 2 + np.expm1(w.real) * cos
    below = np.where(cos < 0, near, 1 + power.real)
    return divide(np.where(left, power, 1), _complex(below, power.imag))


def rsqrt(z: Array) -> Array:
    """Return 1 / sqrt z."""
    return divide(np.ones_like(z), np.sqrt(z))


def power(z: Array, w: Array) -> Array:
    """Return z^w = e^(w log z), with z^0 = 1 and 0^w = 0 for other w with a positive real part."""
    result = np.exp(w * np.log(z))
    result = np.where((z == 0) & (np.real(w) > 0), 0, result)
    return np.where((z == 1) | (w == 0), 1, result)


def atan2(y: Array, x: Array) -> Array:
    """Return -i log((x + i y) / sqrt(x^2 + y^2)); arctan(y / x), or half a turn more, near 0."""
    exponent = -_exponent(y, x)
    y, x = _scaled(y, exponent), _scaled(x, exponent)
    direction = _complex(x.real - y.imag, x.imag + y.real)
    quotient = divide(direction, np.sqrt(x * x + y * y))
    turned = np.log(quotient)
    ratio = divide(y, x)
    near = (np.abs(ratio) < 0.25) & (ratio != 0)
    small = np.arctan(np.where(near, ratio, 0))
    half_turn = np.where(quotient.real > 0, 0, np.copysign(np.pi, small.real))
    cancelled = _complex(turned.imag, -turned.real)
    return _where_parts(near, small.real - half_turn, small.imag, cancelled)
