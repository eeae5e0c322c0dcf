"""Fused computations: producers, several results, structural roots, in-place results."""

from __future__ import annotations

import numpy as np
import pytest

import hloc
from hloc.codegen.cpu.kernel import emit_kernel, needs_defusion
from hloc.codegen.llvm.target import host_target
from hloc.codegen.lower.fusion_splitter import FusionSplitter
from hloc.codegen.plan.kernel_request import InstructionKeys, KernelRequest, kernel_key
from hloc.ir.instruction import Instruction
from hloc.opt.pass_base import PassContext
from tests.tolerance import bounds
from tests.unit.codegen.harness import (
    Compiled,
    check_root,
    emit,
    module_text,
    parse_text,
    random_arrays,
    reducer,
    run_instruction,
)

SOFTMAX = (
    reducer("add", "add", "f32")
    + reducer("top", "maximum", "f32")
    + """
softmax {
  x = f32[4,9] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[4] reduce(x, low), dimensions={1}, to_apply=top
  mb = f32[4,9] broadcast(m), dimensions={0}
  d = f32[4,9] subtract(x, mb)
  e = f32[4,9] exponential(d)
  s = f32[4] reduce(e, zero), dimensions={1}, to_apply=add
  sb = f32[4,9] broadcast(s), dimensions={0}
  ROOT r = f32[4,9] divide(e, sb)
}"""
)


def _fusion(body: str, parameters: list[str], result: str, name: str) -> str:
    operands = ", ".join(f"p{i}" for i in range(len(parameters)))
    return module_text(parameters, f"{result} fusion({operands}), kind=kLoop, calls={name}", body)


def test_reductions_as_producers() -> None:
    text = _fusion(SOFTMAX, ["f32[4,9]"], "f32[4,9]", "softmax")
    check_root(text, random_arrays(text))


def test_results_of_two_shapes() -> None:
    body = """
f {
  x = f32[3,5] parameter(0)
  e = f32[3,5] exponential(x)
  t = f32[5,3] transpose(e), dimensions={1,0}
  ROOT both = (f32[3,5], f32[5,3], f32[3,5]) tuple(e, t, x)
}"""
    text = _fusion(body, ["f32[3,5]"], "(f32[3,5], f32[5,3], f32[3,5])", "f")
    check_root(text, random_arrays(text))


def test_a_dot_computes_its_producers_first() -> None:
    body = """
f {
  x = f32[33,50] parameter(0)
  y = bf16[50,20] parameter(1)
  e = f32[33,50] exponential(x)
  w = f32[50,20] convert(y)
  ROOT r = f32[33,20] dot(e, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
    text = _fusion(body, ["f32[33,50]", "bf16[50,20]"], "f32[33,20]", "f")
    check_root(text, random_arrays(text), **bounds("f32 products"))


def test_constant_arrays_and_nested_fusions() -> None:
    body = """
inner {
  a = f32[2,3] parameter(0)
  ROOT n = f32[2,3] negate(a)
}
f {
  x = f32[2,3] parameter(0)
  c = f32[2,3] constant({{1, 2, 3}, {4, 5, -nan}})
  s = f32[2,3] add(x, c)
  ROOT r = f32[2,3] fusion(s), kind=kLoop, calls=inner
}"""
    text = _fusion(body, ["f32[2,3]"], "f32[2,3]", "f")
    check_root(text, random_arrays(text))


def test_in_place() -> None:
    text = module_text(["f32[100]", "f32[100]"], "f32[100] subtract(p0, p1)")
    check_root(text, random_arrays(text), aliased=(1,))


def test_in_place_is_widened_too() -> None:
    text = module_text(["f32[1000]", "f32[1000]"], "f32[1000] add(p0, p1)")
    module = Compiled(emit(parse_text(text).entry.root, (0,))).module
    assert " x float>" in str(module)


def test_deep_fusion_is_not_recursive() -> None:
    lines = [f"v.{i + 1} = f32[8] add(v.{i}, v.{i})" for i in range(1500)]
    body = (
        "f {\nv.0 = f32[8] parameter(0)\n" + "\n".join(lines) + "\nROOT r = f32[8] abs(v.1500)\n}"
    )
    kernel = emit(parse_text(_fusion(body, ["f32[8]"], "f32[8]", "f")).entry.root)
    assert kernel.text.count("fadd") == 1500  # every instruction once, though used twice


def test_equal_work_has_equal_keys() -> None:
    """Names do not count; shapes, constants and aliasing do."""

    def key(body_names: tuple[str, str], constant: str, aliased: int | None = None) -> str:
        a, r = body_names
        body = f"""
f {{
  {a} = f32[8] parameter(0)
  k = f32[] constant({constant})
  b = f32[8] broadcast(k), dimensions={{}}
  ROOT {r} = f32[8] add({a}, b)
}}"""
        inst = parse_text(_fusion(body, ["f32[8]"], "f32[8]", "f")).entry.root
        return kernel_key(KernelRequest(inst, (aliased,)), InstructionKeys())

    assert key(("x", "y"), "1") == key(("z", "w"), "1")
    assert key(("x", "y"), "1") != key(("x", "y"), "2")
    assert key(("x", "y"), "0") != key(("x", "y"), "-0.0")
    assert key(("x", "y"), "1") != key(("x", "y"), "1", 0)


def test_equal_work_is_asked_for_once_until_it_changes() -> None:
    body = "{\n x = f32[8] parameter(0)\n y = f32[8] negate(x)\n ROOT r = f32[8] add(x, y)\n}\n"
    module = parse_text(
        f"""HloModule test
f {body}g {body}
ENTRY e {{
  p = f32[8] parameter(0)
  a = f32[8] fusion(p), kind=kLoop, calls=f
  b = f32[8] fusion(a), kind=kLoop, calls=g
  ROOT r = (f32[8], f32[8]) tuple(a, b)
}}"""
    )
    a, b = module.entry.root.operands
    asked: list[Instruction] = []
    ask = InstructionKeys().once(asked.append)
    for inst in (a, b):
        ask(inst)
    assert asked == [a]
    (g,) = b.called
    g.set_operands(g.root, reversed(g.root.operands))
    for inst in (a, b):
        ask(inst)
    assert asked == [a, b]


def test_fusions_that_no_emitter_takes_are_split() -> None:
    body = """
f {
  x = f32[3,5] parameter(0)
  y = f32[5,2] parameter(1)
  d = f32[3,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[3,2] tanh(d)
}"""
    text = _fusion(body, ["f32[3,5]", "f32[5,2]"], "f32[3,2]", "f")
    module = parse_text(text)
    assert needs_defusion(module.entry.root)
    assert FusionSplitter(needs_defusion).run(module, PassContext())
    assert [i.opcode.name for i in module.entry.instructions if i.operands] == ["dot", "tanh"]
    assert not FusionSplitter(needs_defusion).run(module, PassContext())


@pytest.mark.parametrize(
    ("root", "result"),
    [
        ("sort(y), dimensions={1}, to_apply=less", "f32[3,40]"),
        ("topk(y), k=4, largest=true", "(f32[3,4], s32[3,4])"),
    ],
)
def test_sorts_are_split_from_their_producers(root: str, result: str) -> None:
    """Routines sort what is in memory; one that reads computed elements would be slower."""
    body = f"""
less {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}}
f {{
  x = f32[3,40] parameter(0)
  y = f32[3,40] negate(x)
  ROOT r = {result} {root}
}}"""
    text = _fusion(body, ["f32[3,40]"], result, "f")
    assert needs_defusion(parse_text(text).entry.root)
    (values,) = random_arrays(text)
    found = hloc.compile(text)(values)
    expected = hloc.evaluate(hloc.parse(text), values)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)


def test_growing_chains_of_reindexing_are_split() -> None:
    """Each step reads its operand twice at different places: 2**30 reads in one kernel."""
    lines = []
    for i in range(30):
        lines.append(f"t.{i} = f32[8,8] reverse(v.{i}), dimensions={{0}}")
        lines.append(f"s.{i} = f32[8,8] reverse(v.{i}), dimensions={{1}}")
        lines.append(f"v.{i + 1} = f32[8,8] add(t.{i}, s.{i})")
    body = "f {\nv.0 = f32[8,8] parameter(0)\n" + "\n".join(lines)
    body += "\nROOT r = f32[8,8] abs(v.30)\n}"
    module = parse_text(_fusion(body, ["f32[8,8]"], "f32[8,8]", "f"))
    assert needs_defusion(module.entry.root)


def test_empty_results() -> None:
    text = module_text(["f32[0,4]"], "f32[0,4] tanh(p0)")
    inst = parse_text(text).entry.root
    (found,) = run_instruction(inst, [np.zeros((0, 4), np.float32)])
    assert found.shape == (0, 4)


def test_loops_are_widened() -> None:
    """The loops of add, sum and product become vector code."""
    adds = reducer("add", "add", "f32")
    texts = [
        module_text(["f32[64,64]"] * 2, "f32[64,64] add(p0, p1)"),
        module_text(
            ["f32[64,640]", "f32[]"],
            "f32[64] reduce(p0, p1), dimensions={1}, to_apply=add",
            adds,
        ),
        module_text(
            ["f32[640,64]", "f32[]"],
            "f32[64] reduce(p0, p1), dimensions={0}, to_apply=add",
            adds,
        ),
        module_text(
            ["f32[64,64]"] * 2,
            "f32[64,64] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ),
    ]
    for text in texts:
        compiled = Compiled(emit(parse_text(text).entry.root))
        texts = [str(compiled.module), *(routines.text for routines in compiled.kernel.routines)]
        assert " x float>" in "".join(texts), text


def test_kernel_names_do_not_come_from_the_module() -> None:
    text = module_text(["f32[4]"], "f32[4] tanh(p0)").replace("p0", "evil")
    inst = parse_text(text).entry.root
    kernel = emit_kernel(KernelRequest(inst, (None,)), "k7", host_target())
    assert "evil" not in kernel.text
    assert kernel.text.startswith("define void @k7(")


def test_long_sum_as_producer_is_accurate() -> None:
    body = (
        reducer("add", "add", "f32")
        + """
f {
  x = f32[1048576] parameter(0)
  zero = f32[] constant(0)
  s = f32[] reduce(x, zero), dimensions={0}, to_apply=add
  ROOT n = f32[] negate(s)
}"""
    )
    text = _fusion(body, ["f32[1048576]"], "f32[]", "f")
    inst = parse_text(text).entry.root
    (found,) = run_instruction(inst, [np.full(1 << 20, 0.1, np.float32)])
    np.testing.assert_allclose(
        found, -np.float64(np.float32(0.1)) * (1 << 20), **bounds("f32 few roundings")
    )
