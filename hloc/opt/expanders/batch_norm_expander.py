"""Expand batch normalisation into reductions and elementwise arithmetic."""

from __future__ import annotations

import numpy as np

from hloc.dtypes import S32
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.builder import Builder
from hloc.opt.expander import Expander, working_type
from hloc.shapes import ArrayShape, TupleShape


class BatchNormExpander(Expander):
    """Replace `batch-norm-training`, `-inference` and `-grad`.

    Types below f32 are computed in f32 and rounded once. With dynamic dimensions the element count
    per feature is computed at run time.
    """

    acts_on = frozenset({"batch-norm-grad", "batch-norm-inference", "batch-norm-training"})

    def expand(self, inst: Instruction) -> Instruction:
        norm = _Norm(inst, Builder(inst.computation))
        if inst.is_a("batch-norm-training"):
            return _training(norm)
        return _inference(norm) if inst.is_a("batch-norm-inference") else _grad(norm)


@dataclass(frozen=True, slots=True)
class _Norm:
    """A batch normalisation under construction; arrays are in the working type."""

    inst: Instruction
    b: Builder

    @property
    def feature(self) -> int:
        return int(self.inst.attributes.feature_index)

    @property
    def dims(self) -> tuple[int, ...]:
        return self.inst.operands[0].array.dims

    def operand(self, number: int) -> Instruction:
        """Return an operand; one value per feature is broadcast to all elements."""
        operand = self.inst.operands[number]
        wide = self.b.convert(operand, working_type(operand.array.dtype))
        return wide if number in self._full else self.spread(wide)

    @property
    def _full(self) -> tuple[int, ...]:
        return (0, 4) if self.inst.is_a("batch-norm-grad") else (0,)

    def spread(self, vector: Instruction) -> Instruction:
        """Broadcast a value per feature to all elements."""
        shape = self.inst.operands[0].array
        result = ArrayShape(vector.array.dtype, shape.dims, None, shape.dynamic)
        return self.b.instruction("broadcast", (vector,), shape=result, dimensions=(self.feature,))

    def number(self, value: float, like: Instruction) -> Instruction:
        """Return `value` in the type of `like`, as a scalar."""
        dtype = like.array.dtype
        return self.b.constant(np.asarray(value, dtype.numpy), dtype)

    def sum(self, x: Instruction) -> Instruction:
        """Return the sum per feature."""
        b = self.b
        adder = b.scalar_function("add", x.array.dtype)
        dims = [dim for dim in range(len(self.dims)) if dim != self.feature]
        return b.reduce([x], [self.number(0, x)], dims, adder)

    def count(self, like: Instruction) -> Instruction:
        """Return the number of elements per feature as a scalar."""
        b, shape = self.b, self.inst.operands[0].array
        fixed = 1
        found: Instruction | None = None
        for dim in range(shape.rank):
            if dim == self.feature:
                continue
            if not shape.is_dynamic(dim):
                fixed *= shape.dims[dim]
                continue
            size = b.instruction("get-dimension-size", (self.inst.operands[0],), dimensions=(dim,))
            found = size if found is None else b.multiply(found, size)
        if found is None:
            return self.number(fixed, like)
        return b.convert(b.multiply(found, b.constant(fixed, S32)), like.array.dtype)

    def mean(self, x: Instruction) -> Instruction:
        """Return the mean per feature."""
        total = self.sum(x)
        return self.b.divide(total, self.b.broadcast(self.count(x), total.array.dims))

    def inverse_deviation(self, variance: Instruction) -> Instruction:
        """Return 1 / sqrt(variance + epsilon)."""
        epsilon = self.number(self.inst.attributes.epsilon, variance)
        shifted = self.b.add(variance, self._filled(epsilon, variance))
        return self.b.rsqrt(shifted)

    def _filled(self, scalar: Instruction, like: Instruction) -> Instruction:
        shape = like.array.with_layout(None)
        return self.b.instruction("broadcast", (scalar,), shape=shape, dimensions=())

    def rounded(self, value: Instruction, part: int | None = None) -> Instruction:
        """Return `value` in the type and layout of the result, or of one part of it."""
        shape = self.inst.shape
        if part is not None:
            assert isinstance(shape, TupleShape)
            shape = shape.elements[part]
        assert isinstance(shape, ArrayShape)
        value = self.b.convert(value, shape.dtype)
        same = value.shape == shape
        return value if same else self.b.instruction("copy", (value,), shape=shape)


def _training(norm: _Norm) -> Instruction:
    b, x = norm.b, norm.operand(0)
    mean = norm.mean(x)
    centred = b.subtract(x, norm.spread(mean))
    variance = norm.mean(b.multiply(centred, centred))
    inverse = norm.spread(norm.inverse_deviation(variance))
    scaled = b.multiply(b.multiply(centred, inverse), norm.operand(1))
    parts = (b.add(scaled, norm.operand(2)), mean, variance)
    return b.tuple([norm.rounded(value, i) for i, value in enumerate(parts)])


def _inference(norm: _Norm) -> Instruction:
    b = norm.b
    x, scale, offset, mean, variance = (norm.operand(i) for i in range(5))
    centred = b.subtract(x, mean)
    scaled = b.multiply(b.multiply(centred, norm.inverse_deviation(variance)), scale)
    return norm.rounded(b.add(scaled, offset))


def _grad(norm: _Norm) -> Instruction:
    b = norm.b
    x, scale, mean, variance, grad = (norm.operand(i) for i in range(5))
    inverse = norm.inverse_deviation(variance)
    normalised = b.multiply(b.subtract(x, mean), inverse)
    grad_scale, grad_offset = norm.sum(b.multiply(grad, normalised)), norm.sum(grad)
    count = b.broadcast(norm.count(x), grad_scale.array.dims)
    share = b.add(
        norm.spread(b.divide(grad_offset, count)),
        b.multiply(normalised, norm.spread(b.divide(grad_scale, count))),
    )
    grad_x = b.multiply(b.multiply(scale, inverse), b.subtract(grad, share))
    parts = (grad_x, grad_scale, grad_offset)
    return b.tuple([norm.rounded(value, i) for i, value in enumerate(parts)])
