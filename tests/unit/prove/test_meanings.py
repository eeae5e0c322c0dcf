"""Every Z3 meaning agrees with the evaluator: on values of narrow types, on the ends of wide ones.

Protects the proofs themselves: a wrong meaning would prove wrong rules, or refuse right ones.
"""

from typing import Any

import numpy as np
import pytest

from hloc.dtypes import DTYPES, PRED, DType
from hloc.evaluator.run import evaluate_computation
from hloc.ir.computation import Computation
from hloc.ir.module import Module
from hloc.ops.builder import Builder
from hloc.prove.equivalence import same_values
from hloc.prove.meanings.floats import FLOATS, IEEE
from hloc.prove.solver import ask
from hloc.prove.symbolic import SymbolicRun
from hloc.prove.terms import Terms
from hloc.shapes import ArrayShape
from tests.prove.bounds import constants
from tests.prove.exhaustive import MAX_BITS, every_value, parameter_bits
from tests.unit.prove.computations import (
    DIRECTIONS,
    INTEGER_CASES,
    INTEGER_TYPES,
    computation_of,
)
from tests.waiting import PATIENCE

pytest.importorskip("z3")

FLOAT_TYPES = tuple(DTYPES[name] for name in IEEE)
SAMPLES = 24
"""Inputs on which one opcode and type are compared."""


CASES = [
    *INTEGER_CASES,
    *[(name, dtype) for name in FLOATS for dtype in FLOAT_TYPES],
    *[(f"compare {direction}", d) for direction in DIRECTIONS for d in FLOAT_TYPES],
    *[(name, dtype) for name in ("select", "is-finite") for dtype in FLOAT_TYPES],
]


def convert_of(source: DType, target: DType) -> Computation:
    computation = Module("m").add_computation("e")
    b = Builder(computation)
    computation.set_root(b.convert(b.parameter(0, ArrayShape(source)), target))
    return computation


def inputs_of(computation: Computation, random: np.random.Generator) -> list[Any]:
    """Return arrays of inputs: a sample of all values, or of the ends and small numbers."""
    if parameter_bits(computation) <= MAX_BITS:
        arrays = every_value(computation)
        if len(arrays[0]) <= SAMPLES:
            return arrays
        chosen = random.choice(len(arrays[0]), SAMPLES, replace=False)
        return [array[chosen] for array in arrays]
    found = []
    for parameter in computation.parameters:
        values = constants(parameter.array.dtype, 2)
        chosen = random.integers(len(values), size=SAMPLES)
        found.append(np.array([values[n] for n in chosen], parameter.array.dtype.numpy))
    return found


def check(computation: Computation) -> None:
    """Ask Z3 whether the term of each input differs from what the evaluator says."""
    inputs = inputs_of(computation, np.random.default_rng(7))
    want = np.asarray(evaluate_computation(computation, *inputs))
    dtype = computation.root.array.dtype
    for index in range(len(inputs[0])):
        terms = Terms()
        given = [
            _scalar(terms, array[index], parameter.array.dtype)
            for array, parameter in zip(inputs, computation.parameters, strict=True)
        ]
        got = SymbolicRun(terms).call(computation, *given)[()]
        known = terms.literal(want[index], dtype)
        answer = ask([(got, known)], timeout_ms=1000 * PATIENCE)
        assert answer.verdict == "equal", (
            f"{computation.root} of {[array[index] for array in inputs]} is {want[index]}: {answer}"
        )


def _scalar(terms: Terms, value: Any, dtype: DType) -> Any:
    array = np.empty((), dtype=object)
    array[()] = terms.literal(value, dtype)
    return array


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=lambda part: str(part))
def test_meaning_agrees_with_the_evaluator(name: str, dtype: DType) -> None:
    check(computation_of(name, dtype))


@pytest.mark.parametrize("source", [PRED, *INTEGER_TYPES, *FLOAT_TYPES], ids=str)
def test_convert_agrees_with_the_evaluator(source: DType) -> None:
    for target in (PRED, *INTEGER_TYPES, *FLOAT_TYPES):
        if target is not source:
            check(convert_of(source, target))


def test_the_comparison_of_values_tells_zeros_apart() -> None:
    zeros = np.array([0.0, -0.0, np.nan])
    assert same_values(zeros, -zeros).tolist() == [False, False, True]
    assert same_values(zeros, -zeros, ignores_zero_sign=True).all()
