"""Explicit vectors of floats: lanes that all do the same, written as LLVM vector types."""

from __future__ import annotations

from hloc.codegen.loops import IndexValue
from hloc.codegen.scalar_builder import LlvmBuilder, float_text
from hloc.codegen.values import REPRESENTATIONS, Value
from hloc.dtypes import DType


class Vectors:
    """Writes arithmetic on `lanes` floats of `dtype` at a time; a vector is a register's name."""

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

    def constant(self, x: float) -> str:
        """Return a vector whose lanes all are the number `x`."""
        return f"splat ({self.element} {float_text(self.dtype, x)})"

    def add(self, x: str, y: str) -> str:
        return self._binary("fadd", x, y)

    def sub(self, x: str, y: str) -> str:
        return self._binary("fsub", x, y)

    def mul(self, x: str, y: str) -> str:
        return self._binary("fmul", x, y)

    def neg(self, x: str) -> str:
        return self.fn.value(f"fneg {self.type} {x}")

    def _binary(self, op: str, x: str, y: str) -> str:
        return self.fn.value(f"{op} contract {self.type} {x}, {y}")

    def transposed(self, rows: list[str]) -> list[str]:
        """Return vector j of lane j of each of `lanes` vectors, a power of 2."""
        found, step = list(rows), 1
        while step < self.lanes:
            for i in range(self.lanes):
                if not i & step:
                    pair = found[i], found[i | step]
                    found[i] = self._mixed(pair, step, 0)
                    found[i | step] = self._mixed(pair, step, step)
            step *= 2
        return found

    def _mixed(self, pair: tuple[str, str], step: int, high: int) -> str:
        """Return every other run of `step` lanes of both vectors: low ones, or `high` ones."""
        places = [
            self.lanes + (lane & ~step | high) if lane & step else lane | high
            for lane in range(self.lanes)
        ]
        mask = ", ".join(f"i32 {place}" for place in places)
        first, second = pair
        kind = self.type
        return self.fn.value(
            f"shufflevector {kind} {first}, {kind} {second}, <{self.lanes} x i32> <{mask}>"
        )
