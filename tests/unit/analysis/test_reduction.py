"""Reduction: small results, always verified, the same every time, and ended by the clock."""

import time

import hloc
from hloc.analysis.reduction import Interesting, reduce_module
from hloc.ir.module import Module
from hloc.ir.traversal import all_instructions
from hloc.ir.verifier import verify

LOOP = """HloModule loop, input_output_alias={ {0}: (0, {}, may-alias) }

add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }

body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  k = s32[] multiply(j, one)
  t = f32[4] tanh(v)
  u = f32[4] cosine(t)
  w = f32[4] sine(u)
  ROOT n = (s32[], f32[4]) tuple(k, w)
}

condition {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  ten = s32[] constant(10)
  ROOT r = pred[] compare(i, ten), direction=LT
}

ENTRY e {
  x = f32[4] parameter(0), metadata={op_name="x"}
  y = f32[4] parameter(1)
  z = s32[] constant(0)
  p = f32[4] add(x, y)
  q = f32[4] multiply(p, p)
  init = (s32[], f32[4]) tuple(z, q)
  loop = (s32[], f32[4]) while(init), condition=condition, body=body
  out = f32[4] get-tuple-element(loop), index=1
  zero = f32[] constant(0)
  sum = f32[] reduce(out, zero), dimensions={0}, to_apply=add
  ROOT r = (f32[4], f32[], f32[4]) tuple(out, sum, q)
}
"""


def has(*opcodes: str) -> Interesting:
    def interesting(module: Module) -> bool:
        verify(module)
        return set(opcodes) <= {inst.opcode.name for inst in all_instructions(module)}

    return interesting


def test_one_instruction_is_left_with_its_operands() -> None:
    found = reduce_module(hloc.parse(LOOP), has("multiply"))
    assert found.complete
    assert found.module.instruction_count <= 3
    assert len(found.module.computations) == 1
    assert found.module.config.aliases == ()


def test_the_inside_of_a_loop_shrinks_too() -> None:
    module = hloc.parse(LOOP)
    text = str(module)
    found = reduce_module(module, has("while", "cosine"))
    names = [inst.opcode.name for inst in all_instructions(found.module)]
    assert {"while", "cosine"} <= set(names)
    assert not {"sine", "tanh", "reduce"} & set(names)
    assert found.module.instruction_count <= 14
    assert str(module) == text, "the given module is not changed"
    hloc.parse(found.module.to_text(large_constants=True))


def test_outputs_that_do_not_matter_go() -> None:
    def interesting(module: Module) -> bool:
        return has("reduce")(module) and len(module.entry.root.operands) >= 2

    found = reduce_module(hloc.parse(LOOP), interesting)
    assert len(found.module.entry.root.operands) == 2


def test_the_result_does_not_depend_on_the_run() -> None:
    first, second = (reduce_module(hloc.parse(LOOP), has("while", "sine")) for _ in range(2))
    assert first.tests == second.tests
    assert str(first.module) == str(second.module)


def test_the_clock_ends_it_with_the_best_so_far() -> None:
    def slow(module: Module) -> bool:
        time.sleep(0.05)
        return True

    found = reduce_module(hloc.parse(LOOP), slow, seconds=0.12)
    assert not found.complete
    assert found.tests <= 4
    verify(found.module)


def test_what_cannot_shrink_stays() -> None:
    module = hloc.parse(LOOP)
    found = reduce_module(module, lambda candidate: False)
    assert found.module is module
    assert found.complete


def test_a_fault_in_dead_code_shrinks_too() -> None:
    dead = LOOP.replace("  u = f32[4] cosine(t)", "  u = f32[4] cosine(t)\n  o = f32[4] floor(u)")
    dead = dead.replace("  sum =", "  m = f32[4] negate(p)\n  n = f32[4] ceil(m)\n  sum =")

    def interesting(module: Module) -> bool:
        unused = {i.opcode.name for i in all_instructions(module) if not i.users and not i.is_root}
        return has("while", "cosine")(module) and {"floor", "ceil"} <= unused

    found = reduce_module(hloc.parse(dead), interesting)
    names = [inst.opcode.name for inst in all_instructions(found.module)]
    assert not {"sine", "tanh", "reduce", "negate"} & set(names)
    assert found.module.instruction_count <= 20
