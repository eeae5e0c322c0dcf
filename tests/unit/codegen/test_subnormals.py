"""Subnormal numbers are kept unless an option lets them be zeros, and nobody else notices."""

import ctypes
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hloc
from hloc.codegen.cpu import split_kernel
from hloc.codegen.cpu.aot.linkable import build_library
from hloc.codegen.cpu.subnormals import flushing_mode
from hloc.codegen.llvm.target import host_target
from hloc.dtypes import DTYPES, DType
from hloc.errors import HloError
from hloc.options import CompileOptions
from hloc.runtime import host_programs
from hloc.runtime.arena import Team
from tests.unit.codegen.aot_harness import build, compiled_of, needs_cc, output_of, write_library
from tests.unit.codegen.float_environment import CONTROL, Environment, needs_fenv

ADD = """HloModule m
ENTRY e {
  x = f32[1000] parameter(0)
  y = f32[1000] parameter(1)
  ROOT s = f32[1000] add(x, y)
}"""
HALVES = """HloModule m
body { t = (f32[], s32[]) parameter(0)
  x = f32[] get-tuple-element(t), index=0
  i = s32[] get-tuple-element(t), index=1
  half = f32[] constant(0.5)
  one = s32[] constant(1)
  y = f32[] multiply(x, half)
  j = s32[] add(i, one)
  ROOT r = (f32[], s32[]) tuple(y, j) }
more { t = (f32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=1
  end = s32[] constant(140)
  ROOT l = pred[] compare(i, end), direction=LT }
ENTRY e { x = f32[] parameter(0)
  zero = s32[] constant(0)
  t = (f32[], s32[]) tuple(x, zero)
  w = (f32[], s32[]) while(t), condition=more, body=body
  ROOT y = f32[] get-tuple-element(w), index=0 }"""
HOST = """HloModule m
ENTRY e { x = f32[4] parameter(0)
  y = f32[4] add(x, x)
  z = f32[4] custom-call(y), custom_call_target="test.subnormals"
  ROOT s = f32[4] add(z, y) }"""

SMALL = np.full(1000, 1e-40, np.float32)
ZEROS = np.zeros(1000, np.float32)

Array = np.ndarray[Any, np.dtype[Any]]
Task = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)
ParallelFor = ctypes.CFUNCTYPE(None, ctypes.c_void_p, Task, ctypes.c_void_p, ctypes.c_int)

needs_mode = pytest.mark.skipif(
    flushing_mode(host_target()) is None, reason="this processor has no such mode"
)


def kept_here() -> bool:
    """True if this thread counts subnormals as numbers."""
    return bool(np.float32(1e-40) * np.ones(1, np.float32)[0] > 0)


def test_subnormals_are_kept_by_default() -> None:
    np.testing.assert_array_equal(hloc.compile(ADD)(SMALL, ZEROS)[0], SMALL)


@needs_mode
@pytest.mark.parametrize("options", [{"flush_subnormals": True}, {"fast_math": True}])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_subnormals_are_zeros_where_that_is_asked_for(dtype: str, options: dict[str, Any]) -> None:
    """Operands as well as results; the sign stays."""
    numpy: Any = {"f32": np.float32, "f64": np.float64}[dtype]
    tiny = float(np.finfo(numpy).tiny)
    x = np.resize(np.array([tiny / 4, -tiny / 4, tiny, -tiny, 1]).astype(numpy), 1000)
    y = np.resize(np.array([0, -0.0, -tiny * 0.75, tiny * 0.75, 1]).astype(numpy), 1000)
    found = hloc.compile(ADD.replace("f32", dtype), **options)(x, y)[0]
    want = np.resize(np.array([0, -0.0, tiny, -tiny, 2]).astype(numpy), 1000)
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(want))


@needs_mode
@pytest.mark.usefixtures("cache_folder")
@pytest.mark.parametrize(("value", "flushes"), [("true", True), ("false", False)])
def test_a_module_asks_in_its_header(value: str, flushes: bool) -> None:
    """The same module without the attribute is another program in the cache."""
    header = f'HloModule m, frontend_attributes={{hloc_flush_subnormals="{value}"}}\n'
    for _ in range(2):
        assert hloc.compile(ADD)(SMALL, ZEROS)[0].all()
        found = hloc.compile(ADD.replace("HloModule m\n", header))(SMALL, ZEROS)[0]
        assert found.any() != flushes


def test_an_unknown_value_of_the_attribute_is_refused() -> None:
    header = 'HloModule m, frontend_attributes={hloc_flush_subnormals="1"}'
    with pytest.raises(HloError, match=r'hloc_flush_subnormals is "true" or "false", not "1"'):
        hloc.compile(ADD.replace("HloModule m", header))


@needs_mode
def test_loops_of_one_function_flush_as_well() -> None:
    assert hloc.compile(HALVES)(np.float32(1))[0] == np.float32(2.0**-140)
    assert hloc.compile(HALVES, flush_subnormals=True)(np.float32(1))[0] == 0


@needs_mode
@pytest.mark.usefixtures("cache_folder")
def test_the_cache_of_programs_keeps_both_apart() -> None:
    for _ in range(2):
        assert hloc.compile(ADD)(SMALL, ZEROS)[0].all()
        assert not hloc.compile(ADD, flush_subnormals=True)(SMALL, ZEROS)[0].any()


# ---------------------------------------------------------------- the mode comes back


@needs_mode
@needs_fenv
@pytest.mark.parametrize("before", [0x1F80, 0x9FC0, 0x3F80], ids=["usual", "flushing", "down"])
def test_the_mode_of_the_caller_comes_back(before: int) -> None:
    """Whatever it was, rounding included."""
    executable = hloc.compile(ADD, flush_subnormals=True)
    environment = Environment()
    usual = environment.load()
    environment.store(before)
    executable(SMALL, ZEROS)
    after = environment.load()
    environment.store(usual)
    assert after == before & CONTROL


@needs_mode
@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
def test_host_functions_run_in_the_usual_mode(fails: bool) -> None:
    """What follows them is flushed again, and the caller gets its own mode back in any case."""
    seen: list[bool] = []

    def function(y: Array) -> Array:
        seen.append(kept_here())
        if fails:
            raise ValueError("no")
        return np.full(4, 1e-40, np.float32)

    hloc.register_custom_call("test.subnormals", function)
    executable = hloc.compile(HOST, flush_subnormals=True)
    if fails:
        with pytest.raises(ValueError, match="no"):
            executable(SMALL[:4])
    else:
        assert not executable(SMALL[:4])[0].any()
    assert seen == [True]
    assert kept_here()


@needs_mode
def test_threads_flush_and_get_their_mode_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of the pool that computes everything, and computes for others afterwards."""
    for name in ("MIN_NANOSECONDS", "_GRAIN_NANOSECONDS"):
        monkeypatch.setattr(split_kernel, name, 0)
    monkeypatch.setattr(split_kernel, "_LEAST_NANOSECONDS", 1)
    monkeypatch.setattr(split_kernel, "_SHORT_STEP_GRAIN", 64)
    kept: list[bool] = []

    def run(_context: int, task: Callable[..., None], data: int, count: int) -> None:
        def work() -> None:
            task(data, count - 1)
            kept.append(kept_here())

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        task(data, 0)

    callback = ParallelFor(run)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    monkeypatch.setattr(host_programs, "team_for", lambda *_: Team(address, 2, 0))
    compiled = compiled_of(ADD, CompileOptions(flush_subnormals=True, threads=2))
    assert not host_programs.load_compiled(compiled)(SMALL, ZEROS)[0].any()
    assert kept == [True]


# ---------------------------------------------------------------- objects, other processors

PROGRAM = """
#include <stdio.h>
#include "m.h"
int main(void) {
  static float x[1000], y[1000], s[1000];
  volatile float small = 1e-40f, one = 1;
  for (int i = 0; i < 1000; i++) x[i] = 1e-40f;
  const void *inputs[] = {x, y};
  void *outputs[] = {s};
  const int status = m_run(inputs, outputs, 0);
  printf("%d %d %d\\n", status, s[999] > 0, small * one > 0);
  return 0;
}
"""


@needs_mode
@needs_cc
@pytest.mark.parametrize("flushes", [False, True])
def test_an_object_flushes_and_gives_the_mode_back(tmp_path: Path, flushes: bool) -> None:
    options = CompileOptions(flush_subnormals=flushes)
    write_library(tmp_path, "m", build_library(compiled_of(ADD, options), "m"))
    program = build(tmp_path, PROGRAM, "m.o")
    assert output_of(program) == f"0 {int(not flushes)} 1\n"


def test_other_processors_set_their_own_mode_or_none() -> None:
    def assembly(arch: str, flushes: bool) -> str:
        options = CompileOptions(triple=arch, flush_subnormals=flushes)
        return str(compiled_of(ADD, options).stage("asm"))

    assert assembly("aarch64", True).count("msr\tFPCR") >= 2
    assert "FPCR" not in assembly("aarch64", False)
    assert assembly("riscv64", True) == assembly("riscv64", False)


NARROW = [dtype for dtype in DTYPES.values() if dtype.is_float and dtype.bits <= 8]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("level", [0, 2])
def test_narrow_types_keep_their_own(dtype: DType, level: int) -> None:
    """Those of eight bits and less are normal in f32, but for the smallest f8e8m0fnu."""
    count = 1 << dtype.bits
    run = hloc.compile(
        f"""HloModule m
ENTRY e {{
  x = {dtype}[{count}] parameter(0)
  wide = f32[{count}] convert(x)
  back = {dtype}[{count}] convert(wide)
  ROOT r = (f32[{count}], {dtype}[{count}]) tuple(wide, back)
}}""",
        opt_level=level,
        flush_subnormals=True,
    )
    x = np.arange(count, dtype=np.uint8).view(dtype.numpy)
    wide, back = (np.asarray(result) for result in run(x))
    np.testing.assert_array_equal(wide, x.astype(np.float32))
    np.testing.assert_array_equal(back.astype(np.float32), x.astype(np.float32))
