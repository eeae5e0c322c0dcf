"""Products in loops whose operand decays: a tiny one is scaled up, and the result down again.

x86 processors take some 150 cycles for a multiplication with a subnormal operand or result. A state
that a loop multiplies by a matrix until it is zero passes through such numbers. Powers of two scale
exactly: the result is the same, or nearer to the true one where sums would have been subnormal.

The code that calls the kernel scales, before and after all of its parts: any number of threads
gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import prod

from hloc.codegen.builder.scalar_builder import pointer_value
from hloc.codegen.builder.values import LaneIndex, Value
from hloc.codegen.cpu.emitters.routine_writer import RoutineWriter, argument
from hloc.codegen.kernels.gemm_problem import gemm_problem_of, is_gemm
from hloc.codegen.llvm.target import Target
from hloc.dtypes import F32, F64, S64, U32, U64, DType
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass

MAX_ELEMENTS = 1 << 13
"""Most elements of an operand that is scaled: the copy lies on the stack."""

MIN_USES = 16
"""Fewest products of each of its elements, beside which a copy takes little time."""


@dataclass(frozen=True, slots=True)
class _Scale:
    """How tiny numbers of a type are scaled.

    Attributes:
        bits: the unsigned integers of the same size.
        limit: the bits of the least number that is not tiny. It is a power of two: several numbers
            are tiny if and only if the union of their bits is less.
        exponent: of the factor. Scaled numbers are normal and far below 1, so that sums of
            products do not overflow.
    """

    bits: DType
    limit: int
    exponent: int


_SCALES = {
    F32: _Scale(U32, 32 << 23, 64),  # 2^-95
    F64: _Scale(U64, 256 << 52, 512),  # 2^-767
}


@dataclass(frozen=True, slots=True)
class ScaledProduct:
    """A product with an operand that is scaled where it is tiny.

    Attributes:
        operand: its number.
        elements: of the operand.
        results: elements of the result, which is the argument after both operands.
        functions: the functions that scale, and their declarations, as LLVM text.
    """

    dtype: DType
    operand: int
    elements: int
    results: int
    functions: tuple[str, ...]

    @property
    def up(self) -> str:
        """The name of the function that scales the operand up.

        Its parameters are `ptr operand, ptr copy, ptr chosen, i64 elements`. It stores in `chosen`
        which array to read: the copy if the operand is tiny, else the operand.
        """
        return _up(self.dtype)

    @property
    def down(self) -> str:
        """The name of the function that scales the result down: `ptr result, i64 elements`."""
        return _down(self.dtype)


def _up(dtype: DType) -> str:
    return f"scaled_up_{dtype.name}"


def _down(dtype: DType) -> str:
    return f"scaled_down_{dtype.name}"


def scaled_product(inst: Instruction, target: Target) -> ScaledProduct | None:
    """Return how `inst` is scaled: a product of floats, one of which is small and used often."""
    if not target.triple.startswith("x86_64") or inst.is_a("fusion") or not is_gemm(inst):
        return None
    dtype, sides = inst.array.dtype, [side.array for side in inst.operands]
    if dtype not in _SCALES or any(side.dtype is not dtype for side in sides):
        return None
    sizes = [side.elements for side in sides]
    number = sizes.index(min(sizes))
    p, size = gemm_problem_of(inst), sizes[number]
    products = prod(axis.size for axis in (*p.batch, *p.rows, *p.columns, *p.contracted))
    occurs_twice = inst.operands[0] is inst.operands[1]
    if occurs_twice or not 0 < size <= MAX_ELEMENTS or products < MIN_USES * size:
        return None
    functions = _functions(dtype, target)
    return ScaledProduct(dtype, number, size, inst.array.elements, functions)


@cache
def _functions(dtype: DType, target: Target) -> tuple[str, ...]:
    """Return the functions that scale arrays of `dtype`, and their declarations, as LLVM text."""
    lines: list[str] = []
    for name, parameters, write in (
        (_up(dtype), ("ptr %operand", "ptr %copy", "ptr %chosen", "i64 %elements"), _write_up),
        (_down(dtype), ("ptr %result", "i64 %elements"), _write_down),
    ):
        w = RoutineWriter(name, parameters, target, target.vector_bits // dtype.bits)
        write(w, dtype)
        lines += [*w.fn.declarations, w.text().replace("define void", "define internal void", 1)]
    return tuple(lines)


def _write_up(w: RoutineWriter, dtype: DType) -> None:
    """Copy the operand, scaled, if its first element is tiny; choose the copy if all are."""
    b, scale = w.b, _SCALES[dtype]
    operand, copy, chosen = (pointer_value(name) for name in ("%operand", "%copy", "%chosen"))
    limit, factor = b.const(scale.bits, scale.limit), b.const(dtype, 2.0**scale.exponent)
    union = b.allocate(scale.bits, b.lanes)

    def magnitude(x: Value) -> Value:
        return b.bitcast(b.intrinsic("fabs", x), scale.bits)

    w.fn.line(f"store ptr {operand.text}, ptr {chosen.text}")
    with w.body.when(b.compare("LT", magnitude(b.load(operand, dtype, 0)), limit)):
        b.clear(union, b.lanes * dtype.storage_bytes)
        for at, place in _elements(w):
            x = b.load(operand, dtype, at)
            b.store(copy, at, b.fmul(x, factor))
            b.store(union, place, b.or_(b.load(union, scale.bits, place), magnitude(x)))
        found = b.folded("or", b.load(union, scale.bits, LaneIndex(S64, "0")))
        with w.body.when(b.compare("LT", found, limit)):
            w.fn.line(f"store ptr {copy.text}, ptr {chosen.text}")


def _write_down(w: RoutineWriter, dtype: DType) -> None:
    """Scale the result in place."""
    result, factor = pointer_value("%result"), w.b.const(dtype, 2.0 ** -_SCALES[dtype].exponent)
    for at, _ in _elements(w):
        w.b.store(result, at, w.b.fmul(w.b.load(result, dtype, at), factor))


def _elements(w: RoutineWriter) -> Iterator[tuple[Value, Value | int]]:
    """Run the caller's code for whole vectors of elements, then for single ones.

    Yields the index, and that of the first element of its kind.
    """
    count = argument("%elements")
    whole = w.math.mul(w.math.div(count, w.b.lanes), w.b.lanes)
    with w.whole_vectors(0, whole) as at:
        yield at, LaneIndex(S64, "0")
    with w.body.loop(whole, count) as at:
        yield w.math.value(at), 0
