"""Associative reducers, and their application to whole arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hloc.dtypes import F32, DType
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass
from hloc.ops.array_values import oracle_type
from hloc.ops.builder import Builder
from hloc.ops.folding import identity_of
from hloc.opt.scalar_body import applied, is_elementwise_body
from hloc.opt.values import splat_value
from hloc.shapes import ArrayShape, TupleShape

LOGADDEXP = "logaddexp"
"""Name of log(exp(x) + exp(y)), which is no opcode."""


@dataclass(frozen=True, slots=True)
class Regrouping:
    """How to fold arrays in groups.

    Attributes:
        body: the reducer, scalars in and out.
        types: the compute type of each array; narrow floats are summed in f32.
        kinds: the opcode of each array, or `LOGADDEXP`; () if the body is trusted to be
            associative.
    """

    body: Computation
    types: tuple[DType, ...]
    kinds: tuple[str, ...]

    def identities(self, b: Builder, inits: Sequence[Instruction]) -> list[Instruction]:
        """Return the neutral element of each array; those of a trusted body are `inits`."""
        if not self.kinds:
            return list(inits)
        found = []
        for kind, dtype, init in zip(self.kinds, self.types, inits, strict=True):
            if is_identity(kind, init) and init.array.dtype is dtype:
                found.append(init)
            else:
                found.append(b.constant(_identity(kind, dtype.numpy), dtype))
        return found

    def combined(
        self, b: Builder, left: Sequence[Instruction], right: Sequence[Instruction]
    ) -> list[Instruction]:
        """Add the reducer of arrays, element by element."""
        if self.kinds and LOGADDEXP not in self.kinds:
            return [
                b.instruction(kind, pair)
                for kind, *pair in zip(self.kinds, left, right, strict=True)
            ]
        return applied(b, self.body, (*left, *right))

    def arrays(self, b: Builder, inst: Instruction) -> list[Instruction]:
        """Return the arrays that `inst` folds, in their compute types."""
        arrays = inst.operands[: len(self.types)]
        return [b.convert(x, dtype) for x, dtype in zip(arrays, self.types, strict=True)]

    def finished(self, b: Builder, inst: Instruction, found: list[Instruction]) -> Instruction:
        """Return the result of `inst`: `found` with its init values, in its types and layouts."""
        found = self._with_inits(b, inst.operands[len(self.types) :], found)
        shapes = inst.shape.elements if isinstance(inst.shape, TupleShape) else (inst.shape,)
        results = []
        for x, shape in zip(found, shapes, strict=True):
            assert isinstance(shape, ArrayShape)
            value = b.convert(x, shape.dtype)
            same = value.shape == shape
            results.append(value if same else b.instruction("copy", (value,), shape=shape))
        return b.tuple(results) if isinstance(inst.shape, TupleShape) else results[0]

    def _with_inits(
        self, b: Builder, inits: Sequence[Instruction], found: list[Instruction]
    ) -> list[Instruction]:
        """Fold each init into its results, unless all are neutral."""
        if all(is_identity(kind, init) for kind, init in zip(self.kinds, inits, strict=False)):
            return found
        dims = found[0].array.dims
        starts = [
            b.broadcast(b.convert(init, dtype), dims)
            for init, dtype in zip(inits, self.types, strict=True)
        ]
        return self.combined(b, starts, found)


def is_regroupable(reduce: Instruction) -> bool:
    """True if the reducer may be regrouped and no narrow sum would be rounded in between."""
    found = regrouping_of(reduce.called[0])
    return found is not None and all(
        operand.array.dtype is dtype
        for operand, dtype in zip(reduce.operands, (*found.types, *found.types), strict=True)
    )


def regrouping_of(body: Computation, *, trusted: bool = False) -> Regrouping | None:
    """Return how to regroup the folds of `body`, None if that could change more than a rounding.

    Supported are add, multiply, minimum, maximum, and, or, xor, for each array separately, and
    log(exp(x) + exp(y)) as JAX writes it. With `trusted` any body of elementwise steps is assumed
    to be associative.
    """
    root = body.root
    parts = root.operands if root.is_a("tuple") else (root,)
    count = len(parts)
    if len(body.parameters) != 2 * count or isinstance(parts[0].shape, TupleShape):
        return None
    pairs = list(zip(body.parameters[:count], body.parameters[count:], strict=True))
    if all(_is_known(part, *pair) for part, pair in zip(parts, pairs, strict=True)):
        kinds = tuple(part.opcode.name for part in parts)
        types = (_summed_in(part) for part in parts)
        return Regrouping(body, tuple(types), kinds)
    if count == 1 and _is_logaddexp(root):
        return Regrouping(body, (root.array.dtype,), (LOGADDEXP,))
    if trusted and is_elementwise_body(body):
        return Regrouping(body, tuple(part.array.dtype for part in parts), ())
    return None


def window_regrouping(inst: Instruction, *, trusted: bool = False) -> Regrouping | None:
    """Return how to regroup a reduce-window, None if its reducer is unknown or has other types."""
    found = regrouping_of(inst.called[0], trusted=trusted)
    if found is None:
        return None
    taken = [parameter.array.dtype for parameter in inst.called[0].parameters]
    given = [operand.array.dtype for operand in inst.operands]
    count = len(found.types)
    return found if given == taken and taken[:count] == taken[count:] else None


def is_identity(kind: str, init: Instruction) -> bool:
    """True if `init` is a constant and the neutral element of the operation."""
    value = splat_value(init)
    if value is None:
        return False
    wide = oracle_type(init.array.dtype)
    return bool(value.astype(wide) == _identity(kind, wide))


def _identity(kind: str, dtype: np.dtype[Any]) -> Any:
    """Return the neutral element of the operation: -inf for maximum and logaddexp."""
    return identity_of("maximum" if kind == LOGADDEXP else kind, dtype)


def _is_known(part: Instruction, x: Instruction, y: Instruction) -> bool:
    same = isinstance(part.shape, ArrayShape) and part.shape == x.shape == y.shape
    if not same or not part.opcode.associative or set(part.operands) != {x, y}:
        return False
    dtype = part.array.dtype
    ordered = part.is_a("minimum", "maximum")
    return (
        dtype.is_float or dtype.is_pred or (dtype.bits >= 8 and not (ordered and dtype.is_complex))
    )


def _summed_in(part: Instruction) -> DType:
    dtype = part.array.dtype
    return F32 if dtype.is_float and dtype.bits < 32 else dtype


_DIFFERENCE = ("subtract", 0, 1)
_LOGADDEXP = (
    "select",
    ("compare NE", _DIFFERENCE, _DIFFERENCE),
    ("add", 0, 1),
    (
        "add",
        ("log-plus-one", ("exponential", ("negate", ("abs", _DIFFERENCE)))),
        ("maximum", 0, 1),
    ),
)
"""max(x, y) + log1p(exp(-|x - y|)), and x + y where the difference is NaN: of equal infinities."""


def _is_logaddexp(root: Instruction) -> bool:
    return root.array.dtype.is_float and _expression(root, 8) == _LOGADDEXP


def _expression(inst: Instruction, depth: int) -> Any:
    """Return opcodes and parameter numbers as nested tuples, operands of sums in one order."""
    if inst.is_a("parameter"):
        return inst.attributes.number
    if not depth:
        return None
    name = inst.opcode.name
    if inst.is_a("compare"):
        name += " " + inst.attributes.direction
    operands = [_expression(operand, depth - 1) for operand in inst.operands]
    return (name, *(sorted(operands, key=repr) if inst.opcode.commutative else operands))
