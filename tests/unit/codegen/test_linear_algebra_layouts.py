"""The order in which factorisations of a batch write their results."""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc import driver
from hloc.codegen.lower.linear_algebra import own_linear_algebra
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.shapes import TupleShape
from tests.tolerance import bounds

FACTOR = """\
HloModule factor
f {
  x = f32[BATCH,6,6]{1,2,0} parameter(0)
  READER
}
ENTRY main {
  p0 = f32[BATCH,6,6] parameter(0)
  c = (f32[BATCH,6,6]{1,2,0}, s32[BATCH]) custom-call(p0), custom_call_target="lapack_spotrf_ffi",
    api_version=API_VERSION_TYPED_FFI, backend_config={uplo = 76 : ui8}
  factor = f32[BATCH,6,6]{1,2,0} get-tuple-element(c), index=0
  r = f32[BATCH,6,6]ORDER fusion(factor), kind=kLoop, calls=f
  ROOT last = TAIL
}
"""

NEGATE = "ROOT n = f32[BATCH,6,6]ORDER negate(x)"
TRANSPOSE = "ROOT n = f32[BATCH,6,6]ORDER transpose(x), dimensions={0,2,1}"
ROWS, COLUMNS = "{2,1,0}", "{1,2,0}"
ALONE, TOO = (
    "f32[BATCH,6,6]ORDER copy(r)",
    "(f32[BATCH,6,6]{1,2,0}, f32[BATCH,6,6]ORDER) tuple(factor, r)",
)


def lowered(text: str) -> Module:
    """Return the module with hloc's own calls."""
    module = driver.parse_text(text)
    own_linear_algebra(module)
    return module


def factor_text(batch: int = 20, reader: str = NEGATE, order: str = ROWS, tail: str = ALONE) -> str:
    """Return a module that reads the factors of a batch."""
    text = FACTOR.replace("READER", reader).replace("TAIL", tail).replace("ORDER", order)
    return text.replace("BATCH", str(batch))


def named(module: Module, name: str) -> Instruction:
    """Return an instruction of the entry computation."""
    return next(inst for inst in module.entry.instructions if inst.name == name)


def test_work_by_rows_lets_the_factor_have_rows() -> None:
    module = lowered(factor_text())
    factor = named(module, "factor")
    reader = named(module, "r").called[0].parameters[0]
    assert factor.array.layout is None
    whole = named(module, "c").shape
    assert isinstance(whole, TupleShape)
    assert reader.shape == factor.shape == whole.elements[0]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(factor_text(batch=1), id="one matrix"),
        pytest.param(factor_text(order=COLUMNS), id="work by columns"),
        pytest.param(factor_text(reader=TRANSPOSE), id="a transpose"),
        pytest.param(factor_text(tail=TOO), id="a result of the module"),
    ],
)
def test_otherwise_the_factor_stays(text: str) -> None:
    assert named(lowered(text), "factor").array.minor_to_major == (1, 2, 0)


@pytest.mark.parametrize("level", [0, 3])
def test_the_answer_is_the_factor(level: int) -> None:
    a = np.random.default_rng(0).standard_normal((20, 6, 6)).astype(np.float32)
    a = a @ a.swapaxes(1, 2) + 6 * np.eye(6, dtype=np.float32)
    (found,) = hloc.compile(factor_text(), opt_level=level)(a)
    factor = -np.tril(found).astype(np.float64)
    np.testing.assert_allclose(factor @ factor.swapaxes(1, 2), a, **bounds("f32 residual"))
