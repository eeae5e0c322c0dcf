"""From kernels to PTX and cubins: chips, what LLVM may be given, and faults that are told."""

from __future__ import annotations

import re

import pytest

from hloc.codegen.gpu.helpers import HELPERS, WARPGROUP_HELPERS
from hloc.codegen.gpu.legality import check_legal
from hloc.codegen.gpu.nvptx import cubin
from hloc.codegen.gpu.nvptx.chips import CHIPS, TRIPLE, target_for_chip
from hloc.codegen.gpu.nvptx.prelude import prelude_text
from hloc.codegen.gpu.nvptx.ptx import INTRINSICS, joined
from hloc.codegen.gpu.worker import Job, compile_job
from hloc.errors import HloError, InternalError, UnsupportedError
from hloc.options import CompileOptions
from hloc.runtime.gpu import executable
from hloc.runtime.loading import load_compiled
from tests.unit.gpu.simulate import compiled, entry

needs_assembler = pytest.mark.skipif(
    not cubin.can_assemble(), reason="neither nvJitLink nor ptxas is installed"
)

SMALL = entry("f32[8]", "f32[8] exponential(p0)")


@pytest.mark.parametrize("name", CHIPS)
def test_ptx_has_the_oldest_version_that_knows_the_chip(name: str) -> None:
    text = compiled(SMALL, cpu=name).ptx
    version = re.search(r"^\.version (\d+)\.(\d+)", text, re.MULTILINE)
    assert version is not None
    assert int(version[1]) * 10 + int(version[2]) == CHIPS[name].ptx
    assert f".target {name}" in text


def test_unknown_chips_and_features_are_refused() -> None:
    with pytest.raises(HloError, match="there is no chip") as fault:
        target_for_chip("sm_8x")
    assert "did you mean sm_8" in str(fault.value.diagnostics[0].notes)
    for features in ("+ptx91", "+ptx60", "+avx2"):
        with pytest.raises(HloError, match="does not take the feature"):
            target_for_chip("sm_80", features)
    assert target_for_chip("sm_80", "+ptx83").features == "+ptx83"


@needs_assembler
@pytest.mark.parametrize("chip", ["sm_80", "sm_90", "sm_100"])
def test_kernels_assemble(chip: str) -> None:
    module = compiled(SMALL, cpu=chip)
    made = cubin.assemble(module.ptx, chip)
    assert made.data[:4] == b"\x7fELF"
    assert [use.spill_bytes for use in made.uses.values()] == [0]


@needs_assembler
def test_errors_of_the_assembler_are_shown() -> None:
    text = compiled(SMALL).ptx.replace("ret;", "return_to_sender;")
    with pytest.raises(HloError, match="rejects the PTX"):
        cubin.assemble(text, "sm_80")


def test_a_missing_assembler_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cubin, "_nvjitlink", lambda: None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnsupportedError, match="pip install nvidia-nvjitlink"):
        compiled(SMALL).stage("cubin")


def test_code_that_would_end_the_process_is_not_given_to_llvm() -> None:
    for name in ("llvm.exp.f32", "llvm.sin.f64", "pow", "llvm.exp2.f64", "llvm.fmax"):
        with pytest.raises(InternalError, match=f"@{re.escape(name)} is not a function"):
            check_legal(f"declare float @{name}(float)", INTRINSICS)
    check_legal("declare float @llvm.fma.f32(float, float, float)", INTRINSICS)


def test_a_fatal_fault_of_llvm_is_an_error_and_the_next_kernel_is_fine() -> None:
    """LLVM ends its process for what it cannot select; this one goes on."""
    text = """declare float @llvm.sin.f32(float)
define ptx_kernel void @k(ptr %p) {
  %x = load float, ptr %p
  %y = call float @llvm.sin.f32(float %x)
  store float %y, ptr %p
  ret void
}"""
    with pytest.raises(InternalError, match=r"ended while it compiled fusion\.7"):
        compile_job(Job("fusion.7", text, TRIPLE, "sm_80", "", 2))
    assert ".entry" in compiled(SMALL).ptx


def test_wrong_text_is_reported_with_its_kernel() -> None:
    with pytest.raises(InternalError, match=r"invalid LLVM IR of add\.1"):
        compile_job(Job("add.1", "define void @k(", TRIPLE, "sm_80", "", 2))


@needs_assembler
@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
def test_every_helper_is_a_function_of_the_assembler(chip: str) -> None:
    """LLVM takes unknown intrinsics for functions of another module; the assembler does not."""
    names = [name for name in HELPERS if (name in WARPGROUP_HELPERS) == (chip == "sm_90a")]
    calls = []
    for name in names:
        row = HELPERS[name]
        arguments = ", ".join(f"{kind} {_ANY.get(kind, 'null')}" for kind in row.arguments)
        calls.append(f"  call {row.result} @gpu.{name}({arguments})")
    head = 'define ptx_kernel void @k() "nvvm.reqntid"="384" {'
    body = "\n".join([head, *calls, "  ret void", "}"])
    text = f"{prelude_text(dict.fromkeys(names))}\n{body}"
    check_legal(text, INTRINSICS)
    ptx = compile_job(Job("k", text, TRIPLE, chip, "", 0)).decode()
    assert "extern" not in ptx
    assert cubin.assemble(ptx, chip).data


_ANY = {"i32": "1", "i64": "1", "float": "1.0"}


def test_joined_texts_have_one_head() -> None:
    first, second = (compiled(entry("f32[8]", f"f32[8] {op}(p0)")).ptx for op in ("negate", "sine"))
    text = joined([first, second])
    assert text.count(".version") == text.count(".target") == 1
    assert text.count(".entry") == 2
    assert joined([]) == ""


def test_a_missing_gpu_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> None:
        raise UnsupportedError("there is no driver")

    monkeypatch.setattr(executable, "first_device", nothing)
    module = compiled(SMALL)
    assert module.options == CompileOptions(target="nvptx64")
    with pytest.raises(UnsupportedError, match="no NVIDIA GPU"):
        load_compiled(module)
