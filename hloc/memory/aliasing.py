"""Outputs that may alias donated arguments.

`input_output_alias` names the pairs; `buffer_donor` names arguments, which are paired here as in
XLA: each donor with the first free output of its shape.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from hloc.analysis.dataflow import nonempty_leaves
from hloc.analysis.in_place import may_overwrite, overwritten_operands, storage_of
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.memory.allocation import AliasedOutput, How
from hloc.memory.coalescing import Coalescer
from hloc.memory.values import Value, operand_leaves
from hloc.shapes import ShapeIndex

Leaves: TypeAlias = dict[tuple[int, ShapeIndex], tuple[int, Value]]
"""Leaf number and value by parameter number (-1 for the result) and shape index."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """The leaves of the entry's parameters and of its result that have elements."""

    parameters: Leaves
    outputs: Leaves


def share_with_parameters(
    module: Module, coalescer: Coalescer, boundary: Boundary
) -> list[tuple[Value, AliasedOutput]]:
    """Merge outputs with the parameters they may alias, where live ranges allow.

    Runs after the required merges and before the optional ones. Returns the aliases with the value
    of the parameter; every shared one is `overwritten` until `final_aliases` decides.
    """
    explicit = list(_explicit_pairs(module, coalescer, boundary))
    outputs = {pair.output for _, pair in explicit}
    donors = dict.fromkeys(
        boundary.parameters[donor]
        for donor in module.config.buffer_donors
        if donor in boundary.parameters
    )
    free = [leaf for leaf in boundary.outputs.values() if leaf[0] not in outputs]
    return [*explicit, *_donor_pairs(coalescer, list(donors), free)]


def _explicit_pairs(
    module: Module, coalescer: Coalescer, boundary: Boundary
) -> Iterator[tuple[Value, AliasedOutput]]:
    for alias in module.config.aliases:
        given = boundary.parameters.get((alias.parameter, alias.parameter_index))
        wanted = boundary.outputs.get((-1, alias.output_index))
        if given is None or wanted is None:
            continue  # arrays without elements
        (number, parameter), (output, result) = given, wanted
        size = parameter.size_bytes
        if _share(coalescer, parameter, result):
            yield parameter, AliasedOutput(number, output, "overwritten", size)
        else:
            how: How = "copied" if alias.must else "apart"
            yield parameter, AliasedOutput(number, output, how, size)


def _donor_pairs(
    coalescer: Coalescer, donors: list[tuple[int, Value]], free: list[tuple[int, Value]]
) -> Iterator[tuple[Value, AliasedOutput]]:
    """Yield pairs of donors and outputs; an output that updates a donor in place comes first."""
    if not donors:
        return
    origins = {output: _origin(coalescer, result) for output, result in free}
    for alike in (_storage_and_origin, _storage):
        outputs: dict[Hashable, dict[int, Value]] = {}
        for output, result in free:
            outputs.setdefault(alike(result, origins[output]), {})[output] = result
        taken: set[int] = set()
        for donor in list(donors):
            number, parameter = donor
            candidates = outputs.get(alike(parameter, parameter), {})
            for output, result in candidates.items():
                if _share(coalescer, parameter, result):
                    del candidates[output]
                    taken.add(output)
                    donors.remove(donor)
                    size = parameter.size_bytes
                    yield parameter, AliasedOutput(number, output, "overwritten", size)
                    break
        free = [leaf for leaf in free if leaf[0] not in taken]


def _storage(value: Value, _origin: Value) -> Hashable:
    return storage_of(value.shape)


def _storage_and_origin(value: Value, origin: Value) -> Hashable:
    return storage_of(value.shape), origin.number


def _origin(coalescer: Coalescer, result: Value) -> Value:
    """Return the value that `result` updates in place through a chain of updates."""
    values = coalescer.values
    while True:
        inst = result.inst
        if inst.is_a("while"):
            result = values.at(inst.operands[0], result.index)
            continue
        found = [
            (number, index)
            for number in overwritten_operands(inst)
            for index, _ in nonempty_leaves(inst.operands[number].shape)
            if may_overwrite(inst, number, result.index)
        ]
        if not found:
            return result
        number, index = found[0]
        result = values.at(inst.operands[number], index)


def _share(coalescer: Coalescer, parameter: Value, result: Value) -> bool:
    """Merge the two if they do not interfere; no other parameter may be overwritten."""
    own = coalescer.class_of[parameter.number]
    own.fixed = False
    if coalescer.may_share(parameter, result):
        return True
    own.fixed = True
    return False


def final_aliases(
    pairs: Iterable[tuple[Value, AliasedOutput]], coalescer: Coalescer
) -> tuple[AliasedOutput, ...]:
    """Return the final aliases, `in place` where that saves a copy; runs after all merges."""
    found: list[AliasedOutput] = []
    groups: dict[Instruction, int] = {}
    for parameter, pair in pairs:
        if pair.how == "overwritten" and any(_copies_spared(parameter, coalescer)):
            pair = replace(pair, how="in place")
        found.append(replace(pair, group=len(found)))
        if pair.how == "overwritten":
            for result, _ in _overwriting(parameter, coalescer):
                other = groups.setdefault(result.inst, len(found) - 1)
                old, new = found[-1].group, found[other].group
                found = [replace(a, group=new) if a.group == old else a for a in found]
    return tuple(found)


def _copies_spared(parameter: Value, coalescer: Coalescer) -> Iterator[bool]:
    """Yield, per result that overwrites `parameter`, whether another buffer would need a copy."""
    for result, number in _overwriting(parameter, coalescer):
        yield number in overwritten_operands(result.inst)


def _overwriting(parameter: Value, coalescer: Coalescer) -> Iterator[tuple[Value, int]]:
    """Yield the results in the buffer of `parameter` that overwrite it, and as which operand."""
    values = coalescer.values
    for result in coalescer.class_of[parameter.number].members:
        inst = result.inst
        if result.is_phi or result.fixed:
            continue
        for number, index in operand_leaves(inst):
            reads = values.at(inst.operands[number], index) is parameter
            if reads and may_overwrite(inst, number, result.index):
                yield result, number


def leaves_of(parts: Iterable[tuple[int, ShapeIndex, Value | None]]) -> Leaves:
    """Return the leaves that have a value, by owner and index; the numbers count all leaves."""
    return {
        (owner, index): (number, value)
        for number, (owner, index, value) in enumerate(parts)
        if value is not None
    }
