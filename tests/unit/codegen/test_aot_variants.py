"""One object for several processors: each code answers alike, and the right one is taken."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from hloc.codegen.cpu.aot.cpuid import LEVELS
from hloc.codegen.cpu.aot.header import c_header
from hloc.codegen.cpu.aot.linkable import Library, build_library
from hloc.codegen.cpu.aot.variants import levels_of, symbol_of
from hloc.codegen.cpu.aot.wrapper import BAD_PROCESSOR
from hloc.codegen.cpu.backend import CpuBackend
from hloc.codegen.llvm.target import host_target, target_for
from hloc.errors import HloError
from hloc.options import CompileOptions
from tests.unit.codegen.aot_harness import (
    EXAMPLES,
    JAX_PROGRAMS,
    assert_answers,
    build,
    compiled_of,
    example_inputs,
    needs_cc,
    run_on_stdin,
    stdin_driver,
    write_library,
)
from tests.waiting import PATIENCE

NEWER = LEVELS[1:]
on_x86_64 = pytest.mark.skipif(
    not host_target().triple.startswith("x86_64"), reason="such objects are made on x86-64"
)
WHICH = (
    '#include <stdio.h>\n#include "m.h"\nint main(void) { printf("%d", m_variant()); return 0; }'
)


def library_of(name: str, levels: tuple[str, ...] = NEWER) -> Library:
    text = (EXAMPLES / f"{name}.hlo").read_text()
    compiled = compiled_of(text, CompileOptions(triple="x86_64", cpu=levels[0]))
    return build_library(compiled, "m", processors=levels)


def host_levels() -> list[str]:
    """Return the levels whose features LLVM finds on this processor."""
    return [level for level in LEVELS if target_for("x86_64", level).is_host]


@needs_cc
@on_x86_64
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "softmax_relu" else pytest.mark.slow)
        for name in JAX_PROGRAMS
    ],
)
def test_the_code_for_every_level_answers_alike(tmp_path: Path, name: str) -> None:
    library = library_of(name)
    write_library(tmp_path, "m", library)
    arrays = example_inputs(name)
    for level in (level for level in NEWER if level in host_levels()):
        source = stdin_driver(library, f"m_run_{symbol_of(level)}")
        program = build(tmp_path, source, "-std=c11", "m.o")
        assert_answers(name, library, run_on_stdin([program], arrays), arrays)


@needs_cc
@on_x86_64
def test_the_best_code_for_this_processor_is_taken(tmp_path: Path) -> None:
    library = library_of("softmax_relu")
    write_library(tmp_path, "m", library)
    program = build(tmp_path, WHICH, "-std=c11", "m.o")
    done = subprocess.run([program], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert int(done.stdout) == len([level for level in host_levels() if level in NEWER]) - 1
    program = build(tmp_path, stdin_driver(library), "-std=c11", "m.o")
    arrays = example_inputs("softmax_relu")
    assert_answers("softmax_relu", library, run_on_stdin([program], arrays), arrays)


EMULATED_PROCESSORS = {
    "Haswell": "x86-64-v3",
    "Nehalem": "x86-64-v2",
    "Haswell,-fma": "x86-64-v2",
    "Haswell,-xsave": "x86-64-v2",
    "core2duo": "",
}
"""Processor of QEMU -> the code that it gets. Without XSAVE no register of AVX is ever saved."""


@needs_cc
@on_x86_64
@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("qemu-x86_64"), reason="there is no qemu-x86_64")
@pytest.mark.parametrize("processor", EMULATED_PROCESSORS)
def test_emulated_processors_get_what_they_can_run(tmp_path: Path, processor: str) -> None:
    level = EMULATED_PROCESSORS[processor]
    library = library_of("gpt_block")
    write_library(tmp_path, "m", library)
    emulator = ["qemu-x86_64", "-cpu", processor]
    program = build(tmp_path, WHICH, "-std=c11", "-static", "m.o")
    done = subprocess.run(
        [*emulator, program], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert int(done.stdout) == (NEWER.index(level) if level else -1)
    program = build(tmp_path, stdin_driver(library), "-std=c11", "-static", "m.o")
    arrays = example_inputs("gpt_block")
    if level:
        data = run_on_stdin([*emulator, program], arrays)
        assert_answers("gpt_block", library, data, arrays)
    else:
        given = b"".join(array.tobytes() for array in arrays)
        refused = subprocess.run(
            [*emulator, program], input=given, capture_output=True, check=False, timeout=PATIENCE
        )
        assert refused.returncode == 10 + BAD_PROCESSOR


@on_x86_64
def test_constants_and_what_can_be_seen_are_there_once() -> None:
    text = f"""HloModule big
ENTRY e {{ x = f32[1000] parameter(0)
  c = f32[1000] constant({{{", ".join(map(str, range(1000)))}}})
  ROOT y = f32[1000] add(x, c) }}"""
    one = build_library(compiled_of(text, CompileOptions(triple="x86_64")), "m")
    three = build_library(compiled_of(text, CompileOptions(triple="x86_64")), "m", processors=NEWER)
    constant = np.arange(1000, dtype=np.float32).tobytes()
    assert (one.data.count(constant), three.data.count(constant)) == (1, 1)
    for level in NEWER:
        assert three.data.count(f"m_run_{symbol_of(level)}\0".encode()) == 1
    assert three.needs == ()


@on_x86_64
def test_only_the_code_for_a_level_has_its_wide_vectors() -> None:
    """Functions carry their processor; text made for one processor alone is the same."""
    options = CompileOptions(triple="x86_64", cpu="x86-64-v2")
    text = (EXAMPLES / "softmax_relu.hlo").read_text()
    low = compiled_of(text, options)
    high = compiled_of(text, CompileOptions(triple="x86_64", cpu="x86-64-v4"))
    assert CpuBackend().for_machine(low, high.machine).units == high.units
    assert low.units != high.units


@on_x86_64
def test_the_header_names_the_variants() -> None:
    header = c_header(library_of("softmax_relu").interface)
    assert "#define M_VARIANTS 3" in header
    assert '{"x86-64-v2", "x86-64-v3", "x86-64-v4"}' in header
    assert re.search(r"int m_run_x86_64_v4\(\s*const void \*const \*inputs", header)
    assert "int m_variant(void);" in header


def test_only_levels_can_be_told_apart() -> None:
    assert levels_of(["x86-64-v4", "x86-64-v2"]) == ("x86-64-v2", "x86-64-v4")
    with pytest.raises(HloError, match="takes levels of x86-64, not 'haswell'"):
        levels_of(["x86-64-v2", "haswell"])
