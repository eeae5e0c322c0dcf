"""Emitters of complex division, |z|, square root, logarithm and exponential, accurate at any scale.

Operands are scaled by powers of two before they are squared, so that intermediate results neither
overflow nor underflow. Infinities and NaN are those of C99, Annex G.
"""

from __future__ import annotations

from math import exp

from hloc.dtypes import F32, S32, S64, DType
from hloc.ir.opcode import ScalarBuilder
from hloc.ops.emit import Value, complex_of_real, constant_like, parts

INFINITY = float("inf")

# ---------------------------------------------------------------- tests and constants


def by_width(b: ScalarBuilder, x: Value, single: float, double: float) -> Value:
    """Return the constant for f32 or for f64, whichever `x` is."""
    return b.const(x.dtype, single if x.dtype is F32 else double)


def absolute(b: ScalarBuilder, x: Value) -> Value:
    """Emit |x| of a real."""
    return b.intrinsic("fabs", x)


def is_nan(b: ScalarBuilder, x: Value) -> Value:
    """Emit a pred: the real x is NaN."""
    return b.compare("NE", x, x)


def is_infinite(b: ScalarBuilder, x: Value) -> Value:
    """Emit a pred: the real x is an infinity."""
    return b.compare("EQ", absolute(b, x), constant_like(b, x, INFINITY))


def is_finite(b: ScalarBuilder, x: Value) -> Value:
    """Emit a pred: the real x is neither an infinity nor NaN."""
    return b.compare("LT", absolute(b, x), constant_like(b, x, INFINITY))


def is_zero(b: ScalarBuilder, x: Value) -> Value:
    """Emit a pred: the real x is a zero."""
    return b.compare("EQ", x, constant_like(b, x, 0.0))


def ordered_sizes(b: ScalarBuilder, z: Value) -> tuple[Value, Value]:
    """Emit the larger and the smaller of |x| and |y|."""
    x, y = (absolute(b, part) for part in parts(b, z))
    flat = b.compare("GE", x, y)
    return b.select(flat, x, y), b.select(flat, y, x)


def flat_ratio(b: ScalarBuilder, large: Value, small: Value) -> Value:
    """Emit small / large, 0 for two zeros."""
    ratio = b.fdiv(small, large)
    return b.select(is_zero(b, b.fadd(large, small)), constant_like(b, large, 0.0), ratio)


# ---------------------------------------------------------------- powers of two


def _format(x: Value) -> tuple[DType, int, int]:
    """Return the integer type, the width of the mantissa and the bias of a real type."""
    return (S32, 23, 127) if x.dtype is F32 else (S64, 52, 1023)


def scale_field(b: ScalarBuilder, size: Value) -> Value:
    """Emit the exponent field of a power of two that brings `size` >= 0 near 1.

    Products of the largest numbers are below 32 then; subnormals stay small, but not their
    squares so small that bits are lost.
    """
    integer, mantissa, bias = _format(size)
    field = b.lshr(b.bitcast(size, integer), b.const(integer, mantissa))
    field = b.isub(b.const(integer, 2 * bias), field)
    least = b.const(integer, 3)
    return b.select(b.compare("LT", field, least), least, field)


def power_of_field(b: ScalarBuilder, like: Value, field: Value) -> Value:
    """Emit the power of two with exponent `field`, in the type of `like`."""
    integer, mantissa, _ = _format(like)
    return b.bitcast(b.shl(field, b.const(integer, mantissa)), like.dtype)


def scaled(b: ScalarBuilder, z: Value, factor: Value) -> Value:
    """Emit z times a real."""
    x, y = parts(b, z)
    return b.complex(b.fmul(x, factor), b.fmul(y, factor))


# ---------------------------------------------------------------- division


def divide(b: ScalarBuilder, z: Value, w: Value) -> Value:
    """Emit z / w as z conj(w) / |w|^2, both scaled; infinities and zeros as in C99, G.5.1."""
    above, below = (scale_field(b, ordered_sizes(b, v)[0]) for v in (z, w))
    x, y = parts(b, scaled(b, z, power_of_field(b, b.real(z), above)))
    u, v = parts(b, scaled(b, w, power_of_field(b, b.real(w), below)))
    square = b.fadd(b.fmul(u, u), b.fmul(v, v))
    real = b.fdiv(b.fadd(b.fmul(x, u), b.fmul(y, v)), square)
    imag = b.fdiv(b.fsub(b.fmul(y, u), b.fmul(x, v)), square)
    # The scales differ by up to 2^2043, so they are undone in two steps.
    integer, _, bias = _format(real)
    step = b.isub(below, above)
    half = b.ashr(step, b.const(integer, 1))
    middle = b.const(integer, bias)
    for part in (half, b.isub(step, half)):
        factor = power_of_field(b, real, b.iadd(part, middle))
        real, imag = b.fmul(real, factor), b.fmul(imag, factor)
    return _recovered_quotient(b, z, w, b.complex(real, imag))


def _recovered_quotient(b: ScalarBuilder, z: Value, w: Value, quotient: Value) -> Value:
    """Emit `quotient`, or where it is NaN + i NaN the infinity or zero that z / w tends to."""
    (x, y), (u, v), (real, imag) = parts(b, z), parts(b, w), parts(b, quotient)
    zero, infinity = constant_like(b, u, 0.0), constant_like(b, u, INFINITY)
    lost = b.and_(is_nan(b, real), is_nan(b, imag))
    by_zero = b.and_(is_zero(b, u), is_zero(b, v))
    huge = b.and_(_either_infinite(b, x, y), _both_finite(b, u, v))
    tiny = b.and_(_both_finite(b, x, y), _either_infinite(b, u, v))
    pole = b.intrinsic("copysign", infinity, u)
    pole_real, pole_imag = b.fmul(pole, x), b.fmul(pole, y)
    x, y = (b.select(huge, _direction(b, part), part) for part in (x, y))
    u, v = (b.select(tiny, _direction(b, part), part) for part in (u, v))
    along = b.fadd(b.fmul(x, u), b.fmul(y, v)), b.fsub(b.fmul(y, u), b.fmul(x, v))
    toward_real, toward_imag = (
        # The sum of two large parts may be infinite: 0 times that is NaN, but its sign counts.
        b.select(tiny, b.intrinsic("copysign", zero, size), b.fmul(infinity, size))
        for size in along
    )
    toward_real = b.select(by_zero, pole_real, toward_real)
    toward_imag = b.select(by_zero, pole_imag, toward_imag)
    recovers = b.and_(lost, b.or_(by_zero, b.or_(huge, tiny)))
    return b.complex(b.select(recovers, toward_real, real), b.select(recovers, toward_imag, imag))


def _either_infinite(b: ScalarBuilder, x: Value, y: Value) -> Value:
    return b.or_(is_infinite(b, x), is_infinite(b, y))


def _both_finite(b: ScalarBuilder, x: Value, y: Value) -> Value:
    return b.and_(is_finite(b, x), is_finite(b, y))


def _direction(b: ScalarBuilder, x: Value) -> Value:
    """Emit 1 for an infinite part and 0 for a finite one, with the sign of `x`."""
    one, zero = constant_like(b, x, 1.0), constant_like(b, x, 0.0)
    return b.intrinsic("copysign", b.select(is_infinite(b, x), one, zero), x)


def reciprocal(b: ScalarBuilder, z: Value) -> Value:
    """Emit 1 / z."""
    return divide(b, complex_of_real(b, constant_like(b, z, 1.0)), z)


# ---------------------------------------------------------------- size and direction


def magnitude(b: ScalarBuilder, z: Value) -> Value:
    """Emit |z| without overflow; an infinite part gives infinity."""
    large, small = ordered_sizes(b, z)
    one, infinity = constant_like(b, large, 1.0), constant_like(b, large, INFINITY)
    ratio = flat_ratio(b, large, small)
    size = b.fmul(large, b.intrinsic("sqrt", b.fadd(one, b.fmul(ratio, ratio))))
    return b.select(_either_infinite(b, *parts(b, z)), infinity, size)


def sign(b: ScalarBuilder, z: Value) -> Value:
    """Emit z / |z|, 0 for 0; NaN where a part is infinite."""
    x, y = parts(b, z)
    field = scale_field(b, ordered_sizes(b, z)[0])
    u, v = parts(b, scaled(b, z, power_of_field(b, x, field)))
    size = b.intrinsic("sqrt", b.fadd(b.fmul(u, u), b.fmul(v, v)))
    none = is_zero(b, size)
    return b.complex(b.select(none, x, b.fdiv(u, size)), b.select(none, y, b.fdiv(v, size)))


# ---------------------------------------------------------------- square root


def sqrt(b: ScalarBuilder, z: Value) -> Value:
    """Emit the square root with a real part of at least 0, without cancellation."""
    half, zero, one = (constant_like(b, z, v) for v in (0.5, 0.0, 1.0))
    largest = ordered_sizes(b, z)[0]
    huge = b.compare("GT", largest, by_width(b, largest, 2.0**124, 2.0**1020))
    tiny = b.compare("LT", largest, by_width(b, largest, 2.0**-100, 2.0**-960))
    grown, back = by_width(b, half, 2.0**48, 2.0**108), by_width(b, half, 2.0**-24, 2.0**-54)
    four = constant_like(b, z, 4.0)
    factor = b.select(huge, b.fdiv(one, b.fmul(four, four)), b.select(tiny, grown, one))
    x, y = parts(b, scaled(b, z, factor))
    size = magnitude(b, b.complex(x, y))
    size = b.fadd(b.fmul(half, size), b.fmul(half, absolute(b, x)))
    large = b.intrinsic("sqrt", size)
    small = b.fdiv(b.fmul(half, absolute(b, y)), large)
    small = b.select(is_zero(b, large), zero, small)
    right = b.compare("GE", x, zero)
    factor = b.select(huge, four, b.select(tiny, back, one))
    real = b.fmul(b.select(right, large, small), factor)
    imag = b.fmul(b.select(right, small, large), factor)
    # Vertically infinite numbers have a root in the direction 1 + i, whatever their real part.
    steep = is_infinite(b, y)
    infinity = constant_like(b, z, INFINITY)
    imag = b.intrinsic("copysign", b.select(steep, infinity, imag), y)
    return b.complex(b.select(steep, infinity, real), imag)


# ---------------------------------------------------------------- logarithm


def log_magnitude(b: ScalarBuilder, z: Value) -> Value:
    """Emit log |z|; near |z| = 1 by log1p of |z|^2 - 1, else by log of the larger part."""
    one, half, two, zero = (constant_like(b, z, v) for v in (1.0, 0.5, 2.0, 0.0))
    large, small = ordered_sizes(b, z)
    near = b.and_(b.compare("GT", large, half), b.compare("LT", large, two))
    # |z|^2 - 1 = (large - 1) (large + 1) + small^2
    excess = b.fmul(b.fsub(large, one), b.fadd(large, one))
    excess = b.fadd(excess, b.fmul(small, small))
    ratio = flat_ratio(b, large, small)
    rest = b.math("log1p", b.select(near, excess, b.fmul(ratio, ratio)))
    first = b.select(near, zero, b.math("log", large))
    infinite = _either_infinite(b, *parts(b, z))
    infinity = constant_like(b, z, INFINITY)
    return b.select(infinite, infinity, b.fadd(first, b.fmul(half, rest)))


def log(b: ScalarBuilder, z: Value) -> Value:
    """Emit log |z| + i arg z."""
    x, y = parts(b, z)
    return b.complex(log_magnitude(b, z), b.math("atan2", y, x))


# ---------------------------------------------------------------- exponential

_SINGLE, _DOUBLE = 80.0, 700.0
"""Above these, e^x is computed as e^(x - these) times the factor below."""


def growth(b: ScalarBuilder, x: Value) -> tuple[Value, Value]:
    """Emit two numbers whose product is e^x, also where e^x overflows up to twice as far."""
    one, limit = constant_like(b, x, 1.0), by_width(b, x, _SINGLE, _DOUBLE)
    beyond = b.compare("GT", x, limit)
    rest = b.math("exp", b.select(beyond, b.fsub(x, limit), x))
    return rest, b.select(beyond, by_width(b, x, exp(_SINGLE), exp(_DOUBLE)), one)


def exponential(b: ScalarBuilder, z: Value) -> Value:
    """Emit e^x (cos y + i sin y); real for a real `z`, also an infinite one."""
    x, y = parts(b, z)
    first, second = growth(b, x)
    real = b.fmul(b.fmul(first, b.math("cos", y)), second)
    imag = b.fmul(b.fmul(first, b.math("sin", y)), second)
    imag = b.select(is_zero(b, y), y, imag)
    # Without a direction, e^-inf is 0 and e^inf still infinite.
    lost = b.and_(is_infinite(b, x), b.compare("NE", b.fsub(y, y), constant_like(b, y, 0.0)))
    zero, infinity = constant_like(b, x, 0.0), constant_like(b, x, INFINITY)
    left = b.compare("LT", x, zero)
    real = b.select(lost, b.select(left, zero, infinity), real)
    return b.complex(real, b.select(b.and_(lost, left), zero, imag))
