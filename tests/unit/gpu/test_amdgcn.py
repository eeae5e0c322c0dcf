"""The kernels of all GPUs as code for AMD's: objects, no spills, shuffles inside 32 lanes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hloc import evaluate
from hloc.codegen.gpu.amdgcn.backend import INTRINSICS, STAGES, AmdgcnBackend, AmdgcnModule
from hloc.codegen.gpu.amdgcn.chips import CHIPS, TRIPLE, target_for_chip
from hloc.codegen.gpu.amdgcn.prelude import is_known, prelude_text
from hloc.codegen.gpu.helpers import HELPERS
from hloc.codegen.gpu.legality import check_legal
from hloc.codegen.gpu.worker import Job, compile_job
from hloc.driver import optimise, parse_text
from hloc.errors import HloError, UnsupportedError
from hloc.options import CompileOptions
from hloc.report.inputs import random_inputs
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.host_device import HostDevice
from hloc.runtime.loading import load_compiled
from tests.tolerance import assert_close
from tests.unit.gpu.simulate import entry
from tests.unit.opt.attention_modules import AttentionText

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
LESS = """lt { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }"""
SUM = LESS.replace("lt {", "sum {").replace("pred[] compare(a, b), direction=LT", "f32[] add(a, b)")
REDUCE = entry("f32[100,3000]", "f32[100] reduce(p0, z), dimensions={1}, to_apply=sum", SUM)
KERNELS = {
    "elementwise": entry("f32[5000];bf16[5000]", "f32[5000] power(p0, c)").replace(
        "  ROOT", "  c = f32[5000] convert(p1)\n  ROOT"
    ),
    "reduce": REDUCE.replace("  ROOT", "  z = f32[] constant(0)\n  ROOT"),
    "transpose": entry("f32[300,200]", "f32[200,300] transpose(p0), dimensions={1,0}"),
    "sort": entry("f32[3000]", "f32[3000] sort(p0), dimensions={0}, to_apply=lt", LESS),
    "rows": (EXAMPLES / "softmax_relu.hlo").read_text(),
    "product": entry(
        "bf16[64,64];bf16[64,64]",
        "f32[64,64] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "attention": AttentionText(
        sizes=(2, 4, 300, 300, 64, 64), mask="causal", hidden="-1e30", dtype="bf16"
    ).text(),
}
"""GemmProblem and attention go the plain way: tiles of matrices are not there."""


def _compiled(text: str, chip: str = "") -> AmdgcnModule:
    options = CompileOptions(target="amdgcn", cpu=chip)
    module = parse_text(text)
    optimise(module, options)
    return AmdgcnBackend().compile(module, options)


@pytest.mark.parametrize(
    "chip",
    [
        "gfx90a",
        "gfx1201",
        *(pytest.param(c, marks=pytest.mark.slow) for c in ("gfx942", "gfx1100")),
    ],
)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_become_objects_without_spills(name: str, chip: str) -> None:
    module = _compiled(KERNELS[name], chip)
    text, data = module.stage("asm"), module.stage("object")
    assert isinstance(text, str)
    assert isinstance(data, bytes)
    assert data[:4] == b"\x7fELF"
    launched = [f.name for kernel in module.kernels for f in kernel.functions]
    assert re.findall(r"^\s+\.amdhsa_kernel (\S+)", text, re.MULTILINE) == launched
    for kind in ("vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size"):
        counts = re.findall(rf"\.{kind}:\s+(\d+)", text)
        assert counts == ["0"] * len(launched), kind


def test_arguments_are_read_as_global_memory_in_wide_words() -> None:
    """Plain pointers would cost `flat` accesses; neighbours are read together."""
    text = _compiled(entry("f32[1048576]", "f32[1048576] negate(p0)"), "gfx942").stage("asm")
    assert isinstance(text, str)
    assert "global_load_dwordx4" in text
    assert not re.search(r"^\s+flat_", text, re.MULTILINE)


@pytest.mark.parametrize("chip", CHIPS)
def test_every_helper_that_is_known_is_code_on_every_chip(chip: str) -> None:
    """LLVM takes unknown intrinsics for functions of another module, or ends."""
    names = [name for name in HELPERS if is_known(name)]
    lines = ["define amdgpu_kernel void @k(ptr addrspace(1) %p, i32 %i, float %f) {"]
    for number, name in enumerate(names):
        row = HELPERS[name]
        given = ", ".join(f"{kind} {'%f' if kind == 'float' else '%i'}" for kind in row.arguments)
        result = "" if row.result == "void" else f"%r{number} = "
        lines.append(f"  {result}call {row.result} @gpu.{name}({given})")
        if result:
            lines.append(f"  store volatile {row.result} %r{number}, ptr addrspace(1) %p")
    text = "\n".join([prelude_text(dict.fromkeys(names)), *lines, "  ret void", "}"])
    check_legal(text, INTRINSICS)
    asm = compile_job(Job("k", text, TRIPLE, chip, "", 2)).decode()
    assert "s_barrier" in asm
    assert "ds_bpermute_b32" in asm
    assert "s_swappc" not in asm  # a call of a function that is elsewhere
    assert f".wavefront_size: {CHIPS[chip].wave_threads}" in asm


def test_shuffles_ask_lanes_of_the_same_32() -> None:
    """In a wave of 64 the partner is counted from the first lane of the own half."""
    for how in ("xor", "up", "down", "index"):
        text = prelude_text({f"shuffle.{how}.i32": None})
        assert "%first = and i32 %number, -32" in text
        assert "%other = or i32 %first, %chosen" in text


def test_unknown_chips_features_and_functions_are_reported() -> None:
    with pytest.raises(HloError, match="there is no chip") as fault:
        target_for_chip("gfx943")
    assert "did you mean gfx94" in str(fault.value.diagnostics[0].notes)
    with pytest.raises(HloError, match="does not take the feature"):
        target_for_chip("gfx942", "+wavefrontsize32")
    assert not is_known("multiply_tiles.bf16")


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_as_code_of_this_machine_are_right(name: str) -> None:
    """What is written for these chips, as tiles without `mma`, gives the evaluator's answers."""
    text = KERNELS[name]
    arrays = random_inputs(parse_text(text), 0)
    found = GpuExecutable(_compiled(text), HostDevice())(*arrays)
    for a, b in zip(found, evaluate(text, *arrays), strict=True):
        assert_close(a, b)


def test_machine_code_for_amd_does_not_run_here() -> None:
    module = _compiled(entry("f32[8]", "f32[8] negate(p0)"))
    assert tuple(stage.name for stage in module.stages) == tuple(s.name for s in STAGES)
    with pytest.raises(UnsupportedError, match="cannot run in this process"):
        load_compiled(module)
    with pytest.raises(HloError, match="there is no stage 'ptx'"):
        module.stage("ptx")
