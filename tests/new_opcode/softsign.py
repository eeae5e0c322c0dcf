"""softsign, an elementwise opcode: its row is all there is."""

from __future__ import annotations

import numpy as np

from hloc.dtypes import Array
from hloc.ir.opcode import ScalarBuilder, define
from hloc.ops.array_values import pointwise
from hloc.ops.emit import Value, by_type, in_f32
from hloc.ops.shape_rules import same_shape
from hloc.ops.type_classes import is_float


def _softsign(x: Array) -> Array:
    return np.asarray(x / (1 + np.abs(x)))


def _emit(b: ScalarBuilder, x: Value) -> Value:
    return b.fdiv(x, b.fadd(b.const(x.dtype, 1.0), b.intrinsic("fabs", x)))


SOFTSIGN = define(
    reads="softsign(x) = x / (1 + |x|)",
    infer=same_shape(is_float),
    evaluate=pointwise(_softsign),
    elemental=by_type(floats=in_f32(_emit)),
    flops=3,
    weight=6,
)
