"""Moves groups of instructions of a module into fusions, calls, loops and branches.

The values stay as they are: a loop computes the same in each of its trips, and a branch is chosen
by a constant or by what a fusion barrier hides.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from fuzz.choices import Seeded
from hloc.dtypes import S32
from hloc.ir.clone import outline
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order
from hloc.ops.builder import Builder
from hloc.shapes import ArrayShape, Shape, TupleShape

WAYS = ("fusion", "fusion", "call", "while", "conditional", "nothing")
LARGEST_GROUP = 12


def wrap(module: Module, choices: Seeded) -> None:
    """Wrap up to three groups of the entry's instructions, perhaps one inside the other."""
    for number in range(choices.integer(0, 3)):
        members = _group(module.entry, choices)
        outputs = [i for i in members if any(u not in members for u in i.users)]
        if members and outputs:
            way = choices.pick(WAYS)
            if way == "fusion" and not all(map(_fusible, members)):
                way = "call"
            if way != "nothing":
                _wrapped(module, members, outputs, way, number, choices)


def _group(entry: Computation, choices: Seeded) -> list[Instruction]:
    """Return neighbours in an order with operands first: no value leaves the group and returns."""
    order = [i for i in post_order(entry) if not i.is_a("parameter") and not i.is_root]
    if not order:
        return []
    start = choices.integer(0, len(order) - 1)
    return list(takewhile(_movable, order[start : start + choices.integer(1, LARGEST_GROUP)]))


def _movable(inst: Instruction) -> bool:
    """True if an instruction has arrays only, static, and no partner outside."""
    shapes = [inst.shape, *(operand.shape for operand in inst.operands)]
    rows = [inst.opcode, *(operand.opcode for operand in inst.operands)]
    partner = any(row.ended_by for row in rows)
    return all(map(_is_plain, shapes)) and not (inst.opcode.side_effect or partner)


def _is_plain(shape: Shape) -> bool:
    return (
        isinstance(shape, ArrayShape)
        and not shape.dtype.is_special
        and not any(shape.dynamic or ())
    )


def _fusible(inst: Instruction) -> bool:
    row = inst.opcode
    return row.elementwise or row.data_movement or row.name in (
        "constant", "iota", "reduce", "dot", "bitcast", "bitcast-convert", "gather", "scatter",
        "dynamic-slice", "dynamic-update-slice", "reduce-window", "map",
    )  # fmt: skip


def _wrapped(
    module: Module,
    members: Sequence[Instruction],
    outputs: Sequence[Instruction],
    way: str,
    number: int,
    choices: Seeded,
) -> None:
    """Replace `members` by one instruction of kind `way`; its results replace `outputs`."""
    entry = module.entry
    body, operands = outline(entry, members, outputs, name=f"{way}_{number}")
    b = Builder(entry)
    if way == "while":
        made = _loop(module, body, operands, outputs, choices)
    elif way == "conditional":
        arguments = b.tuple(operands)
        branches = [_unpacked(module, body, arguments.shape, f"branch_{number}") for _ in range(2)]
        index = b.constant(choices.integer(-1, 2), S32)
        if choices.flag():
            index = b.instruction("opt-barrier", [index])
        made = b.instruction("conditional", [index, arguments, arguments], called=branches)
    elif way == "fusion":
        kind = choices.pick(("kLoop", "kInput", "kOutput"))
        shape = body.root.shape
        made = b.instruction("fusion", operands, called=[body], shape=shape, kind=kind)
    else:
        made = b.instruction("call", operands, called=[body])
    parts = [made]
    if len(outputs) > 1:
        parts = [b.get_tuple_element(made, i) for i in range(len(outputs))]
    for old, new in zip(outputs, parts, strict=True):
        entry.replace(old, new)
    keep_dead = choices.integer(0, 3) == 0  # faults may depend on dead code
    for inst in reversed(members):
        if not inst.users and not keep_dead:
            entry.remove(inst)


def _unpacked(module: Module, body: Computation, shape: Shape, name: str) -> Computation:
    """Add a computation that calls `body` with the parts of its one parameter."""
    b = Builder(module.add_computation(name))
    whole = b.parameter(0, shape)
    assert isinstance(shape, TupleShape)
    parts = [b.get_tuple_element(whole, i) for i in range(len(shape.elements))]
    b.computation.set_root(b.call(parts, body))
    return b.computation


def _loop(
    module: Module,
    body: Computation,
    operands: Sequence[Instruction],
    outputs: Sequence[Instruction],
    choices: Seeded,
) -> Instruction:
    """Add a loop of one to four trips whose state holds a counter, the operands and the outputs."""
    b = Builder(module.entry)
    zeros = [b.splat(0, ArrayShape(o.array.dtype, o.array.dims)) for o in outputs]
    for zero, output in zip(zeros, outputs, strict=True):
        module.entry.set_shape(zero, output.shape)
    init = b.tuple([b.constant(0, S32), *operands, *zeros])
    condition = Builder(module.add_computation(f"{body.name}_condition"))
    state = condition.parameter(0, init.shape)
    counter = condition.get_tuple_element(state, 0)
    limit = condition.constant(choices.integer(1, 4), S32)
    condition.computation.set_root(condition.compare(counter, limit, "LT"))
    step = Builder(module.add_computation(f"{body.name}_step"))
    state = step.parameter(0, init.shape)
    parts = [step.get_tuple_element(state, 1 + i) for i in range(len(operands))]
    result = step.call(parts, body)
    results = [result]
    if len(outputs) > 1:
        results = [step.get_tuple_element(result, i) for i in range(len(outputs))]
    counter = step.add(step.get_tuple_element(state, 0), step.constant(1, S32))
    step.computation.set_root(step.tuple([counter, *parts, *results]))
    loop = b.instruction("while", [init], called=[condition.computation, step.computation])
    found = [b.get_tuple_element(loop, 1 + len(operands) + i) for i in range(len(outputs))]
    return found[0] if len(outputs) == 1 else b.tuple(found)
