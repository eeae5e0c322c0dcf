"""Equivalence of two modules for all inputs, or a counterexample that the evaluator confirms."""

from __future__ import annotations

import time
from typing import Any, Literal

import numpy as np

from hloc.errors import HloError
from hloc.evaluator.run import evaluate_module
from hloc.ir.module import Module
from hloc.ir.traversal import live_computations
from hloc.lazy_dataclass import dataclass
from hloc.prove.solver import Answer, ask, z3_module
from hloc.prove.symbolic import SymbolicRun, can_follow
from hloc.prove.terms import CannotFollowError, Term, Value
from hloc.shapes import ArrayShape, Shape, leaves, same_dims

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Equivalence:
    """The result of comparing two modules.

    Attributes:
        verdict: equal for all inputs, different for one at least, or unknown.
        reason: why it is unknown.
        elements: number of elements of the results that were compared.
        inputs: the counterexample, one array per leaf of the parameters.
        outputs: the evaluator's results of both modules for the counterexample.
    """

    verdict: Literal["equal", "different", "unknown"]
    reason: str = ""
    elements: int = 0
    inputs: tuple[Array, ...] = ()
    outputs: tuple[tuple[Array, ...], tuple[Array, ...]] = ((), ())


def compare_modules(first: Module, second: Module, *, seconds: float = 60.0) -> Equivalence:
    """Return whether the entry computations give the same results for all inputs.

    Args:
        first: a verified module with static shapes.
        second: a module with parameters and results of the same types and sizes.
        seconds: total time of the solver.

    Raises:
        HloError: parameters or results differ in type or size, or Z3 is not installed.
    """
    _check_signatures(first, second)
    z3_module()
    strange = sorted({*_not_followed(first), *_not_followed(second)})
    if strange:
        return Equivalence("unknown", f"no proofs of {', '.join(strange)}")
    run = SymbolicRun()
    try:
        inputs = run.inputs(first.entry)
        results = [run.call(module.entry, *inputs) for module in (first, second)]
    except CannotFollowError as fault:
        return Equivalence("unknown", f"{fault.opcode}: {fault.reason}")
    pairs = list(dict.fromkeys(pairs_of(*results)))
    return _compared(first, second, pairs, seconds)


def pairs_of(a: Value, b: Value) -> list[tuple[Term, Term]]:
    """Return pairs of the elements of two results of one shape, tuples flattened."""
    if isinstance(a, tuple):
        return [pair for x, y in zip(a, b, strict=True) for pair in pairs_of(x, y)]
    return list(zip(a.reshape(-1), b.reshape(-1), strict=True))


def _compared(
    first: Module, second: Module, pairs: list[tuple[Term, Term]], seconds: float
) -> Equivalence:
    """Ask for one element after another, within the total time."""
    end = time.monotonic() + seconds
    unknown = ""
    for pair in pairs:
        left_ms = int(1000 * (end - time.monotonic()))
        if left_ms <= 0:
            return Equivalence("unknown", f"no answer within {seconds:g} s", len(pairs))
        answer = ask([pair], timeout_ms=left_ms)
        if answer.verdict == "different":
            return _confirmed(first, second, answer, len(pairs))
        unknown = unknown or answer.reason
    return Equivalence("unknown" if unknown else "equal", unknown, len(pairs))


def _confirmed(first: Module, second: Module, answer: Answer, count: int) -> Equivalence:
    """Run both modules on the solver's inputs; an unconfirmed difference is unknown."""
    inputs = tuple(_inputs(first, answer.inputs or {}))
    left, right = (tuple(evaluate_module(module, inputs)) for module in (first, second))
    if all(same_values(a, b).all() for a, b in zip(left, right, strict=True)):
        return Equivalence("unknown", "the evaluator does not confirm Z3's counterexample", count)
    return Equivalence("different", "", count, inputs, (left, right))


def _inputs(module: Module, values: dict[Any, Any]) -> list[Array]:
    """Return one array per leaf of the parameters; elements that do not matter are 0."""
    arrays = []
    for number, parameter in enumerate(module.entry.parameters):
        for path, leaf in leaves(parameter.shape):
            assert isinstance(leaf, ArrayShape)
            array = np.zeros(leaf.elements, leaf.dtype.numpy)
            for index in range(leaf.elements):
                place = (number, *path, index)
                if leaf.dtype.is_complex:
                    parts = [values.get((*place, part), 0) for part in ("real", "imag")]
                    array[index] = complex(*parts)
                else:
                    array[index] = values.get(place, array[index])
            arrays.append(array.reshape(leaf.dims))
    return arrays


def _not_followed(module: Module) -> set[str]:
    """Return the opcodes of the module that have no semantics in terms."""
    live = live_computations(module)
    return {i.opcode.name for c in live for i in c.instructions if not can_follow(i.opcode)}


def _check_signatures(first: Module, second: Module) -> None:
    ours, theirs = first.entry.parameters, second.entry.parameters
    if len(ours) != len(theirs):
        raise HloError(
            f"the first module has {len(ours)} parameters, but the second has {len(theirs)}"
        )
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        _check_same(a.shape, b.shape, f"parameter {number}")
    _check_same(first.entry.root.shape, second.entry.root.shape, "the result")


def _check_same(a: Shape, b: Shape, what: str) -> None:
    ours, theirs = list(leaves(a)), list(leaves(b))
    same = len(ours) == len(theirs) and all(
        isinstance(x, ArrayShape)
        and isinstance(y, ArrayShape)
        and x.dtype is y.dtype
        and same_dims(x, y)
        and path == other
        for (path, x), (other, y) in zip(ours, theirs, strict=True)
    )
    if not same:
        raise HloError(
            f"{what} of the first module has shape {a.text_without_layout}, but that of the "
            f"second has {b.text_without_layout}"
        )


def same_values(want: Array, got: Array, *, ignores_zero_sign: bool = False) -> Array:
    """Return where two arrays are equal: signs of zeros count, payloads of NaN do not."""
    if want.dtype.kind in "biu" or want.dtype.name.startswith(("int", "uint")):
        return np.asarray(want == got)
    if want.dtype.kind == "c":
        real = same_values(want.real, got.real, ignores_zero_sign=ignores_zero_sign)
        imag = same_values(want.imag, got.imag, ignores_zero_sign=ignores_zero_sign)
        return np.asarray(real & imag)
    with np.errstate(all="ignore"):
        a, b = want.astype(np.float64), got.astype(np.float64)
        equal = (a == b) & (ignores_zero_sign | (np.signbit(a) == np.signbit(b)))
        return np.asarray(equal | (np.isnan(a) & np.isnan(b)))
