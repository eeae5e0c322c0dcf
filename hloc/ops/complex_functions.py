"""Emitters of elementary functions of a complex number, through real and imaginary parts.

Inverse functions follow W. Kahan, "Branch cuts for complex elementary functions" (1987), which
places the cuts where C99 does; infinities and NaN are those of C99, Annex G. Where squares would
overflow or vanish, the first term of the expansion at infinity or 0 is exact to the last bits.
"""

from __future__ import annotations

from math import log, pi

from hloc.ir.opcode import ScalarBuilder
from hloc.ops import complex_arithmetic as arithmetic
from hloc.ops import emit
from hloc.ops.complex_arithmetic import (
    INFINITY,
    absolute,
    by_width,
    exponential,
    is_infinite,
    is_nan,
    is_zero,
    log_magnitude,
    ordered_sizes,
)
from hloc.ops.emit import Value, constant_like, parts

# ---------------------------------------------------------------- selections


def either(b: ScalarBuilder, pred: Value, z: Value, w: Value) -> Value:
    """Emit z where `pred` is true, else w."""
    (x, y), (u, v) = parts(b, z), parts(b, w)
    return b.complex(b.select(pred, x, u), b.select(pred, y, v))


def _is_small(b: ScalarBuilder, z: Value) -> Value:
    """Emit a pred: z^3 is negligible beside z."""
    large = ordered_sizes(b, z)[0]
    return b.compare("LT", large, by_width(b, large, 2.0**-13, 2.0**-27))


def _is_large(b: ScalarBuilder, z: Value) -> Value:
    """Emit a pred: 1 is negligible beside z^2; also if a part is infinite."""
    x, y = (absolute(b, part) for part in parts(b, z))
    limit = by_width(b, x, 2.0**13, 2.0**28)
    return b.or_(b.compare("GT", x, limit), b.compare("GT", y, limit))


# ---------------------------------------------------------------- sine, cosine and their kin


def _hyperbolic(b: ScalarBuilder, x: Value) -> tuple[Value, Value, Value]:
    """Emit sinh x and cosh x over a common factor, and the factor, which is large with |x|."""
    size = absolute(b, x)
    rest, factor = arithmetic.growth(b, size)
    beyond = b.compare("NE", factor, constant_like(b, x, 1.0))
    sinh = b.select(beyond, b.intrinsic("copysign", rest, x), b.math("sinh", x))
    cosh = b.select(beyond, rest, b.math("cosh", x))
    half = b.fmul(constant_like(b, x, 0.5), factor)
    return sinh, cosh, b.select(beyond, half, factor)


def _product(b: ScalarBuilder, x: Value, y: Value) -> Value:
    """Emit x y, where 0 times infinity or NaN is 0."""
    zero = constant_like(b, x, 0.0)
    none = b.or_(is_zero(b, x), is_zero(b, y))
    signed = b.intrinsic("copysign", zero, b.fmul(_unit(b, x), _unit(b, y)))
    return b.select(none, signed, b.fmul(x, y))


def _unit(b: ScalarBuilder, x: Value) -> Value:
    return b.intrinsic("copysign", constant_like(b, x, 1.0), x)


def sinh(b: ScalarBuilder, z: Value) -> Value:
    """Emit sinh x cos y + i cosh x sin y."""
    x, y = parts(b, z)
    first, second, factor = _hyperbolic(b, x)
    real = b.fmul(_product(b, first, b.math("cos", y)), factor)
    imag = b.fmul(_product(b, second, b.math("sin", y)), factor)
    lost = b.and_(is_infinite(b, x), is_nan(b, real))
    return b.complex(b.select(lost, x, real), imag)


def cosh(b: ScalarBuilder, z: Value) -> Value:
    """Emit cosh x cos y + i sinh x sin y."""
    x, y = parts(b, z)
    first, second, factor = _hyperbolic(b, x)
    real = b.fmul(_product(b, second, b.math("cos", y)), factor)
    imag = b.fmul(_product(b, first, b.math("sin", y)), factor)
    lost = b.and_(is_infinite(b, x), is_nan(b, real))
    return b.complex(b.select(lost, absolute(b, x), real), imag)


def sine(b: ScalarBuilder, z: Value) -> Value:
    """Emit sin z = sinh(i z) / i."""
    return emit.over_i(b, sinh(b, emit.times_i(b, z)))


def cosine(b: ScalarBuilder, z: Value) -> Value:
    """Emit cos z = cosh(i z)."""
    return cosh(b, emit.times_i(b, z))


def tanh(b: ScalarBuilder, z: Value) -> Value:
    """Emit tanh z by h = tanh x, t = tan y: (h (1 + t^2) + i t / cosh(x)^2) / (1 + h^2 t^2)."""
    x, y = parts(b, z)
    one = constant_like(b, x, 1.0)
    h, t, c = b.math("tanh", x), b.math("tan", y), b.math("cosh", x)
    ht = b.fmul(h, t)
    below = b.fadd(one, b.fmul(ht, ht))
    real = b.fdiv(b.fmul(h, b.fadd(one, b.fmul(t, t))), below)
    imag = b.fdiv(b.fdiv(b.fdiv(t, c), c), below)
    # At infinity no direction is needed, and a real z has a real result.
    lost = b.and_(is_infinite(b, x), is_nan(b, real))
    real = b.select(lost, h, real)
    imag = b.select(lost, b.intrinsic("copysign", constant_like(b, x, 0.0), y), imag)
    return either(b, _is_small(b, z), z, b.complex(real, b.select(is_zero(b, y), y, imag)))


def tan(b: ScalarBuilder, z: Value) -> Value:
    """Emit the tangent as tanh(i z) / i."""
    return emit.over_i(b, tanh(b, emit.times_i(b, z)))


# ---------------------------------------------------------------- exponentials and logarithms


def expm1(b: ScalarBuilder, z: Value) -> Value:
    """Emit the exponential of z less 1, by expm1 of x and the sine of y / 2."""
    x, y = parts(b, z)
    two, limit = constant_like(b, x, 2.0), by_width(b, x, 30.0, 60.0)
    half = b.math("sin", b.fmul(constant_like(b, y, 0.5), y))
    lost = b.fmul(two, b.fmul(half, half))
    near = b.fsub(b.fmul(b.math("expm1", x), b.math("cos", y)), lost)
    power = exponential(b, z)
    # Above the limit, 1 is negligible; at -inf the direction is not needed.
    real = b.select(b.compare("GT", x, limit), b.real(power), near)
    end = b.compare("EQ", x, constant_like(b, x, -INFINITY))
    real = b.select(end, constant_like(b, x, -1.0), real)
    return b.complex(b.select(is_zero(b, y), b.math("expm1", x), real), b.imag(power))


def log1p(b: ScalarBuilder, z: Value) -> Value:
    """Emit the logarithm of 1 + z; its real part near 0 is half of log1p of x (2 + x) + y^2."""
    x, y = parts(b, z)
    one, two, half = (constant_like(b, x, v) for v in (1.0, 2.0, 0.5))
    shifted = b.complex(b.fadd(one, x), y)
    square = b.fadd(b.fmul(x, b.fadd(two, x)), b.fmul(y, y))
    near = b.compare("LT", ordered_sizes(b, z)[0], half)
    real = b.select(near, b.fmul(half, b.math("log1p", square)), log_magnitude(b, shifted))
    return b.complex(real, b.math("atan2", y, b.real(shifted)))


def logistic(b: ScalarBuilder, z: Value) -> Value:
    """Emit 1 / (1 + e^-z), as e^z / (1 + e^z) in the left half plane so that nothing overflows."""
    x, y = parts(b, z)
    left = b.compare("LT", x, constant_like(b, x, 0.0))
    sign_x, sign_y = b.select(left, x, b.fneg(x)), b.select(left, y, b.fneg(y))
    power = exponential(b, b.complex(sign_x, sign_y))
    one = constant_like(b, x, 1.0)
    # Near the poles 1 + e^x cos y cancels, 2 cos(y / 2)^2 + (e^x - 1) cos y does not.
    cos, half = b.math("cos", y), b.math("cos", b.fmul(constant_like(b, y, 0.5), y))
    near = b.fmul(b.math("expm1", sign_x), cos)
    near = b.fadd(b.fmul(constant_like(b, x, 2.0), b.fmul(half, half)), near)
    leftward = b.compare("LT", cos, constant_like(b, x, 0.0))
    real = b.select(leftward, near, b.fadd(one, b.real(power)))
    above = either(b, left, power, emit.complex_of_real(b, one))
    return arithmetic.divide(b, above, b.complex(real, b.imag(power)))


def rsqrt(b: ScalarBuilder, z: Value) -> Value:
    """Emit 1 / sqrt z."""
    return arithmetic.reciprocal(b, arithmetic.sqrt(b, z))


def power(b: ScalarBuilder, z: Value, w: Value) -> Value:
    """Emit z^w = e^(w log z), with z^0 = 1 and 0^w = 0 for other w with a positive real part."""
    result = exponential(b, emit.multiply(b, w, arithmetic.log(b, z)))
    real, zero, one = b.real(w), constant_like(b, z, 0.0), constant_like(b, z, 1.0)
    nothing = emit.complex_of_real(b, zero)
    no_base = b.and_(emit.equal(b, z, nothing), b.compare("GT", real, zero))
    no_exponent = emit.equal(b, w, nothing)
    unit = emit.complex_of_real(b, one)
    is_unit = b.or_(no_exponent, emit.equal(b, z, unit))
    return either(b, is_unit, unit, either(b, no_base, nothing, result))


def atan2(b: ScalarBuilder, y: Value, x: Value) -> Value:
    """Emit -i log((x + i y) / sqrt(x^2 + y^2)), of operands that are scaled alike.

    Where y / x is small, the logarithm cancels: it is arctan(y / x), or half a turn more.
    """
    size_x, size_y = ordered_sizes(b, x)[0], ordered_sizes(b, y)[0]
    larger = b.select(b.compare("GE", size_x, size_y), size_x, size_y)
    factor = arithmetic.power_of_field(b, larger, arithmetic.scale_field(b, larger))
    x, y = arithmetic.scaled(b, x, factor), arithmetic.scaled(b, y, factor)
    squares = emit.add(b, emit.multiply(b, x, x), emit.multiply(b, y, y))
    direction = emit.add(b, x, emit.times_i(b, y))
    quotient = arithmetic.divide(b, direction, arithmetic.sqrt(b, squares))
    turned = emit.over_i(b, arithmetic.log(b, quotient))
    ratio = arithmetic.divide(b, y, x)
    size = ordered_sizes(b, ratio)[0]
    zero, quarter, half_turn = (constant_like(b, size, v) for v in (0.0, 0.25, pi))
    near = b.and_(b.compare("GT", size, zero), b.compare("LT", size, quarter))
    real, imag = parts(b, emit.over_i(b, atanh(b, emit.times_i(b, ratio))))
    backward = b.compare("LE", b.real(quotient), zero)
    turn = b.select(backward, b.intrinsic("copysign", half_turn, real), zero)
    return either(b, near, b.complex(b.fsub(real, turn), imag), turned)


# ---------------------------------------------------------------- inverse functions


def _roots(b: ScalarBuilder, z: Value) -> tuple[Value, Value]:
    """Return sqrt(1 - z) and sqrt(1 + z)."""
    x, y = parts(b, z)
    one = constant_like(b, x, 1.0)
    lower = arithmetic.sqrt(b, b.complex(b.fsub(one, x), b.fneg(y)))
    return lower, arithmetic.sqrt(b, b.complex(b.fadd(one, x), y))


def _cross(b: ScalarBuilder, z: Value, w: Value) -> Value:
    """Emit the imaginary part of conj(z) w."""
    (x, y), (u, v) = parts(b, z), parts(b, w)
    return b.fsub(b.fmul(x, v), b.fmul(y, u))


def _log_double(b: ScalarBuilder, z: Value) -> Value:
    """Emit log |2 z|, the growth of all inverses of sine and cosine."""
    return b.fadd(log_magnitude(b, z), constant_like(b, z, log(2)))


def asin(b: ScalarBuilder, z: Value) -> Value:
    """Emit arc sine."""
    x, y = parts(b, z)
    lower, upper = _roots(b, z)
    real = b.math("atan2", x, b.real(emit.multiply(b, lower, upper)))
    middle = b.complex(real, b.math("asinh", _cross(b, lower, upper)))
    far = b.complex(
        b.math("atan2", x, absolute(b, y)), b.intrinsic("copysign", _log_double(b, z), y)
    )
    return either(b, _is_small(b, z), z, either(b, _is_large(b, z), far, middle))


def acos(b: ScalarBuilder, z: Value) -> Value:
    """Emit arc cosine."""
    x, y = parts(b, z)
    lower, upper = _roots(b, z)
    angle = b.math("atan2", b.real(lower), b.real(upper))
    real = b.fmul(constant_like(b, z, 2.0), angle)
    middle = b.complex(real, b.math("asinh", _cross(b, upper, lower)))
    size = b.intrinsic("copysign", _log_double(b, z), b.fneg(y))
    far = b.complex(b.math("atan2", absolute(b, y), x), size)
    return either(b, _is_large(b, z), far, middle)


def asinh(b: ScalarBuilder, z: Value) -> Value:
    """Emit asinh z = asin(i z) / i."""
    return emit.over_i(b, asin(b, emit.times_i(b, z)))


def acosh(b: ScalarBuilder, z: Value) -> Value:
    """Emit inverse hyperbolic cosine."""
    x, y = parts(b, z)
    one = constant_like(b, x, 1.0)
    lower = arithmetic.sqrt(b, b.complex(b.fsub(x, one), y))
    upper = arithmetic.sqrt(b, b.complex(b.fadd(x, one), y))
    (u, v), (p, q) = parts(b, lower), parts(b, upper)
    real = b.math("asinh", b.fadd(b.fmul(u, p), b.fmul(v, q)))
    angle = b.math("atan2", v, p)
    middle = b.complex(real, b.fmul(constant_like(b, x, 2.0), angle))
    far = b.complex(_log_double(b, z), b.math("atan2", y, x))
    return either(b, _is_large(b, z), far, middle)


def atanh(b: ScalarBuilder, z: Value) -> Value:
    """Emit log1p(4 x / ((1 - x)^2 + y^2)) / 4 + i atan2(2 y, (1 - x)(1 + x) - y^2) / 2.

    The real part is odd in x, and computed for |x|, where it does not cancel.
    """
    x, y = parts(b, z)
    one, two, four, half = (constant_like(b, x, v) for v in (1.0, 2.0, 4.0, 0.5))
    size, height = absolute(b, x), absolute(b, y)
    below, above = b.fsub(one, size), b.fadd(one, size)
    square = b.fmul(y, y)
    distance = b.fadd(b.fmul(below, below), square)
    real = b.math("log1p", b.fdiv(b.fmul(four, size), distance))
    real = b.fmul(constant_like(b, x, 0.25), real)
    # Beside the pole, y^2 would vanish.
    beside = b.and_(is_zero(b, below), _is_small(b, b.complex(y, y)))
    pole = b.fmul(half, b.fsub(constant_like(b, x, log(2)), b.math("log", height)))
    real = b.intrinsic("copysign", b.select(beside, pole, real), x)
    imag = b.math("atan2", b.fmul(two, y), b.fsub(b.fmul(below, above), square))
    middle = b.complex(real, b.fmul(half, imag))
    return either(b, _is_small(b, z), z, either(b, _is_large(b, z), _far_atanh(b, z), middle))


def _far_atanh(b: ScalarBuilder, z: Value) -> Value:
    """Emit atanh of a large number: 1 / z, and a quarter turn."""
    y = b.imag(z)
    turn = b.intrinsic("copysign", constant_like(b, y, pi / 2), y)
    flat = b.select(is_nan(b, y), y, turn)
    inverse = arithmetic.reciprocal(b, z)
    return b.complex(b.real(inverse), b.fadd(flat, b.imag(inverse)))
