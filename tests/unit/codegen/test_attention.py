"""The kernel of attention alone: its parts, its scratch memory, other processors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hloc
from hloc.codegen.cpu.emitters.attention import attention
from hloc.codegen.cpu.kernel import emit_kernel, needs_defusion
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import KernelPlan
from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS
from hloc.codegen.llvm.target import target_for
from hloc.codegen.lower.expansion import expand
from hloc.codegen.plan.kernel_request import KernelRequest
from hloc.ir.instruction import Instruction
from hloc.opt.fusion.attention_match import is_attention_fusion
from hloc.opt.pipeline import Pipeline
from hloc.shapes import array_leaves
from tests.inputs import inputs_for
from tests.tolerance import difference
from tests.unit.codegen.emitters import emitter_for
from tests.unit.codegen.float_environment import Environment, needs_fenv
from tests.unit.codegen.harness import Compiled, emit, run_instruction, to_memory
from tests.unit.codegen.processors import PROCESSOR
from tests.unit.opt.attention_modules import AttentionText

TEXT = AttentionText(sizes=(2, 3, 110, 90, 24, 40), mask="causal", scale="none", order="bshd")


def fusion_of(text: AttentionText) -> tuple[Instruction, list[Any], Any]:
    """Return an attention as one fusion, inputs in the order of its operands, and the result."""
    module = hloc.parse(text.text())
    inputs = inputs_for(module, special=False)
    (want,) = hloc.evaluate(module, *inputs)
    Pipeline.parse("algebraic-simplifier,dce,attention-fusion,dce").run(module)
    fusion = module.entry.root
    arrays = [inputs[operand.attributes.number] for operand in fusion.operands]
    return fusion, arrays, want


def plan_of(inst: Instruction) -> KernelPlan[KernelContext]:
    """Return the plan of the attention kernel."""
    plan = attention.plan(inst)
    assert plan is not None
    return plan


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize(("pieces", "scratch_offset"), [(1, 0), (5, 16), (18, 48)])
def test_every_part_of_the_loop_stands_alone(dtype: str, pieces: int, scratch_offset: int) -> None:
    """Parts begin inside a batch element, and scratch memory is not aligned."""
    inst, arrays, want = fusion_of(replace(TEXT, dtype=dtype))
    assert emitter_for(inst) is attention.EMITTER
    assert not needs_defusion(inst)
    assert plan_of(inst).extent >= 12
    (got,) = run_instruction(inst, arrays, pieces=pieces, scratch_offset=scratch_offset)
    assert difference(got, want) is None


@pytest.mark.parametrize("mask", ["none", "causal", "padding", "added"])
# 110 keys leave a rest, as 67 do, of more than one.
@pytest.mark.parametrize("keys", [64, 67, pytest.param(110, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("dtype", "depth"), [("f32", 24), ("bf16", 24), ("f32", 40)])
def test_keys_are_taken_in_vectors(mask: str, keys: int, dtype: str, depth: int) -> None:
    """Whole vectors, and a rest that does not count towards the largest logit."""
    sizes = (2, 2, keys, keys, depth, 40)
    inst, arrays, want = fusion_of(replace(TEXT, sizes=sizes, mask=mask, dtype=dtype))
    target = target_for()
    kernel = emit_kernel(KernelRequest(inst, (None,)), "kernel", target, stack_bytes=0)
    if target.triple.startswith(("x86_64", "aarch64")):
        assert kernel.level == FINAL_WITH_SLOTS
    (got,) = run_instruction(inst, arrays)
    assert difference(got, want) is None


def test_one_part_gives_the_bits_of_many() -> None:
    """A block is computed in the same way whoever computes the one before it."""
    inst, arrays, _ = fusion_of(TEXT)
    (one,) = run_instruction(inst, arrays)
    (many,) = run_instruction(inst, arrays, pieces=7)
    assert np.array_equal(one, many)


def test_many_keys_make_small_blocks() -> None:
    """Scores of a block stay in the cache, so scratch memory grows with keys, not with queries."""
    few = fusion_of(replace(TEXT, sizes=(1, 1, 64, 3000, 8, 8), mask="none"))[0]
    many = fusion_of(replace(TEXT, sizes=(1, 1, 512, 3000, 8, 8), mask="none"))[0]
    assert plan_of(few).scratch_bytes == plan_of(many).scratch_bytes


def test_a_target_without_the_kernel_still_fuses_softmax() -> None:
    """What the pass joined is taken apart, and softmax becomes a kernel of its own again."""
    module = hloc.parse(TEXT.text())
    Pipeline.parse("algebraic-simplifier,dce,attention-fusion,fusion,dce").run(module)
    expand(module, is_attention_fusion)
    opcodes = sorted(i.opcode.name for i in module.entry.instructions if i.operands)
    assert opcodes == ["dot", "dot", "fusion"]


@needs_fenv
@PROCESSOR
@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(
    "sizes", [(1, 2, 40, 197, 24, 40), (1, 2, 37, 65, 33, 20), (1, 1, 70, 70, 64, 64)]
)
def test_what_is_not_written_is_not_multiplied(
    cpu: str, dtype: str, mask: str, sizes: tuple[int, int, int, int, int, int]
) -> None:
    """Parts of panels and of tiles: subnormal numbers there would take a hundred times as long."""
    inst, arrays, _ = fusion_of(replace(TEXT, sizes=sizes, dtype=dtype, mask=mask))
    machine = target_for(cpu=cpu)
    compiled = Compiled(emit(inst, target=machine), target=machine)
    shapes = [leaf for operand in inst.operands for leaf in array_leaves(operand.shape)]
    buffers = [to_memory(a, s) for a, s in zip(arrays, shapes, strict=True)]
    buffers.append(np.zeros(inst.array.elements, inst.array.dtype.numpy))
    environment = Environment()
    environment.met_subnormals()
    compiled.run(buffers, unwritten=0x00010001)
    assert not environment.met_subnormals()
