"""Dead code elimination removes exactly what neither the root nor a side effect needs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hloc.analysis.call_graph import has_side_effect
from hloc.ir.computation import Computation
from hloc.ir.events import Removed
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.traversal import post_order, post_order_from
from hloc.ir.verifier import verify
from hloc.ops.builder import Builder
from hloc.opt import dce
from hloc.opt.dce import DeadCodeElimination
from hloc.opt.pass_base import PassContext
from hloc.shapes import array_shape


def drawn(seed: int) -> Computation:
    """Return the entry of a module in which instructions wait for others that they do not read."""
    random = np.random.default_rng(seed)
    module = Module("m")
    entry = module.add_computation("entry")
    module.set_entry(entry)
    b = Builder(entry)
    values = [b.parameter(0, array_shape("f32", 4)), b.parameter(1, array_shape("f32", 4))]
    for _ in range(25):
        left, right = random.choice(len(values), 2)
        values.append(b.add(values[left], values[right]))
        if random.random() < 0.2:
            entry.set_control_predecessors(values[-1], [values[random.integers(len(values) - 1)]])
    entry.set_root(values[random.integers(2, len(values))])
    module.log.recording = True
    return entry


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_what_the_root_does_not_need_is_removed_users_first(seed: int) -> None:
    entry = drawn(seed)
    needed = {*post_order_from([entry.root]), *entry.parameters}
    dead = [inst for inst in post_order(entry) if inst not in needed]
    assert DeadCodeElimination().run(entry.module, PassContext()) == bool(dead)
    verify(entry.module)
    assert set(entry.instructions) == needed
    removed = [e.inst for e in entry.module.log.events if isinstance(e, Removed)]
    assert len(removed) == len(dead)
    at = {inst: place for place, inst in enumerate(removed)}
    for inst in removed:
        assert all(at[o] > at[inst] for o in needs(inst) if o in at)


def needs(inst: Instruction) -> tuple[Instruction, ...]:
    return (*inst.operands, *inst.control_predecessors)


def test_an_operand_of_many_dead_users_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Module("m")
    entry = module.add_computation("entry")
    module.set_entry(entry)
    b = Builder(entry)
    shared = b.negate(b.parameter(0, array_shape("f32", 4)))
    for _ in range(100):
        b.abs(shared)
    entry.set_root(entry.parameters[0])
    looked = list[Instruction]()

    def noted(inst: Instruction, effectful: frozenset[Computation]) -> bool:
        looked.append(inst)
        return has_side_effect(inst, effectful)

    monkeypatch.setattr(dce, "has_side_effect", noted)
    assert DeadCodeElimination().run(module, PassContext())
    assert len(entry) == 1
    assert looked.count(shared) == 1
