"""Every rule keeps the value of what it replaces, on modules drawn from its own pattern.

Constants and inputs are full of zeros of both signs, infinities, NaN, subnormal and extreme
numbers; sizes 0 and 1 and odd layouts are among the drawings. Exact rules must keep every bit, a
NaN's payload excepted; the others are held to a tolerance on ordinary numbers.
"""

import zlib
from typing import Any

import numpy as np
import pytest

import hloc
from hloc.dtypes import F32, PRED, S16, S32, U8, U32, DType, dtype_of_numpy
from hloc.errors import HloError
from hloc.ir.clone import clone_module
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.opt.pass_base import PassContext
from hloc.opt.pattern import match
from hloc.opt.rewriter import rewrite
from hloc.opt.rule import Rule, RuleSet
from hloc.opt.rules import ALL_RULES
from hloc.shapes import ArrayShape, leaves
from tests.unit.opt.rule_modules import ELEMENTWISE, DoesNotFitError, Hint, RuleModule

Array = np.ndarray[Any, np.dtype[Any]]

ATTEMPTS = 6000
EXAMPLES = 6

SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-310, 1e-40, 1e-7, 3e38, -6e4, 1e308, 1.0, -1.0)
LARGER = ((4,), (2, 3), (3, 2), (4, 1), (2, 2, 3))
HINTS: dict[str, Hint] = {
    "elementwise-before-broadcast": Hint(opcodes=ELEMENTWISE, leaves=("broadcast",), dims=LARGER),
    "elementwise-before-reshape": Hint(opcodes=ELEMENTWISE, leaves=("reshape",), dims=LARGER),
    "concatenate-nested": Hint(leaves=("concatenate",), dims=LARGER),
    "concatenate-slices": Hint(leaves=("slice",), dims=LARGER),
    "concatenate-splats": Hint(leaves=("constant",), dims=LARGER, dtypes=(PRED, F32)),
    "dynamic-slice-constant": Hint(leaves=("constant",)),
    "compare-converted-pred": Hint(dtypes=(PRED,), operand_dtypes=(PRED, S32, F32)),
    "reduce-reduce": Hint(dims=((), (2,), (2, 3)), dtypes=(PRED, S32, F32)),
    **{
        f"compare-{name}": Hint(dtypes=(PRED,), operand_dtypes=(PRED,))
        for name in ("equal-true", "equal-false", "not-equal-true", "not-equal-false")
    },
    **{
        f"compare-{name}": Hint(dtypes=(PRED,), operand_dtypes=(U32, U8))
        for name in ("below-zero", "not-below-zero", "zero-above", "zero-not-above")
    },
    **{
        name: Hint(dtypes=(PRED,), operand_dtypes=(S32, F32, PRED), same=0.8)
        for name in ("and-contrary", "or-contrary", "and-or-bounds")
    },
    "compare-decided": Hint(leaves=("iota", "convert"), dtypes=(PRED,), operand_dtypes=(S32, U8)),
    "constant-as-iota": Hint(dims=((16,), (17,), (4, 5), (2, 3, 4)), dtypes=(S32, U8)),
    "select-update": Hint(same=0.7),
    "select-update-first": Hint(same=0.7),
    "remainder-of-sum": Hint(leaves=("iota",), dtypes=(S32, U8)),
    "pad-pad": Hint(dims=LARGER, same=0.5),
    "common-factor": Hint(same=0.5),
    "common-factor-float": Hint(same=0.5, dtypes=(F32,)),
    "convert-wide-operation": Hint(dtypes=(U8, S16, U32), operand_dtypes=(U8, S16, U32)),
    "compare-selected": Hint(dtypes=(PRED,)),
}

NOT_DRAWN: dict[str, str] = {}
"""Rules that no drawing fits, and why; goldens alone guard these."""


def inputs_of(module: Module, random: np.random.Generator, *, ordinary: bool) -> list[Array]:
    found = []
    for parameter in module.entry.parameters:
        for _, leaf in leaves(parameter.shape):
            assert isinstance(leaf, ArrayShape)
            found.append(drawn_array(leaf.dtype, leaf.dims, random, ordinary=ordinary))
    return found


def drawn_array(
    dtype: DType, dims: tuple[int, ...], random: np.random.Generator, *, ordinary: bool
) -> Array:
    if dtype.is_pred:
        return np.asarray(random.integers(0, 2, dims)).astype(np.bool_)
    if dtype.is_integer:
        low = -(2 ** (dtype.bits - 1)) if dtype.is_signed else 0
        high = low + 2**dtype.bits - 1
        near = random.integers(max(low, -8), min(high, 8), dims, endpoint=True)
        far = random.choice(np.array([low, high, low + 1, 0, 1], dtype=object), dims)
        return np.asarray(np.where(random.random(dims) < 0.5, near, far)).astype(dtype.numpy)
    values = np.asarray(random.normal(0.0, 1.0, dims))
    if ordinary:
        return np.asarray(np.abs(values) + 0.1).astype(dtype.numpy)
    with np.errstate(all="ignore"):
        odd = random.choice(np.array(SPECIAL), dims)
        real = np.where(random.random(dims) < 0.5, values, odd)
        if dtype.is_complex:
            return np.asarray(real + 1j * random.normal(0.0, 1.0, dims)).astype(dtype.numpy)
        return np.asarray(real).astype(dtype.numpy)


def same_bits(a: Array, b: Array) -> bool:
    """Equal, signs of zeros included; any NaN equals any other."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind == "c":
        return same_bits(a.real, b.real) and same_bits(a.imag, b.imag)
    if a.dtype.kind in "biu":
        return bool((a == b).all())
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    nan = np.isnan(wide_a) & np.isnan(wide_b)
    equal = (wide_a == wide_b) & (np.signbit(wide_a) == np.signbit(wide_b))
    return bool((nan | equal).all())


def sums(module: Module) -> bool:
    """True if the order of adding floats, which is open, may show."""
    return any(
        i.opcode.name in ("reduce", "dot", "reduce-window") for i in module.entry.instructions
    )


def drawing(rule: Rule, seed: int) -> Module | None:
    """Return a module in which `rule` matches, or None."""
    try:
        module, root = RuleModule(rule, HINTS.get(rule.name, Hint()), seed).drawn()
        found = match(rule.pattern, root)
        if found is None or (rule.when is not None and not rule.when(root, found)):
            return None
        verify(module)
    except (DoesNotFitError, HloError):
        return None
    return module


def check(rule: Rule, module: Module, random: np.random.Generator) -> bool:
    """Let `rule` work on a copy and compare the values; False if its builder declined."""
    inputs = inputs_of(module, random, ordinary=rule.exactness != "exact")
    after = clone_module(module)
    context = PassContext(fast_math=True)
    if not rewrite(after, RuleSet.of((rule,)), context, "test"):
        return False
    assert not context.warnings, f"{context.warnings}\n{module}"
    verify(after)
    with np.errstate(all="ignore"):
        want, got = hloc.evaluate(module, *inputs), hloc.evaluate(after, *inputs)
    for g, w in zip(got, want, strict=True):
        if rule.exactness == "exact" and not sums(module):
            assert same_bits(g, w), f"{g} instead of {w} for {inputs}\n{module}\n{after}"
        else:
            assert near(g, w), f"{g} instead of {w} for {inputs}\n{module}\n{after}"
    return True


def near(a: Array, b: Array) -> bool:
    """True if results of numbers around 1 differ by a few roundings, made anywhere on the way."""
    dtype = dtype_of_numpy(a.dtype)
    if dtype is None or not (dtype.is_float or dtype.is_complex):
        return same_bits(a, b)
    wide = np.complex128 if dtype.is_complex else np.float64
    x, y = a.astype(wide), b.astype(wide)
    epsilon = 2.0**-dtype.mantissa_bits if dtype.is_float else 2.0**-23
    with np.errstate(all="ignore"):
        close = np.abs(x - y) <= 64 * epsilon * (16 + np.abs(y))
    return bool((close | (x == y) | (np.isnan(x) & np.isnan(y))).all())


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.name)
def test_rule_keeps_values(rule: Rule) -> None:
    first = zlib.crc32(rule.name.encode())
    fired = 0
    for seed in range(first, first + ATTEMPTS):
        module = drawing(rule, seed)
        if module is not None and check(rule, module, np.random.default_rng(seed)):
            fired += 1
        if fired == EXAMPLES:
            return
    if rule.name in NOT_DRAWN:
        return
    assert fired, f"no module was drawn in {ATTEMPTS} attempts where {rule.name} fires"
