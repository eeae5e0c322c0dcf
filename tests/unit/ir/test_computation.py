"""The mutation API keeps users, callers, root, version and change log in step."""

from __future__ import annotations

import pytest

import hloc.ops
from hloc.dtypes import F32
from hloc.ir.clone import clone_module, inline, outline
from hloc.ir.computation import Computation
from hloc.ir.events import Created, Modified, OperandReplaced, Removed, Replaced
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order
from hloc.ir.verifier import check
from hloc.ops import opcode_row
from hloc.ops.builder import Builder
from hloc.shapes import ArrayShape, TupleShape, array_shape

F32_4: ArrayShape = array_shape("f32", 4)


def _parameter(computation: Computation, number: int) -> Instruction:
    row = opcode_row("parameter")
    assert row.attributes is not None
    return computation.add(row, F32_4, attributes=row.attributes(number=number), name="p")


def _module() -> tuple[Module, Computation]:
    """Return a module whose entry is `add(p, p)`."""
    assert hloc.ops.OPCODES
    module = Module("m")
    entry = module.add_computation("e")
    module.set_entry(entry)
    p = _parameter(entry, 0)
    entry.set_root(entry.add(opcode_row("add"), F32_4, [p, p]))
    module.log.recording = True
    return module, entry


def test_users_are_an_ordered_set_kept_in_step() -> None:
    _, entry = _module()
    p, add = entry.instructions
    assert list(p.users) == [add]
    q = entry.add(opcode_row("negate"), F32_4, [p])
    entry.set_operands(add, [p, q])
    assert list(p.users) == [q, add]
    assert list(q.users) == [add]
    entry.set_operands(add, [q, q])
    assert list(p.users) == [q]


def test_many_users_are_an_ordered_set_too() -> None:
    _, entry = _module()
    p, add = entry.instructions
    many = [entry.add(opcode_row("negate"), F32_4, [p]) for _ in range(20)]
    assert list(p.users) == [add, *many]
    entry.set_operands(many[3], [add])
    entry.set_operands(many[3], [p])
    assert list(p.users) == [add, *many[:3], *many[4:], many[3]]
    entry.remove(many[0])
    assert list(p.users) == [add, *many[1:3], *many[4:], many[3]]
    entry.replace(p, add)
    assert list(p.users) == [add]
    assert list(add.users) == [*many[1:3], *many[4:], many[3]]


def test_what_calls_a_computation_is_in_the_order_of_instructions() -> None:
    module, entry = _module()
    p, add = entry.instructions
    body = module.add_computation("b")
    body.set_root(_parameter(body, 0))
    first, second = (
        entry.add(opcode_row("call"), F32_4, [p], called=called) for called in ([], [body])
    )
    assert list(entry.calling) == [second]
    entry.set_called(first, [body])
    assert list(entry.calling) == [first, second]
    entry.reorder([p, second, first, add])
    assert list(entry.calling) == [second, first]
    entry.set_called(second, [])
    assert list(entry.calling) == [first]
    entry.remove(first)
    assert not entry.calling


def test_replace_moves_users_and_root_and_is_logged_with_its_rule() -> None:
    module, entry = _module()
    p, add = entry.instructions
    with module.log.acting("some-pass/some-rule"):
        double = entry.add(opcode_row("multiply"), F32_4, [p, p])
        entry.replace(add, double)
        entry.remove(add)
    assert entry.root is double
    assert add not in entry
    assert [type(e) for e in module.log.events] == [Created, Replaced, Modified, Removed]
    assert {e.by for e in module.log.events} == {"some-pass/some-rule"}
    assert module.log.by == ""


@pytest.mark.parametrize("readers", [1, 20])
def test_what_replaces_an_instruction_may_read_it(readers: int) -> None:
    _, entry = _module()
    p, add = entry.instructions
    many = [entry.add(opcode_row("negate"), F32_4, [p]) for _ in range(readers)]
    new = entry.add(opcode_row("floor"), F32_4, [p])
    entry.replace(p, new)
    assert list(p.users) == [new]
    assert list(new.users) == [add, *many]
    assert new.operands == (p,)


def test_a_copy_reads_other_operands_and_is_logged() -> None:
    module, entry = _module()
    p, add = entry.instructions
    negate = entry.add(opcode_row("negate"), F32_4, [p])
    mark = len(module.log.events)
    copy = entry.add_copy(add, [p, negate])
    assert (copy.opcode, copy.shape, copy.operands) == (add.opcode, add.shape, (p, negate))
    assert copy.name == "add.1"
    assert copy.uid > negate.uid
    assert list(negate.users) == [copy]
    assert [type(event) for event in module.log.since(mark)] == [Created]
    assert entry.add_copy(add, [p, p], name="sum").name == "sum"


def test_replace_logs_which_operands_of_each_user_changed() -> None:
    module, entry = _module()
    p, add = entry.instructions
    user = entry.add(opcode_row("clamp"), F32_4, [add, p, add])
    other = entry.add(opcode_row("negate"), F32_4, [add])
    new = entry.add(opcode_row("abs"), F32_4, [add])
    mark, version = len(module.log.events), entry.version
    with module.log.acting("some-pass"):
        entry.replace(add, new)
    assert user.operands == (new, p, new)
    assert other.operands == (new,)
    assert new.operands == (add,)
    assert list(new.users) == [user, other]
    assert list(add.users) == [new]
    assert entry.version > version
    assert [e for e in module.log.since(mark) if isinstance(e, OperandReplaced)] == [
        OperandReplaced(user, (0, 2), add, new, "some-pass"),
        OperandReplaced(other, (0,), add, new, "some-pass"),
    ]


def test_operands_of_a_wide_tuple_are_replaced_one_by_one() -> None:
    _, entry = _module()
    p, add = entry.instructions
    parts = [entry.add(opcode_row("negate"), F32_4, [p]) for _ in range(100)]
    expected = [*parts, add, *parts[:3]]
    wide = entry.add(opcode_row("tuple"), TupleShape((F32_4,) * len(expected)), expected)
    for number, part in enumerate(parts):
        new = add if number % 7 == 0 else entry.add(opcode_row("abs"), F32_4, [p])
        entry.replace(part, new)
        expected = [new if operand is part else operand for operand in expected]
        assert wide.operands == tuple(expected)
        if number == 50:  # changed in another way in between
            expected = expected[::-1]
            entry.set_operands(wide, expected)
    assert all(wide in operand.users for operand in expected)
    assert not any(wide in part.users for part in parts)


def test_an_instruction_in_use_cannot_be_removed() -> None:
    _, entry = _module()
    p, add = entry.instructions
    with pytest.raises(AssertionError, match="still has users"):
        entry.remove(p)
    with pytest.raises(AssertionError, match="is the root"):
        entry.remove(add)


def test_every_change_raises_the_version() -> None:
    _, entry = _module()
    p, add = entry.instructions
    seen = [entry.version]
    entry.rename(add, "sum")
    seen.append(entry.version)
    entry.set_shape(add, array_shape("f32", 4, 1))
    seen.append(entry.version)
    entry.add(opcode_row("negate"), F32_4, [p])
    seen.append(entry.version)
    assert seen == sorted(set(seen))


def test_a_clone_has_the_same_ids_and_shares_nothing_that_changes() -> None:
    module, entry = _module()
    copy = clone_module(module)
    assert [i.uid for i in copy.entry.instructions] == [i.uid for i in entry.instructions]
    copied = copy.entry.instructions[1]
    copy.entry.add(opcode_row("negate"), F32_4, [copied])
    assert len(entry) == 2
    assert len(copy.entry) == 3
    assert copy.new_uid() > max(i.uid for i in copy.entry.instructions[:2])
    assert copy.entry.instructions[-1].uid not in {i.uid for i in entry.instructions}
    assert not check(module)


def test_inline_puts_the_body_in_place_of_the_call() -> None:
    module, entry = _module()
    body = module.add_computation("body")
    q = _parameter(body, 0)
    body.set_root(body.add(opcode_row("negate"), F32_4, [q]))
    call = entry.add(opcode_row("call"), F32_4, [entry.root], called=[body])
    entry.set_root(call)
    result = inline(call)[body.root]
    assert entry.root is result
    assert result.opcode.name == "negate"
    assert not body.callers
    assert [i.opcode.name for i in post_order(entry)] == ["parameter", "add", "negate"]


def test_outline_returns_a_body_and_its_outside_operands() -> None:
    _, entry = _module()
    p, add = entry.instructions
    neg = entry.add(opcode_row("negate"), F32_4, [add])
    body, operands = outline(entry, [add, neg], [neg], name="fused_computation")
    assert operands == (p,)
    assert [i.opcode.name for i in body.instructions] == ["parameter", "add", "negate"]
    both, _ = outline(entry, [add, neg], [add, neg], name="fused_computation")
    assert both.root.opcode.name == "tuple"


def test_post_order_walks_3000_levels_without_recursion() -> None:
    _, entry = _module()
    inst = entry.root
    for _ in range(3000):
        inst = entry.add(opcode_row("negate"), F32_4, [inst])
    entry.set_root(inst)
    order = post_order(entry)
    assert len(order) == 3002
    assert order[-1] is inst


def test_inline_resolves_elements_and_needs_no_copy_of_what_is_known() -> None:
    module, entry = _module()
    body = module.add_computation("body")
    b, outer = Builder(body), Builder(entry)
    constant = b.iota(F32, (4,), 0)
    body.set_root(b.tuple([b.negate(b.parameter(0, F32_4)), constant]))
    known: dict[Instruction, Instruction] = {}
    for _ in range(2):
        call = outer.instruction("call", [entry.root], called=[body])
        element = outer.instruction("get-tuple-element", [call], shape=F32_4, index=1)
        entry.set_root(outer.add(entry.root, element))
        found = inline(call, known)
        assert entry.root.operands[1] is found[constant]
        assert element not in entry
        assert found[constant] is known.setdefault(constant, found[constant])
