"""Explicit vectors of floats or integers, as LLVM vector types."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.builder.loops import IndexValue
from hloc.codegen.builder.scalar_builder import LlvmBuilder, float_text
from hloc.codegen.builder.values import REPRESENTATIONS, Value
from hloc.dtypes import DType


class Vectors:
    """Writes arithmetic on `lanes` elements of `dtype` at a time; a vector is a register's name."""

    def __init__(self, b: LlvmBuilder, dtype: DType, lanes: int) -> None:
        self.b, self.fn, self.dtype, self.lanes = b, b.fn, dtype, lanes
        self.element = REPRESENTATIONS[dtype].register
        self.type = f"<{lanes} x {self.element}>"
        self._bytes = dtype.storage_bytes

    def load(self, pointer: Value, index: IndexValue) -> str:
        """Return the lanes that begin at element `index`."""
        at = self.b.address(pointer, self.dtype, index)
        return self.fn.value(f"load {self.type}, ptr {at}, align {self._bytes}")

    def store(self, pointer: Value, index: IndexValue, x: str) -> None:
        """Write the lanes that begin at element `index`."""
        at = self.b.address(pointer, self.dtype, index)
        self.fn.line(f"store {self.type} {x}, ptr {at}, align {self._bytes}")

    def splat(self, x: Value) -> str:
        """Return a vector whose lanes all are `x`."""
        one = self.fn.value(f"insertelement {self.type} poison, {self.element} {x.text}, i64 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        return self.fn.value(f"shufflevector {self.type} {one}, {self.type} poison, {zeros}")

    def packed(self, elements: Sequence[Value]) -> str:
        """Return the vector of `lanes` elements."""
        found = "poison"
        for lane, x in enumerate(elements):
            found = self.fn.value(
                f"insertelement {self.type} {found}, {self.element} {x.text}, i64 {lane}"
            )
        return found

    def constant(self, x: float) -> str:
        """Return a vector whose lanes all are the number `x`."""
        text = float_text(self.dtype, x) if self.dtype.is_float else str(int(x))
        return f"splat ({self.element} {text})"

    def add(self, x: str, y: str) -> str:
        return self._binary("fadd", x, y)

    def sub(self, x: str, y: str) -> str:
        return self._binary("fsub", x, y)

    def mul(self, x: str, y: str) -> str:
        return self._binary("fmul", x, y)

    def minus_product(self, total: str, x: str, y: str) -> str:
        """Return `total - x y`.

        As a difference of products, LLVM subtracts from the other one, which ARM has no vector
        instruction for.
        """
        if not self.b.has_fma:
            return self.sub(total, self.mul(x, y))
        symbol = f"@llvm.fma.v{self.lanes}f{self.dtype.bits}"
        operands = (self.type, self.neg(x)), (self.type, y), (self.type, total)
        return self.fn.call(self.type, symbol, *operands)

    def neg(self, x: str) -> str:
        return self.fn.value(f"fneg {self.type} {x}")

    def _binary(self, op: str, x: str, y: str) -> str:
        return self.fn.value(f"{op} contract {self.type} {x}, {y}")

    def folded(self, name: str, x: str, y: str) -> str:
        """Return the reducer of that opcode, lane by lane; also of integers."""
        if name in ("and", "or", "xor"):
            return self.fn.value(f"{name} {self.type} {x}, {y}")
        is_float = self.dtype.is_float
        if name in ("add", "multiply"):
            op = ("f" if is_float else "") + name[:3]
            return self.fn.value(f"{op} {self.type} {x}, {y}")
        if not is_float:
            name = ("s" if self.dtype.is_signed else "u") + name[:3]
        element = f"f{self.dtype.bits}" if is_float else self.element
        symbol = f"@llvm.{name}.v{self.lanes}{element}"
        return self.fn.call(self.type, symbol, (self.type, x), (self.type, y))

    def lane(self, x: str, number: int) -> Value:
        """Return one element of a vector."""
        return Value(self.dtype, self.fn.value(f"extractelement {self.type} {x}, i64 {number}"))

    def lane_everywhere(self, x: str, number: int) -> str:
        """Return a vector whose lanes all are lane `number` of `x`."""
        return self._shuffled(x, "poison", [number] * self.lanes)

    def shifted_up(self, x: str, count: int, filled: str) -> str:
        """Return `x` with its lanes shifted up by `count`; the lowest are those of `filled`."""
        kept = [self.lanes + lane for lane in range(self.lanes - count)]
        return self._shuffled(filled, x, [*range(count), *kept])

    def transposed(self, rows: list[str]) -> list[str]:
        """Return vector j of lane j of each of `lanes` vectors, a power of 2."""
        found, step = list(rows), 1
        while step < self.lanes:
            for i in range(self.lanes):
                if not i & step:
                    pair = found[i], found[i | step]
                    found[i] = self._interleaved(pair, step, 0)
                    found[i | step] = self._interleaved(pair, step, step)
            step *= 2
            if step < self.lanes:
                found = [self._opaque(x) for x in found]
        return found

    def _opaque(self, x: str) -> str:
        """Return `x`, opaque to LLVM, which would search for better shuffles.

        It finds none, and the search takes more than half of the compile time of a transposition.
        """
        name = f"@llvm.arithmetic.fence.v{self.lanes}f{8 * self._bytes}"
        return self.fn.call(self.type, name, (self.type, x))

    def _interleaved(self, pair: tuple[str, str], step: int, high: int) -> str:
        """Return every other run of `step` lanes of both vectors: the even or the `high` ones."""
        places = [
            self.lanes + (lane & ~step | high) if lane & step else lane | high
            for lane in range(self.lanes)
        ]
        return self._shuffled(*pair, places)

    def _shuffled(self, first: str, second: str, places: Sequence[int]) -> str:
        """Return a shuffle of two vectors; `places` count through both."""
        mask = ", ".join(f"i32 {place}" for place in places)
        kind = self.type
        return self.fn.value(
            f"shufflevector {kind} {first}, {kind} {second}, <{self.lanes} x i32> <{mask}>"
        )
