"""Objects and headers link into C and C++ programs and answer as the code in this process does."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hloc
from hloc import driver
from hloc.cli import main
from hloc.codegen.cpu.aot.header import c_header, cpp_header
from hloc.codegen.cpu.aot.linkable import build_library
from hloc.codegen.cpu.aot.names import checked_prefix, comment, prefix_of
from hloc.codegen.cpu.aot.needs import needed_symbols
from hloc.codegen.cpu.aot.wrapper import BAD_ARRAYS, BAD_TEMP
from hloc.codegen.llvm.machines import MACHINES, Machine
from hloc.codegen.llvm.target import target_for
from hloc.errors import HloError, UnsupportedError
from hloc.ir.registered_targets import register_target
from hloc.options import CompileOptions
from tests.tolerance import bounds
from tests.unit.codegen.aot_harness import (
    CXX,
    EXAMPLE,
    EXAMPLES,
    JAX_PROGRAMS,
    build,
    compiled_of,
    needs_cc,
    output_of,
    write_library,
)
from tests.waiting import PATIENCE

POINTS = np.array([[0.1, 0.05], [-0.5, 0.2], [0.3, -0.6], [0.0, 0.9]], np.float32)

LOOP = """HloModule %s
condition { s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT less = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  more = s32[] add(i, one)
  y = f32[4] exponential(x)
  half = f32[4] constant({0.5, 0.25, 0.125, 0.0625})
  z = f32[4] multiply(y, half)
  ROOT t = (s32[], f32[4]) tuple(more, z) }
ENTRY e { x = f32[4] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[4]) tuple(zero, x)
  w = (s32[], f32[4]) while(t), condition=condition, body=body
  ROOT r = f32[4] get-tuple-element(w), index=1 }
"""

ALIASED = """HloModule add_at, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e { x = f32[8] parameter(0)
  v = f32[1] constant({7})
  i = s32[] parameter(1)
  ROOT u = f32[8] dynamic-update-slice(x, v, i) }
"""

DTYPES = (
    *("pred", "s4", "u4", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"),
    *("f16", "bf16", "f32", "f64", "f8e4m3fn", "c64", "c128"),
)


# ---------------------------------------------------------------- the example


def example_in(folder: Path, *words: str) -> None:
    for name in ("classifier.hlo", "main.c", "main.cpp"):
        shutil.copy(EXAMPLE / name, folder)
    prefix = ["--symbol-prefix=classifier", "--header-lang=c,c++", "-q"]
    model = [str(folder / "classifier.hlo"), "-O2", "-c", "-o", str(folder / "classifier")]
    assert main([*model, *prefix, *words]) == 0


def check_example(text: str, *, exact: bool = True) -> None:
    """Compare what the program printed with the code that is loaded here."""
    executable = driver.compile_module(driver.load_module(str(EXAMPLE / "classifier.hlo")))
    probabilities, classes = executable(POINTS)
    lines = text.splitlines()
    assert len(lines) == len(POINTS)
    for line, row, number in zip(lines, probabilities, classes, strict=True):
        match = re.search(r"class (\d+) +(.+)", line)
        assert match
        assert int(match[1]) == number
        found = np.array(match[2].split(), np.float32)
        if exact:
            np.testing.assert_array_equal(found, row)
        else:
            np.testing.assert_allclose(found, row, **bounds("f32 one sign"))


@needs_cc
def test_the_c_example_answers_as_the_code_in_memory(tmp_path: Path) -> None:
    example_in(tmp_path)
    source = (tmp_path / "main.c").read_text()
    check_example(output_of(build(tmp_path, source, "-std=c11", "classifier.o")))


@pytest.mark.skipif(not CXX, reason="there is no C++ compiler")
def test_the_cpp_example_answers_as_the_code_in_memory(tmp_path: Path) -> None:
    example_in(tmp_path)
    source = (tmp_path / "main.cpp").read_text()
    program = build(tmp_path, source, "-std=c++17", "classifier.o", compiler=CXX)
    check_example(output_of(program))


@needs_cc
def test_the_example_shows_no_error_under_address_sanitizer(tmp_path: Path) -> None:
    example_in(tmp_path)
    source = (tmp_path / "main.c").read_text()
    words = ["-std=c11", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover"]
    try:
        program = build(tmp_path, source, *words, "classifier.o")
    except AssertionError as fault:
        pytest.skip(f"no sanitizer: {str(fault)[:80]}")
    check_example(output_of(program, ASAN_OPTIONS="detect_leaks=0"))


@needs_cc
def test_the_example_of_an_older_processor_shows_no_error_under_valgrind(tmp_path: Path) -> None:
    if not shutil.which("valgrind") or target_for().triple.split("-")[0] != "x86_64":
        pytest.skip("there is no valgrind")
    example_in(tmp_path, "--mcpu=x86-64-v2")
    program = build(tmp_path, (tmp_path / "main.c").read_text(), "-std=c11", "classifier.o")
    done = subprocess.run(
        ["valgrind", "-q", "--error-exitcode=9", program],
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check_example(done.stdout, exact=False)


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("name", JAX_PROGRAMS)
def test_no_program_reads_or_writes_beside_its_arrays(tmp_path: Path, name: str) -> None:
    """Valgrind looks at the code itself; each array has an allocation of its own."""
    if not shutil.which("valgrind") or not target_for("x86_64", "x86-64-v3").is_host:
        pytest.skip("there is no valgrind, or a processor whose code it cannot look at")
    program = tmp_path / "program"
    words = ["-q", "--emit=exe", "--mcpu=x86-64-v3", "-o", str(program)]
    assert main([str(EXAMPLES / f"{name}.hlo"), *words]) == 0
    done = subprocess.run(
        ["valgrind", "-q", "--error-exitcode=9", program, "--random"],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["make", "cmake"])
def test_the_build_files_of_the_example_work(tmp_path: Path, tool: str) -> None:
    if not (shutil.which("cc") and CXX and shutil.which(tool)):
        pytest.skip(f"there is no C++ compiler or no {tool}")
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    hloc = tmp_path / "hloc"
    hloc.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hloc "$@"\n')
    hloc.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(EXAMPLES.parent)}
    steps = {
        "make": [["make", "all"]],
        "cmake": [["cmake", "-B", "."], ["cmake", "--build", "."]],
    }
    for step in steps[tool]:
        subprocess.run(
            step, cwd=tmp_path, check=True, capture_output=True, timeout=PATIENCE, env=environment
        )
    for program in ("classify", "classify_cpp"):
        check_example(output_of(tmp_path / program))


# ---------------------------------------------------------------- the object


def test_one_symbol_is_seen_and_nothing_is_asked_for() -> None:
    library = build_library(compiled_of(LOOP % "loop"))
    assert library.needs == ()
    assert library.data.count(b"loop_run\0") == 1


@needs_cc
def test_two_models_with_equal_kernels_link_into_one_program(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_library(tmp_path, name, build_library(compiled_of(LOOP % f"loop.{name}")))
    program = build(
        tmp_path,
        """
        #include <stdio.h>
        #include "a.h"
        #include "b.h"
        static _Alignas(64) unsigned char temp[LOOP_A_TEMP_BYTES + 64];
        int main(void) {
          const float x[4] = {0.1f, 0.2f, 0.3f, 0.4f};
          float one[4], two[4];
          if (loop_a(x, one, temp) || loop_b(one, two, temp)) return 1;
          for (int i = 0; i < 4; i++) printf("%.9g %.9g\\n", one[i], two[i]);
          return 0;
        }
        """,
        "a.o", "b.o",
    )  # fmt: skip
    found = np.array(output_of(program).split(), np.float32).reshape(4, 2)
    run = hloc.compile(LOOP % "loop")
    (one,) = run(np.array([0.1, 0.2, 0.3, 0.4], np.float32))
    (two,) = run(one)
    np.testing.assert_array_equal(found, np.stack([one, two], axis=1))


@needs_cc
def test_an_argument_may_be_given_away_and_is_kept_otherwise(tmp_path: Path) -> None:
    write_library(tmp_path, "m", build_library(compiled_of(ALIASED)))
    assert "overwritten: out0 and arg0" in (tmp_path / "m.h").read_text()
    program = build(
        tmp_path,
        """
        #include <stdio.h>
        #include "m.h"
        int main(void) {
          float x[8] = {0, 1, 2, 3, 4, 5, 6, 7}, out[8];
          const int32_t at = 2, then = 5;
          if (add_at(x, &at, out, NULL) || x[2] != 2.0f) return 1;
          if (add_at(out, &then, out, NULL)) return 2;
          for (int i = 0; i < 8; i++) printf("%g ", out[i]);
          return 0;
        }
        """,
        "m.o",
    )
    assert output_of(program).split() == ["0", "1", "7", "3", "4", "7", "6", "7"]


@needs_cc
@pytest.mark.parametrize("static", [False, True])
def test_memory_that_cannot_serve_is_refused(tmp_path: Path, static: bool) -> None:
    text = (EXAMPLE / "classifier.hlo").read_text()
    library = build_library(compiled_of(text), "net", static_temp=static)
    assert library.interface.temp_bytes > 0
    write_library(tmp_path, "net", library)
    program = build(
        tmp_path,
        """
        #include <stdio.h>
        #include "net.h"
        int main(void) {
          static _Alignas(64) unsigned char temp[NET_TEMP_BYTES + 64];
          static const float x[8];
          static float p[12];
          static int32_t c[4];
          printf("%d %d %d\\n", net(x, p, c, NULL), net(x, p, c, temp + 1),
                 net_run(NULL, NULL, temp));
          return 0;
        }
        """,
        "net.o",
    )
    refused = "0 0" if static else f"{BAD_TEMP} {BAD_TEMP}"
    assert output_of(program) == f"{refused} {BAD_ARRAYS}\n"


@needs_cc
def test_every_element_type_has_a_c_type(tmp_path: Path) -> None:
    lines = [f"  p{i} = {dtype}[3] parameter({i})" for i, dtype in enumerate(DTYPES)]
    operands = ", ".join(f"p{i}" for i in range(len(DTYPES)))
    shapes = ", ".join(f"{dtype}[3]" for dtype in DTYPES)
    root = f"  ROOT t = ({shapes}) tuple({operands})"
    text = "\n".join(["HloModule types", "ENTRY e {", *lines, root, "}"])
    write_library(tmp_path, "types", build_library(compiled_of(text)))
    program = build(
        tmp_path,
        """
        #include "types.h"
        #include <string.h>
        static unsigned char in[TYPES_INPUTS][48], out[TYPES_OUTPUTS][48];
        int main(void) {
          const void *inputs[TYPES_INPUTS];
          void *outputs[TYPES_OUTPUTS];
          for (int i = 0; i < TYPES_INPUTS; i++) {
            for (int j = 0; j < 48; j++) in[i][j] = (unsigned char)((i + j) & 1);
            inputs[i] = in[i];
            outputs[i] = out[i];
          }
          if (types_run(inputs, outputs, NULL)) return 1;
          return memcmp(in[13], out[13], TYPES_OUT13_BYTES) != 0;
        }
        """,
        "types.o",
    )
    output_of(program)


def test_python_and_dynamic_sizes_are_refused_with_the_reason() -> None:
    dynamic = "HloModule d\nENTRY e { x = f32[<=8] parameter(0)\n ROOT n = f32[<=8] negate(x) }"
    with pytest.raises(UnsupportedError, match="dynamic sizes"):
        build_library(compiled_of(dynamic))
    register_target("ahead_of_time_host", np.negative)
    host = """HloModule h
ENTRY e { x = f32[8] parameter(0)
  ROOT n = f32[8] custom-call(x), custom_call_target="ahead_of_time_host" }"""
    with pytest.raises(UnsupportedError, match=r"cannot call Python.*ahead_of_time_host"):
        build_library(compiled_of(host))


def test_no_arguments_and_no_temp() -> None:
    text = "HloModule k\nENTRY e { ROOT c = s32[2] constant({1, 2}) }"
    library = build_library(compiled_of(text))
    header = c_header(library.interface)
    assert "K_INPUTS 0" in header
    assert "k_run(NULL, outputs, temp)" in header
    assert "int operator()(int32_t *out0)" in cpp_header(library.interface, "k.h")


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("jit_f", "jit_f"),
        ("", "model"),
        ("...", "model"),
        ("int", "hlo_int"),
        ("class", "hlo_class"),
        ("main", "hlo_main"),
        ("exp", "hlo_exp"),
        ("3d", "m_3d"),
        ("__a__b", "a_b"),
        ("my-net.v2", "my_net_v2"),
        ("*/ int x; /*", "int_x"),
        ("größe", "gr_e"),
    ],
)
def test_names_of_modules_become_identifiers(name: str, prefix: str) -> None:
    assert prefix_of(name) == prefix


@given(st.text())
def test_every_name_becomes_an_identifier(name: str) -> None:
    assert checked_prefix(prefix_of(name)) == prefix_of(name)


@given(st.text())
def test_no_text_ends_a_comment_or_continues_it(text: str) -> None:
    found = comment(text)
    assert not [bad for bad in ("*/", "/*", "\\", "\n", "??") if bad in found]
    assert found.isascii()


def test_long_names_stay_apart() -> None:
    a, b = prefix_of("x" * 500 + "a"), prefix_of("x" * 500 + "b")
    assert a != b
    assert len(a) < 80


@pytest.mark.parametrize("prefix", ["", "1a", "a b", "_a", "a__b", "int", "é", "a-b", "x" * 300])
def test_wrong_prefixes_are_refused(prefix: str) -> None:
    with pytest.raises(HloError):
        checked_prefix(prefix)


@needs_cc
def test_hostile_names_do_no_harm(tmp_path: Path) -> None:
    text = "HloModule x\nENTRY e { %s = f32[] parameter(0)\n ROOT n = f32[] negate(%s) }"
    compiled = compiled_of(text.replace("%s", "p"))
    (parameter,) = compiled.module.entry.parameters
    compiled.module.name = '*/ #error "no" \\\n#error ??/'
    assert parameter.name
    library = build_library(compiled)
    write_library(tmp_path, "m", library)
    name = library.interface.prefix
    source = f'#include "m.h"\nint main(void) {{ float x = 1, y; return {name}(&x, &y, 0); }}'
    output_of(build(tmp_path, source, "-trigraphs", "m.o"))


# ---------------------------------------------------------------- other machines


@pytest.mark.parametrize("machine", MACHINES, ids=lambda row: row.arch)
def test_objects_for_other_machines_need_libc_only(machine: Machine) -> None:
    text = (EXAMPLE / "classifier.hlo").read_text()
    options = CompileOptions(triple=machine.arch)
    compiled = compiled_of(text, options)
    library = build_library(compiled)
    assert library.data[:4] in (b"\x7fELF", b"\0asm")
    bits = {1: 32, 2: 64}.get(library.data[4]) if library.data[:4] == b"\x7fELF" else 32
    assert bits == compiled.machine.pointer_bits
    assert set(needed_symbols(library.data)) <= {"memcpy", "memset"}
    if not compiled.machine.is_host:
        with pytest.raises(UnsupportedError, match="cannot run on this machine"):
            driver.load_compiled(compiled)


def test_pointers_of_32_bits_are_4_bytes_apart() -> None:
    compiled = compiled_of(LOOP % "loop", CompileOptions(triple="armv7"))
    assembly = compiled.stage("asm")
    assert isinstance(assembly, str)
    entry = assembly[assembly.index("hloc_entry:") :].split(".size")[0]
    assert "#4]" in entry or "ldm" in entry or "ldrd" in entry


def test_integers_below_a_byte_leave_scalable_vectors_out() -> None:
    """LLVM's code generator ends the process for these with SVE."""
    text = """HloModule narrow
ENTRY e { x = %s[1000] parameter(0)
  ROOT y = f32[1000] convert(x) }"""
    for dtype, left_out in (("s4", True), ("u2", True), ("s8", False)):
        compiled = compiled_of(text % dtype, CompileOptions(triple="aarch64", features="+sve"))
        assert any("-sve" in unit.text for unit in compiled.units) == left_out
        assert build_library(compiled).needs == ()


def test_levels_of_x86_64_set_the_width_of_vectors() -> None:
    widths = [target_for("x86_64", f"x86-64{level}").vector_bits for level in ("", "-v3", "-v4")]
    assert widths == [128, 256, 512]
    assert target_for("x86_64", "x86-64-v4", "-avx512f").vector_bits == 256


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("vax",), "there is no target 'vax'; targets are cpu, nvptx64, amdgcn"),
        (("x86_64-;rm",), "there is no target"),
        (("aarch64", "cortex-a77"), "did you mean cortex-a7"),
        (("aarch64", "", "sve"), "features are written"),
        (("aarch64", "native"), "native is a processor of"),
    ],
)
def test_machines_that_there_are_not(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(HloError, match=re.escape(said)):
        target_for(*words)
