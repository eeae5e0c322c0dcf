"""Builders and conditions that many rules share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.opt.make import make, reshaped, splat
from hloc.opt.pattern import Found
from hloc.opt.rule import Rule
from hloc.opt.values import is_float, is_integer, splat_value

Term: TypeAlias = Callable[[Computation, Instruction, Found], Instruction]
"""A builder that never declines."""

Attribute: TypeAlias = Callable[[Instruction, Found], Any]


def answer(name: str) -> Term:
    """Return a builder that returns the instruction bound to `name`."""
    return lambda _computation, _inst, found: found[name]


def filled(value: float) -> Term:
    """Return a builder of an array of the root's shape, full of `value`."""
    return lambda computation, inst, _found: splat(computation, inst.array, value)


def computed(text: str, value: Callable[..., Any], names: str = "cd") -> Term:
    """Return a builder of an array of the root's shape, full of a number made of splats.

    `value` takes arrays of one element for the splats that `names` stand for; integers wrap as
    HLO's do. `text` says what it returns, in those names.
    """

    def build(computation: Computation, inst: Instruction, found: Found) -> Instruction:
        splats = [np.array([splat_value(found[name])]) for name in names]
        with np.errstate(all="ignore"):
            number = value(*splats).astype(inst.array.dtype.numpy)[0]
        return splat(computation, inst.array, number)

    build.__doc__ = text
    return build


def apply(opcode: str, *operands: str | Term, **attributes: Attribute) -> Term:
    """Return a builder of `opcode` of names and of other builders, all in the shape of the root.

    `apply("multiply", "x", apply("rsqrt", "y"))` makes x * rsqrt(y). An attribute is a function of
    the root and the match.
    """
    parts = [answer(part) if isinstance(part, str) else part for part in operands]
    return lambda computation, inst, found: make(
        computation,
        opcode,
        inst.shape,
        *(part(computation, inst, found) for part in parts),
        **{name: value(inst, found) for name, value in attributes.items()},
    )


def as_reshape(computation: Computation, inst: Instruction, found: Found) -> Instruction:
    """Reshape x."""
    return reshaped(computation, found["x"], inst.array)


def same_shape(inst: Instruction, found: Found) -> bool:
    """Layouts are compared too."""
    return inst.shape == found["x"].shape


def wide_integer(inst: Instruction, _found: Found) -> bool:
    return is_integer(inst) and inst.array.dtype.bits >= 8


def float_with_sign(inst: Instruction, _found: Found) -> bool:
    """The negative of a float without a sign bit is NaN."""
    return is_float(inst) and inst.array.dtype.has_sign


def root(test: Callable[[Instruction], bool]) -> Callable[[Instruction, Found], bool]:
    """Return the condition that `test` holds for the root."""
    return lambda inst, _found: test(inst)


def first_operand(test: Callable[[Instruction], bool]) -> Callable[[Instruction, Found], bool]:
    """Return the condition that `test` holds for operand 0 of the root."""
    return lambda inst, _found: test(inst.operands[0])


reassociates = partial(Rule, when=root(is_float), exactness="reassociates")
assumes_finite = partial(Rule, when=root(is_float), exactness="assumes-finite")
"""Rules of floats that are not exact; see `Exactness`."""
