"""Operations of the CHLO dialect without an opcode, expanded to arithmetic.

Sources: erfc and the Bessel function after Cephes (S. Moshier); the inverse of erf after M. Giles,
"Approximating the erfinv function" (2010); gamma functions after C. Lanczos (1964), g = 7, n = 9.
Types below f32 are computed in f32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from hloc.dtypes import F32, F64, PRED, S16, S32, S64, DType
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.literal import literal_of
from hloc.shapes import ArrayShape

Adder: TypeAlias = Callable[..., Instruction]
"""Adds an instruction, given opcode, shape, operands, and attributes by name."""


@dataclass(frozen=True, slots=True)
class Value:
    """An array in an expression: `x * x + 1.0` adds the instructions for it."""

    add: Adder
    inst: Instruction

    @property
    def dtype(self) -> DType:
        return self.inst.array.dtype

    def constant(self, number: float) -> Value:
        """Return `number` in every element of this shape and type."""
        literal = literal_of(np.array(number, self.dtype.numpy), self.dtype)
        scalar = self.add("constant", literal.shape, literal=literal)
        if self.inst.array.dims:
            scalar = self.add(
                "broadcast", self.inst.array.with_layout(None), (scalar,), dimensions=()
            )
        return Value(self.add, scalar)

    def _binary(self, opcode: str, other: Value | float) -> Value:
        right = other if isinstance(other, Value) else self.constant(other)
        return Value(self.add, self.add(opcode, self.inst.shape, (self.inst, right.inst)))

    def _from(self, opcode: str, number: float) -> Value:
        return self.constant(number)._binary(opcode, self)

    def __add__(self, other: Value | float) -> Value:
        return self._binary("add", other)

    def __sub__(self, other: Value | float) -> Value:
        return self._binary("subtract", other)

    def __rsub__(self, other: float) -> Value:
        return self._from("subtract", other)

    def __mul__(self, other: Value | float) -> Value:
        return self._binary("multiply", other)

    def __truediv__(self, other: Value | float) -> Value:
        return self._binary("divide", other)

    def __rtruediv__(self, other: float) -> Value:
        return self._from("divide", other)

    def __and__(self, other: Value | float) -> Value:
        return self._binary("and", other)

    def __or__(self, other: Value | float) -> Value:
        return self._binary("or", other)

    def __neg__(self) -> Value:
        return self.unary("negate")

    def __abs__(self) -> Value:
        return self.unary("abs")

    def unary(self, opcode: str) -> Value:
        """Return `opcode` of this value; `is-finite` gives a predicate."""
        dtype = PRED if opcode == "is-finite" else self.dtype
        shape = self.inst.array.with_dtype(dtype)
        return Value(self.add, self.add(opcode, shape, (self.inst,)))

    def compare(self, direction: str, other: Value | float) -> Value:
        right = other if isinstance(other, Value) else self.constant(other)
        shape = self.inst.array.with_dtype(PRED)
        return Value(
            self.add, self.add("compare", shape, (self.inst, right.inst), direction=direction)
        )

    def choose(self, yes: Value | float, no: Value) -> Value:
        """Return `yes` where this predicate is true, else `no`."""
        chosen = yes if isinstance(yes, Value) else no.constant(yes)
        operands = (self.inst, chosen.inst, no.inst)
        return Value(self.add, self.add("select", no.inst.shape, operands))

    def cast(self, dtype: DType, opcode: str = "convert") -> Value:
        """Return this value converted to `dtype`, or its bits (`bitcast-convert`)."""
        if dtype is self.dtype:
            return self
        return Value(self.add, self.add(opcode, self.inst.array.with_dtype(dtype), (self.inst,)))


def _polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """Return the polynomial by Horner's rule; the coefficient of the highest power comes first."""
    total = x.constant(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def _monic(x: Value, coefficients: Sequence[float]) -> Value:
    """Return the polynomial with leading coefficient 1, which is left out."""
    total = x + coefficients[0]
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


# ---------------------------------------------------------------- erfc

_ERF_F32 = (7.85386146e-05, -0.000801019371, 0.00518832775, -0.0268538129, 0.112835854,
            -0.37612626, 1.12837911)  # fmt: skip
_ERFC_F32 = (0.0232682, -0.138703942, 0.368742466, -0.582473278, 0.621000469, -0.494451523,
             0.340488, -0.274112701, 0.563825965)  # fmt: skip
_ERFC_F32_FAR = (-10.477664, 12.9772, -7.49551868, 2.92101908, -1.01526523, 0.42184633,
                 -0.282076746, 0.564189494)  # fmt: skip
_ERF_T = (9.60497373987051638749, 90.0260197203842689217, 2232.00534594684319226,
          7003.32514112805075473, 55592.3013010394962768)  # fmt: skip
_ERF_U = (33.5617141647503099647, 521.357949780152679795, 4594.32382970980127987,
          22629.0000613890934246, 49267.3942608635921086)  # fmt: skip
_ERFC_P = (2.46196981473530512524e-10, 0.564189564831068821977, 7.46321056442269912687,
           48.6371970985681366614, 196.520832956077098242, 526.445194995477358631,
           934.528527171957607540, 1027.55188689515710272, 557.535335369399327526)  # fmt: skip
_ERFC_Q = (13.2281951154744992508, 86.7072140885989742329, 354.937778887819891062,
           975.708501743205489753, 1823.90916687909736289, 2246.33760818710981792,
           1656.66309194161350182, 557.535340817727675546)  # fmt: skip
_ERFC_R = (0.564189583547755073984, 1.27536670759978104416, 5.01905042251180477414,
           6.16021097993053585195, 7.40974269950448939160, 2.97886665372100240670)  # fmt: skip
_ERFC_S = (2.26052863220117276590, 9.39603524938001434673, 12.0489539808096656605,
           17.0814450747565897222, 9.60896809063285878198, 3.36907645100081516050)  # fmt: skip


def _erfc(x: Value) -> Value:
    """Return 1 - erf near zero, else an asymptotic form of exp(-x^2) / |x|."""
    wide = x.dtype is F64
    square, size = x * x, abs(x)
    decay = (-square).unary("exponential")
    if wide:
        near = 1.0 - x * _polynomial(square, _ERF_T) / _monic(square, _ERF_U)
        middle = decay * _polynomial(size, _ERFC_P) / _monic(size, _ERFC_Q)
        far = decay * _polynomial(size, _ERFC_R) / _monic(size, _ERFC_S)
        tail = size.compare("LT", 8.0).choose(middle, far)
    else:
        near = 1.0 - x * _polynomial(square, _ERF_F32)
        q = 1.0 / square
        parts = (_polynomial(q, _ERFC_F32), _polynomial(q, _ERFC_F32_FAR))
        tail = decay * (1.0 / size) * size.compare("LT", 2.0).choose(*parts)
    largest = math.log(float(np.finfo(x.dtype.numpy).max))
    tail = (-square).compare("LT", -largest).choose(0.0, tail)
    both = x.compare("LT", 0.0).choose(2.0 - tail, tail)
    return size.compare("LT", 1.0).choose(near, both)


# ---------------------------------------------------------------- inverse of erf

_ERF_INV_F32: tuple[tuple[float, ...], ...] = (
    (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
     -0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
    (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
     -0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)  # fmt: skip
_ERF_INV_F64: tuple[tuple[float, ...], ...] = (
    (-3.6444120640178196996e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18,
     1.115787767802518096e-17, -1.333171662854620906e-16, 2.0972767875968561637e-17,
     6.6376381343583238325e-15, -4.0545662729752068639e-14, -8.1519341976054721522e-14,
     2.6335093153082322977e-12, -1.2975133253453532498e-11, -5.4154120542946279317e-11,
     1.051212273321532285e-09, -4.1126339803469836976e-09, -2.9070369957882005086e-08,
     4.2347877827932403518e-07, -1.3654692000834678645e-06, -1.3882523362786468719e-05,
     0.0001867342080340571352, -0.00074070253416626697512, -0.0060336708714301490533,
     0.24015818242558961693, 1.6536545626831027356),
    (2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07,
     1.8239629214389227755e-08, 1.5027403968909827627e-06, -4.013867526981545969e-06,
     2.9234449089955446044e-06, 1.2475304481671778723e-05, -4.7318229009055733981e-05,
     6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796,
     0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066,
     -0.0037512085075692412107, 0.005370914553590063617, 1.0052589676941592334,
     3.0838856104922207635),
    (-2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,
     -3.7894654401267369937e-09, 7.6157012080783393804e-09, -1.4960026627149240478e-08,
     2.9147953450901080826e-08, -6.7711997758452339498e-08, 2.2900482228026654717e-07,
     -9.9298272942317002539e-07, 4.5260625972231537039e-06, -1.9681778105531670567e-05,
     7.5995277030017761139e-05, -0.00021503011930044477347, -0.00013871931833623122026,
     1.0103004648645343977, 4.8499064014085844221),
)  # fmt: skip


def _erf_inv(x: Value) -> Value:
    """Return polynomials of w = -log(1 - x^2), or of its root where it is large."""
    w = -((-x * x).unary("log-plus-one"))
    root = w.unary("sqrt")
    if x.dtype is F64:
        near, middle, far = _ERF_INV_F64
        tail = w.compare("LT", 16.0).choose(
            _polynomial(root - 3.25, middle), _polynomial(root - 5.0, far)
        )
        value = w.compare("LT", 6.25).choose(_polynomial(w - 3.125, near), tail)
    else:
        near, far = _ERF_INV_F32
        value = w.compare("LT", 5.0).choose(
            _polynomial(w - 2.5, near), _polynomial(root - 3.0, far)
        )
    return abs(x).compare("EQ", 1.0).choose(x * math.inf, value * x)


# ---------------------------------------------------------------- gamma functions

_G = 7.0
_LANCZOS = (0.99999999999980993227684700473478, 676.520368121885098567009190444019,
            -1259.13921672240287047156078755283, 771.3234287776530788486528258894,
            -176.61502916214059906584551354, 12.507343278686904814458936853,
            -0.13857109526572011689554707, 9.984369578019570859563e-6,
            1.50563273514931155834e-7)  # fmt: skip


def _shifted(x: Value) -> tuple[Value, Value]:
    """Return the mask of the reflection formula, and z = -x there, x - 1 elsewhere."""
    reflect = x.compare("LT", 0.5)
    return reflect, reflect.choose(-x, x - 1.0)


def _series(z: Value) -> Value:
    total = z.constant(_LANCZOS[0])
    for n, coefficient in enumerate(_LANCZOS[1:], 1):
        total = total + coefficient / (z + float(n))
    return total


def _log_t(z: Value) -> Value:
    """Return log(z + g + 1/2)."""
    return (z / (_G + 0.5)).unary("log-plus-one") + math.log(_G + 0.5)


def _lgamma(x: Value) -> Value:
    """Return log |gamma(x)|; below 1/2 by the reflection formula."""
    reflect, z = _shifted(x)
    log_t = _log_t(z)
    t = z + (_G + 0.5)
    value = (z + 0.5 - t / log_t) * log_t + math.log(2 * math.pi) / 2 + _series(z).unary("log")
    size = abs(x)
    fraction = size - size.unary("floor")
    fraction = fraction.compare("GT", 0.5).choose(1.0 - fraction, fraction)
    log_sine = (fraction * math.pi).unary("sine").unary("log")
    reflected = log_sine.unary("is-finite").choose(math.log(math.pi) - log_sine - value, -log_sine)
    value = reflect.choose(reflected, value)
    return size.compare("EQ", math.inf).choose(math.inf, value)


def _digamma(x: Value) -> Value:
    """Return the derivative of log gamma; NaN at 0, -1, -2, ..."""
    reflect, z = _shifted(x)
    slope = z.constant(0.0)
    for n, coefficient in enumerate(_LANCZOS[1:], 1):
        shifted = z + float(n)
        slope = slope - coefficient / (shifted * shifted)
    value = _log_t(z) + slope / _series(z) - _G / (z + (_G + 0.5))
    angle = (x + abs((x + 0.5).unary("floor"))) * math.pi
    cotangent = angle.unary("cosine") * math.pi / angle.unary("sine")
    value = reflect.choose(value - cotangent, value)
    pole = x.compare("LE", 0.0) & x.compare("EQ", x.unary("floor"))
    return pole.choose(math.nan, value)


# ---------------------------------------------------------------- Bessel function

_I1E_F32 = (
    (9.38153732e-09, -4.44505908e-08, 2.00329481e-07, -8.56872e-07, 3.47025139e-06,
     -1.32731639e-05, 4.78156508e-05, -0.000161760821, 0.000512286, -0.00151357241, 0.0041564228,
     -0.0105640851, 0.0247264486, -0.0529459827, 0.102643661, -0.176416516, 0.252587199),
    (-3.83538046e-09, -2.63146891e-08, -2.51223611e-07, -3.88256467e-06, -0.000110588939,
     -0.00976109784, 0.778576255),
)  # fmt: skip


def _chebyshev(x: Value, coefficients: Sequence[float]) -> Value:
    """Return the Chebyshev series by Clenshaw's recurrence; the last coefficient counts half."""
    before, now, last = x.constant(0.0), x.constant(0.0), x.constant(0.0)
    for coefficient in coefficients:
        before, now, last = now, last, last
        last = x * now - before + coefficient
    return (last - before) * 0.5


def _bessel_i1e(x: Value) -> Value:
    """Return exp(-|x|) I1(x)."""
    size = abs(x)
    near = size * _chebyshev(size * 0.5 - 2.0, _I1E_F32[0])
    far = _chebyshev(32.0 / size - 2.0, _I1E_F32[1]) / size.unary("sqrt")
    return x.unary("sign") * size.compare("LE", 8.0).choose(near, far)


# ---------------------------------------------------------------- bits


def _next_after(x: Value, y: Value) -> Value:
    """Return the next number after `x` in the direction of `y`."""
    integer = {2: S16, 4: S32, 8: S64}[x.dtype.storage_bytes]
    bits, other = (v.cast(integer, "bitcast-convert") for v in (x, y))
    sign = 1 << (integer.bits - 1)
    sizes = (bits & (sign - 1), other & (sign - 1))
    signs = (bits & -sign, other & -sign)
    tiny = sizes[1].compare("EQ", 0).choose(other, signs[1] | 1)
    back = sizes[0].compare("GT", sizes[1]) | signs[0].compare("NE", signs[1])
    step = back.choose(-1, bits.constant(1))
    found = sizes[0].compare("EQ", 0).choose(tiny, bits + step)
    found = x.compare("EQ", y).choose(other, found)
    value = found.cast(x.dtype, "bitcast-convert")
    return (x.compare("NE", x) | y.compare("NE", y)).choose(math.nan, value)


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "bessel_i1e": _bessel_i1e,
    "digamma": _digamma,
    "erf_inv": _erf_inv,
    "erfc": _erfc,
    "is_inf": lambda x: abs(x).compare("EQ", math.inf),
    "is_neg_inf": lambda x: x.compare("EQ", -math.inf),
    "is_pos_inf": lambda x: x.compare("EQ", math.inf),
    "lgamma": _lgamma,
    "square": lambda x: x * x,
}
_ANY_TYPE = ("is_inf", "is_neg_inf", "is_pos_inf", "square")


def expanded(name: str, add: Adder, operands: Sequence[Instruction]) -> Instruction | None:
    """Return CHLO's operation `name` of `operands` (f32[8] -> f32[8]), None if hloc lacks it."""
    values = [Value(add, operand) for operand in operands]
    if not all(isinstance(operand.shape, ArrayShape) for operand in operands):
        return None
    if name == "next_after" and len(values) == 2 and values[0].dtype.is_float:
        return _next_after(*values).inst
    if name not in _FUNCTIONS or len(values) != 1:
        return None
    (x,) = values
    if name in _ANY_TYPE:
        return _FUNCTIONS[name](x).inst
    if not x.dtype.is_float or (name == "bessel_i1e" and x.dtype is F64):
        return None
    wide = x if x.dtype in (F32, F64) else x.cast(F32)
    return _FUNCTIONS[name](wide).cast(x.dtype).inst
