"""Multi-output fusion: what becomes one kernel, what stays apart, and that nothing changes.

Modules of rows are drawn at random, fused, and run both ways.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloc
from hloc.analysis.kernel_count import kernel_counts
from hloc.analysis.rows import row_work
from hloc.ir.clone import clone_module
from hloc.ir.computation import Computation
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.ops.builder import Builder
from hloc.opt.fusion import multi_output
from hloc.opt.fusion import reach as reach_module
from hloc.opt.fusion.merge import merge
from hloc.opt.fusion.reach import Reach
from hloc.opt.fusion.region import Form, Region
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline
from hloc.shapes import array_shape
from tests.inputs import inputs_for
from tests.unit.opt.row_modules import RowModule

FUSE = "dce,fusion,dce,multi-output-fusion,dce"

SUM = """
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
"""


def fused(text: str, context: PassContext | None = None) -> Module:
    module = hloc.parse("HloModule m\n" + SUM + text)
    Pipeline.parse(FUSE, check_changed=True).run(module, context or PassContext())
    verify(module)
    return module


def kernels(text: str) -> int:
    return sum(kernel_counts(fused(text)).values())


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([12, 25, 50]))
def test_results_are_the_same(seed: int, size: int) -> None:
    module = RowModule(seed).grown(size)
    inputs = inputs_for(module, seed=seed % 7)
    want = hloc.evaluate(module, *inputs)
    copy = clone_module(module)
    Pipeline.parse(FUSE, check_changed=True).run(copy)
    verify(copy)
    for results in (hloc.evaluate(copy, *inputs), hloc.compile(module, opt_level=2)(*inputs)):
        for number, (got, wanted) in enumerate(zip(results, want, strict=True)):
            assert (np.asarray(got) == wanted).all(), f"result {number} of\n{module}"


@pytest.mark.parametrize("seed", range(3))
def test_same_module_same_text(seed: int) -> None:
    texts = set()
    for _ in range(2):
        module = RowModule(seed).grown(50)
        Pipeline.parse(FUSE).run(module)
        texts.add(str(module))
    assert len(texts) == 1


@pytest.mark.parametrize("seed", range(12))
def test_what_is_merged_by_rows_can_run_by_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    by_rows = list[Computation]()

    def noted(computation: Computation, region: Region) -> None:
        merge(computation, region)
        if region.form is Form.ROWS:
            by_rows.append(computation.module.computations[-1])

    monkeypatch.setattr(multi_output, "merge", noted)
    module = RowModule(seed).grown(50)
    Pipeline.parse(FUSE).run(module)
    assert by_rows
    assert all(row_work(body) for body in by_rows)


def rows(count: int, size: int) -> str:
    return f"""
ENTRY e {{
  x = f32[{count},{size}] parameter(0)
  z = f32[] constant(0)
  e = f32[{count},{size}] exponential(x)
  s = f32[{count}] reduce(e, z), dimensions={{1}}, to_apply=sum
  b = f32[{count},{size}] broadcast(s), dimensions={{0}}
  ROOT r = f32[{count},{size}] divide(e, b)
}}"""


def test_a_row_stays_together() -> None:
    assert kernels(rows(1000, 1000)) == 1


@pytest.mark.parametrize(
    ("count", "size"), [(100_000, 3), (2, 1 << 14), (100, 1 << 20), (2, 1 << 20)]
)
def test_rows_that_are_too_short_too_few_or_too_long_do_not(count: int, size: int) -> None:
    together = count * size <= 1 << 16
    assert (kernels(rows(count, size)) == 1) == together


def test_a_way_through_another_kernel_keeps_two_apart() -> None:
    text = """
ENTRY e {
  x = f32[64,64] parameter(0)
  a = f32[64,64] exponential(x)
  d = f32[64,64] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[64,64] tanh(d)
  r = f32[64,64] multiply(s, a)
  ROOT t = (f32[64,64], f32[64,64]) tuple(r, a)
}"""
    assert kernels(text) == 3


def test_declining_is_explained_with_numbers() -> None:
    context = PassContext(remarks=[])
    fused(rows(100_000, 3), context)
    assert context.remarks is not None
    texts = [r.text for r in context.remarks if r.kind == "missed"]
    assert any("rows of 3 elements are too short" in text for text in texts)


def test_joining_is_told_with_the_bytes() -> None:
    context = PassContext(remarks=[])
    fused(rows(1000, 1000), context)
    assert context.remarks is not None
    assert any(r.kind == "passed" and "saves 8" in r.text for r in context.remarks)


# ---------------------------------------------------------------- cycles


def chain(length: int) -> list[Instruction]:
    module = Module("m")
    b = Builder(module.add_computation("entry"))
    values = [b.parameter(0, array_shape("f32", 4))]
    for _ in range(length):
        values.append(b.negate(values[-1]))
    return values


def reach_of(order: list[Instruction]) -> Reach:
    reach = Reach()
    for inst in order:
        reach.visit(inst)
    return reach


def test_neighbours_may_join_but_not_around_others() -> None:
    values = chain(4)
    reach = reach_of(values)
    assert not reach.comes_back([values[1]], values[2])
    assert reach.comes_back([values[1]], values[3])


def test_regions_that_would_need_each_other_are_seen() -> None:
    """a0 -> b0 and b1 -> a1: with a0, a1 one region, b0 and b1 may not be another."""
    module = Module("m")
    b = Builder(module.add_computation("entry"))
    x = b.parameter(0, array_shape("f32", 4))
    a0, b1 = b.negate(x), b.abs(x)
    b0, a1 = b.tanh(a0), b.sqrt(b1)
    reach = reach_of([x, a0, b1, b0, a1])
    assert not reach.comes_back([a0], a1)
    assert reach.independent([b1], [b0])
    reach.unite([a0, a1])
    assert not reach.independent([b1], [b0])
    assert reach.comes_back([b1], b0)


def needs(
    users: list[Instruction], members: list[Instruction], regions: list[frozenset[Instruction]]
) -> bool:
    """Return by the definition whether `users` need one of `members`, regions taken as one."""
    found, waiting = set(users), list(users)
    while waiting:
        inst = waiting.pop()
        same = next((region for region in regions if inst in region), frozenset())
        new = {*inst.operands, *same} - found
        found |= new
        waiting.extend(new)
    return not found.isdisjoint(members)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_answers_are_those_of_the_definition(seed: int) -> None:
    random = np.random.default_rng(seed)
    b = Builder(Module("m").add_computation("entry"))
    order = [b.parameter(number, array_shape("f32", 4)) for number in range(6)]
    reach, regions = reach_of(order), list[frozenset[Instruction]]()
    for _ in range(30):
        near = order[-12:]
        left, right = random.choice(len(near), 2)
        inst = b.negate(near[left]) if left < right else b.add(near[left], near[right])
        order.append(inst)
        reach.visit(inst)
        for other in map(int, random.permutation(len(near))[:4]):
            members = next((list(r) for r in regions if near[other] in r), [near[other]])
            outside = [operand for operand in inst.operands if operand not in members]
            assert reach.comes_back(members, inst) == needs(outside, members, regions)
            apart = not (needs([inst], members, regions) or needs(members, [inst], regions))
            assert reach.independent(members, [inst]) == apart
            if not reach.comes_back(members, inst):
                regions = [r for r in regions if near[other] not in r]
                regions.append(frozenset([*members, inst]))
                reach.unite([*members, inst])
                break


def test_what_ends_before_a_region_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    values = chain(1000)
    reach, searched = reach_of(values), list[Instruction]()
    before = reach_module._before

    def noted(inst: Instruction) -> tuple[Instruction, ...]:
        searched.append(inst)
        return before(inst)

    monkeypatch.setattr(reach_module, "_before", noted)
    assert not reach.comes_back([values[990]], values[991])
    assert reach.comes_back([values[990]], values[1000])
    assert len(searched) < 20
