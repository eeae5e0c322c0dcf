"""Backends from packages: found through entry points, run and asked through the same ways as cpu.

The package here is a few lines that answer with zeros, so that what fails is the mechanism.
"""

from pathlib import Path

import numpy as np
import pytest

import hloc
from hloc.cli import main
from hloc.codegen.backend import backend_for, backend_origin, stage_names
from hloc.codegen.backend_names import backend_names
from hloc.errors import UnsupportedError
from tests.distributions import install

TEXT = "HloModule m\n\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT t = f32[4] tanh(x)\n}\n"
Capture = pytest.CaptureFixture[str]

ABACUS = '''
"""Backends that count beads."""
from dataclasses import dataclass, replace
import numpy as np
from hloc.codegen.backend import Stage
from hloc.options import CompileOptions

STAGES = (Stage("beads", "where the beads lie", ".beads"),)

@dataclass
class Beads:
    options: CompileOptions
    target: str = "abacus"
    stages: tuple = STAGES

    def stage(self, name):
        return f"beads of {self.options.cpu}{self.options.features}"

class LoadedBeads(Beads):
    def load(self):
        return self

    def __call__(self, *arrays, donate=()):
        return [np.zeros_like(array) for array in arrays]

class Abacus:
    """Adds and subtracts."""
    name = "abacus"
    stages = STAGES
    takes_cpu = True

    def compile(self, module, options):
        return LoadedBeads(options)

class Drawing(Abacus):
    """An abacus on paper."""
    takes_cpu = False

    def compile(self, module, options):
        return Beads(options, target="drawing")
'''


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "beads_for_hloc.py").write_text(ABACUS)
    (tmp_path / "a.hlo").write_text(TEXT)
    backends = {
        "abacus": "beads_for_hloc:Abacus",
        "drawing": "beads_for_hloc:Drawing",
        "broken": "no_such_module_anywhere:Backend",
        "cpu": "beads_for_hloc:Abacus",
    }
    install(monkeypatch, tmp_path / "site", "beads", "1.2", backends, code)
    monkeypatch.chdir(tmp_path)


def test_backends_of_packages_come_after_the_built_in_ones() -> None:
    names = backend_names()
    assert names[-3:] == ("abacus", "broken", "drawing")
    assert backend_origin("cpu") == "built in"
    assert backend_origin("abacus") == "package beads 1.2"
    assert "beads" in stage_names()


def test_no_package_takes_the_place_of_a_built_in_backend() -> None:
    assert type(backend_for("cpu")).__name__ == "CpuBackend"


def test_a_module_that_loads_itself_runs() -> None:
    run = hloc.compile(TEXT, target="abacus")
    (found,) = run(np.ones(4, np.float32))
    assert found.tolist() == [0, 0, 0, 0]
    assert run.stage("beads") == "beads of "


def test_a_module_that_does_not_load_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="'drawing' cannot run in this process"):
        hloc.compile(TEXT, target="drawing")


def test_a_package_that_fails_is_named() -> None:
    words = "target 'broken' of package beads 1.2 fails: ModuleNotFoundError"
    with pytest.raises(hloc.HloError, match=words):
        hloc.compile(TEXT, target="broken")


def test_the_command_line_runs_and_emits(capsys: Capture) -> None:
    assert main(["run", "a.hlo", "--target=abacus", "--repeat=1"]) == 0
    assert "out0 = f32[4] {0, 0, 0, 0}" in capsys.readouterr().out
    assert main(["a.hlo", "-q", "--target=abacus", "--emit=beads", "--mcpu=wood"]) == 0
    assert capsys.readouterr().out == "beads of wood\n"
    assert main(["a.hlo", "-q", "--target=abacus", "--emit=beads,hlo", "-o", "both"]) == 0
    assert Path("both.beads").exists()
    assert Path("both.hlo").exists()
    assert main(["run", "a.hlo", "-q", "--target=drawing"]) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--target=drawing", "--mcpu=wood"],
            "--mcpu and --mattr have no effect on target drawing",
        ),
        (["--target=abacus", "--emit=asm"], "target abacus has no stage 'asm'; its stages are bea"),
        (["--emit=beads"], "target cpu has no stage 'beads'"),
        (["--emit=bead"], "did you mean beads?"),
    ],
)
def test_wrong_usage(words: list[str], said: str, capsys: Capture) -> None:
    assert main(["a.hlo", *words]) == 2
    assert said in capsys.readouterr().err


def test_targets_tell_where_a_backend_comes_from_and_what_it_has(capsys: Capture) -> None:
    assert main(["targets"]) == 0
    listed = capsys.readouterr().out
    assert "abacus     package beads 1.2" in listed
    assert "stages beads" in listed
    assert "target 'broken' of package beads 1.2 fails" in listed
    assert main(["targets", "abacus"]) == 0
    described = capsys.readouterr().out
    for words in ("Adds and subtracts.", "takes --mcpu", "where the beads lie"):
        assert words in described


def test_doctor_names_the_backends(capsys: Capture) -> None:
    assert main(["doctor"]) == 0
    assert "abacus (package beads 1.2)" in capsys.readouterr().out


def test_a_report_of_memory_needs_a_plan(capsys: Capture) -> None:
    assert main(["a.hlo", "-q", "--target=abacus", "--memory"]) == 1
    assert "buffers of this target are not assigned by hloc" in capsys.readouterr().err
