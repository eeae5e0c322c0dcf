"""Sort keys from the bits of elements: unsigned integers that order as the elements do.

Three numbers describe any order of a given width, so routines take them as arguments. `flip` turns
signed into unsigned order, and ascending into descending.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from math import copysign, inf, nan

from hloc.codegen.builder.scalar_builder import LlvmBuilder
from hloc.codegen.builder.values import Value
from hloc.dtypes import BF16, DTYPES, F16, F32, F64, S64, DType
from hloc.ir.instruction import Instruction
from hloc.ir.traversal import post_order_from
from hloc.lazy_dataclass import dataclass
from hloc.ops.comparators import Key

WIDTHS = (8, 16, 32, 64)

_FLOATS = (BF16, F16, F32, F64)
_COMPARISONS = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}


@dataclass(frozen=True, slots=True)
class KeyForm:
    """The conversion from bits of elements to keys.

    Attributes:
        bits: width of elements and keys.
        is_float: the lower bits of negative numbers are inverted, for the order of sign-magnitude.
        limit: floats of larger magnitude bits are NaN, the largest key.
        zero: bits of a float that are replaced by those of 0.
        flip: combined with the key by exclusive or.
    """

    bits: int
    is_float: bool
    limit: int
    zero: int
    flip: int

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The arguments of routines."""
        return self.limit, self.zero, self.flip


def key_form(dtype: DType, *, total: bool, descending: bool) -> KeyForm | None:
    """Return the keys of elements of `dtype`, None for types that routines do not support.

    Floats: `total` is the total order of their bits; else -0 equals 0, and every NaN is largest.
    """
    bits = 8 if dtype.is_pred else dtype.bits
    if bits not in WIDTHS or not (dtype.is_pred or dtype.is_integer or dtype in _FLOATS):
        return None
    top, ones = 1 << (bits - 1), (1 << bits) - 1
    flip = ones if descending else 0
    if not dtype.is_float:
        return KeyForm(bits, False, top - 1, 0, flip ^ top if dtype.is_signed else flip)
    infinity = (top - 1) >> dtype.mantissa_bits << dtype.mantissa_bits
    limit, zero = (top - 1, 0) if total else (infinity, top)
    return KeyForm(bits, True, limit, zero, flip)


def element_key(b: LlvmBuilder, bits: Value, is_float: bool) -> Value:
    """Return the key of an element of these unsigned bits; see `KeyForm` for the numbers.

    They are the parameters `%limit`, `%zero` and `%flip` of the function, of the same type.
    """
    return ordered(b, one_of_equals(b, bits)) if is_float else b.xor(bits, _number(bits, "flip"))


def one_of_equals(b: LlvmBuilder, bits: Value) -> Value:
    """Return the canonical bits of a float: the same for all floats that compare equal."""
    most = b.const(bits.dtype, (1 << (bits.dtype.bits - 1)) - 1)
    is_zero = b.compare("EQ", bits, _number(bits, "zero"))
    bits = b.select(is_zero, b.const(bits.dtype, 0), bits)
    is_nan = b.compare("GT", b.and_(bits, most), _number(bits, "limit"))
    return b.select(is_nan, most, bits)


def ordered(b: LlvmBuilder, bits: Value) -> Value:
    """Return the key of the bits of a float by total order."""
    return b.xor(b.xor(bits, _sign_mask(b, bits)), _number(bits, "flip"))


def element_of_key(b: LlvmBuilder, key: Value, is_float: bool) -> Value:
    """Return the bits for a key; for equal floats, the canonical bits."""
    bits = b.xor(key, _number(key, "flip"))
    if not is_float:
        return bits
    ones = b.const(key.dtype, (1 << key.dtype.bits) - 1)
    return b.xor(bits, _sign_mask(b, b.xor(bits, ones)))


def _sign_mask(b: LlvmBuilder, bits: Value) -> Value:
    """Return all ones if the highest bit is set, else only the highest bit."""
    unsigned, signed = bits.dtype, DTYPES[f"s{bits.dtype.bits}"]
    top = b.const(signed, unsigned.bits - 1)
    mask = b.convert(b.ashr(b.convert(bits, signed), top), unsigned)
    return b.or_(mask, b.const(unsigned, 1 << (unsigned.bits - 1)))


def _number(like: Value, name: str) -> Value:
    return Value(like.dtype, f"%{name}")


def digit_of(b: LlvmBuilder, key: Value, shift: Value, mask: Value) -> Value:
    """Return a digit of a key."""
    return b.and_(b.lshr(b.convert(key, S64), shift), mask)


def operand_order(key: Key) -> tuple[int, KeyForm] | None:
    """Return the number of the operand that is the key, and the key's form.

    None if routines do not support its type, or the key is computed, except for the canonical
    floats that JAX computes.
    """
    expression = key.expression
    total = key.total
    if not expression.is_a("parameter"):
        if not key.total or not _is_canonical(expression):
            return None
        total = False
    parameter = next(i for i in post_order_from([expression]) if i.is_a("parameter"))
    form = key_form(parameter.array.dtype, total=total, descending=key.descending)
    return None if form is None else (parameter.attributes.number // 2, form)


def _is_canonical(expression: Instruction) -> bool:
    """True for a float parameter whose zeros are replaced by 0 and whose NaNs by one positive NaN.

    The expression only compares the parameter with itself and with 0, and selects it or constants,
    so one sample of every class of numbers proves it.
    """
    members = list(post_order_from([expression]))
    parameters = [inst for inst in members if inst.is_a("parameter")]
    steps = [inst for inst in members if not inst.is_a("parameter", "constant")]
    if len(parameters) != 1 or parameters[0].array.dtype not in _FLOATS:
        return False
    constants = {inst: _constant(inst) for inst in members if inst.is_a("constant")}
    if not all(_decides(inst, constants) for inst in steps):
        return False
    for sample in (-1.0, -0.0, 0.0, 1.0, nan):
        chosen = _chosen(steps, {parameters[0]: sample, **constants})
        number = constants.get(chosen.get(expression, expression))
        if sample in (-1, 1):
            if number is not None:
                return False
        elif number is None or copysign(1, number) < 0 or not _same(number, sample):
            return False
    return True


def _decides(inst: Instruction, constants: Mapping[Instruction, float]) -> bool:
    """True if `inst` compares the parameter and 0, or selects by such a comparison."""
    if inst.is_a("select"):
        return inst.operands[0].is_a("compare")
    if not inst.is_a("compare") or inst.attributes.type == "TOTALORDER":
        return False
    return all(
        operand.is_a("parameter") or constants.get(operand) == 0 for operand in inst.operands
    )


def _constant(constant: Instruction) -> float:
    literal = constant.attributes.literal
    return inf if literal.is_elided or constant.array.rank else float(literal.array)


def _same(x: float, y: float) -> bool:
    return x == y or (x != x and y != y)


def _chosen(
    steps: Sequence[Instruction], numbers: Mapping[Instruction, float]
) -> dict[Instruction, Instruction]:
    """Return the parameter or constant that every select returns."""
    holds: dict[Instruction, bool] = {}
    chosen: dict[Instruction, Instruction] = {}
    for inst in steps:
        first, *others = inst.operands
        if inst.is_a("compare"):
            left, right = (numbers[operand] for operand in inst.operands)
            holds[inst] = _COMPARISONS[inst.attributes.direction](left, right)
        else:
            picked = others[0] if holds[first] else others[1]
            chosen[inst] = chosen.get(picked, picked)
    return chosen
