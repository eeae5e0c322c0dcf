"""The code that integer opcodes emit means what Z3's table says, for all values of every width.

Protects machine code on every target at its source: the emitters of `hloc/ops/` write here into Z3
instead of LLVM. What the builder's protocol forbids (a zero divisor, a quotient that does not fit,
a shift by the width) must be impossible, even in a branch that is not chosen.
"""

from dataclasses import dataclass
from typing import Any

import pytest

from hloc.dtypes import PRED, DType
from hloc.prove.meanings import integers, predicates
from hloc.prove.meanings.conversions import convert, sort_of
from hloc.prove.meanings.table import expression
from hloc.prove.symbolic import SymbolicRun
from tests.unit.prove.computations import INTEGER_CASES, computation_of
from tests.waiting import PATIENCE

z3: Any = pytest.importorskip("z3")

TIMEOUT_MS = 1000 * PATIENCE
WIDEST = {"mulhi": 4, "power": 4}
"""Products of two widths, and of many factors: Z3 decides them in small types only."""

CASES = [(name, d) for name, d in INTEGER_CASES if d.bits <= WIDEST.get(name, 64)]


@dataclass(frozen=True)
class Value:
    dtype: DType
    expression: Any


class Z3Builder:
    """A `ScalarBuilder` of Z3 expressions, for integers and pred."""

    def __init__(self) -> None:
        self.needs: list[Any] = []  # conditions under which the code is defined

    def const(self, dtype: DType, value: Any) -> Value:
        if dtype.is_pred:
            return Value(dtype, z3.BoolVal(bool(value)))
        bits = dtype.bits - dtype.is_signed
        assert (-(1 << bits) if dtype.is_signed else 0) <= value < 1 << bits, (dtype, value)
        return Value(dtype, z3.BitVecVal(int(value), dtype.bits))

    def iadd(self, x: Value, y: Value) -> Value:
        return Value(x.dtype, x.expression + y.expression)

    def isub(self, x: Value, y: Value) -> Value:
        return Value(x.dtype, x.expression - y.expression)

    def imul(self, x: Value, y: Value) -> Value:
        return Value(x.dtype, x.expression * y.expression)

    def idiv(self, x: Value, y: Value) -> Value:
        self._divides(x, y)
        signed = x.dtype.is_signed
        a, b = x.expression, y.expression
        return Value(x.dtype, a / b if signed else z3.UDiv(a, b))

    def irem(self, x: Value, y: Value) -> Value:
        self._divides(x, y)
        remainder = z3.SRem if x.dtype.is_signed else z3.URem
        return Value(x.dtype, remainder(x.expression, y.expression))

    def integer_constant(self, x: Value) -> int | None:
        return None  # expressions stand for every number

    def _divides(self, x: Value, y: Value) -> None:
        self.needs.append(y.expression != 0)
        if x.dtype.is_signed:
            lowest = z3.BitVecVal(-(1 << (x.dtype.bits - 1)), x.dtype.bits)
            self.needs.append(z3.Not(z3.And(x.expression == lowest, y.expression == -1)))

    def and_(self, x: Value, y: Value) -> Value:
        a, b = x.expression, y.expression
        return Value(x.dtype, z3.And(a, b) if x.dtype.is_pred else a & b)

    def or_(self, x: Value, y: Value) -> Value:
        a, b = x.expression, y.expression
        return Value(x.dtype, z3.Or(a, b) if x.dtype.is_pred else a | b)

    def xor(self, x: Value, y: Value) -> Value:
        a, b = x.expression, y.expression
        return Value(x.dtype, z3.Xor(a, b) if x.dtype.is_pred else a ^ b)

    def shl(self, x: Value, y: Value) -> Value:
        return self._shifted(x, y, x.expression << y.expression)

    def lshr(self, x: Value, y: Value) -> Value:
        return self._shifted(x, y, z3.LShR(x.expression, y.expression))

    def ashr(self, x: Value, y: Value) -> Value:
        return self._shifted(x, y, x.expression >> y.expression)

    def _shifted(self, x: Value, y: Value, result: Any) -> Value:
        highest = z3.BitVecVal(x.dtype.bits - 1, x.dtype.bits)
        self.needs.append(z3.ULE(y.expression, highest))
        return Value(x.dtype, result)

    def compare(self, direction: str, x: Value, y: Value) -> Value:
        a, b = x.expression, y.expression
        if x.dtype.is_pred:
            return Value(PRED, predicates.ordered(z3, direction, a, b))
        return Value(PRED, integers.ordered(z3, x.dtype, direction, a, b))

    def select(self, pred: Value, on_true: Value, on_false: Value) -> Value:
        chosen = z3.If(pred.expression, on_true.expression, on_false.expression)
        return Value(on_true.dtype, chosen)

    def convert(self, x: Value, dtype: DType) -> Value:
        if x.dtype is dtype:
            return x
        return Value(dtype, convert(z3, x.dtype, dtype, x.expression))

    def bitcast(self, x: Value, dtype: DType) -> Value:
        assert x.dtype.bits == dtype.bits
        return Value(dtype, x.expression)

    def intrinsic(self, name: str, *args: Value) -> Value:
        dtype, values = args[0].dtype, [arg.expression for arg in args]
        makers = {
            "ctpop": lambda: integers.popcnt(z3, dtype, *values),
            "ctlz": lambda: integers.count_leading_zeros(z3, dtype, *values),
        }
        return Value(dtype, makers[name]())


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=str)
def test_emitted_code_is_defined_and_means_what_the_table_says(name: str, dtype: DType) -> None:
    inst = computation_of(name, dtype).root
    run = SymbolicRun()
    symbols = run.inputs(inst.computation)
    (term,) = run.call(inst.computation, *symbols).reshape(-1)
    operands = [
        Value(o.array.dtype, expression(z3, symbol[()], []))
        for o, symbol in zip(inst.operands, symbols, strict=True)
    ]
    known = {symbol[()]: value.expression for symbol, value in zip(symbols, operands, strict=True)}
    want = known.get(term)
    if want is None:
        want = expression(z3, term, [known[arg] for arg in term.args])
    builder = Z3Builder()
    assert inst.opcode.elemental is not None
    got = inst.opcode.elemental(builder, inst, *operands)
    assert got.dtype is inst.array.dtype
    assert got.expression.sort() == sort_of(z3, got.dtype)
    for question in [*(z3.Not(need) for need in builder.needs), got.expression != want]:
        for case in _cases(name, operands):
            found = _answer(z3.And(case, question))
            assert found == z3.unsat, f"{name} of {dtype}: {found}, {case}, {question}"


def _cases(name: str, operands: list[Value]) -> list[Any]:
    """Return cases that cover everything; in each case of a divisor both divisions look alike."""
    if name not in ("divide", "remainder"):
        return [z3.BoolVal(True)]
    divisor = operands[1].expression
    return [divisor == 0, divisor == -1, z3.And(divisor != 0, divisor != -1)]


def _answer(question: Any) -> Any:
    steps = ("simplify", "ctx-simplify", "simplify", "solve-eqs", "smt")
    solver = z3.Then(*steps).solver()
    solver.set("timeout", TIMEOUT_MS)
    solver.add(question)
    return solver.check()
