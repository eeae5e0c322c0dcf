"""`hloc run` as one of several processes, as far as that shows without MPI."""

import sys
from pathlib import Path

import pytest

from hloc.cli import main


def test_without_mpi4py_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.hlo"
    path.write_text("HloModule m\nENTRY e { p = f32[2] parameter(0) ROOT r = f32[2] negate(p) }")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    assert main(["run", str(path)]) == 1
    assert "pip install 'hloc[mpi]'" in capsys.readouterr().err
    assert main(["run", str(path), "--engine=local", "-q"]) == 0
