"""Attention as one kernel: which forms become one, and that every one computes the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_dtypes import bfloat16

import hloc
from hloc.ir.instruction import Instruction
from hloc.ir.module import Module
from hloc.ir.verifier import verify
from hloc.opt.fusion.attention_match import attention_of
from hloc.opt.fusion.causal_mask import causal_mask
from hloc.opt.pass_base import PassContext
from hloc.opt.pipeline import Pipeline
from tests.inputs import inputs_for
from tests.tolerance import difference
from tests.unit.opt.attention_modules import MASKS, AttentionText

PLAIN = AttentionText()


def fused(text: str) -> tuple[Module, PassContext]:
    """Return the module after the pass, and what the pass says."""
    module, context = hloc.parse(text), PassContext()
    context.remarks = []
    Pipeline.parse("algebraic-simplifier,dce,attention-fusion", check_changed=True).run(
        module, context
    )
    verify(module)
    return module, context


def is_fused(text: str) -> bool:
    module, _ = fused(text)
    return any(inst.is_a("fusion") for inst in module.entry.instructions)


def check(text: str, *, seed: int = 0, special: bool = True, change: Any = None) -> None:
    """Compile, run, and compare with the evaluator."""
    module = hloc.parse(text)
    inputs = inputs_for(module, seed, special=special)
    if change is not None:
        change(inputs)
    want = hloc.evaluate(module, *inputs)
    got = hloc.compile(module)(*inputs)
    for result, wanted in zip(got, want, strict=True):
        fault = difference(np.asarray(result), np.asarray(wanted))
        assert fault is None, f"{fault}\n{text}"


@st.composite
def attentions(draw: Any) -> AttentionText:
    """Any attention that the pass takes, of small sizes."""
    queries = draw(st.integers(12, 70))
    keys = draw(st.integers(max(16, -(-1024 // queries)), 150))
    dtype = draw(st.sampled_from(["f32", "f32", "bf16", "f16"]))
    group = draw(st.sampled_from([1, 1, 3]))
    return AttentionText(
        (
            draw(st.integers(1, 2)),
            draw(st.integers(1, 3)),
            queries,
            keys,
            draw(st.sampled_from([8, 15, 32])),
            draw(st.sampled_from([2, 16, 33, 70])),
        ),
        "bhsd" if group > 1 else draw(st.sampled_from(["bhsd", "bshd", "hdsb", "bhds"])),
        draw(st.sampled_from(MASKS)),
        draw(st.sampled_from(["scores", "queries", "none"])),
        dtype,
        draw(st.sampled_from(["f32", dtype])),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.sampled_from(["-inf", "-1e9", "-3"])) if dtype != "f16" else "-6e4",
        group,
    )


@settings(max_examples=12, deadline=None)
@given(attentions(), st.integers(0, 99), st.booleans())
def test_any_attention_computes_the_same(a: AttentionText, seed: int, special: bool) -> None:
    """Kernels do not round weights to f16, where 4e-9 is 0, and 0 times infinity NaN."""
    assert is_fused(a.text()), a.text()
    names = [parameter.name for parameter in hloc.parse(a.text()).entry.parameters]

    def finite_values(inputs: list[Any]) -> None:
        values = inputs[names.index("v")]
        values[np.isinf(values)] = 1

    change = finite_values if a.dtype == "f16" else None
    check(a.text(), seed=seed, special=special, change=change)


@pytest.mark.parametrize("mask", MASKS)
def test_masks_in_all_blocks(mask: str) -> None:
    """Several blocks of queries and panels of keys, so that a causal mask leaves some out."""
    check(replace(PLAIN, sizes=(1, 2, 150, 210, 16, 24), mask=mask).text(), special=False)


@pytest.mark.parametrize("hidden", ["-inf", "-1e9", "-2"])
@pytest.mark.parametrize("where", ["values", "keys", "small", "none"])
def test_left_out_keys_count_where_they_must(hidden: str, where: str) -> None:
    """Infinite values, NaN in keys, and logits below the masked ones: the mask proves nothing."""

    def change(inputs: list[Any]) -> None:
        if where == "values":
            inputs[2][0, 1, -1, 3] = np.inf
        elif where == "keys":
            inputs[1][0, 1, -1, 3] = np.nan
        elif where == "small":
            inputs[0][...] = 1e5
            inputs[1][...] = -1e5

    text = replace(PLAIN, sizes=(1, 2, 130, 200, 16, 16), mask="causal", hidden=hidden).text()
    check(text, special=False, change=change)


def test_rows_without_any_key_are_nan() -> None:
    """A row of -inf gives NaN, as softmax on its own does; beside others that do not."""

    def change(inputs: list[Any]) -> None:
        inputs[3][0] = False

    for mask in ("padding", "causal-and-padding"):
        a = replace(PLAIN, sizes=(2, 2, 60, 70, 16, 16), mask=mask)
        check(a.text(), special=False, change=change)


def test_keys_before_the_first_query_are_hidden_from_all() -> None:
    """The reach of a mask may be negative: the first rows see nothing, and all keys are made."""
    check(replace(PLAIN, sizes=(1, 1, 200, 120, 16, 16), mask="shifted").text(), special=False)


def test_many_keys_are_summed_in_blocks() -> None:
    check(replace(PLAIN, sizes=(1, 1, 13, 1300, 8, 16)).text(), special=False)


# ---------------------------------------------------------------- what the pass takes


def test_scores_need_no_memory() -> None:
    text = replace(PLAIN, sizes=(2, 8, 256, 256, 32, 32)).text()
    executable = hloc.compile(text, threads=1)
    scores = 4 * 2 * 8 * 256 * 256
    assert executable.buffers.arena_bytes < scores / 8


def with_root(root: str) -> str:
    """Return a plain attention with another root."""
    text = PLAIN.text().replace("ROOT out", "out").removesuffix("}\n")
    return f"{text}  ROOT r = {root}\n}}\n"


@pytest.mark.parametrize("name", ["scaled", "w", "pf"])
def test_what_others_read_stays_apart(name: str) -> None:
    """Gradients read probabilities, which then must be in memory."""
    text = with_root(f"(f32[1,2,40,16], f32[1,2,40,40]) tuple(out, {name})")
    module, context = fused(text)
    assert not any(inst.is_a("fusion") for inst in module.entry.instructions)
    assert any(remark.kind == "missed" for remark in context.remarks or ())


@pytest.mark.parametrize(
    "sizes", [(4, 8, 1, 512, 64, 64), (1, 1, 16, 40, 16, 16), (1, 2, 140, 8, 16, 16)]
)
def test_few_queries_or_keys_stay_apart(sizes: tuple[int, int, int, int, int, int]) -> None:
    assert not is_fused(replace(PLAIN, sizes=sizes).text())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("to_apply=sum", "to_apply=top"),
        ("subtract(x, topb)", "add(x, topb)"),
        ("exponential(less)", "tanh(less)"),
        ("divide(w, totalb)", "divide(totalb, w)"),
        ("reduce(w, zero)", "reduce(less, zero)"),
        ("dimensions={0,1,2}\n  less", "dimensions={0,1,3}\n  less"),
        ("dimensions={0,1,2}\n  pf", "dimensions={0,1,3}\n  pf"),
        ("lhs_contracting_dims={3}, rhs_batch_dims={0,1}, rhs_contracting_dims={2}",
         "lhs_contracting_dims={2}, rhs_batch_dims={0,1}, rhs_contracting_dims={2}"),
    ],
)  # fmt: skip
def test_what_only_looks_like_attention_stays_apart(old: str, new: str) -> None:
    text = PLAIN.text()
    assert text.count(old) == 1
    assert not is_fused(text.replace(old, new))


# ---------------------------------------------------------------- causal masks


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        ("none", None),
        ("causal", 0),
        ("causal-negated", 0),
        ("shifted", 17),
        ("padding", None),
        ("added", None),
    ],
)
def test_what_a_mask_hides(mask: str, expected: int | None) -> None:
    a = replace(PLAIN, sizes=(1, 2, 20, 37, 16, 16), mask=mask)
    module = hloc.parse(a.text())
    Pipeline.parse("algebraic-simplifier,dce").run(module)
    (result,) = [i for i in module.entry.instructions if is_result(i)]
    attention = attention_of(result)
    assert attention is not None
    found = causal_mask(attention)
    assert (found.reach if found else None) == expected
    if found is not None:
        assert found.compare.opcode.name == "compare"
        assert found.holds == (mask != "causal-negated")


def test_softmax_in_a_narrower_type_proves_nothing() -> None:
    """99,600 and 99,990 are the same bf16, so what is hidden counts as much."""
    a = replace(PLAIN, sizes=(1, 1, 150, 150, 16, 16), mask="causal", hidden="99600", scale="none")
    head, softmax = a.text().split("  x = ")
    softmax = softmax.replace("f32[", "bf16[").replace(
        "p = bf16[1,1,150,150] copy", "p = f32[1,1,150,150] convert"
    )
    softmax = softmax.replace("out = bf16", "out = f32")
    text = head.replace("f32[]", "bf16[]").replace("low = bf16", "low = f32") + "  x = " + softmax

    assert is_fused(text)
    module = hloc.parse(text)
    queries, keys, values = inputs_for(module, special=False)
    queries[...] = keys[...] = 0
    queries[..., 0], keys[..., 0] = 1000, 99.99
    (want,), (got,) = (
        run(queries, keys, values)
        for run in (lambda *x: hloc.evaluate(module, *x), hloc.compile(module))
    )
    assert difference(np.asarray(got).astype(bfloat16), want.astype(bfloat16)) is None


def is_result(inst: Instruction) -> bool:
    return inst.is_a("dot") and inst.is_root


def test_dear_functions_of_scores_come_along() -> None:
    """A soft cap is computed once for every score, in the kernel as before."""
    text = PLAIN.text().replace("convert(masked)", "tanh(masked)")
    assert is_fused(text)
    check(text)
