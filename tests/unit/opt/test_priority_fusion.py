"""Priority fusion: what the model makes of known cases, limits, and that nothing changes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloc
from hloc.analysis.gpu_devices import spec_of_chip
from hloc.analysis.kernel_count import is_kernel, kernel_counts
from hloc.ir.clone import clone_module
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline
from hloc.opt.pipelines import pipeline_for
from tests.gpu_estimate import instruction_seconds, module_seconds
from tests.inputs import inputs_for
from tests.unit.opt.random_modules import RandomModule
from tests.unit.opt.row_modules import RowModule
from tests.unit.opt.test_random_modules import same_bits

H100 = "sm_90"
FUSE = "priority-fusion{chip=sm_90},dce,multi-output-fusion{chip=sm_90},dce"

SUM = """
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
"""


def module_of(*lines: str) -> Module:
    """Return a module of an entry whose last line is the root."""
    body = "\n".join(["HloModule m", SUM, "ENTRY e {", *lines[:-1], f"ROOT {lines[-1]}", "}"])
    return hloc.parse(body)


def fused(*lines: str, options: str = "", context: PassContext | None = None) -> Module:
    module = module_of(*lines)
    passes = f"priority-fusion{options},dce"
    Pipeline.parse(passes, check_changed=True).run(module, context or PassContext())
    verify(module)
    return module


def kernels(module: Module) -> list[Instruction]:
    return [inst for inst in module.entry.instructions if is_kernel(inst)]


# ---------------------------------------------------------------- nothing changes


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([15, 30, 60]))
def test_results_are_the_same(seed: int, size: int) -> None:
    module = RandomModule(seed).grown(size)
    inputs = inputs_for(module, seed=seed % 7)
    want = hloc.evaluate(module, *inputs)
    copy = clone_module(module)
    pipeline_for(2, "nvptx64", "sm_90").run(copy)
    verify(copy)
    for number, (got, wanted) in enumerate(zip(hloc.evaluate(copy, *inputs), want, strict=True)):
        assert same_bits(got, wanted), f"result {number} of\n{module}"


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([12, 25, 50]))
def test_results_of_rows_are_the_same(seed: int, size: int) -> None:
    module = RowModule(seed).grown(size)
    inputs = inputs_for(module, seed=seed % 7)
    want = hloc.evaluate(module, *inputs)
    copy = clone_module(module)
    Pipeline.parse("dce," + FUSE, check_changed=True).run(copy)
    verify(copy)
    for number, (got, wanted) in enumerate(zip(hloc.evaluate(copy, *inputs), want, strict=True)):
        assert (np.asarray(got) == wanted).all(), f"result {number} of\n{module}"


@pytest.mark.parametrize("seed", range(3))
def test_same_module_same_text(seed: int) -> None:
    texts = []
    for _ in range(2):
        module = RandomModule(seed).grown(40)
        pipeline_for(2, "nvptx64").run(module)
        texts.append(str(module))
    assert texts[0] == texts[1]


# ---------------------------------------------------------------- the model of kernels


def chain(elements: int, length: int) -> Module:
    shape = f"f32[{elements}]"
    opcodes = ("tanh", "negate", "exponential")
    steps = [f"x{i + 1} = {shape} {opcodes[i % 3]}(x{i})" for i in range(length)]
    return module_of(f"x0 = {shape} parameter(0)", *steps)


@pytest.mark.parametrize("elements", [64, 1 << 14, 1 << 20, 1 << 26])
@pytest.mark.parametrize("chip", ["sm_80", "sm_90", "gfx942"])
def test_an_elementwise_chain_is_one_kernel_and_takes_less_time(elements: int, chip: str) -> None:
    module = chain(elements, 7)
    apart = module_seconds(module, chip)
    Pipeline.parse(f"priority-fusion{{chip={chip}}}").run(module)
    assert len(kernels(module)) == 1
    assert module_seconds(module, chip) < 0.5 * apart


def test_a_kernel_takes_the_time_of_its_bytes_however_many_steps_it_has() -> None:
    times = []
    for length in (2, 4):
        module = chain(1 << 26, length)
        Pipeline.parse("priority-fusion{chip=sm_90}").run(module)
        times.append(module_seconds(module, H100))
    assert times[0] == pytest.approx(2 * (4 << 26) / spec_of_chip(H100).bytes_per_second, rel=0.1)
    assert times[1] == pytest.approx(times[0], rel=0.1)


def test_reading_across_memory_is_seen_through_a_fusion() -> None:
    across, along = (
        module_of(
            "x = f32[8192,8192] parameter(0)",
            "z = f32[] constant(0)",
            f"t = f32[8192,8192] transpose(x), dimensions={dimensions}",
            "n = f32[8192,8192] negate(t)",
            "r = f32[8192] reduce(n, z), dimensions={1}, to_apply=sum",
        )
        for dimensions in ("{1,0}", "{0,1}")
    )
    for module in (across, along):
        Pipeline.parse("fusion").run(module)
        assert len(kernels(module)) == 1
    assert module_seconds(across, H100) > 3 * module_seconds(along, H100)


def test_all_kernels_of_rows_count_their_arrays_once() -> None:
    """A softmax by rows takes hardly longer than a copy, though each element is used thrice."""
    softmax = """
  z = f32[] constant(0)
  t = f32[8192] reduce(x, z), dimensions={1}, to_apply=sum
  u = f32[8192,1024] broadcast(t), dimensions={0}
  s = f32[8192,1024] subtract(x, u)
  p = f32[8192,1024] exponential(s)
  q = f32[8192] reduce(p, z), dimensions={1}, to_apply=sum
  v = f32[8192,1024] broadcast(q), dimensions={0}"""
    module = fused("x = f32[8192,1024] parameter(0)", softmax, "r = f32[8192,1024] divide(p, v)")
    (kernel,) = kernels(module)
    copied = module_of("x = f32[8192,1024] parameter(0)", "r = f32[8192,1024] negate(x)")
    least = module_seconds(copied, H100)
    assert least < instruction_seconds(kernel, H100) < 1.3 * least


# ---------------------------------------------------------------- limits


def test_operands_are_no_more_than_asked_for() -> None:
    arrays = [f"p{i} = f32[64] parameter({i})" for i in range(20)]
    sums = [f"a{i} = f32[64] add({f'a{i - 1}' if i > 1 else 'p0'}, p{i})" for i in range(1, 20)]
    module = fused(*arrays, *sums, options="{max-operands=6}")
    assert max(len(kernel.operands) for kernel in kernels(module)) <= 6
    assert len(kernels(module)) <= 6


def test_a_producer_of_many_kernels_is_not_copied_into_all() -> None:
    """The code of 200 kernels would be longer by what one kernel does."""
    readers = 200
    arrays = [f"p{i} = f32[64] parameter({i})" for i in range(readers)]
    uses = [f"m{i} = f32[64] multiply(e, p{i})" for i in range(readers)]
    shapes, names = ", ".join(["f32[64]"] * readers), ", ".join(f"m{i}" for i in range(readers))
    module = fused(*arrays, "e = f32[64] tanh(p0)", *uses, f"r = ({shapes}) tuple({names})")
    assert kernel_counts(module) == {"tanh": 1, "multiply": readers}


def test_doubling_does_not_explode() -> None:
    """Each step reads the one before at two places: 2^40 elements, if nothing stopped it."""
    steps = []
    for i in range(40):
        steps.append(f"q{i} = f32[64] reverse(y{i}), dimensions={{0}}")
        steps.append(f"y{i + 1} = f32[64] add(y{i}, q{i})")
    module = fused("y0 = f32[64] parameter(0)", *steps)
    assert sum(len(kernel.called[0]) for kernel in kernels(module)) < 200


def test_what_follows_a_control_edge_stays() -> None:
    module = fused(
        "x = f32[64] parameter(0)",
        "a = f32[64] tanh(x)",
        "b = f32[64] negate(x), control-predecessors={a}",
        "r = (f32[64], f32[64]) tuple(a, b)",
    )
    assert kernel_counts(module) == {"tanh": 1, "negate": 1}


def test_long_rows_that_leave_the_device_idle_are_not_one_kernel() -> None:
    def count(rows: int, size: int) -> int:
        shape = f"f32[{rows},{size}]"
        module = fused(
            f"x = {shape} parameter(0)",
            "z = f32[] constant(0)",
            f"t = f32[{rows}] reduce(x, z), dimensions={{1}}, to_apply=sum",
            f"u = {shape} broadcast(t), dimensions={{0}}",
            f"r = {shape} divide(x, u)",
            options="{chip=sm_90}",
        )
        return len(kernels(module))

    assert count(4096, 512) == 1
    assert count(2, 1 << 16) == 2
    assert count(4, 1 << 20) == 2


def test_a_limit_on_rewrites_and_remarks() -> None:
    lines = ("x = f32[64] parameter(0)", "t = f32[64] tanh(x)", "n = f32[64] negate(t)")
    assert len(kernels(fused(*lines, context=PassContext(rewrite_limit=0)))) == 2
    context = PassContext(remarks=[])
    fused(*lines, context=context)
    (remark,) = [r for r in context.remarks or () if r.by == "priority-fusion"]
    assert remark.at == "t"
    assert "saves" in remark.text
