"""`hloc doctor A B`: what differs between two compilations, in words."""

import json
from pathlib import Path

import pytest

from hloc.cli import main

Capture = pytest.CaptureFixture[str]

PROGRAM = """HloModule jit_f

ENTRY e {
  x = f32[64,64] parameter(0)
  y = f32[64,64] negate(x)
  ROOT z = f32[64,64] tanh(y)
}
"""
FUSED = """HloModule jit_f, is_scheduled=true

fused {
  p = f32[64,64] parameter(0)
  y = f32[64,64] negate(p)
  ROOT z = f32[64,64] tanh(y)
}

ENTRY e {
  x = f32[64,64] parameter(0)
  ROOT f = f32[64,64] fusion(x), kind=kLoop, calls=fused
}
"""
APART = PROGRAM.replace("jit_f", "jit_f, is_scheduled=true")
ASSIGNMENT = """BufferAssignment:
allocation 0: size 16384, parameter 0, shape |f32[64,64]| at ShapeIndex {}:
 value: <1 x @0> (size=16384,offset=0): f32[64,64]{1,0}
allocation 1: size %d, preallocated-temp:
"""


def _dump(folder: Path, name: str, after: str, flags: str = "", temp: int = 8) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.before_optimizations.txt").write_text(PROGRAM)
    (folder / f"{name}.cpu_after_optimizations.txt").write_text(after)
    report = folder / f"{name}.cpu_after_optimizations-buffer-assignment.txt"
    report.write_text(ASSIGNMENT % temp)
    (folder / f"{name}.debug_options").write_text(flags)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    _dump(tmp_path / "a", "module_0000.jit_f", FUSED, 'xla_dump_to: "a"\n')
    flags = 'xla_dump_to: "b"\nxla_disable_hlo_passes: "fusion"\nxla_disable_hlo_passes: "cse"\n'
    _dump(tmp_path / "b", "module_0007.jit_f", APART, flags, 16384)
    return tmp_path


def test_the_report_says_what_differs_and_why_it_matters(capsys: Capture) -> None:
    assert main(["doctor", "a", "b"]) == 1
    assert (
        capsys.readouterr().out
        == """\
- a
+ b

== module_0000.jit_f -> module_0007.jit_f
program: the same program
flags: 1 option; which may explain the rest
    xla_disable_hlo_passes  default -> fusion,cse
kernels: 1 -> 2: -1 fusion, +1 negate, +1 tanh; each is started alone and passes arrays \
through memory
traffic: 32.0 KiB -> 64.0 KiB (+100.0%) read and written by kernels; a kernel that computes \
little is as slow as its memory
memory: 16.0 KiB -> 32.0 KiB
    temporary  8 B -> 16.0 KiB
not fused: 0 -> 1 array between kernels, 0 B -> 32.0 KiB
    +  32.0 KiB  f32[64,64]  y -> z  hloc's rules would compute its negate in what reads it
each instruction: hloc diff a/module_0000.jit_f.cpu_after_optimizations.txt \
b/module_0007.jit_f.cpu_after_optimizations.txt
"""
    )


def test_equal_dumps_are_the_same(folder: Path, capsys: Capture) -> None:
    _dump(folder / "c", "module_0003.jit_f", FUSED.replace("fused", "other"), 'xla_dump_to: "c"\n')
    assert main(["doctor", "a", "c"]) == 0
    assert "the last modules are the same" in capsys.readouterr().out


def test_programs_are_compared_before_the_passes(folder: Path, capsys: Capture) -> None:
    (folder / "b" / "module_0007.jit_f.before_optimizations.txt").write_text(
        PROGRAM.replace("64,64", "32,64")
    )
    assert main(["doctor", "a", "b"]) == 1
    assert "program: the same program but for shapes\n" in capsys.readouterr().out
    (folder / "b" / "module_0007.jit_f.before_optimizations.txt").write_text(
        PROGRAM.replace("tanh", "sine")
    )
    assert main(["doctor", "a", "b"]) == 1
    assert "program: different programs: " in capsys.readouterr().out


def test_modules_belong_together_by_name(folder: Path, capsys: Capture) -> None:
    _dump(folder / "a", "module_0001.jit_g", FUSED)
    _dump(folder / "b", "module_0008.jit_h", FUSED)
    assert main(["doctor", "a", "b", "--format=json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [(pair["old"], pair["new"]) for pair in found["pairs"]] == [
        ("module_0000.jit_f", "module_0007.jit_f")
    ]
    assert found["only_old"] == ["module_0001.jit_g"]
    assert found["only_new"] == ["module_0008.jit_h"]
    assert main(["doctor", "a", "b", "--module=jit_g"]) == 1
    assert "no module in both dumps has 'jit_g' in its name" in capsys.readouterr().err


def test_two_files_are_compared_whatever_their_names(folder: Path, capsys: Capture) -> None:
    (folder / "x.hlo").write_text(FUSED)
    (folder / "y.hlo").write_text(APART)
    assert main(["doctor", "x.hlo", "y.hlo"]) == 1
    assert "kernels: 1 -> 2" in capsys.readouterr().out
    assert main(["doctor", "x.hlo", "x.hlo"]) == 0
    assert main(["doctor", "x.hlo", "missing.hlo"]) == 1
    assert "cannot read missing.hlo: no such file" in capsys.readouterr().err
    assert main(["doctor", "x.hlo", "y.hlo", "a"]) == 2
    assert main(["doctor", "x.hlo", "y.hlo", "--html=d.html"]) == 2


def test_a_damaged_module_is_reported_and_the_rest_compared(folder: Path, capsys: Capture) -> None:
    (folder / "b" / "module_0007.jit_f.cpu_after_optimizations.txt").write_text("HloModule jit_f\n")
    assert main(["doctor", "a", "b"]) == 1
    found = capsys.readouterr()
    assert "temporary  8 B -> 16.0 KiB" in found.out
    assert "1 file of the dump cannot be read" in found.err
