"""Outline the equal layers of a model, so that passes optimise them once."""

from __future__ import annotations

from collections.abc import Sequence

from hloc.analysis.call_graph import control_flow_computations
from hloc.analysis.repeats import periodic_runs
from hloc.analysis.structures import Structures
from hloc.ir.attributes import Metadata
from hloc.ir.clone import outline
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.opcode import opcode_row
from hloc.lazy_dataclass import dataclass
from hloc.opt.calls.layers import (
    LAYER,
    Cheap,
    Layer,
    equal_layers,
    part_numbers,
    shallow_results_first,
)
from hloc.opt.make import make, reshaped
from hloc.opt.pass_base import PassContext, RewritingPass
from hloc.shapes import ArrayShape, Shape, TupleShape


@dataclass(frozen=True)
class LayerOutliner(RewritingPass):
    """Replace equal layers by calls of one computation; `layer-inliner` inlines them again.

    The passes between the two see each kind of layer once: a training step of GPT with 32 blocks
    has two kinds, one for the values and one for the gradients. Layers are found as instructions
    that repeat, with the same connections, in an order of the computation. A layer begins where the
    fewest values that fusion could join cross from one layer to the next. Constants, and cheap
    functions of values that a layer reads or returns anyway, are computed on both sides instead of
    being stored. In the names of operations, `*` stands for the parts that differ between layers.
    Instructions with side effects or control dependencies are in no layer. Cost: O(instructions).

    Attributes:
        min_length: smallest number of instructions in a layer, parameters included; a shorter one
            may well share kernels with its neighbours.
        min_layers: smallest number of layers of one kind.
        min_instructions: smallest number of instructions that the passes need not see: those of all
            layers of one kind but the first.
    """

    min_length: int = 32
    min_layers: int = 3
    min_instructions: int = 300

    def rewrite(self, module: Module, context: PassContext) -> None:
        """Outline in the entry and in the bodies of loops, branches and calls."""
        structures = Structures()
        for computation in control_flow_computations(module):
            if len(computation) < self.min_instructions:
                continue
            order = shallow_results_first(computation)
            numbers = part_numbers(order, structures)
            runs = periodic_runs(numbers, self.min_length, self.min_layers)
            if not runs:
                continue  # most computations
            cheap = Cheap(order)
            for layers in equal_layers(order, runs, structures, cheap, self.min_layers):
                first, *others = layers
                if len(first.members) * len(others) < self.min_instructions:
                    continue
                if context.spent:
                    return
                context.at = first.members[0]
                with context.rewriting(module, self.name):
                    _outline(computation, layers, cheap)


def _outline(computation: Computation, layers: Sequence[Layer], cheap: Cheap) -> None:
    """Replace `layers`, which are equal, by calls of one computation."""
    first, returned = layers[0], _returned(layers, cheap)
    results = [first.members[number] for number in returned]
    body, _ = outline(computation, [*first.borrowed, *first.members], results, name="layer")
    _take_common_metadata(body, layers)
    _drop_last_ones(body)
    row, shape = opcode_row("call"), body.root.shape
    assert row.attributes is not None
    calls: dict[Instruction, Instruction] = {}
    for layer in layers:
        operands = [
            reshaped(computation, calls.get(operand, operand), _without_last_ones(operand.shape))
            for operand in layer.operands
        ]
        call = computation.add(row, shape, operands, row.attributes(), (body,), common=LAYER)
        for index, number in enumerate(returned):
            member, value = layer.members[number], call
            if len(returned) > 1:
                short = _without_last_ones(member.shape)
                value = make(computation, "get-tuple-element", short, call, index=index)
            value = reshaped(computation, value, member.shape)
            computation.replace(member, value)
            calls[member] = value
        for member in reversed(layer.members):
            if not member.users:
                computation.remove(member)


def _returned(layers: Sequence[Layer], cheap: Cheap) -> list[int]:
    """Return the numbers of the members that are results of a layer.

    They are the members that others read, except cheap functions of the others and of what the
    layer reads: those also stay outside, where they are read. If all are cheap, all are results.
    """
    members = layers[0].members
    numbers = sorted({number for layer in layers for number in layer.read_outside()})
    known = {*layers[0].operands, *(members[number] for number in numbers)}
    return [n for n in numbers if not cheap.is_function_of(known, members[n])] or numbers


def _drop_last_ones(body: Computation) -> None:
    """Let parameters and results of `body` have no last dimensions of size 1.

    Sums with `keepdims=True` have them; between their reduction and its readers in the same
    computation, simplification removes them.
    """
    for parameter in body.parameters:
        short = _without_last_ones(parameter.shape)
        if short != parameter.shape:
            view = make(body, "reshape", parameter.shape, parameter)
            body.replace(parameter, view)
            body.set_shape(parameter, short)
    root = body.root
    results = root.operands if root.opcode.name == "tuple" else (root,)
    short_results = [reshaped(body, result, _without_last_ones(result.shape)) for result in results]
    if root.opcode.name == "tuple":
        body.set_operands(root, short_results)
        body.set_shape(root, TupleShape(tuple(result.shape for result in short_results)))
    elif short_results[0] is not root:
        body.set_root(short_results[0])


def _without_last_ones(shape: Shape) -> Shape:
    if not isinstance(shape, ArrayShape) or shape.layout is not None or shape.dynamic:
        return shape
    rank = max((dim + 1 for dim, size in enumerate(shape.dims) if size != 1), default=0)
    return ArrayShape(shape.dtype, shape.dims[:rank])


def _take_common_metadata(body: Computation, layers: Sequence[Layer]) -> None:
    """Give the copies in `body`, which are in the order of the members, what all layers share."""
    copies = [inst for inst in body.instructions if inst.opcode.name != "parameter"]
    own = copies[len(layers[0].borrowed) :]
    for copy, *same in zip(own, *(layer.members for layer in layers), strict=False):
        metadata = _common_metadata([inst.common.metadata for inst in same])
        body.set_common(copy, copy.common.with_metadata(metadata))


def _common_metadata(found: Sequence[Metadata | None]) -> Metadata | None:
    """Return what all of `found` have in common; parts of the name that differ become `*`."""
    first, *others = dict.fromkeys(found)
    if first is None or not others:
        return first
    known = [metadata for metadata in others if metadata is not None]
    if len(known) < len(others):
        return None
    same = {
        field: value
        for field, value in first._asdict().items()
        if all(getattr(metadata, field) == value for metadata in known)
    }
    return Metadata(**same | {"op_name": _common_name(first.op_name, [m.op_name for m in known])})


def _common_name(first: str, others: Sequence[str]) -> str:
    paths = [name.split("/") for name in others]
    parts = [
        part if all(path[place : place + 1] == [part] for path in paths) else "*"
        for place, part in enumerate(first.split("/"))
    ]
    return "/".join(parts)
