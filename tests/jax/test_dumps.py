"""`xla_dump_to` writes what hloc compiled; executables have fingerprints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hloc

jax = pytest.importorskip("jax")

X = np.arange(4, dtype=np.float32)
ENDS = {
    "before_optimizations.txt",
    "cpu_after_optimizations.txt",
    "cpu_after_optimizations-buffer-assignment.txt",
    "ir-no-opt.ll",
    "ir-with-opt.ll",
    "o",
}


def files(folder: Path) -> dict[str, Path]:
    """Return the files of the one module in a folder by the ends of their names."""
    return {path.name.split(".", 2)[2]: path for path in folder.iterdir()}


def test_the_files_are_named_as_xlas(tmp_path: Path) -> None:
    lowered = jax.jit(lambda x: jax.numpy.sin(x) * 2 + 0).lower(X)
    lowered.compile({"xla_dump_to": str(tmp_path / "new")})
    found = files(tmp_path / "new")
    assert set(found) == ENDS
    for end in ("before_optimizations.txt", "cpu_after_optimizations.txt"):
        (result,) = hloc.evaluate(found[end].read_text(), X)
        assert result.shape == (4,)
        assert result[0] == 0
    assert "define" in found["ir-with-opt.ll"].read_text()


def test_protos_are_written_where_they_are_asked_for(tmp_path: Path) -> None:
    lowered = jax.jit(lambda x: x + 1).lower(X)
    lowered.compile({"xla_dump_to": str(tmp_path), "xla_dump_hlo_as_proto": True})
    proto = files(tmp_path)["cpu_after_optimizations.hlo.pb"]
    assert not list(tmp_path.glob("*optimizations.txt"))
    np.testing.assert_array_equal(hloc.compile(hloc.load(str(proto)))(X)[0], X + 1)


def test_other_modules_are_left_out(tmp_path: Path) -> None:
    lowered = jax.jit(lambda x: x + 1).lower(X)
    lowered.compile({"xla_dump_to": str(tmp_path), "xla_dump_hlo_module_re": "nobody"})
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"INVALID_ARGUMENT: xla_dump_to=.*file"):
        jax.jit(lambda x: x + 1).lower(X).compile({"xla_dump_to": str(tmp_path / "file" / "in")})


def test_the_flag_for_the_process(tmp_path: Path) -> None:
    environment = {"JAX_PLATFORMS": "hloc,cpu", "XLA_FLAGS": f"--xla_dump_to={tmp_path}"}
    program = "import jax; jax.jit(lambda x: x * 2)(3.0)"
    root = str(Path(__file__).resolve().parents[2])
    subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": root, **environment},
        check=True,
    )
    assert set(files(tmp_path)) >= ENDS


def test_fingerprints_are_those_of_the_program() -> None:
    one, two = (jax.jit(lambda x, n=n: x + n).lower(X) for n in (1, 2))
    found = [program.compile().runtime_executable().fingerprint for program in (one, one, two)]
    assert found[0] == found[1] != found[2]
    assert len(found[0]) == 64
