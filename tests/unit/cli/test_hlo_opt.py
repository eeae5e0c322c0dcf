"""`hlo-opt`: XLA's flags give what the options of hloc give."""

import re
from pathlib import Path

import pytest

from hloc.cli import main as hloc
from hloc.cli.hlo_opt import PLATFORMS, STAGES, main
from hloc.opt.registry import ALIASES, PASSES

MODULE = """HloModule m

ENTRY e {
  x = f32[64] parameter(0)
  a = f32[64] negate(x)
  b = f32[64] negate(a)
  ROOT c = f32[64] sine(b)
}
"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.hlo").write_text(MODULE)
    return tmp_path


def printed(capsys: Capture, code: int) -> str:
    assert code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        ([], ["--emit=hlo"]),
        (["--passes=algsimp,dce"], ["--passes=algsimp,dce"]),
        (["-passes=algsimp"], ["--passes=algsimp"]),
        (["--platform=cpu", "--stage=llvm"], ["--emit=llvm-ir-opt"]),
        (["--stage=llvm-before-optimizations"], ["--emit=llvm-ir"]),
        (["--stage=llvm-after-optimizations"], ["--emit=llvm-ir-opt"]),
        (["--stage", "buffer-assignment"], ["--emit=buffers"]),
        (["--stage=hlo-backend"], ["--emit=schedule"]),
        (["--stage=ptx"], ["--target=nvptx64", "--emit=ptx"]),
        (["--platform=cuda", "--stage=hlo"], ["--target=nvptx64", "--emit=hlo"]),
        (["--split_input_file=true", "--format=hlo"], ["--emit=hlo"]),
        (["--split-input-file=false", "--format=hlo"], ["--emit=hlo"]),
    ],
)
def test_flags_of_xla_do_what_options_of_hloc_do(
    flags: list[str], options: list[str], capsys: Capture
) -> None:
    found = printed(capsys, main([*flags, "m.hlo"]))
    assert found == printed(capsys, hloc(["m.hlo", *options]))
    assert found


def test_only_the_named_passes_run(capsys: Capture) -> None:
    assert "negate" not in printed(capsys, main(["--passes=algsimp,dce", "m.hlo"]))
    assert "negate" in printed(capsys, main(["--passes=dce", "m.hlo"]))


def test_output_goes_to_a_file(folder: Path, capsys: Capture) -> None:
    assert printed(capsys, main(["m.hlo", "-o", "o.hlo"])) == ""
    assert "sine" in (folder / "o.hlo").read_text()
    assert "sine" in printed(capsys, main(["m.hlo", "-o", "-"]))


def test_passes_and_stages_are_listed(capsys: Capture) -> None:
    assert printed(capsys, main(["--list-passes"])).split() == sorted({*PASSES, *ALIASES})
    assert printed(capsys, main(["--list_stages", "--platform=gpu"])).split() == sorted(STAGES)
    help_text = printed(capsys, main(["--help"]))
    assert all(name in help_text for name in (*PLATFORMS, *STAGES))


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--stage=llvn"], "expected one of hlo, .*, found 'llvn'; did you mean llvm"),
        (["--platform=tpu"], "--platform: expected one of transforms, cpu, "),
        (["--emit-proto"], "text protos are not read or written"),
        (["--format=pbtxt"], "text protos are not read or written"),
        (["--stage"], "expected one argument"),
    ],
)
def test_what_hloc_does_not_have_is_refused(flags: list[str], text: str, capsys: Capture) -> None:
    assert main(["m.hlo", *flags]) == 2
    error = capsys.readouterr().err
    assert error.startswith("hlo-opt: error: ")
    assert error.endswith("see `hlo-opt --help`\n")
    assert re.search(text, error)


def test_faults_have_the_exit_codes_of_hloc(capsys: Capture) -> None:
    assert main(["missing.hlo"]) == 1
    assert main(["m.hlo", "--passes=nonesuch"]) == 2
    assert main([]) == 2
    assert main(["m.hlo", "--xla_gpu_autotune_level=0"]) == 0
    assert "is an XLA option and has no effect here" in capsys.readouterr().err
