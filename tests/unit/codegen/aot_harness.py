"""Objects compiled ahead of time, linked into small C programs and run, for several tests."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hloc
from hloc import driver
from hloc.codegen.cpu.aot.header import c_header
from hloc.codegen.cpu.aot.linkable import Library
from hloc.codegen.cpu.backend import CpuModule
from hloc.options import CompileOptions
from tests.tolerance import bounds
from tests.waiting import PATIENCE

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
EXAMPLE = EXAMPLES / "aot_c"
CC, CXX = shutil.which("cc"), shutil.which("c++")
needs_cc = pytest.mark.skipif(not CC, reason="there is no C compiler")

JAX_PROGRAMS = ("softmax_relu", "mlp_train_step", "lstm_scan", "gpt_block")

STDIN_DRIVER = """
#include <stdio.h>
#include <stdlib.h>
#include "m.h"
static const size_t in_bytes[] = {%(inputs)s}, out_bytes[] = {%(outputs)s};
int main(void) {
  const void *inputs[M_INPUTS];
  void *outputs[M_OUTPUTS];
  for (int i = 0; i < M_INPUTS; i++) {
    void *data = malloc(in_bytes[i] + 1);
    if (fread(data, 1, in_bytes[i], stdin) != in_bytes[i]) return 2;
    inputs[i] = data;
  }
  for (int i = 0; i < M_OUTPUTS; i++) outputs[i] = malloc(out_bytes[i] + 1);
  void *temp = aligned_alloc(M_ALIGNMENT, (M_TEMP_BYTES / M_ALIGNMENT + 1) * M_ALIGNMENT);
  const int status = %(run)s(inputs, outputs, temp);
  if (status) return 10 + status;
  for (int i = 0; i < M_OUTPUTS; i++) fwrite(outputs[i], 1, out_bytes[i], stdout);
  return 0;
}
"""
"""Bytes of all arguments on stdin, of all results on stdout; ends with 10 and the status."""

Array = np.ndarray[Any, np.dtype[Any]]


def compiled_of(text: str, options: CompileOptions | None = None) -> CpuModule:
    options = options or CompileOptions()
    module = driver.parse_text(text)
    driver.optimise(module, options)
    compiled = driver.generate(module, options)
    assert isinstance(compiled, CpuModule)
    return compiled


def write_library(folder: Path, name: str, library: Library) -> None:
    (folder / f"{name}.o").write_bytes(library.data)
    (folder / f"{name}.h").write_text(c_header(library.interface))


def build(folder: Path, source: str, *words: str, compiler: str | None = CC) -> Path:
    """Compile and link `source` with warnings as errors; return the program."""
    assert compiler
    name = "main.c" if compiler == CC else "main.cpp"
    (folder / name).write_text(source)
    command = [compiler, "-Wall", "-Wextra", "-Werror", name, *words, "-lm", "-o", "program"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return folder / "program"


def output_of(program: Path, **environment: str) -> str:
    done = subprocess.run(
        [program],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def stdin_driver(library: Library, run: str = "m_run") -> str:
    """Return the source of a program that calls `run` of a library with the prefix `m`."""
    interface = library.interface
    return STDIN_DRIVER % {
        "inputs": ", ".join(str(a.shape.size_bytes) for a in interface.arguments),
        "outputs": ", ".join(str(a.shape.size_bytes) for a in interface.results),
        "run": run,
    }


def example_inputs(name: str) -> list[Array]:
    """Return the stored arguments of a JAX program, with the element types of the module."""
    stored = np.load(EXAMPLES / f"{name}.inputs.npz")
    parameters = hloc.compile((EXAMPLES / f"{name}.hlo").read_text()).parameters
    return [stored[f"arg{i}"].view(spec.numpy) for i, spec in enumerate(parameters)]


def run_on_stdin(command: Sequence[str | Path], arrays: Sequence[Array]) -> bytes:
    """Run a program of `stdin_driver` and return the bytes of its results."""
    given = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    done = subprocess.run(command, input=given, capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


def assert_answers(name: str, library: Library, data: bytes, arrays: Sequence[Array]) -> None:
    """Compare the bytes of all results with what the code in this process answers."""
    wanted = hloc.compile((EXAMPLES / f"{name}.hlo").read_text())(*arrays)
    at = 0
    for result, want in zip(library.interface.results, wanted, strict=True):
        part = data[at : at + result.shape.size_bytes]
        found = np.frombuffer(part, want.dtype).reshape(want.shape)
        at += result.shape.size_bytes
        # Sums in another order, and products that are rounded once or twice.
        np.testing.assert_allclose(
            found.astype(np.float64), want.astype(np.float64), **bounds("f32 program")
        )
    assert at == len(data)
