"""Operand fusion: which producers join products, by the model, and that nothing changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloc
from hloc.analysis.kernel_count import is_kernel
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.opt.fusion.operand_fusion import OperandFusion
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline
from tests.gpu_estimate import module_seconds
from tests.inputs import inputs_for
from tests.unit.opt.random_modules import RandomModule
from tests.unit.opt.test_random_modules import same_bits

PLAIN = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
FUSE = (
    "priority-fusion{chip=CHIP},dce,output-fusion{min-bytes=1,on-gpu=true},"
    "operand-fusion{chip=CHIP},dce"
)


def module_of(*lines: str) -> Module:
    """Return a module of an entry whose last line is the root."""
    return hloc.parse(
        "\n".join(["HloModule m", "ENTRY e {", *lines[:-1], f"ROOT {lines[-1]}", "}"])
    )


def fused(module: Module, chip: str = "sm_90") -> Module:
    Pipeline.parse(FUSE.replace("CHIP", chip), check_changed=True).run(module)
    verify(module)
    return module


def names(module: Module) -> list[str]:
    """Return the opcodes of the kernels, and of the members of fusions."""
    result = []
    for inst in module.entry.instructions:
        if is_kernel(inst):
            members = inst.called[0].instructions if inst.is_a("fusion") else (inst,)
            opcodes = sorted(m.opcode.name for m in members if not m.is_a("parameter"))
            result.append("+".join(opcodes))
    return sorted(result)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every producer that may join does."""
    monkeypatch.setattr(OperandFusion, "_gain", lambda *_: 1.0)


# ---------------------------------------------------------------- what joins


def quantised(rows: int, dtype: str = "bf16", size: int = 4096) -> Module:
    """A product with weights in s8 and a scale per column."""
    return module_of(
        f"x = {dtype}[{rows},{size}] parameter(0)",
        f"w = s8[{size},{size}] parameter(1)",
        f"s = {dtype}[{size}] parameter(2)",
        f"c = {dtype}[{size},{size}] convert(w)",
        f"b = {dtype}[{size},{size}] broadcast(s), dimensions={{1}}",
        f"y = {dtype}[{size},{size}] multiply(c, b)",
        f"d = f32[{rows},{size}] dot(x, y), {PLAIN}",
    )


@pytest.mark.parametrize("chip", ["sm_80", "sm_90", "sm_90a", "gfx942"])
@pytest.mark.parametrize("rows", [1, 32, 128])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_weights_in_s8_are_scaled_as_they_are_read(chip: str, rows: int, dtype: str) -> None:
    module = quantised(rows, dtype)
    apart = module_seconds(module, chip)
    fused(module, chip)
    assert names(module) == ["broadcast+convert+dot+multiply"]
    assert module_seconds(module, chip) < 0.8 * apart


def test_large_products_keep_asynchronous_copies() -> None:
    """Of the converted weights: the kernel that converts them takes less time than is lost."""
    assert len(names(fused(quantised(2048), "sm_90a"))) == 2
    assert len(names(fused(quantised(256), "sm_90a"))) == 1


def test_an_epilogue_is_preferred() -> None:
    """An activation between two products runs once per element in the first of them."""
    module = module_of(
        "x = f32[64,64] parameter(0)",
        "w = f32[64,64] parameter(1)",
        f"d = f32[64,64] dot(x, w), {PLAIN}",
        "t = f32[64,64] tanh(d)",
        f"e = f32[64,64] dot(t, w), {PLAIN}",
    )
    assert names(fused(module)) == ["dot", "dot+tanh"]


def test_a_kernel_with_an_epilogue_takes_producers() -> None:
    module = module_of(
        "x = f32[64,64] parameter(0)",
        "w = f32[64,64] parameter(1)",
        "n = f32[64,64] negate(x)",
        f"d = f32[64,64] dot(n, w), {PLAIN}",
        "t = f32[64,64] add(d, x)",
    )
    assert names(fused(module)) == ["add+dot+negate"]


@pytest.mark.parametrize("last", ["e = f32[64,64] dot(w, n), " + PLAIN, "e = f32[64,64] abs(n)"])
def test_it_joins_all_that_read_it_or_none(last: str) -> None:
    """Two products; a product and another kernel."""
    module = module_of(
        "x = f32[64,64] parameter(0)",
        "w = f32[64,64] parameter(1)",
        "n = f32[64,64] sine(x)",
        f"d = f32[64,64] dot(n, w), {PLAIN}",
        last,
        "r = (f32[64,64], f32[64,64]) tuple(d, e)",
    )
    kernels = names(fused(module))
    if "dot" in last:
        assert kernels == ["dot+sine", "dot+sine"]
    else:
        assert "dot" in kernels


def test_what_an_epilogue_reads_too_stays() -> None:
    module = module_of(
        "x = f32[64,64] parameter(0)",
        "w = f32[64,64] parameter(1)",
        "n = f32[64,64] sine(x)",
        f"d = f32[64,64] dot(n, w), {PLAIN}",
        "s = f32[64,64] add(d, n)",
    )
    assert names(fused(module)) == ["add+dot", "sine"]


def test_reshapes_between_are_looked_through() -> None:
    """A transposition, a reshape, a product, as behind the heads of attention."""
    module = module_of(
        "x = f32[4,32,16] parameter(0)",
        "w = f32[64,48] parameter(1)",
        "t = f32[32,4,16] transpose(x), dimensions={1,0,2}",
        "v = f32[32,64] reshape(t)",
        f"d = f32[32,48] dot(v, w), {PLAIN}",
    )
    assert names(fused(module)) == ["dot+reshape+transpose"]


def test_the_producers_of_both_sides_join_together() -> None:
    """Each alone would cost the asynchronous copies of its side, and not save enough."""
    both = module_of(
        "x = f32[512,512] parameter(0)",
        "w = f32[512,512] parameter(1)",
        "a = bf16[512,512] convert(x)",
        "b = bf16[512,512] convert(w)",
        f"d = f32[512,512] dot(a, b), {PLAIN}",
    )
    assert names(fused(both, "sm_90a")) == ["convert+convert+dot"]
    one = module_of(
        "x = f32[512,512] parameter(0)",
        "w = bf16[512,512] parameter(1)",
        "a = bf16[512,512] convert(x)",
        f"d = f32[512,512] dot(a, w), {PLAIN}",
    )
    assert names(fused(one, "sm_90a")) == ["convert", "dot"]


def test_sides_that_read_no_memory_join() -> None:
    """Broadcasts of a scalar, and positions."""
    module = module_of(
        "x = f32[] parameter(0)",
        "a = f32[64,64] broadcast(x), dimensions={}",
        "b = f32[64,64] iota(), iota_dimension=0",
        f"d = f32[64,64] dot(a, b), {PLAIN}",
    )
    assert names(fused(module)) == ["broadcast+dot+iota"]


def test_both_sides_and_two_views_of_one_producer() -> None:
    module = module_of(
        "x = f32[8,8,16] parameter(0)",
        "n = f32[8,8,16] cosine(x)",
        "a = f32[64,16] reshape(n)",
        "b = f32[16,64] reshape(n)",
        f"d = f32[64,64] dot(a, b), {PLAIN}",
    )
    assert names(fused(module)) == ["cosine+dot+reshape+reshape"]


@pytest.mark.usefixtures("always")
def test_results_and_what_is_changed_in_place_stay() -> None:
    """A result of the computation, and what is read from an array that is changed in place."""
    kept = module_of(
        "x = f32[64,64] parameter(0)",
        "n = f32[64,64] sine(x)",
        f"d = f32[64,64] dot(n, x), {PLAIN}",
        "r = (f32[64,64], f32[64,64]) tuple(d, n)",
    )
    assert names(fused(kept)) == ["dot", "sine"]
    updated = module_of(
        "x = f32[64,64] parameter(0)",
        "w = f32[1,64] parameter(1)",
        "i = s32[] parameter(2)",
        "n = f32[64,64] sine(x)",
        "u = f32[64,64] dynamic-update-slice(x, w, i, i)",
        f"d = f32[64,64] dot(n, u), {PLAIN}",
    )
    assert names(fused(updated)) == ["dot", "dynamic-update-slice", "sine"]


@pytest.mark.usefixtures("always")
def test_long_producers_stay() -> None:
    steps = [f"y{i + 1} = f32[64,64] tanh(y{i})" for i in range(10)]
    module = module_of(
        "y0 = f32[64,64] parameter(0)",
        *steps,
        f"d = f32[64,64] dot(y10, y0), {PLAIN}",
    )
    context = PassContext(remarks=[])
    Pipeline.parse(FUSE.replace("CHIP", "sm_90")).run(module, context)
    assert len(names(module)) == 2
    assert any("too long" in remark.text for remark in context.remarks or ())


def test_the_input_of_a_convolution() -> None:
    """In tiles of 64 features and more each position is read nine times."""
    module = module_of(
        "x = f32[2,16,16,8] parameter(0)",
        "k = f32[3,3,8,16] parameter(1)",
        "n = f32[2,16,16,8] negate(x)",
        "d = f32[2,16,16,16] convolution(n, k), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f",
    )
    assert names(fused(module)) == ["convolution+negate"]


def test_conversions_to_f32_on_both_sides_give_tensor_cores() -> None:
    """The kernel multiplies the numbers in bf16, exactly, and adds in f32 in any case."""
    module = module_of(
        "x = bf16[4096,4096] parameter(0)",
        "w = bf16[4096,4096] parameter(1)",
        "a = f32[4096,4096] convert(x)",
        "b = f32[4096,4096] convert(w)",
        f"d = f32[4096,4096] dot(a, b), {PLAIN}",
    )
    apart = module_seconds(module, "sm_90")
    assert names(fused(module)) == ["convert+convert+dot"]
    assert module_seconds(module, "sm_90") < apart / 4


# ---------------------------------------------------------------- nothing changes


class ProductModule(RandomModule):
    """Also multiplies matrices, whatever computes them."""

    def choices(self) -> tuple[Callable[[], Instruction | None], ...]:
        """Return what adds an instruction; a quarter of them are products."""
        return (*super().choices(), *[self.product] * 5)

    def product(self) -> Instruction | None:
        """Contract any two dimensions of equal size."""
        x = self.pick()
        y = self.pick(x.array.dtype)
        pairs = [
            (i, j)
            for i, size in enumerate(x.array.dims)
            for j, other in enumerate(y.array.dims)
            if size == other
        ]
        if not pairs or x.array.dtype.is_pred:
            return None
        left, right = pairs[self.random.integers(len(pairs))]
        return self.b.instruction(
            "dot", (x, y), lhs_contracting_dims=(left,), rhs_contracting_dims=(right,)
        )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([15, 30, 60]))
def test_results_are_the_same(seed: int, size: int) -> None:
    module = ProductModule(seed).grown(size)
    inputs = inputs_for(module, seed=seed % 7)
    want = hloc.evaluate(module, *inputs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OperandFusion, "_gain", lambda *_: 1.0)
        fused(module)
    for number, (got, wanted) in enumerate(zip(hloc.evaluate(module, *inputs), want, strict=True)):
        assert same_bits(got, wanted), f"result {number} of\n{module}"


@pytest.mark.parametrize("seed", range(3))
def test_same_module_same_text(seed: int) -> None:
    texts = []
    for _ in range(2):
        module = ProductModule(seed).grown(40)
        texts.append(str(fused(module)))
    assert texts[0] == texts[1]
    assert "dot_fusion" in texts[0]
