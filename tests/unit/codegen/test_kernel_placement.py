"""Where the working memory of kernels lies, and at which of LLVM's levels they are compiled."""

import numpy as np
import pytest

import hloc
from hloc.codegen.cpu.backend import CpuBackend, CpuModule
from hloc.options import CompileOptions

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
  ROOT c = pred[] compare(a, b), direction=LT
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
    np.testing.assert_allclose(executable(x, y)[0], x @ y, rtol=1e-4, atol=1e-5)


def test_working_memory_lies_in_the_arena_where_there_is_no_room_on_the_stack() -> None:
    wanted = compiled(DOT.replace("SIZE", "64"), 2, stack_bytes=0).buffers.arena_bytes
    assert wanted > 0
    assert compiled(DOT.replace("SIZE", "64"), 2, stack_bytes=wanted - 1).buffers.arena_bytes > 0
    assert compiled(DOT.replace("SIZE", "64"), 2, stack_bytes=wanted).buffers.arena_bytes == 0


@pytest.mark.parametrize(("level", "llvm"), [(1, 1), (2, 2), (3, 3)])
def test_a_sort_is_unrolled_at_level_3(level: int, llvm: int) -> None:
    units = compiled(SORT, level).units
    assert [unit.level for unit in units if "define void @kernel_" in unit.text] == [llvm]


def test_elementwise_kernels_are_never_unrolled() -> None:
    text = """HloModule m
    ENTRY e {
      x = f32[64] parameter(0)
      ROOT s = f32[64] negate(x)
    }"""
    units = compiled(text, 3).units
    assert [unit.level for unit in units if "define void @kernel_" in unit.text] == [2]
