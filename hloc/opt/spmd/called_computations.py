"""Calls, loops and branches: computations are partitioned for the tilings they are called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.sharding import LeafSharding
from hloc.opt.spmd.annotations import shardings_of
from hloc.opt.spmd.region import Region
from hloc.opt.spmd.tiling import Tiling
from hloc.opt.spmd.trees import (
    Tree,
    as_instruction,
    leaf_shapes,
    local_shape,
    parameter_of,
    replicated_leaves,
    tiling_at,
    tree_of,
)

WalkFunction: TypeAlias = Callable[[Region, Computation, Mapping[Instruction, Tree]], Tree]
"""`walk(region, computation, values)` partitions a computation into a region.

`values` are those of its parameters; returns that of its root.
"""

_ROUNDS = 3
"""How often the tilings of the state of a loop are tried."""


def inlined(
    walk: WalkFunction, region: Region, inst: Instruction, operands: Sequence[Tree]
) -> Tree:
    """Partition the computation of a call in the place of the call."""
    (body,) = inst.called
    return walk(region, body, dict(zip(body.parameters, operands, strict=True)))


def partition_while(
    walk: WalkFunction, region: Region, inst: Instruction, operands: Sequence[Tree]
) -> Tree:
    """Keep the state of a loop split as is wanted, or as its body makes it."""
    (initial,) = operands
    wanted = list(shardings_of(inst))
    condition, body = inst.called
    for _ in range(_ROUNDS):
        state, tilings = as_instruction(region, initial, wanted)
        made, results = _state_computation(walk, region, body, tilings, None)
        region.shared.module.remove_computation(made)
        finer = [_finer(old, new) for old, new in zip(tilings, results, strict=True)]
        if finer == tilings:
            break
        wanted = [tiling.sharding() if tiling else None for tiling in finer]
    state, tilings = as_instruction(region, initial, wanted)
    kept = [tiling.sharding() if tiling else None for tiling in tilings]
    called = (
        _state_computation(walk, region, condition, tilings, [LeafSharding("replicated")])[0],
        _state_computation(walk, region, body, tilings, kept)[0],
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
    wanted: Sequence[LeafSharding | None] | None,
) -> tuple[Computation, list[Tiling | None]]:
    """Partition a computation of one parameter, whose arrays have `tilings`.

    Args:
        walk: partitions a computation into a region.
        outer: the computation that calls it.
        computation: a body, a condition or a branch.
        tilings: of the arrays of the parameter; None in a manual region.
        wanted: the shardings of the results, None for as they come.

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
    """Branches take their operands as they are and return whole arrays, or as is wanted."""
    selector, _ = as_instruction(region, operands[0], replicated_leaves(operands[0]))
    given = shardings_of(inst)
    arrays = list(leaf_shapes(inst.shape))
    tilings = [tiling_at(region, s, a) for s, a in zip(given, arrays, strict=True)]
    shardings = [t.sharding() if t else None for t in tilings]
    called, arguments = [], []
    for computation, tree in zip(inst.called, operands[1:], strict=True):
        argument, used = as_instruction(region, tree, [])
        arguments.append(argument)
        called.append(_state_computation(walk, region, computation, used, shardings)[0])
    pending = list(tilings)
    added = region.computation.add(
        inst.opcode, local_shape(inst.shape, pending), (selector, *arguments),
        inst.attributes, called, name=inst.name,
        common=replace(inst.common, sharding=None, frontend_attributes=()), span=inst.span,
    )  # fmt: skip
    return tree_of(region, added, inst.shape, list(tilings))


def _finer(old: Tiling | None, new: Tiling | None) -> Tiling | None:
    """Return the tiling for a part of the state of a loop that enters as `old`, ends as `new`."""
    return new if old is not None and new is not None and old.is_replicated else old
