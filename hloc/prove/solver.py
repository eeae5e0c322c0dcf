"""Asks Z3 whether terms can differ."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass
from hloc.prove.meanings.table import NoMeaningError, expression
from hloc.prove.terms import SYMBOL, Term


@dataclass(frozen=True, slots=True)
class Answer:
    """Z3's answer to the question "can any of these pairs differ?".

    Attributes:
        verdict: `equal`, `different` or `unknown`.
        reason: why it is unknown.
        inputs: if different, the value of each symbol, by its detail; NumPy scalars.
    """

    verdict: str
    reason: str = ""
    inputs: dict[Any, Any] | None = None


EQUAL = Answer("equal")


@cache
def z3_module() -> Any:
    """Import Z3.

    Raises:
        HloError: it is not installed.
    """
    try:
        import z3
    except ImportError:
        raise HloError(
            "proofs need Z3, which is not installed",
            notes=("pip install z3-solver, or the dev extra: pip install 'hloc[dev]'",),
        ) from None
    return z3


def ask(
    pairs: Sequence[tuple[Term, Term]], *, timeout_ms: int, ignores_zero_sign: bool = False
) -> Answer:
    """Return whether the two terms of every pair are equal for all inputs.

    Zeros of floats are compared with their sign; all NaNs are equal.

    Args:
        pairs: two terms of one type each; a pair of identical terms is equal without Z3.
        timeout_ms: time limit in milliseconds.
        ignores_zero_sign: treat -0 and +0 as equal.

    Raises:
        HloError: Z3 is not installed.
    """
    pairs = [(a, b) for pair in pairs for a, b in _parts(pair) if a is not b]
    if not pairs:
        return EQUAL
    z = z3_module()
    try:
        known = _expressions(z, pairs)
    except NoMeaningError as fault:
        return Answer("unknown", f"no meaning for {fault}")
    differences = [_difference(z, known[a], known[b], ignores_zero_sign) for a, b in pairs]
    differences = [d for d in differences if not z.is_false(d)]
    if not differences:
        return EQUAL
    solver = z.SolverFor("QF_FPBV" if any(t.dtype.is_float for t in known) else "QF_BV")
    solver.set("timeout", timeout_ms)
    solver.add(z.Or(*differences))
    found = solver.check()
    if found == z.unsat:
        return EQUAL
    if found == z.unknown:
        return Answer("unknown", f"no answer from Z3 within {timeout_ms / 1000:g} s")
    model = solver.model()
    return Answer(
        "different",
        inputs={t.detail: _value(z, model, t, known[t]) for t in known if t.op == SYMBOL},
    )


def _parts(pair: tuple[Term, Term]) -> list[tuple[Term, Term]]:
    a, b = pair
    if a is not b and a.op == b.op == "complex":
        return list(zip(a.args, b.args, strict=True))
    return [pair]


def _expressions(z: Any, pairs: Sequence[tuple[Term, Term]]) -> dict[Term, Any]:
    """Return the expressions of all terms of `pairs`; operands come before their users."""
    below: set[Term] = set()
    stack = [term for pair in pairs for term in pair]
    while stack:
        term = stack.pop()
        if term not in below:
            below.add(term)
            stack.extend(term.args)
    known: dict[Term, Any] = {}
    missing: dict[str, None] = {}
    for term in sorted(below, key=lambda term: term.number):
        if any(arg not in known for arg in term.args):
            continue
        try:
            known[term] = expression(z, term, [known[arg] for arg in term.args])
        except NoMeaningError as fault:
            missing[str(fault)] = None
    if missing:
        raise NoMeaningError(", ".join(missing))
    return known


def _difference(z: Any, a: Any, b: Any, ignores_zero_sign: bool) -> Any:
    """Return the Bool "a and b differ", false if simplification shows that they do not."""
    if z.is_bv(a):
        # Sums of products in normal form: a wide multiplication is not decomposed into bits.
        rest = z.simplify(a - b, som=True)
        return z.BoolVal(False) if z.is_bv_value(rest) and rest.as_long() == 0 else a != b
    differ = z.simplify(z.Not(a == b))
    return z.And(differ, z.Not(z.fpEQ(a, b))) if ignores_zero_sign and z.is_fp(a) else differ


def _value(z: Any, model: Any, term: Term, symbol: Any) -> Any:
    """Return the value of a symbol in the model, as a NumPy scalar of its type."""
    dtype, value = term.dtype, model.eval(symbol, model_completion=True)
    if dtype.is_pred:
        return np.bool_(z.is_true(value))
    if dtype.is_integer:
        number = value.as_signed_long() if dtype.is_signed else value.as_long()
        return np.asarray(number).astype(dtype.numpy)[()]
    if z.is_true(z.simplify(z.fpIsNaN(value))):
        return np.asarray(np.nan).astype(dtype.numpy)[()]
    bits = z.simplify(z.fpToIEEEBV(value)).as_long()
    return np.asarray(bits, dtype=f"u{dtype.storage_bytes}").view(dtype.numpy)[()]
