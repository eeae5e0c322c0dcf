"""erf in f64, within 2 ulp: a polynomial near 0, else 1 - e**-(x**2) * g(x)."""

from __future__ import annotations

from hloc.codegen.builder.math.double.exponential import exp
from hloc.codegen.builder.math.double.parts import d, f64_function
from hloc.codegen.builder.math.parts import absolute, horner, keep_nan, lower, with_sign
from hloc.codegen.builder.math_builder import MathBuilder
from hloc.codegen.builder.values import Value
from hloc.dtypes import F64

SMALL_END = 0.875
# erf(x) / x of x**2 for |x| <= 0.877, error 5e-21
_NEAR = (
    1.1283791670955126, -0.37612638903183754, 0.11283791670955111, -0.026866170645126856,
    0.005223977625376794, -0.0008548327017657817, 0.00012055332652079168,
    -1.4925637767487396e-05, 1.6461784600644023e-06, -1.6359895222635417e-07,
    1.4734279940172703e-08, -1.1706804633115635e-09, 6.614572262600827e-11,
)  # fmt: skip
# g(x) for 0.87 <= x <= 2.2, error 5e-18
_MIDDLE = (
    0.9999988485549214, -1.1283637363045314, 0.9999025309013432, -0.7518667954244725,
    0.498924668361688, -0.298658857844627, 0.1630309858064748, -0.08126850318843538,
    0.036721884503182776, -0.01481863650393765, 0.005231881936533708, -0.0015768496015227504,
    0.00039430609540149603, -7.905009523401026e-05, 1.2145675365196103e-05,
    -1.33723573274866e-06, 9.364619098074586e-08, -3.126801006149981e-09,
)  # fmt: skip
# g(x) of 1 / (1 + x / 2) for 0.86 <= x <= 6.1, error 1e-16
_FAR = (
    1.7504352686496166e-07, 0.2820880750883749, 0.2822141707687988, 0.2455298119408978,
    0.18607205578298197, 0.0306434474712308, 0.21176580692408492, -0.7249060751080076,
    1.5175185016000756, -2.782539853874311, 3.643599470078349, -3.1561710355076396,
    1.7657257419212922, -0.6040655989331811, 0.10923486541440838, -0.006709052762742785,
)  # fmt: skip


@f64_function
def erf(b: MathBuilder, x: Value) -> Value:
    """Return the error function."""
    magnitude = lower(b, absolute(b, x), 6.0)
    u = b.fdiv(d(b, 2.0), b.fadd(magnitude, d(b, 2.0)))
    is_middle = b.compare("LT", magnitude, d(b, 2.2))
    g = b.select(is_middle, horner(b, magnitude, _MIDDLE, F64), horner(b, u, _FAR, F64))
    power = exp(b, b.fneg(b.fmul(magnitude, magnitude)))
    far = with_sign(b, b.fsub(d(b, 1.0), b.fmul(power, g)), x)
    is_small = b.compare("LT", magnitude, d(b, SMALL_END))
    return keep_nan(b, x, b.select(is_small, small_erf(b, x), far))


def small_erf(b: MathBuilder, x: Value) -> Value:
    """Return the error function of x from -`SMALL_END` to `SMALL_END`."""
    return b.fmul(x, horner(b, b.fmul(x, x), _NEAR, F64))
