"""Emitters of elementary functions of a complex number, through real and imaginary parts.

Inverse functions follow W. Kahan, "Branch cuts for complex elementary functions" (1987), which
places the cuts where C99 does.
"""

from __future__ import annotations

from hloc.ir.opcode import ScalarBuilder
from hloc.ops import emit
from hloc.ops.emit import Value, constant_like, parts


def sine(b: ScalarBuilder, z: Value) -> Value:
    """Emit sin x cosh y + i cos x sinh y."""
    x, y = parts(b, z)
    return b.complex(
        b.fmul(b.math("sin", x), b.math("cosh", y)), b.fmul(b.math("cos", x), b.math("sinh", y))
    )


def cosine(b: ScalarBuilder, z: Value) -> Value:
    """Emit cos x cosh y - i sin x sinh y."""
    x, y = parts(b, z)
    imag = b.fmul(b.math("sin", x), b.math("sinh", y))
    return b.complex(b.fmul(b.math("cos", x), b.math("cosh", y)), b.fneg(imag))


def sinh(b: ScalarBuilder, z: Value) -> Value:
    """Emit sinh x cos y + i cosh x sin y."""
    x, y = parts(b, z)
    return b.complex(
        b.fmul(b.math("sinh", x), b.math("cos", y)), b.fmul(b.math("cosh", x), b.math("sin", y))
    )


def cosh(b: ScalarBuilder, z: Value) -> Value:
    """Emit cosh x cos y + i sinh x sin y."""
    x, y = parts(b, z)
    return b.complex(
        b.fmul(b.math("cosh", x), b.math("cos", y)), b.fmul(b.math("sinh", x), b.math("sin", y))
    )


def tanh(b: ScalarBuilder, z: Value) -> Value:
    """Emit tanh z by h = tanh x, t = tan y: (h (1 + t^2) + i t / cosh(x)^2) / (1 + h^2 t^2)."""
    x, y = parts(b, z)
    one = constant_like(b, x, 1.0)
    h, t, c = b.math("tanh", x), b.math("tan", y), b.math("cosh", x)
    ht = b.fmul(h, t)
    below = b.fadd(one, b.fmul(ht, ht))
    real = b.fdiv(b.fmul(h, b.fadd(one, b.fmul(t, t))), below)
    return b.complex(real, b.fdiv(b.fdiv(b.fdiv(t, c), c), below))


def tan(b: ScalarBuilder, z: Value) -> Value:
    """Emit the tangent as tanh(i z) / i."""
    return emit.over_i(b, tanh(b, emit.times_i(b, z)))


def expm1(b: ScalarBuilder, z: Value) -> Value:
    """Emit the exponential of z less 1, by expm1 of x and the sine of y / 2."""
    x, y = parts(b, z)
    half = b.math("sin", b.fmul(constant_like(b, y, 0.5), y))
    lost = b.fmul(constant_like(b, y, 2.0), b.fmul(half, half))
    real = b.fsub(b.fmul(b.math("expm1", x), b.math("cos", y)), lost)
    return b.complex(real, b.imag(emit.exponential(b, z)))


def log1p(b: ScalarBuilder, z: Value) -> Value:
    """Emit the logarithm of 1 + z; its real part near 0 is half of log1p of x (2 + x) + y^2."""
    x, y = parts(b, z)
    one, two, half = (constant_like(b, x, v) for v in (1.0, 2.0, 0.5))
    shifted = b.complex(b.fadd(one, x), y)
    square = b.fadd(b.fmul(x, b.fadd(two, x)), b.fmul(y, y))
    near = b.compare("LT", emit.magnitude(b, z), half)
    real = b.select(
        near,
        b.fmul(half, b.math("log1p", square)),
        b.math("log", emit.magnitude(b, shifted)),
    )
    return b.complex(real, b.math("atan2", y, b.real(shifted)))


def logistic(b: ScalarBuilder, z: Value) -> Value:
    """Emit 1 / (1 + e^-z), as e^z / (1 + e^z) in the left half plane so that nothing overflows."""
    x, y = parts(b, z)
    left = b.compare("LT", x, constant_like(b, x, 0.0))
    sign_x, sign_y = b.select(left, x, b.fneg(x)), b.select(left, y, b.fneg(y))
    power = emit.exponential(b, b.complex(sign_x, sign_y))
    one = emit.complex_of_real(b, constant_like(b, x, 1.0))
    quotient = emit.reciprocal(b, emit.add(b, one, power))
    other = emit.multiply(b, power, quotient)
    return b.complex(
        b.select(left, b.real(other), b.real(quotient)),
        b.select(left, b.imag(other), b.imag(quotient)),
    )


def rsqrt(b: ScalarBuilder, z: Value) -> Value:
    """Emit 1 / sqrt z."""
    return emit.reciprocal(b, emit.sqrt(b, z))


def sign(b: ScalarBuilder, z: Value) -> Value:
    """Emit z / |z|, 0 for 0."""
    x, y = parts(b, z)
    size = emit.magnitude(b, z)
    zero = constant_like(b, x, 0.0)
    none = b.compare("EQ", size, zero)
    return b.complex(
        b.select(none, x, b.fdiv(x, size)),
        b.select(none, y, b.fdiv(y, size)),
    )


def power(b: ScalarBuilder, z: Value, w: Value) -> Value:
    """Emit z^w = e^(w log z), with z^0 = 1 and 0^w = 0 for other w with a positive real part."""
    result = emit.exponential(b, emit.multiply(b, w, emit.log(b, z)))
    real, zero, one = b.real(w), constant_like(b, z, 0.0), constant_like(b, z, 1.0)
    nothing = emit.complex_of_real(b, zero)
    no_base = b.and_(emit.equal(b, z, nothing), b.compare("GT", real, zero))
    no_exponent = emit.equal(b, w, nothing)
    unit = b.or_(no_exponent, emit.equal(b, z, emit.complex_of_real(b, one)))
    x = b.select(no_base, zero, b.real(result))
    y = b.select(no_base, zero, b.imag(result))
    return b.complex(b.select(unit, one, x), b.select(unit, zero, y))


def atan2(b: ScalarBuilder, y: Value, x: Value) -> Value:
    """Emit -i log((x + i y) / sqrt(x^2 + y^2))."""
    squares = emit.add(b, emit.multiply(b, x, x), emit.multiply(b, y, y))
    direction = emit.divide(b, emit.add(b, x, emit.times_i(b, y)), emit.sqrt(b, squares))
    return emit.over_i(b, emit.log(b, direction))


def _roots(b: ScalarBuilder, z: Value) -> tuple[Value, Value]:
    """Return sqrt(1 - z) and sqrt(1 + z)."""
    x, y = parts(b, z)
    one = constant_like(b, x, 1.0)
    lower = emit.sqrt(b, b.complex(b.fsub(one, x), b.fneg(y)))
    return lower, emit.sqrt(b, b.complex(b.fadd(one, x), y))


def _cross(b: ScalarBuilder, z: Value, w: Value) -> Value:
    """Emit the imaginary part of conj(z) w."""
    (x, y), (u, v) = parts(b, z), parts(b, w)
    return b.fsub(b.fmul(x, v), b.fmul(y, u))


def asin(b: ScalarBuilder, z: Value) -> Value:
    """Emit arc sine."""
    lower, upper = _roots(b, z)
    real = b.math("atan2", b.real(z), b.real(emit.multiply(b, lower, upper)))
    return b.complex(real, b.math("asinh", _cross(b, lower, upper)))


def acos(b: ScalarBuilder, z: Value) -> Value:
    """Emit arc cosine."""
    lower, upper = _roots(b, z)
    angle = b.math("atan2", b.real(lower), b.real(upper))
    real = b.fmul(constant_like(b, z, 2.0), angle)
    return b.complex(real, b.math("asinh", _cross(b, upper, lower)))


def asinh(b: ScalarBuilder, z: Value) -> Value:
    """Emit asinh z = asin(i z) / i."""
    return emit.over_i(b, asin(b, emit.times_i(b, z)))


def acosh(b: ScalarBuilder, z: Value) -> Value:
    """Emit inverse hyperbolic cosine."""
    x, y = parts(b, z)
    one = constant_like(b, x, 1.0)
    lower = emit.sqrt(b, b.complex(b.fsub(x, one), y))
    upper = emit.sqrt(b, b.complex(b.fadd(x, one), y))
    (u, v), (p, q) = parts(b, lower), parts(b, upper)
    real = b.math("asinh", b.fadd(b.fmul(u, p), b.fmul(v, q)))
    angle = b.math("atan2", v, p)
    return b.complex(real, b.fmul(constant_like(b, x, 2.0), angle))


def atanh(b: ScalarBuilder, z: Value) -> Value:
    """Emit log1p(4 x / ((1 - x)^2 + y^2)) / 4 + i atan2(2 y, (1 - x)(1 + x) - y^2) / 2.

    The real part is odd in x, and computed for |x|, where it does not cancel.
    """
    x, y = parts(b, z)
    one, two, four = (constant_like(b, x, v) for v in (1.0, 2.0, 4.0))
    size = b.intrinsic("fabs", x)
    below, above = b.fsub(one, size), b.fadd(one, size)
    square = b.fmul(y, y)
    distance = b.fadd(b.fmul(below, below), square)
    real = b.math("log1p", b.fdiv(b.fmul(four, size), distance))
    real = b.intrinsic("copysign", b.fmul(constant_like(b, x, 0.25), real), x)
    imag = b.math("atan2", b.fmul(two, y), b.fsub(b.fmul(below, above), square))
    return b.complex(real, b.fmul(constant_like(b, x, 0.5), imag))
