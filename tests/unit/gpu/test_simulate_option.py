"""`--simulate`: what stands for a GPU, on the command line and in Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import hloc
from hloc.cli import main
from hloc.errors import HloError
from hloc.options import CompileOptions
from hloc.report.exits import Exit
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.host_device import HostDevice
from hloc.runtime.gpu.simulated import SimulatedDevice

TEXT = """HloModule m
ENTRY e {
  x = f32[33] parameter(0)
  ROOT y = f32[33] tanh(x)
}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "m.hlo"
    path.write_text(TEXT)
    return str(path)


@pytest.mark.parametrize(
    ("simulate", "kind"),
    [(True, SimulatedDevice), ("ptx", SimulatedDevice), ("host", HostDevice)],
)
def test_python_chooses_the_device(simulate: bool | str, kind: type) -> None:
    executable = hloc.compile(TEXT, target="nvptx64", simulate=simulate)
    assert isinstance(executable, GpuExecutable)
    assert isinstance(executable.device, kind)


def test_another_word_is_refused() -> None:
    with pytest.raises(HloError, match="simulate is True, ptx or host, not 'gpu'"):
        CompileOptions(simulate="gpu")
    assert CompileOptions().simulator == ""


@pytest.mark.parametrize(
    "words",
    [
        ["--target=nvptx64", "--simulate"],
        ["--target=nvptx64", "--simulate=ptx"],
        ["--target=nvptx64", "--simulate=host"],
        ["--target=amdgcn", "--simulate=host"],
    ],
)
def test_a_run_is_compared(words: list[str], file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([file, *words, "--run", "--repeat=1", "--compare-with=interp"]) == Exit.OK
    assert "compare with interp: OK" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target=nvptx64", "--simulate=cuda", "--run"], "expected one of ptx, host"),
        (["--simulate", "--run"], "--simulate needs a GPU target such as --target=nvptx64"),
        (["--target=amdgcn", "--simulate", "--run"], "use --simulate=host"),
        (["--target=nvptx64", "--simulate=host", "--run", "--profile"], "use --simulate=ptx"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    words: list[str], said: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([file, *words]) == Exit.USAGE
    assert said in capsys.readouterr().err
