"""`hloc -c`, `--target`, `targets`, `doctor` and `cache`, as a user meets them."""

from pathlib import Path

import pytest

from hloc import cache_directory
from hloc.cli import main

TEXT = "HloModule m\n\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT t = f32[4] tanh(x)\n}\n"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.hlo").write_text(TEXT)
    return tmp_path


def test_c_writes_object_and_header_and_says_what_is_needed(capsys: Capture) -> None:
    assert main(["a.hlo", "-c"]) == 0
    assert Path("a.o").read_bytes()[:4] == b"\x7fELF"
    assert "int m_run(" in Path("a.h").read_text()
    assert not Path("a.hpp").exists()
    said = capsys.readouterr().err
    assert "a.o: m_run, " in said
    assert said.rstrip().endswith("needs nothing")


@pytest.mark.parametrize("name", ["net", "net.o", "net.h"])
def test_the_ending_of_the_output_does_not_matter(name: str) -> None:
    words = ["a.hlo", "-c", "-q", "-o", name, "--symbol-prefix=my_net", "--header-lang=c,c++"]
    assert main(words) == 0
    assert {path.name for path in Path().glob("net*")} == {"net.o", "net.h", "net.hpp"}
    assert '#include "net.h"' in Path("net.hpp").read_text()
    assert "my_net_run" in Path("net.h").read_text()


def test_header_alone_and_with_other_kinds(capsys: Capture) -> None:
    assert main(["a.hlo", "-q", "--emit=header", "--static-temp"]) == 0
    assert "one thread at a time" in capsys.readouterr().out
    assert main(["a.hlo", "-q", "--emit=asm,obj,header", "-o", "all"]) == 0
    assert {path.name for path in Path().glob("all*")} == {"all.s", "all.o", "all.h"}
    assert main(["a.hlo", "-q", "--emit=obj", "-o", "exact.bin"]) == 0
    assert Path("exact.bin").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--symbol-prefix=x"], "needs -c"),
        (["--static-temp"], "needs -c"),
        (["-c", "-o", "-"], "cannot go to stdout"),
        (["-c", "--symbol-prefix=int"], "is a reserved name of C"),
        (["-c", "--symbol-prefix=a b"], "a symbol prefix is"),
        (["-c", "--header-lang=rust"], "expected one of c, c++"),
        (["--emit=header", "--header-lang=c,c++"], "needs -o or -c"),
        (["--target=vax"], "there is no target 'vax'"),
        (["--mcpu=z80"], "has no processor 'z80'"),
        (["--mattr=avx"], "features are written"),
    ],
)
def test_wrong_usage(words: list[str], said: str, capsys: Capture) -> None:
    assert main(["a.hlo", *words]) == 2
    assert said in capsys.readouterr().err


def test_other_machines_get_code_that_does_not_run_here(capsys: Capture) -> None:
    assert main(["a.hlo", "-q", "--emit=asm", "--target=riscv64"]) == 0
    assert "fmadd" in capsys.readouterr().out
    assert main(["a.hlo", "-q", "--emit=llvm-ir", "--target=wasm32"]) == 0
    assert main(["run", "a.hlo", "-q", "--target=wasm32"]) == 3
    assert "cannot run on this machine" in capsys.readouterr().err


def test_code_for_a_machine_without_vectors_asks_for_none(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """LLVM writes a warning past Python's streams for a loop that was to become vectors."""
    module = Path(__file__).resolve().parents[3] / "examples" / "mlp_train_step.hlo"
    assert main([str(module), "-c", "-q", "-o", "m", "--target=riscv64"]) == 0
    assert capfd.readouterr().err == ""


def test_targets_are_listed(capsys: Capture) -> None:
    assert main(["targets"]) == 0
    listed = capsys.readouterr().out
    assert "this machine" in listed
    assert "riscv64" in listed
    assert main(["targets", "x86_64"]) == 0
    assert "x86-64-v4        vectors of 512 bits" in capsys.readouterr().out
    assert main(["targets", "vax"]) == 1


def test_doctor_finds_nothing_wrong_here(capsys: Capture) -> None:
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    for word in ("llvmlite", "machine", "cache", "jaxlib"):
        assert word in said


def test_the_cache_is_shown_trimmed_and_cleared(cache_folder: Path, capsys: Capture) -> None:
    cache_directory.write_cached("object-a.o", bytes(1000))
    cache_directory.write_cached("program-b.bin", bytes(1000))
    assert main(["cache", "--path"]) == 0
    assert capsys.readouterr().out == f"{cache_folder}\n"
    assert main(["cache"]) == 0
    assert "2 files, 2.0 KiB (1 object, 1 program)" in capsys.readouterr().out
    assert main(["cache", "--trim=1500"]) == 0
    assert "1 file," in capsys.readouterr().out
    assert main(["cache", "--clear"]) == 0
    assert "0 files" in capsys.readouterr().out
    assert main(["cache", "--clear", "--path"]) == 2
