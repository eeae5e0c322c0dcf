"""Windows of one or two dimensions around many channels, which a routine folds.

Compared with the evaluator on every kind of vector: padding on both sides, less and more than a
window of it, strides, holes in windows, and channels that fill no vector.
"""

from __future__ import annotations

import numpy as np
import pytest

from hloc import driver
from hloc.analysis.pools import folds_every_window, pool_of
from hloc.codegen.cpu.backend import CpuModule
from hloc.codegen.cpu.emitters.reduction.pool_routine import listed_routines
from hloc.codegen.cpu.emitters.routine_table import all_routines
from hloc.codegen.cpu.kernel import emit_kernel
from hloc.codegen.llvm.object_file import compile_object
from hloc.codegen.llvm.target import Target, host_target
from hloc.codegen.plan.kernel_request import KernelRequest
from hloc.options import CompileOptions
from hloc.runtime.executable import Executable
from tests.tolerance import bounds
from tests.unit.codegen.harness import (
    Array,
    Compiled,
    assert_close,
    check_root,
    emit,
    evaluate,
    module_text,
    parse_text,
    random_arrays,
    reducer,
    run_instruction,
)
from tests.unit.codegen.processors import OTHERS, TARGETS

WINDOWS = [
    ("2,9,9,32", "2,4,4,32", "size=1x2x2x1 stride=1x2x2x1"),
    ("2,9,11,64", "2,5,5,64", "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x0_1x0_0"),
    ("2,9,11,17", "2,9,11,17", "size=1x3x3x1 pad=0_0x1_1x1_1x0_0"),
    ("2,7,7,3", "2,7,7,3", "size=1x3x3x1 pad=0_0x1_1x1_1x0_0"),
    (
        "3,20,9,33",
        "3,19,4,33",
        "size=1x3x5x1 stride=1x1x3x1 pad=0_0x2_1x3_2x0_0 rhs_dilate=1x2x1x1",
    ),
    ("4,50,40", "4,25,40", "size=1x5x1 stride=1x2x1 pad=0_0x2_2x0_0"),
    ("2,12,13,70", "2,2,2,70", "size=1x4x4x1 stride=1x4x4x1 pad=0_0x-1_-1x-2_0x0_0"),
    ("2,3,3,20", "2,12,12,20", "size=1x2x2x1 pad=0_0x5_5x5_5x0_0"),
    ("2,8,8,130", "2,1,1,130", "size=1x8x8x1"),
    ("6,5,4", "5,4,4", "size=2x2x1"),
    # one element apart, along one dimension: many whole windows, one, none, negative padding
    ("3,50,12", "3,50,12", "size=1x5x1 pad=0_0x2_2x0_0"),
    ("2,4,20", "2,5,20", "size=1x4x1 pad=0_0x2_2x0_0"),
    ("2,3,20", "2,5,20", "size=1x4x1 pad=0_0x2_3x0_0"),
    ("2,40,12", "2,37,12", "size=1x3x1 pad=0_0x-1_2x0_0 rhs_dilate=1x2x1"),
    ("1,16400,8", "1,16398,8", "size=1x3x1"),
    ("2,9,11,17", "2,4,10,17", "size=1x3x2x1 stride=1x2x1x1"),
]
"""Operand, result and window."""

FOLDS = [
    ("add", "f32", 1e-5),
    ("add", "f64", 1e-13),
    ("add", "bf16", 2e-2),
    ("add", "f16", 5e-3),
    ("maximum", "f32", 0),
    ("maximum", "bf16", 0),
    ("maximum", "s8", 0),
    ("maximum", "u8", 0),
    ("minimum", "f32", 0),
]


def pooling(opcode: str, dtype: str, window: tuple[str, str, str]) -> str:
    """Return a module that is one reduce-window."""
    operand, result, numbers = window
    root = f"{dtype}[{result}] reduce-window(p0, p1), window={{{numbers}}}, to_apply=f"
    return module_text([f"{dtype}[{operand}]", f"{dtype}[]"], root, reducer("f", opcode, dtype))


def arguments(text: str) -> list[Array]:
    """Return random numbers, with NaN and an infinity if there are any."""
    operand, start = random_arrays(text)
    if operand.dtype.kind not in "biu":
        operand.reshape(-1)[7], operand.reshape(-1)[50] = np.nan, -np.inf
    return [operand, start]


# Vectors of 256 bits take the way of those of 128 with another length: one fold shows it.
@pytest.mark.parametrize(
    ("opcode", "dtype", "tolerance", "target"),
    [
        pytest.param(
            *fold,
            target,
            id=f"{fold[0]}-{fold[1]}-{target.cpu}",
            marks=[pytest.mark.slow] if number == 1 and fold != FOLDS[0] else [],
        )
        for number, target in enumerate(TARGETS)
        for fold in FOLDS
    ],
)
def test_every_window(opcode: str, dtype: str, tolerance: float, target: Target) -> None:
    for window in WINDOWS:
        text = pooling(opcode, dtype, window)
        check_root(text, arguments(text), rtol=tolerance, atol=tolerance, target=target, pieces=2)


@pytest.mark.parametrize("window", WINDOWS)
def test_parts_have_the_same_bits(window: tuple[str, str, str]) -> None:
    text = pooling("add", "f32", window)
    given = arguments(text)
    root = parse_text(text).entry.root
    (whole,) = run_instruction(root, given)
    (found,) = run_instruction(root, given, pieces=3)
    assert found.tobytes() == whole.tobytes()


@pytest.mark.parametrize("window", WINDOWS)
def test_a_pool_is_a_call(window: tuple[str, str, str]) -> None:
    """The kernel has no loops, and its routine comes compiled."""
    kernel = emit(parse_text(pooling("maximum", "f32", window)).entry.root)
    is_few = int(window[0].split(",")[-1]) < 16 and not host_target().has("avx512bw")
    if not kernel.routines:
        assert is_few
        return
    (routine,) = kernel.routines
    assert all_routines(host_target())[routine.name] == routine
    assert kernel.level == 0
    assert "br " not in kernel.text


@pytest.mark.parametrize("window", WINDOWS)
def test_loops_where_there_are_no_vectors(window: tuple[str, str, str]) -> None:
    """Other processors fold element by element, in the same parts."""
    text = pooling("add", "f32", window)
    given = arguments(text)
    root = parse_text(text).entry.root
    kernel = emit_kernel(KernelRequest(root, (None,)), "kernel", host_target(), with_lanes=False)
    assert not kernel.routines
    result = np.zeros(root.array.dims, np.float32)
    compiled = Compiled(kernel)
    for row in range(kernel.extent):
        compiled.run([*given, result], row, row + 1)
    assert_close(result, evaluate(parse_text(text).entry, given), 1e-5, 1e-5)


MEAN = """HloModule m
f {{
  a = {dtype}[] parameter(0)
  b = {dtype}[] parameter(1)
  ROOT r = {dtype}[] add(a, b)
}}
ENTRY e {{
  x = {dtype}[2,9,9,{channels}] parameter(0)
  z = {dtype}[] constant(0)
  s = {dtype}[2,4,4,{channels}] reduce-window(x, z), window={{size=1x2x2x1 stride=1x2x2x1}},
    to_apply=f
  n = {dtype}[] constant({divisor})
  d = {dtype}[2,4,4,{channels}] broadcast(n), dimensions={{}}
  ROOT r = {dtype}[2,4,4,{channels}] divide(s, d)
}}
"""


@pytest.mark.parametrize("channels", [5, 64])
@pytest.mark.parametrize("divisor", [4, 3])
@pytest.mark.parametrize(("dtype", "tolerance"), [("f32", 1e-6), ("bf16", 1e-2)])
def test_means_are_one_kernel(dtype: str, tolerance: float, divisor: int, channels: int) -> None:
    """What a sum of a window is multiplied with, or divided by, is part of the kernel."""
    text = MEAN.format(dtype=dtype, divisor=divisor, channels=channels)
    executable = driver.compile_module(text, CompileOptions())
    assert isinstance(executable, Executable)
    compiled = executable.compiled
    assert isinstance(compiled, CpuModule)
    (kernel,) = compiled.kernels
    assert kernel.routines or not host_target().has("avx512bw")
    given = random_arrays(text)
    expected = evaluate(parse_text(text).entry, given)
    assert_close(np.asarray(executable(*given)[0]), np.asarray(expected), tolerance, tolerance)


@pytest.mark.parametrize(
    ("opcode", "dtype", "window"),
    [
        ("maximum", "s32", WINDOWS[0]),  # not a type that programs pool
        ("multiply", "f32", WINDOWS[0]),
        ("add", "f32", ("2,8,4,9", "2,8,3,8", "size=1x1x2x2")),  # along the fastest dimension
        ("add", "f32", ("4,8,4,9", "3,8,3,9", "size=2x1x2x1")),  # a dimension in between
        ("add", "f32", ("4,4,4,9", "3,3,3,9", "size=2x2x2x1")),
        ("add", "f32", ("2,4,4,9", "2,6,4,9", "size=1x2x1x1 lhs_dilate=1x2x1x1")),
    ],
)
def test_other_windows_are_no_pools(opcode: str, dtype: str, window: tuple[str, str, str]) -> None:
    text = pooling(opcode, dtype, window)
    root = parse_text(text).entry.root
    assert pool_of(root) is None
    check_root(text, random_arrays(text), **bounds("f32 sum"))


def test_long_windows_and_few_channels_take_steps() -> None:
    """Steps that double do less, keep the digits of long sums, and fill vectors."""
    kept = [
        folds_every_window(parse_text(pooling("add", "f32", window)).entry.root)
        for window in (
            ("1,40,40,64", "1,38,38,64", "size=1x3x3x1"),
            ("1,7,7,64", "1,1,1,64", "size=1x7x7x1"),
            ("1,40,40,64", "1,31,31,64", "size=1x10x10x1"),
            ("1,40,40,64", "1,2,2,64", "size=1x20x20x1 stride=1x20x20x1"),
            ("1,40,40,4", "1,38,38,4", "size=1x3x3x1"),
        )
    ]
    assert kept == [True, True, False, False, False]


@pytest.mark.parametrize("target", OTHERS, ids=["haswell", "x86-64", "aarch64"])
def test_routines_compile_for_other_machines(target: Target) -> None:
    for routine in listed_routines(target):
        assert compile_object(routine.text, target, routine.level, frozenset(routine.symbols))
