"""Fusion keeps its bounds: size, kernel arguments, and no work done over and over."""

import pytest

from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.ops.builder import Builder
from hloc.opt.fusion.instruction_fusion import InstructionFusion
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline
from hloc.parser import parse
from hloc.shapes import array_shape
from hloc.source import SourceFile


def start() -> tuple[Module, Builder, Instruction]:
    module = Module("m")
    b = Builder(module.add_computation("entry"))
    return module, b, b.parameter(0, array_shape("f32", 4096))


def fused(module: Module, root: Instruction, options: str = "") -> list[Instruction]:
    """Fuse and return the fusions of the entry."""
    root.computation.set_root(root)
    module.set_entry(root.computation)
    module.log.recording = True
    Pipeline.parse("fusion" + options + ",dce", check_changed=True).run(module)
    verify(module)
    return [i for i in module.entry.instructions if i.opcode.name == "fusion"]


def bodies(fusions: list[Instruction]) -> list[int]:
    return [len(fusion.called[0]) - len(fusion.operands) for fusion in fusions]


def test_a_long_chain_is_cut_at_the_limit() -> None:
    module, b, x = start()
    value = x
    for _ in range(1000):
        value = b.abs(b.negate(value))
    found = fused(module, value)
    assert max(bodies(found)) <= 512
    assert len(found) == 4


def test_the_number_of_operands_is_limited() -> None:
    module, b, x = start()
    value = x
    for number in range(1, 100):
        value = b.add(value, b.parameter(number, x.shape))
    found = fused(module, value, "{max-operands=10}")
    assert max(len(fusion.operands) for fusion in found) <= 10
    assert len(found) == 11


def test_reading_at_two_indices_again_and_again_does_not_explode() -> None:
    module, b, x = start()
    value = x
    for _ in range(40):
        value = b.add(value, b.reverse(value, (0,)))
    found = fused(module, value)
    assert sum(bodies(found)) < 200
    assert len(found) > 5


@pytest.mark.parametrize("count", [3, 60])
def test_an_expensive_value_is_computed_once_however_many_read_it(count: int) -> None:
    module, b, x = start()
    e = b.exponential(x)
    results = [b.reverse(b.add(e, b.parameter(n, x.shape)), (0,)) for n in range(1, count)]
    fused(module, b.tuple(results))
    everywhere = [i for c in module.computations for i in c.instructions]
    assert sum(i.opcode.name == "exponential" for i in everywhere) == 1


def test_many_users_of_one_value_are_no_trouble() -> None:
    module, b, x = start()
    results = [b.negate(b.abs(b.add(x, b.parameter(n, x.shape)))) for n in range(1, 600)]
    found = fused(module, b.tuple(results))
    assert len(found) == 599


def test_floats_made_of_bits_are_no_end_of_a_fusion() -> None:
    """As random numbers are: integers, their bits taken as floats, arithmetic."""
    module, b, x = start()
    bits = b.instruction("bitcast-convert", (b.abs(x),), shape=array_shape("u32", 4096))
    mixed = b.add(bits, bits)
    value = b.instruction("bitcast-convert", (mixed,), shape=x.shape)
    (found,) = fused(module, b.negate(value))
    assert bodies([found]) == [5]


def test_a_scan_ends_a_fusion_and_takes_what_makes_its_elements() -> None:
    text = """
HloModule m
f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[40] parameter(0)
  zero = f32[] constant(0)
  d = f32[40] multiply(x, x)
  s = f32[40] reduce-window(d, zero), window={size=40 pad=39_0}, to_apply=f
  ROOT n = f32[40] negate(s)
}"""
    module = parse(SourceFile(text, "<test>"))
    Pipeline.parse("fusion,dce", check_changed=True).run(module)
    (found,) = [i for i in module.entry.instructions if i.opcode.name == "fusion"]
    assert found.called[0].root.is_a("reduce-window")
    assert module.entry.root.is_a("negate")


MASK = """
HloModule m
ENTRY e {
  x = f32[400,400] parameter(0)
  i = s32[400,400] iota(), iota_dimension=0
  j = s32[400,400] iota(), iota_dimension=1
  below = s32[] constant(-1)
  belows = s32[400,400] broadcast(below), dimensions={}
  row = s32[400,400] add(i, belows)
  zero = f32[] constant(0)
  zeros = f32[400,400] broadcast(zero), dimensions={}
  mask = pred[400,400] compare(row, j), direction=GE
  low = f32[400,400] select(mask, x, zeros)
  high = f32[400,400] select(mask, zeros, x)
  turned = f32[400,400] transpose(high), dimensions={1,0}
  ROOT r = f32[400,400] add(low, turned)
}"""


@pytest.mark.parametrize(("mask", "kernels"), [("compare(row, j)", 1), ("compare(x, zeros)", 2)])
def test_a_mask_of_indices_is_computed_at_both_places_of_a_kernel(mask: str, kernels: int) -> None:
    text = MASK.replace("compare(row, j)", mask)
    module = parse(SourceFile(text, "<test>"))
    Pipeline.parse("fusion,dce", check_changed=True).run(module)
    found = [i for i in module.entry.instructions if i.opcode.name == "fusion"]
    assert len(found) == kernels


def test_a_barrier_is_the_reason_for_a_kernel_of_its_own() -> None:
    """Alone or as part of a tuple: the remark names the barrier that reads the result."""
    text = """HloModule barriers
ENTRY main {
  x = f32[8] parameter(0)
  e = f32[8] exponential(x)
  pair = (f32[8], f32[8]) tuple(e, x)
  kept = (f32[8], f32[8]) opt-barrier(pair)
  e1 = f32[8] get-tuple-element(kept), index=0
  t = f32[8] tanh(e1)
  again = f32[8] opt-barrier(t)
  ROOT r = f32[8] negate(again)
}"""
    context = PassContext(remarks=[])
    InstructionFusion().run(parse(SourceFile(text, "<test>")), context)
    assert {r.at: r.text for r in context.remarks or () if r.kind == "missed"} == {
        "e": "nothing moves across the opt-barrier kept that reads it",
        "t": "nothing moves across the opt-barrier again that reads it",
    }


def test_a_reader_that_is_a_kernel_apart_is_named() -> None:
    """Behind a reshape too; what only the caller reads has no remark."""
    text = """HloModule apart
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
ENTRY main {
  x = f32[8] parameter(0)
  e = f32[8] exponential(x)
  s = f32[8] sort(e), dimensions={0}, to_apply=less
  n = f32[8] negate(s)
  r = f32[2,4] reshape(n)
  d = f32[2,2] dot(r, r), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT t = f32[2,2] tanh(d)
}"""
    context = PassContext(remarks=[])
    InstructionFusion().run(parse(SourceFile(text, "<test>")), context)
    assert {r.at: r.text for r in context.remarks or () if r.kind == "missed"} == {
        "e": "s reads it, and this sort is not fused with what it reads",
        "n": "d reads it, and this dot is not fused with what it reads",
    }


STENCIL = """
HloModule stencil

ENTRY e {{
  x = f32[100,100] parameter(0)
  up = f32[98,98] slice(x), slice={{[0:98], [1:99]}}
  down = f32[98,98] slice(x), slice={{[2:100], [1:99]}}
  other = f32[98,98] parameter(1)
  sum = f32[98,98] add(up, {second})
  half = f32[98,98] multiply(sum, sum)
  one = s32[] constant(1)
  ROOT updated = f32[100,100] dynamic-update-slice(x, half, one, one)
}}
"""


@pytest.mark.parametrize(
    ("second", "kernels"),
    [
        ("down", {"fusion": 2}),  # the new middle from both slices, and the update
        ("other", {"fusion": 1, "slice": 1}),  # a slice, and the update with the arithmetic
    ],
)
def test_an_update_leaves_at_most_one_read_of_its_array_to_other_kernels(
    second: str, kernels: dict[str, int]
) -> None:
    module = parse(SourceFile(STENCIL.format(second=second), "stencil"))
    fused(module, module.entry.root)
    found = [i.opcode.name for i in module.entry.instructions]
    kinds = {name: found.count(name) for name in ("fusion", "slice") if name in found}
    assert kinds == kernels


def test_what_a_scatter_adds_to_zeros_is_computed_where_it_is_added() -> None:
    """The gradient of a rectifier at gathered rows reads the zeros, too."""
    text = """HloModule rows
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  x = f32[100,32] parameter(0)
  from = s32[500,1] parameter(1)
  to = s32[500,1] parameter(2)
  zero = f32[] constant(0)
  zeros = f32[100,32] broadcast(zero), dimensions={}
  positive = pred[100,32] compare(x, zeros), direction=GT
  rectified = f32[100,32] select(positive, x, zeros)
  rows = f32[500,32] gather(rectified, from), offset_dims={1}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=1, slice_sizes={1,32}
  ROOT sums = f32[100,32] scatter(zeros, to, rows), update_window_dims={1},
    inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
}"""
    module = parse(SourceFile(text, "rows"))
    fused(module, module.entry.root)
    assert all(i.array.dims != (500, 32) for i in module.entry.instructions)


MOVES = """
HloModule points

ENTRY e {{
  x = f32[{points},3] parameter(0)
  i = s32[] parameter(1)
  j = s32[] parameter(2)
  zero = s32[] constant(0)
  new = f32[1,3] parameter(3)
  moved = f32[{points},3] dynamic-update-slice(x, new, i, zero)
  point = f32[1,3] dynamic-slice(x, j, zero), dynamic_slice_sizes={{1,3}}
  back = f32[1,3] negate(point)
  ROOT both = f32[{points},3] dynamic-update-slice(moved, back, j, zero)
}}
"""


@pytest.mark.parametrize(("points", "reads_old"), [(40, False), (8, True)])
def test_the_second_update_of_an_array_reads_the_old_one_only_if_a_copy_is_small(
    points: int, reads_old: bool
) -> None:
    module = parse(SourceFile(MOVES.format(points=points), "moves"))
    fused(module, module.entry.root)
    x = module.entry.parameters[0]
    assert (x in module.entry.root.operands) is reads_old
