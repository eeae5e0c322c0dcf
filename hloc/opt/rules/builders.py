"""Builders that many rules share."""

from __future__ import annotations

from hloc.opt.make import make, splat
from hloc.opt.rule import Build


def answer(name: str) -> Build:
    """Return a builder whose answer is what `name` stands for."""
    return lambda _computation, _inst, found: found[name]


def filled(value: float) -> Build:
    """Return a builder of an array of the root's shape, full of `value`."""
    return lambda computation, inst, _found: splat(computation, inst.array, value)


def apply(opcode: str, *names: str) -> Build:
    """Return a builder of `opcode` of what `names` stand for, in the shape of the root."""
    return lambda computation, inst, found: make(
        computation, opcode, inst.shape, *(found[name] for name in names)
    )
