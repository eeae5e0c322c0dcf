"""Where the working memory of kernels lies, and at which of LLVM's levels they are compiled."""

import numpy as np
import pytest

import hloc
from hloc.codegen.cpu.backend import CpuBackend, CpuModule
from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS
from hloc.dtypes import Array
from hloc.options import CompileOptions
from tests.tolerance import bounds

DOT = """HloModule m
ENTRY e {
  x = f32[32,SIZE] parameter(0)
  y = f32[SIZE,32] parameter(1)
  ROOT d = f32[32,32] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""

SORT = """HloModule m
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  size_of_a = f32[] abs(a)
  size_of_b = f32[] abs(b)
  ROOT c = pred[] compare(size_of_a, size_of_b), direction=LT
}
ENTRY e {
  x = f32[64] parameter(0)
  ROOT s = f32[64] sort(x), dimensions={0}, to_apply=less
}
"""


def compiled(text: str, level: int, **options: int) -> CpuModule:
    backend = CpuBackend(**options)  # type: ignore[arg-type]
    return backend.compile(hloc.parse(text), CompileOptions(opt_level=level))


@pytest.mark.parametrize("size", [8, 64])
def test_small_working_memory_lies_on_the_stack(size: int) -> None:
    text = DOT.replace("SIZE", str(size))
    rng = np.random.default_rng(size)
    x = rng.standard_normal((32, size), np.float32)
    y = rng.standard_normal((size, 32), np.float32)
    executable = hloc.compile(text)
    assert executable.buffers.arena_bytes == 0
    np.testing.assert_allclose(executable(x, y)[0], x @ y, **bounds("f32 program"))


def test_working_memory_lies_in_the_arena_where_there_is_no_room_on_the_stack() -> None:
    wanted = compiled(DOT.replace("SIZE", "64"), 2, stack_bytes=0).buffers.arena_bytes
    assert wanted > 0
    assert compiled(DOT.replace("SIZE", "64"), 2, stack_bytes=wanted - 1).buffers.arena_bytes > 0
    assert compiled(DOT.replace("SIZE", "64"), 2, stack_bytes=wanted).buffers.arena_bytes == 0


@pytest.mark.parametrize(("level", "llvm"), [(1, 1), (2, 2), (3, 3)])
def test_a_sort_is_unrolled_at_level_3(level: int, llvm: int) -> None:
    """Its keys are computed, so that no routine sorts by them."""
    units = compiled(SORT, level).units
    assert [unit.level for unit in units if "define void @kernel_" in unit.text] == [llvm]


def test_elementwise_kernels_are_never_unrolled() -> None:
    text = """HloModule m
    ENTRY e {
      x = f32[64] parameter(0)
      ROOT s = f32[64] negate(x)
    }"""
    (level,) = [u.level for u in compiled(text, 3).units if "define void @kernel_" in u.text]
    assert level <= 2


@pytest.mark.parametrize(("size", "is_tiny"), [(8, True), (4096, False)])
def test_kernels_that_do_next_to_nothing_are_part_of_the_control_flow(
    size: int, is_tiny: bool
) -> None:
    text = f"""HloModule m
    ENTRY e {{
      x = f32[{size}] parameter(0)
      ROOT s = f32[{size}] negate(x)
    }}"""
    first, *_ = compiled(text, 3).units
    assert ("define void @kernel_" in first.text) == is_tiny
    assert first.level == 0
    x = np.linspace(-1, 1, size, dtype=np.float32)
    np.testing.assert_array_equal(hloc.compile(text)(x)[0], -x)


def test_a_tiny_kernel_that_may_run_often_is_optimised() -> None:
    """A branch may be the body of a loop; only the entry computation certainly runs once."""
    text = """HloModule m
    yes { p = f32[8] parameter(0)  ROOT n = f32[8] negate(p) }
    no { q = f32[8] parameter(0)  ROOT c = f32[8] cosine(q) }
    ENTRY e {
      p = pred[] parameter(0)
      x = f32[8] parameter(1)
      ROOT r = f32[8] conditional(p, x, x), true_computation=yes, false_computation=no
    }"""
    first, *others = compiled(text, 0).units
    assert "define void @kernel_" not in first.text
    assert all(unit.level for unit in others)


def test_little_that_runs_outside_routines_is_part_of_the_control_flow() -> None:
    first, *_ = compiled(DOT.replace("SIZE", "256"), 2).units
    assert "define void @kernel_" in first.text


@pytest.mark.parametrize(("rows", "level"), [(10, FINAL_WITH_SLOTS), (1000, 2)])
def test_few_elements_are_joined_without_llvms_passes(rows: int, level: int) -> None:
    text = f"""HloModule m
    ENTRY e {{
      x = f32[{rows},4] parameter(0)
      y = f32[{rows},5] parameter(1)
      ROOT c = f32[{rows},9] concatenate(x, y), dimensions={{1}}
    }}"""
    units = compiled(text, 2).units
    assert [unit.level for unit in units if "define void @kernel_" in unit.text] == [level]
    x, y = (np.arange(n * rows, dtype=np.float32).reshape(rows, n) for n in (4, 5))
    np.testing.assert_array_equal(hloc.compile(text)(x, y)[0], np.concatenate((x, y), 1))


def small_convolution(dtype: str, size: int, features: int) -> str:
    """Return a convolution with too few positions for a gemm."""
    return f"""HloModule m
    ENTRY e {{
      x = {dtype}[1,{size},5,{features}] parameter(0)
      w = {dtype}[3,3,{features},{features}] parameter(1)
      ROOT c = {dtype}[1,{size - 2},3,{features}] convolution(x, w), window={{size=3x3}},
        dim_labels=b01f_01io->b01f
    }}"""


def convolved(x: Array, w: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
    result: Array = np.einsum("bijfyx,yxfo->bijo", windows, w)
    return result


@pytest.mark.parametrize(("size", "features", "level"), [(4, 3, FINAL_WITH_SLOTS), (5, 7, 3)])
def test_convolutions_of_few_integers_are_not_unrolled(
    size: int, features: int, level: int
) -> None:
    text = small_convolution("s32", size, features)
    units = compiled(text, 2).units
    assert [unit.level for unit in units if "define void @kernel_" in unit.text] == [level]
    rng = np.random.default_rng(size)
    x = rng.integers(-9, 9, (1, size, 5, features), np.int32)
    w = rng.integers(-9, 9, (3, 3, features, features), np.int32)
    np.testing.assert_array_equal(hloc.compile(text)(x, w)[0], convolved(x, w))


@pytest.mark.parametrize("features", [2, 3, 5, 7, 10, 18, 130])
def test_features_of_small_convolutions_are_summed_in_registers(features: int) -> None:
    """None of LLVM's passes is needed, whether or not the features fill registers.

    Tiny ones, part of the control flow, do without its register allocator.
    """
    text = small_convolution("f32", 5, features)
    units = compiled(text, 2).units
    kernels = [unit for unit in units if "define void @kernel_" in unit.text]
    assert all(unit.level == (0 if features <= 7 else FINAL_WITH_SLOTS) for unit in kernels)
    rng = np.random.default_rng(features)
    x = rng.standard_normal((1, 5, 5, features), np.float32)
    w = rng.standard_normal((3, 3, features, features), np.float32)
    wanted = convolved(x, w)
    np.testing.assert_allclose(hloc.compile(text)(x, w)[0], wanted, **bounds("f32 program"))
