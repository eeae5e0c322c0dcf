"""Terms: expressions for one element of an array, over the elements of the parameters.

Terms are hash-consed: two elements that are computed alike are the same object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from hloc.dtypes import PRED, DType, component_of
from hloc.errors import HloError
from hloc.ir.instruction import Instruction
from hloc.ir.opcode import OPCODES
from hloc.lazy_dataclass import dataclass

SYMBOL, CONSTANT, FOLD = "symbol", "literal", "fold"


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """One element.

    Attributes:
        number: position in the order of creation.
        op: an opcode, `symbol` (an input), `literal`, or `fold` (many operands in any order).
        dtype: element type; complex elements are a `complex` of two parts if these are known.
        detail: of a symbol its parameter and index, of a literal its value (a number, the bytes of
            a float), of a fold the opcode, of others the attributes that matter.
    """

    number: int
    op: str
    dtype: DType
    args: tuple[Term, ...]
    detail: Any


class Terms:
    """Creates terms, each once."""

    def __init__(self) -> None:
        self._terms: dict[Any, Term] = {}

    def _term(self, op: str, dtype: DType, args: tuple[Term, ...], detail: Any) -> Term:
        key = (op, dtype.name, tuple([arg.number for arg in args]), detail)
        term = self._terms.get(key)
        if term is None:
            term = self._terms[key] = Term(len(self._terms), op, dtype, args, detail)
        return term

    def symbol(self, dtype: DType, detail: Any) -> Term:
        """Return an input of any value; of a complex number, both parts are inputs."""
        if dtype.is_complex:
            part = component_of(dtype)
            parts = [self.symbol(part, (*detail, name)) for name in ("real", "imag")]
            return self._term("complex", dtype, tuple(parts), None)
        return self._term(SYMBOL, dtype, (), detail)

    def literal(self, value: Any, dtype: DType) -> Term:
        """Return a literal; all NaNs of a type are the same."""
        if dtype.is_complex:
            part = component_of(dtype)
            number = np.asarray(value)
            parts = (self.literal(number.real, part), self.literal(number.imag, part))
            return self._term("complex", dtype, parts, None)
        return self._term(CONSTANT, dtype, (), literal_detail(value, dtype))

    def apply(self, op: str, dtype: DType, args: tuple[Term, ...], detail: Any = None) -> Term:
        """Return opcode `op` of `args`; operands of a commutative one are sorted."""
        if op == "copy" or (op == "convert" and args[0].dtype is dtype):
            return args[0]
        if op in ("real", "imag"):
            if not args[0].dtype.is_complex:
                return args[0] if op == "real" else self.literal(0, dtype)
            if args[0].op == "complex":
                return args[0].args[op == "imag"]
        if dtype.is_complex and op in _BY_PART and all(arg.op == "complex" for arg in args[-2:]):
            pairs = zip(*(arg.args for arg in args[-2:]), strict=True)  # all but a condition
            parts = [(*args[:-2], *part) for part in pairs]
            numbers = tuple(self.apply(op, component_of(dtype), part) for part in parts)
            return self._term("complex", dtype, numbers, None)
        if len(args) == 2 and OPCODES[op].commutative and args[0].number > args[1].number:
            args = (args[1], args[0])
        return self._term(op, dtype, args, detail)

    def fold(self, kind: str, dtype: DType, args: list[Term]) -> Term:
        """Return `args`, at least one, combined by an associative opcode in any order."""
        if dtype.is_complex or len(args) <= 2:
            result = args[0]
            for arg in args[1:]:
                result = self.apply(kind, dtype, (result, arg))
            return result
        flat: list[Term] = []
        exact = not dtype.is_float or OPCODES[kind].idempotent
        for arg in args:
            inside = exact and arg.detail == kind and arg.op == FOLD
            inside = inside or (exact and arg.op == kind)
            flat += arg.args if inside else (arg,)
        flat.sort(key=lambda arg: arg.number)
        return self._term(FOLD, dtype, tuple(flat), kind)


_BY_PART = ("add", "subtract", "negate", "select")


def literal_detail(value: Any, dtype: DType) -> Any:
    """Return the key of a value of `dtype`: a number, the bytes of a float, or "nan"."""
    if dtype.is_float:
        number = np.asarray(value).astype(dtype.numpy)
        return "nan" if np.isnan(number.astype(np.float64)) else number.tobytes()
    return bool(value) if dtype is PRED else int(value)


# ---------------------------------------------------------------- arrays of terms

Value: TypeAlias = Any
"""An object array of terms, or a tuple of values."""

Special: TypeAlias = Callable[[Terms, Instruction, tuple[Value, ...], Callable[..., Value]], Value]
"""`special(terms, inst, operands, call)`: the result of an instruction on arrays of terms."""


class CannotFollowError(HloError):
    """An instruction has no semantics in terms; `reason` says why."""

    def __init__(self, reason: str, inst: Instruction) -> None:
        super().__init__(f"cannot follow {inst.opcode.name} {inst.name}: {reason}", inst.span)
        self.opcode, self.reason = inst.opcode.name, reason


def array_of(terms: list[Term], dims: tuple[int, ...]) -> Value:
    """Return an object array of `dims` of the terms, which are in row-major order."""
    array = np.empty(len(terms), dtype=object)
    array[:] = terms
    return array.reshape(dims)
