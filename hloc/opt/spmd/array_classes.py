"""Equivalence classes of arrays that must have the same sharding.

Tuples, `get-tuple-element`, calls, loops and conditionals forward arrays unchanged. The arrays they
connect are one class, so that a loop's state has one sharding without iteration. An annotated array
is a separate class; arrays that forward it are linked to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import live_computations, post_order
from hloc.lazy_dataclass import dataclass
from hloc.shapes import ArrayShape, ShapeIndex, leaves, shape_at

Leaf = tuple[Instruction, ShapeIndex]

CALLERS = ("call", "while", "conditional")
"""Opcodes whose computations run instruction by instruction, on whole arrays."""

FORWARDING = ("opt-barrier", "domain", "add-dependency")
"""Opcodes whose result is their first operand, besides those of tuples and control flow."""


@dataclass(slots=True)
class ArrayClasses:
    """The classes of a module.

    Attributes:
        links: pairs of arrays that should have equal shardings, at least one of them annotated.
    """

    parents: dict[Leaf, Leaf] = field(default_factory=dict)
    links: list[tuple[Leaf, Leaf]] = field(default_factory=list)

    def of(self, leaf: Leaf) -> Leaf:
        """Return the representative of the class of `leaf`."""
        root = leaf
        while root in self.parents:
            root = self.parents[root]
        while leaf != root:
            self.parents[leaf], leaf = root, self.parents[leaf]
        return root


def array_classes(module: Module, is_annotated: Callable[[Instruction], bool]) -> ArrayClasses:
    """Return the classes of the arrays of the entry and its called computations."""
    classes = ArrayClasses()
    for one, two in _connections(module):
        if is_annotated(one[0]) or is_annotated(two[0]):
            classes.links.append((one, two))
            continue
        first, second = classes.of(one), classes.of(two)
        if first != second:
            classes.parents[second] = first
    return classes


def control_flow_instructions(module: Module) -> Iterator[Instruction]:
    """Yield the instructions of the entry and of control flow, callees first; no reducers."""
    run = {module.entry}
    waiting = [module.entry]
    while waiting:
        for inst in waiting.pop().instructions:
            if inst.is_a(*CALLERS):
                fresh = [c for c in inst.called if c not in run]
                run.update(fresh)
                waiting += fresh
    for computation in live_computations(module):
        if computation in run:
            yield from post_order(computation)


def result_leaves(inst: Instruction) -> list[Leaf]:
    """Return the leaves of the result of `inst`: arrays and tokens, no buffers."""
    return [(inst, index) for index, shape in leaves(inst.shape) if isinstance(shape, ArrayShape)]


def array_of(leaf: Leaf) -> ArrayShape:
    """Return the shape of a leaf."""
    shape = shape_at(leaf[0].shape, leaf[1])
    assert isinstance(shape, ArrayShape)
    return shape


def _connections(module: Module) -> Iterator[tuple[Leaf, Leaf]]:
    """Yield the pairs of leaves that are one array, forwarded by an instruction or a call."""
    for inst in control_flow_instructions(module):
        if inst.is_a("tuple"):
            for i, operand in enumerate(inst.operands):
                yield from _same(operand, (), inst, (i,))
        elif inst.is_a("get-tuple-element"):
            yield from _same(inst, (), inst.operands[0], (inst.attributes.index,))
        elif inst.is_a(*FORWARDING):
            yield from _same(inst.operands[0], (), inst, ())
        elif inst.is_a("while"):
            for called in inst.called:
                yield from _same(inst, (), called.parameters[0], ())
            yield from _same(inst.operands[0], (), inst, ())
            yield from _same(inst.called[1].root, (), inst, ())
        elif inst.is_a("conditional"):
            for operand, branch in zip(inst.operands[1:], inst.called, strict=True):
                yield from _same(operand, (), branch.parameters[0], ())
                yield from _same(branch.root, (), inst, ())
        elif inst.is_a("call"):
            (called,) = inst.called
            for operand, parameter in zip(inst.operands, called.parameters, strict=True):
                yield from _same(operand, (), parameter, ())
            yield from _same(called.root, (), inst, ())


def _same(
    one: Instruction, one_index: ShapeIndex, two: Instruction, two_index: ShapeIndex
) -> Iterator[tuple[Leaf, Leaf]]:
    """Yield the pairs of arrays below `one_index` of `one` and `two_index` of `two`."""
    for index, shape in leaves(shape_at(one.shape, one_index)):
        if isinstance(shape, ArrayShape):
            yield (one, (*one_index, *index)), (two, (*two_index, *index))
