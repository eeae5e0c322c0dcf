"""Loops of instructions solve and decompose what the opcodes do; transforms are split."""

import numpy as np
import pytest

import hloc
from fuzz.cases.structured import cholesky, fft, triangular_solve
from hloc.opt.pipeline import Pipeline
from tests.tolerance import bounds
from tests.unit.opt.theme_checks import check_many


def test_triangular_systems_have_the_same_solution() -> None:
    check_many("triangular-solve-expander", triangular_solve, "table", examples=30)


def test_factors_are_the_same() -> None:
    check_many("cholesky-expander", cholesky, "table", examples=30)


def test_transforms_along_one_dimension_after_the_other_are_the_same() -> None:
    check_many("split-fft-rewriter{min-bytes=1}", fft, examples=60)


FACTOR = """
HloModule factor
ENTRY e {
  a = f32[2,2,2] parameter(0)
  ROOT r = f32[2,2,2] cholesky(a), lower=LOWER
}
"""


@pytest.mark.parametrize("lower", ["true", "false"])
def test_only_a_matrix_without_a_factor_is_nan(lower: str) -> None:
    module = hloc.parse(FACTOR.replace("LOWER", lower))
    assert Pipeline.parse("cholesky-expander").run(module)
    good, bad = [[4.0, 2.0], [2.0, 5.0]], [[1.0, 2.0], [2.0, 1.0]]
    (got,) = hloc.evaluate(module, np.array([good, bad], np.float32))
    want = np.linalg.cholesky(np.array(good))
    np.testing.assert_allclose(
        got[0], want if lower == "true" else want.T, **bounds("f32 few roundings")
    )
    assert np.isnan(got[1]).all()
