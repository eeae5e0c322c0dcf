"""The table "where hloc and XLA differ" in docs/numerics.md is true: hloc, XLA and the exact value.

The cases are modules in `tests/golden/numerics`; where jaxlib is installed, XLA runs them too.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import hloc
from docs.generators.numerics import ANY, CAUSES, Difference, causes, differences
from hloc.jax.xla_program import is_installed, run_by_xla
from hloc.parser.literals import parse_literal
from hloc.shapes import ArrayShape, Shape, leaves
from hloc.source import SourceFile

Array = np.ndarray[Any, np.dtype[Any]]

CASES = differences()
IDS = [case.name.replace(" ", "-") for case in CASES]
WAYS: dict[str, Callable[[Difference], Any]] = {
    "evaluator": lambda case: hloc.evaluate(hloc.parse(case.text), *inputs_of(case)),
    "O0": lambda case: hloc.compile(hloc.parse(case.text), opt_level=0)(*inputs_of(case)),
    "O2": lambda case: hloc.compile(hloc.parse(case.text), opt_level=2)(*inputs_of(case)),
}
# Elementary functions are within 4 ulp (docs/accuracy.md); one more for the digits of the table.
ULPS = 5
EXACT = {"Fraction": Fraction, "math": math, "round": round, "sum": sum, "range": range}
EXACT |= {"min": min, "abs": abs, "pow": pow}
EXACT |= {"f16": lambda x: float(np.float16(x)), "f32": lambda x: float(np.float32(x))}


def inputs_of(case: Difference) -> list[Array]:
    parameters = hloc.parse(case.text).entry.parameters
    return [array(text, p.shape) for text, p in zip(case.inputs, parameters, strict=True)]


def array(text: str, shape: Shape) -> Array:
    return parse_literal(SourceFile(text, "case"), text, 0, shape).array


def result_shapes(case: Difference) -> list[ArrayShape]:
    found = [leaf for _, leaf in leaves(hloc.parse(case.text).entry.root.shape)]
    assert all(isinstance(leaf, ArrayShape) for leaf in found)
    return [leaf for leaf in found if isinstance(leaf, ArrayShape)]


def assert_is(got: Sequence[Array], case: Difference, literals: Sequence[str]) -> None:
    """Compare exactly, but floats within `ULPS`; NaN and the signs of zeros must agree."""
    for value, shape, text in zip(got, result_shapes(case), literals, strict=True):
        if text == ANY:
            continue
        found, want = np.asarray(value), array(text, shape)
        assert found.shape == want.shape
        if not shape.dtype.is_float:
            np.testing.assert_array_equal(found, want)
            continue
        a, b = found.astype(np.float64), want.astype(np.float64)
        assert (np.isnan(a) == np.isnan(b)).all(), f"{a} is not {b}"
        number = ~np.isnan(b)
        assert (np.signbit(a) == np.signbit(b))[number].all(), f"{a} is not {b}"
        finite = np.isfinite(a) & np.isfinite(b)
        assert (finite | (a == b))[number].all(), f"{a} is not {b}"
        error = np.abs(a[finite] - b[finite])
        assert (error <= ULPS * units(want)[finite]).all(), f"{a} is not {b}"


def units(want: Array) -> Array:
    """Return one unit in the last place of each element, 0 for what is not finite."""
    finite = np.isfinite(want.astype(np.float64))
    return np.abs(np.spacing(np.where(finite, want, 0))).astype(np.float64) * finite


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_hloc_gives_what_the_table_says(case: Difference, way: str) -> None:
    found = WAYS[way](case)
    assert_is(found if isinstance(found, list | tuple) else [found], case, case.hloc)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_true_value_is_that_of_exact_arithmetic(case: Difference) -> None:
    """A row without a true value, or without arithmetic behind it, is one of a definition."""
    if not case.by:
        assert set(case.true) == {ANY} or case.cause == "process-ends"
        return
    value = eval(case.by, {"__builtins__": {}}, EXACT)  # our own text
    values = value if len(case.true) > 1 else [value]
    for text, shape, exact in zip(case.true, result_shapes(case), values, strict=True):
        literal = array(text, shape)
        unit = units(literal) if shape.dtype.is_float else np.zeros(literal.shape)
        got = np.asarray(exact, dtype=object).astype(np.float64)
        want = literal.astype(np.float64)
        with np.errstate(invalid="ignore"):
            error = np.abs(got - want)
        same = (got == want) | (np.isnan(got) & np.isnan(want)) | (error <= unit)
        assert same.all(), f"{want} is not {got}"


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_row_says_that_the_two_differ_and_who_is_right(case: Difference) -> None:
    assert case.right in ("hloc", "XLA", "both")
    assert case.why
    assert case.xla != case.hloc or case.xla == (ANY,)
    assert (case.hloc == case.true) or case.right != "hloc"


@pytest.mark.jax
@pytest.mark.parametrize("case", [c for c in CASES if c.xla_runs], ids=lambda c: c.cause)
def test_xla_gives_what_the_table_says(case: Difference) -> None:
    if not is_installed():
        pytest.skip("needs jaxlib")
    assert_is(run_by_xla(case.text, inputs_of(case))[0], case, case.xla)


def test_every_cause_of_the_conformance_run_has_a_module_or_is_none_of_values() -> None:
    """Rows that differ in an answer refer to a module of the table."""
    shown = {case.cause for case in CASES}
    found = causes()
    missing = [cause.name for cause in found if cause.kind == "answer" and cause.name not in shown]
    assert not missing, f"{CAUSES.name}: no case in tests/golden/numerics for {missing}"
    rows = [row for c in found for row in (*c.rows, *c.rows_at_0, *c.rows_at_2)]
    assert len(rows) == len(set(rows)), "a row has two causes"
