"""Calls, loops and branches: computations are partitioned for the tilings they are called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.opt.spmd.annotations import shardings_of
from hloc.opt.spmd.region import Region
from hloc.opt.spmd.tiling import Tiling
from hloc.opt.spmd.trees import (
    Tree,
    as_instruction,
    leaf_shapes,
    local_shape,
    parameter_of,
    tiling_at,
    tree_of,
    whole_leaves,
)

WalkFunction: TypeAlias = Callable[[Region, Computation, Mapping[Instruction, Tree]], Tree]
"""`walk(region, computation, values)` partitions a computation into a region.

`values` are those of its parameters; returns the value of its root.
"""

_ROUNDS = 3
"""Limit on attempts to find the tilings of a loop's state."""


def inlined(
    walk: WalkFunction, region: Region, inst: Instruction, operands: Sequence[Tree]
) -> Tree:
    """Partition the computation of a call in the place of the call."""
    (body,) = inst.called
    return walk(region, body, dict(zip(body.parameters, operands, strict=True)))


def partition_while(
    walk: WalkFunction, region: Region, inst: Instruction, operands: Sequence[Tree]
) -> Tree:
    """Partition a loop with its state tiled as wanted, or as its body returns it."""
    (initial,) = operands
    shapes = leaf_shapes(inst.shape)
    wanted = [
        None if sharding is None else tiling_at(region, sharding, shape)
        for sharding, shape in zip(shardings_of(inst), shapes, strict=True)
    ]
    condition, body = inst.called
    for _ in range(_ROUNDS):
        state, tilings = as_instruction(region, initial, wanted)
        partitioned, results = _state_computation(walk, region, body, tilings, None)
        region.shared.module.remove_computation(partitioned)
        finer = [_finer(old, new) for old, new in zip(tilings, results, strict=True)]
        if finer == tilings:
            break
        wanted = finer
    state, tilings = as_instruction(region, initial, wanted)
    called = (
        _state_computation(walk, region, condition, tilings, [region.whole(0)])[0],
        _state_computation(walk, region, body, tilings, tilings)[0],
    )
    added = region.computation.add(
        inst.opcode, state.shape, (state,), inst.attributes, called, name=inst.name,
        common=replace(inst.common, sharding=None, frontend_attributes=()), span=inst.span,
    )  # fmt: skip
    return tree_of(region, added, inst.shape, list(tilings))


def _state_computation(
    walk: WalkFunction,
    outer: Region,
    computation: Computation,
    tilings: Sequence[Tiling | None],
    wanted: Sequence[Tiling | None] | None,
) -> tuple[Computation, list[Tiling | None]]:
    """Partition a computation of one parameter, whose arrays have `tilings`.

    Args:
        walk: partitions a computation into a region.
        outer: the computation that calls it.
        computation: a body, a condition or a branch.
        tilings: of the arrays of the parameter.
        wanted: the tilings of the results, None for any.

    Returns:
        The computation, and the tilings of its results.
    """
    module = outer.shared.module
    region = Region(outer.shared, module.add_computation(f"{computation.name}_spmd"))
    (parameter,) = computation.parameters
    argument = parameter_of(region, parameter, tilings)
    result = walk(region, computation, {parameter: argument})
    root, used = as_instruction(region, result, wanted or [])
    region.computation.set_root(root)
    return region.computation, used


def partition_conditional(
    walk: WalkFunction, region: Region, inst: Instruction, operands: Sequence[Tree]
) -> Tree:
    """Partition branches, which take operands with any tiling and return whole or wanted ones."""
    selector, _ = as_instruction(region, operands[0], whole_leaves(region, operands[0]))
    given = shardings_of(inst)
    arrays = list(leaf_shapes(inst.shape))
    tilings = [tiling_at(region, s, a) for s, a in zip(given, arrays, strict=True)]
    called, arguments = [], []
    for computation, tree in zip(inst.called, operands[1:], strict=True):
        argument, used = as_instruction(region, tree, [])
        arguments.append(argument)
        partitioned, results = _state_computation(walk, region, computation, used, tilings)
        called.append(partitioned)
        tilings = [_in_region(old, new) for old, new in zip(tilings, results, strict=True)]
    pending = list(tilings)
    added = region.computation.add(
        inst.opcode, local_shape(inst.shape, pending), (selector, *arguments),
        inst.attributes, called, name=inst.name,
        common=replace(inst.common, sharding=None, frontend_attributes=()), span=inst.span,
    )  # fmt: skip
    return tree_of(region, added, inst.shape, list(tilings))


def _finer(old: Tiling | None, new: Tiling | None) -> Tiling | None:
    """Return the tiling of loop state that enters with `old` and is returned with `new`."""
    if old is None or new is None:
        return old
    return replace(old if old.axes else new, manual=old.manual | new.manual)


def _in_region(tiling: Tiling | None, result: Tiling | None) -> Tiling | None:
    """Return `tiling` in the manual regions of one of its branches."""
    if tiling is None or result is None:
        return tiling
    return replace(tiling, manual=tiling.manual | result.manual)
