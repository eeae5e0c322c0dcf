"""`--target=nvptx64` and `amdgcn`, `targets` and `doctor`, as a user of GPUs meets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hloc.cli import main
from hloc.codegen.gpu.nvptx import cubin

TEXT = """HloModule m
ENTRY e {
  x = f32[64] parameter(0)
  ROOT r = f32[64] negate(x)
}
"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.hlo").write_text(TEXT)


def test_several_forms_go_to_files_with_their_endings() -> None:
    assert main(["a.hlo", "-q", "--target=nvptx64", "--emit=ptx,llvm-ir", "-o", "k.ptx"]) == 0
    assert ".visible .entry" in Path("k.ptx").read_text()
    assert "ptx_kernel" in Path("k.ll").read_text()
    assert main(["a.hlo", "-q", "--target=amdgcn", "--emit=asm,object", "-o", "k"]) == 0
    assert ".amdhsa_kernel" in Path("k.s").read_text()
    assert Path("k.o").read_bytes()[:4] == b"\x7fELF"


@pytest.mark.skipif(not cubin.can_assemble(), reason="no assembler is installed")
def test_a_cubin_is_written() -> None:
    assert main(["a.hlo", "-q", "--target=nvptx64", "--emit=cubin", "-o", "k.cubin"]) == 0
    assert Path("k.cubin").read_bytes()[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--target=nvptx"], 2, "did you mean nvptx64?"),
        (["--target=nvptx64", "--mcpu=sm_99", "--emit=ptx"], 1, "did you mean sm_90?"),
        (["--target=nvptx64", "--emit=asm"], 2, "its stages are hlo, buffers, llvm-ir, ptx, cubin"),
        (["--target=amdgcn", "--run"], 3, "cannot run in this process"),
    ],
)
def test_invalid_options_are_refused(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["a.hlo", "-q", *words]) == code
    assert said in capsys.readouterr().err


def test_chips_are_listed_with_their_features(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["targets", "nvptx64", "amdgcn"]) == 0
    listed = capsys.readouterr().out
    assert "sm_90a           PTX 8.0, 227 KiB of shared memory, tensor cores" in listed
    assert "gfx1100          Radeon RX 7900: waves of 32" in listed


def test_the_doctor_looks_for_an_assembler_and_a_gpu(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "gpu assembler" in said
    assert "\nok    gpu " in said
    monkeypatch.setattr(cubin, "_nvjitlink", lambda: None)
    monkeypatch.setenv("PATH", "")
    assert main(["doctor"]) == 0
    assert "none; only needed for --emit=cubin" in capsys.readouterr().out
