"""`b` of a rule: adds instructions whose shapes are inferred."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hloc.dtypes import DTYPES, DType
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ops.builder import Builder
from hloc.opt.authoring.found import Value, plain
from hloc.opt.authoring.patterns import opcode_of
from hloc.shapes import ArrayShape


class RuleBuilder:
    """Adds instructions to the computation of the match; every opcode is a method.

    `b.transpose(m.x, dimensions=perm)`, `b.multiply(m.x, m.x)`, `b.splat(2, like=m.x)`: the methods
    of `hloc.ops.builder.Builder`, for values.
    """

    def __init__(self, computation: Computation, root: Instruction) -> None:
        self._builder = Builder(computation)
        self._root = root

    def constant(self, value: Any, dtype: str = "") -> Value:
        """Add a constant; `dtype` defaults to the element type of the matched instruction."""
        return Value(self._builder.constant(value, self._dtype(dtype)))

    def splat(self, value: Any, like: Value) -> Value:
        """Add an array of the shape of `like` with `value` in every element."""
        shape = like.inst.array
        return Value(self._builder.splat(value, ArrayShape(shape.dtype, shape.dims)))

    def iota(self, dims: tuple[int, ...], dtype: str = "", iota_dimension: int = 0) -> Value:
        """Add an iota of sizes `dims` that counts along `iota_dimension`."""
        return Value(self._builder.iota(self._dtype(dtype), dims, iota_dimension))

    def convert(self, x: Value, dtype: str) -> Value:
        """Add a convert of `x` to the element type of that name."""
        return Value(self._builder.convert(x.inst, DTYPES[dtype]))

    def _dtype(self, name: str) -> DType:
        return DTYPES[name] if name else self._root.array.dtype

    def __getattr__(self, name: str) -> Callable[..., Value]:
        if name.startswith("_"):
            raise AttributeError(name)
        opcode_of(name)  # its error names a similar opcode
        method = getattr(self._builder, name)

        def add(*operands: Any, **values: Any) -> Value:
            given = {key: plain(value) for key, value in values.items()}
            return Value(method(*map(plain, operands), **given))

        return add


def fitted(new: Instruction, wanted: Instruction) -> bool:
    """Give `new` the layout of `wanted`; return False if the shapes differ otherwise."""
    if new.shape == wanted.shape:
        return True
    a, b = new.shape, wanted.shape
    if not isinstance(a, ArrayShape) or not isinstance(b, ArrayShape):
        return False
    if a.dims != b.dims or a.dtype is not b.dtype or a.dynamic or b.dynamic:
        return False
    new.computation.set_shape(new, wanted.shape)
    return True
