"""Loops that are compiled with their kernels inside: what stays in registers is still right."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import hloc
from hloc.codegen.builder.loops import has_only_short_loops
from hloc.codegen.cpu.backend import CpuModule
from hloc.codegen.cpu.loop_function import loop_functions, parameters_text
from hloc.codegen.kernels.lanes import has_masks
from hloc.codegen.llvm.object_file import optimized_text
from hloc.codegen.llvm.routine import ONLY_SHORT_LOOPS, SHORT_LOOPS
from hloc.codegen.llvm.target import host_target
from hloc.runtime.executable import Executable
from tests.tolerance import bounds
from tests.waiting import PATIENCE

COUNT = """
below {{
  s = (s32[], f32[{0}], f32[{0}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({1})
  ROOT r = pred[] compare(i, n), direction=LT
}}
step {{
  s = (s32[], f32[{0}], f32[{0}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[{0}] get-tuple-element(s), index=1
  y = f32[{0}] get-tuple-element(s), index=2
  half = f32[] constant(0.5)
  halves = f32[{0}] broadcast(half), dimensions={{}}
  z = f32[{0}] multiply(x, halves)
  sum = f32[{0}] add(z, y)
  ROOT r = (s32[], f32[{0}], f32[{0}]) tuple(next, y, sum)
}}
"""
LOOP = (
    "HloModule loop\n"
    + COUNT
    + """
ENTRY e {{
  x = f32[{0}] parameter(0)
  y = f32[{0}] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], f32[{0}], f32[{0}]) tuple(zero, x, y)
  ROOT w = (s32[], f32[{0}], f32[{0}]) while(start), condition=below, body=step
}}
"""
)
BRANCHES = """HloModule loop_with_branches

double {
  x = f32[3] parameter(0)
  ROOT r = f32[3] add(x, x)
}
lower {
  x = f32[3] parameter(0)
  k = f32[3] constant({100, 200, 300})
  ROOT r = f32[3] subtract(x, k)
}
below {
  s = (s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(40)
  ROOT r = pred[] compare(i, n), direction=LT
}
step {
  s = (s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[3] get-tuple-element(s), index=1
  first = f32[1] slice(x), slice={[0:1]}
  scalar = f32[] reshape(first)
  limit = f32[] constant(64)
  small = pred[] compare(scalar, limit), direction=LT
  y = f32[3] conditional(small, x, x), true_computation=double, false_computation=lower
  ROOT r = (s32[], f32[3]) tuple(next, y)
}
ENTRY e {
  x = f32[3] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[3]) tuple(zero, x)
  w = (s32[], f32[3]) while(start), condition=below, body=step
  y = f32[3] get-tuple-element(w), index=1
  ROOT r = f32[3] negate(y)
}
"""


GROWTH = """HloModule growth

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
below {
  s = (s32[], f32[2], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2)
  ROOT r = pred[] compare(i, n), direction=LT
}
step {
  s = (s32[], f32[2], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  v = f32[2] get-tuple-element(s), index=1
  x = f32[1] slice(v), slice={[0:1]}
  y = f32[1] slice(v), slice={[1:2]}
  minus = f32[1] negate(x)
  turned = f32[2] concatenate(y, minus), dimensions={0}
  squares = f32[2] multiply(turned, turned)
  zero = f32[] constant(0)
  square = f32[] reduce(squares, zero), dimensions={0}, to_apply=add
  factor = f32[2] broadcast(square), dimensions={}
  grown = f32[2] multiply(turned, factor)
  ROOT r = (s32[], f32[2], f32[]) tuple(next, grown, square)
}
ENTRY e {
  v = f32[2] parameter(0)
  zero = s32[] constant(0)
  none = f32[] constant(0)
  start = (s32[], f32[2], f32[]) tuple(zero, v, none)
  w = (s32[], f32[2], f32[]) while(start), condition=below, body=step
  v1 = f32[2] get-tuple-element(w), index=1
  square = f32[] get-tuple-element(w), index=2
  ROOT r = (f32[2], f32[]) tuple(v1, square)
}
"""

TURNS = """HloModule turns{donor}

below {{
  s = (s32[], f32[3], f32[9,3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(9)
  ROOT r = pred[] compare(i, n), direction=LT
}}
step {{
  s = (s32[], f32[3], f32[9,3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  v = f32[3] get-tuple-element(s), index=1
  x = f32[1] slice(v), slice={{[0:1]}}
  y = f32[1] slice(v), slice={{[1:2]}}
  z = f32[1] slice(v), slice={{[2:3]}}
  xy = f32[1] subtract(x, y)
  yz = f32[1] add(y, z)
  turned = f32[3] concatenate(yz, z, xy), dimensions={{0}}
  rows = f32[9,3] get-tuple-element(s), index=2
  row = f32[1,3] reshape(v)
  zero = s32[] constant(0)
  written = f32[9,3] dynamic-update-slice(rows, row, i, zero)
  ROOT r = (s32[], f32[3], f32[9,3]) tuple(next, turned, written)
}}
ENTRY e {{
  v = f32[3] parameter(0)
  rows = f32[9,3] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], f32[3], f32[9,3]) tuple(zero, v, rows)
  w = (s32[], f32[3], f32[9,3]) while(start), condition=below, body=step
  v1 = f32[3] get-tuple-element(w), index=1
  rows1 = f32[9,3] get-tuple-element(w), index=2
  ROOT r = (f32[3], f32[9,3]) tuple(v1, rows1)
}}
"""


BEST_PATHS = """HloModule best_paths

larger {{
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  takes = pred[] compare(a, b), direction=GE
  x = f32[] select(takes, a, b)
  k = s32[] select(takes, i, j)
  ROOT r = (f32[], s32[]) tuple(x, k)
}}
below {{
  s = (s32[], f32[{n}], s32[{n}], f32[{m},{n}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT
}}
step {{
  s = (s32[], f32[{n}], s32[{n}], f32[{m},{n}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  scores = f32[{n}] get-tuple-element(s), index=1
  moves = f32[{m},{n}] get-tuple-element(s), index=3
  each = f32[{m},{n}] broadcast(scores), dimensions={{1}}
  sums = f32[{m},{n}] add(each, moves)
  rows = s32[{m},{n}] iota(), iota_dimension=0
  least = f32[] constant(-inf)
  zero = s32[] constant(0)
  best = (f32[{n}], s32[{n}]) reduce(sums, rows, least, zero), dimensions={{0}}, to_apply=larger
  values = f32[{n}] get-tuple-element(best), index=0
  places = s32[{n}] get-tuple-element(best), index=1
  ROOT r = (s32[], f32[{n}], s32[{n}], f32[{m},{n}]) tuple(next, values, places, moves)
}}
ENTRY e {{
  scores = f32[{n}] parameter(0)
  moves = f32[{m},{n}] parameter(1)
  zero = s32[] constant(0)
  places = s32[{n}] broadcast(zero), dimensions={{}}
  start = (s32[], f32[{n}], s32[{n}], f32[{m},{n}]) tuple(zero, scores, places, moves)
  ROOT w = (s32[], f32[{n}], s32[{n}], f32[{m},{n}]) while(start), condition=below, body=step
}}
"""


def _loops(executable: Any) -> Sequence[Any]:
    compiled = executable.compiled
    return tuple(loop_functions(compiled.plan, compiled.kernels).values())


@pytest.mark.parametrize("size", ["", "3", "64", "100"])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_state_that_changes_places(size: str, level: int) -> None:
    """Both arrays swap roles: in registers nothing may be read after it is written."""
    executable = hloc.compile(LOOP.format(size, 13), opt_level=level)
    assert len(_loops(executable)) == 1
    dims = (int(size),) if size else ()
    x, y = np.random.default_rng(0).standard_normal((2, *dims)).astype(np.float32)
    count, first, second = executable(x, y)
    for _ in range(13):
        x, y = y, x * np.float32(0.5) + y
    assert count == 13
    np.testing.assert_allclose(first, x, **bounds("f32 few roundings"))
    np.testing.assert_allclose(second, y, **bounds("f32 few roundings"))


def test_both_operands_may_be_one_array() -> None:
    """Parameters may overlap: nothing is written to them."""
    executable = hloc.compile(LOOP.format("64", 3))
    x = np.ones(64, np.float32)
    _, first, second = executable(x, x)
    np.testing.assert_array_equal(first, np.full(64, 2.0, np.float32))
    np.testing.assert_array_equal(second, np.full(64, 2.75, np.float32))


@pytest.mark.parametrize("donor", ["", ", buffer_donor={ (0, {}), (1, {}) }"])
def test_a_state_of_few_elements_stays_in_registers(donor: str) -> None:
    """Every element has code of its own, so that the loop has no loop and no branch inside."""
    executable = hloc.compile(TURNS.format(donor=donor))
    (loop,) = _loops(executable)
    kernels = executable.compiled.kernels  # type: ignore[attr-defined]
    assert not any(" br " in kernels[number].text for number in loop.kernels)
    v, rows = np.array([1, 2, 4], np.float32), np.zeros((9, 3), np.float32)
    found, path = executable(v.copy(), rows.copy(), donate=(0, 1) if donor else ())
    for row in path:
        np.testing.assert_array_equal(row, v)
        v = np.array([v[1] + v[2], v[2], v[0] - v[1]], np.float32)
    np.testing.assert_array_equal(found, v)


LANES = host_target().vector_bytes // 4
SHRINK = """HloModule shrink

below {{
  s = (s32[], f32[{n}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(9)
  ROOT r = pred[] compare(i, n), direction=LT
}}
step {{
  s = (s32[], f32[{n}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[{n}] get-tuple-element(s), index=1
  half = f32[] constant(0.5)
  halves = f32[{n}] broadcast(half), dimensions={{}}
  y = f32[{n}] multiply(x, halves)
  z = f32[{n}] subtract(y, halves)
  ROOT r = (s32[], f32[{n}]) tuple(next, z)
}}
ENTRY e {{
  x = f32[{n}] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[{n}]) tuple(zero, x)
  w = (s32[], f32[{n}]) while(start), condition=below, body=step
  ROOT r = f32[{n}] get-tuple-element(w), index=1
}}
"""


@pytest.mark.parametrize("rest", [0] if has_masks(host_target()) else [0, 1])
def test_a_state_of_few_vectors_stays_in_registers(rest: int) -> None:
    """It is stored after the loop only, a vector at a time, then what the vectors leave."""
    compiled: Any = hloc.compile(SHRINK.format(n=4 * LANES + rest)).compiled
    (unit,) = [u for u in compiled.units if u.level in (SHORT_LOOPS, ONLY_SHORT_LOOPS)]
    optimized = optimized_text(unit.text, host_target(), unit.level)
    assert optimized.count(f"= phi <{LANES} x float>") >= 4
    assert optimized.count(f"store <{LANES} x float>") == 4
    assert optimized.count("store float") == rest


@pytest.mark.skipif(has_masks(host_target()), reason="parts of vectors are masked")
def test_a_state_of_more_than_half_a_vector_has_only_short_loops() -> None:
    """LLVM unrolls them, and makes vectors of what it can."""
    compiled: Any = hloc.compile(SHRINK.format(n=LANES // 2 + 1)).compiled
    (kernel,) = [kernel.text for kernel in compiled.kernels if "fadd" in kernel.text]
    assert has_only_short_loops(kernel)


def test_a_state_with_functions_is_not_unrolled() -> None:
    """Each vector would have a copy of the function."""
    text = SHRINK.replace("multiply(x, halves)", "exponential(x)")
    compiled: Any = hloc.compile(text.format(n=4 * LANES)).compiled
    kernels = [kernel.text for kernel in compiled.kernels]
    assert not any("short loop" in text and "fma" in text for text in kernels)


@pytest.mark.parametrize("n", [LANES, 12 * LANES, 13 * LANES, 2 * LANES + 1, 5])
def test_states_of_few_vectors(n: int) -> None:
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    (found,) = hloc.compile(SHRINK.format(n=n))(x)
    for _ in range(9):
        x = x * np.float32(0.5) - np.float32(0.5)
    np.testing.assert_allclose(found, x, **bounds("f32 few roundings"))


def test_a_sum_of_few_elements_has_no_loop() -> None:
    """The pieces of a concatenation that is added up are chosen while the code is written."""
    executable = hloc.compile(GROWTH)
    (loop,) = _loops(executable)
    kernels = executable.compiled.kernels  # type: ignore[attr-defined]
    assert not any(" br " in kernels[number].text for number in loop.kernels)
    (v, square) = executable(np.array([1, 2], np.float32))
    np.testing.assert_array_equal(v, np.array([-625, -1250], np.float32))
    assert square == 125


def test_only_outputs_and_what_they_overwrite_share_memory() -> None:
    """LLVM is told that nothing else overlaps."""
    apart = hloc.compile(LOOP.format("64", 3))
    assert not any(loop.shared for loop in _loops(apart))
    donor = "HloModule loop, buffer_donor={ (0, {}) }"
    donated = hloc.compile(LOOP.format("64", 3).replace("HloModule loop", donor))
    for loop in _loops(donated):
        for slot in loop.shared:
            assert f"ptr noalias %slot{slot}" not in parameters_text(loop)


@pytest.mark.parametrize("level", [0, 2])
def test_branches_inside_a_loop(level: int) -> None:
    executable = hloc.compile(BRANCHES, opt_level=level)
    assert len(_loops(executable)) == 1
    x = np.array([1, 2, 3], np.float32)
    (found,) = executable(x)
    for _ in range(40):
        x = x + x if x[0] < 64 else x - np.array([100, 200, 300], np.float32)
    np.testing.assert_array_equal(found, -x)


def test_a_loop_of_many_rounds_ends_soon() -> None:
    """A counter in a register: seconds, not minutes; and another thread runs meanwhile."""
    executable = hloc.compile(LOOP.format("", 100_000_000))
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.extend(executable(np.float32(0), np.float32(0))))
    started = time.process_time()
    thread.start()
    thread.join(PATIENCE)
    assert done
    assert time.process_time() - started < 5
    assert done[0] == 100_000_000


@pytest.mark.parametrize(("m", "n"), [(1, 3), (3, 1), (3, 3), (12, 12), (13, 5), (4, 40)])
def test_short_loops_in_a_loop(m: int, n: int) -> None:
    """Values and places of the largest in each column: unrolled, and as the evaluator has them."""
    text = BEST_PATHS.format(m=m, n=n)
    generator = np.random.default_rng(m * 100 + n)
    scores = generator.standard_normal(n).astype(np.float32)
    moves = generator.integers(-2, 3, (m, n)).astype(np.float32)
    expected = hloc.evaluate(text, scores, moves)
    for got, value in zip(hloc.compile(text)(scores, moves), expected, strict=True):
        np.testing.assert_array_equal(got, value)


def test_sums_of_few_elements_stay_in_registers() -> None:
    """Of twelve rows by twelve columns no running result is left in stack memory."""
    compiled: Any = hloc.compile(BEST_PATHS.format(m=12, n=12)).compiled
    (unit,) = [unit for unit in compiled.units if unit.level == SHORT_LOOPS]
    optimized = optimized_text(unit.text, host_target(), unit.level)
    assert "alloca" in unit.text
    assert "alloca" not in optimized


LEAST_SQUARES = """HloModule least_squares

below {{
  s = (s32[], f32[{n},{n}], f32[9,{n}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(9)
  ROOT r = pred[] compare(i, n), direction=LT
}}
step {{
  s = (s32[], f32[{n},{n}], f32[9,{n}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  p = f32[{n},{n}] get-tuple-element(s), index=1
  rows = f32[9,{n}] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  row = f32[1,{n}] dynamic-slice(rows, i, zero), dynamic_slice_sizes={{1,{n}}}
  x = f32[{n}] reshape(row)
  g = f32[{n}] dot(p, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  square = f32[] dot(x, g), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  unit = f32[] constant(1)
  total = f32[] add(square, unit)
  totals = f32[{n}] broadcast(total), dimensions={{}}
  weights = f32[{n}] divide(g, totals)
  left = f32[{n},{n}] broadcast(weights), dimensions={{0}}
  right = f32[{n},{n}] broadcast(g), dimensions={{1}}
  both = f32[{n},{n}] multiply(left, right)
  fresh = f32[{n},{n}] subtract(p, both)
  ROOT r = (s32[], f32[{n},{n}], f32[9,{n}]) tuple(next, fresh, rows)
}}
ENTRY e {{
  p = f32[{n},{n}] parameter(0)
  rows = f32[9,{n}] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], f32[{n},{n}], f32[9,{n}]) tuple(zero, p, rows)
  last = (s32[], f32[{n},{n}], f32[9,{n}]) while(start), condition=below, body=step
  ROOT r = f32[{n},{n}] get-tuple-element(last), index=1
}}
"""


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_matrices_of_few_rows_in_a_loop(n: int) -> None:
    """Recursive least squares; of two or three rows LLVM gathers nothing and scatters nothing."""
    text = LEAST_SQUARES.format(n=n)
    rows = np.random.default_rng(n).standard_normal((9, n)).astype(np.float32)
    start = np.eye(n, dtype=np.float32)
    executable: Any = hloc.compile(text)
    np.testing.assert_allclose(
        executable(start, rows), hloc.evaluate(text, start, rows), **bounds("f32 short sum")
    )
    found = {unit.level: unit for unit in executable.compiled.units}
    assert (ONLY_SHORT_LOOPS in found) == (n < 4)
    if n < 4:
        unit = found[ONLY_SHORT_LOOPS]
        optimized = optimized_text(unit.text, host_target(), unit.level)
        assert "gather" not in optimized
        assert "scatter" not in optimized


BESIDE_ROUTINE = """HloModule short_kernel_beside_a_routine

below {
  s = (s32[], c64[128]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT
}
step {
  s = (s32[], c64[128]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = c64[128] get-tuple-element(s), index=1
  real = f32[128] real(x)
  sine = f32[128] sine(real)
  y = c64[128] complex(sine, real)
  z = c64[128] fft(y), fft_type=FFT, fft_length={128}
  ROOT r = (s32[], c64[128]) tuple(next, z)
}
ENTRY e {
  x = c64[128] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], c64[128]) tuple(zero, x)
  w = (s32[], c64[128]) while(start), condition=below, body=step
  ROOT r = c64[128] get-tuple-element(w), index=1
}
"""


def test_short_kernels_that_no_loop_inlines_have_lanes() -> None:
    """The loop calls a routine, so its kernels stay functions, of which LLVM vectorises few."""
    executable = hloc.compile(BESIDE_ROUTINE)
    assert isinstance(executable, Executable)
    module = executable.compiled
    assert isinstance(module, CpuModule)
    (kernel,) = (kernel for kernel in module.kernels if "fma" in kernel.text)
    assert f"<{host_target().vector_bytes // 4} x float>" in kernel.text


VITERBI = """HloModule argmax_of_columns

below {
  s = (s32[], f32[32], s32[32]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT
}
best {
  x = f32[] parameter(0)
  i = s32[] parameter(1)
  y = f32[] parameter(2)
  j = s32[] parameter(3)
  greater = pred[] compare(x, y), direction=GT
  none = pred[] compare(x, x), direction=NE
  first = pred[] or(greater, none)
  equal = pred[] compare(x, y), direction=EQ
  before = pred[] compare(i, j), direction=LT
  tie = pred[] and(equal, before)
  c = pred[] or(first, tie)
  v = f32[] select(first, x, y)
  k = s32[] select(c, i, j)
  ROOT t = (f32[], s32[]) tuple(v, k)
}
step {
  s = (s32[], f32[32], s32[32]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  d = f32[32] get-tuple-element(s), index=1
  a = f32[32,32] broadcast(d), dimensions={0}
  b = f32[32,32] iota(), iota_dimension=1
  c = f32[32,32] cosine(b)
  e = f32[32,32] add(a, c)
  n = s32[32,32] iota(), iota_dimension=0
  z = f32[] constant(-inf)
  o = s32[] constant(0)
  r = (f32[32], s32[32]) reduce(e, n, z, o), dimensions={0}, to_apply=best
  v = f32[32] get-tuple-element(r), index=0
  k = s32[32] get-tuple-element(r), index=1
  ROOT t = (s32[], f32[32], s32[32]) tuple(next, v, k)
}
ENTRY e {
  x = f32[32] parameter(0)
  zero = s32[] constant(0)
  none = s32[32] broadcast(zero), dimensions={}
  start = (s32[], f32[32], s32[32]) tuple(zero, x, none)
  ROOT w = (s32[], f32[32], s32[32]) while(start), condition=below, body=step
}
"""


def test_an_argmax_of_columns_has_lanes_in_a_loop() -> None:
    """LLVM does not vectorise it: the lanes hold neighbouring columns."""
    executable = hloc.compile(VITERBI)
    assert isinstance(executable, Executable)
    module = executable.compiled
    assert isinstance(module, CpuModule)
    lanes = host_target().vector_bytes // 4
    assert any(f"<{lanes} x i1>" in kernel.text for kernel in module.kernels)
    x = np.sin(np.arange(32, dtype=np.float32))
    for got, want in zip(executable(x), hloc.evaluate(hloc.parse(VITERBI), x), strict=True):
        np.testing.assert_allclose(got, want, **bounds("f32 few roundings"))


FORWARD = """HloModule forward

below {
  s = (s32[], f32[12]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT
}
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y)
}
step {
  s = (s32[], f32[12]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[12] get-tuple-element(s), index=1
  columns = f32[12,12] broadcast(x), dimensions={0}
  rows = f32[12,12] broadcast(x), dimensions={1}
  differences = f32[12,12] subtract(columns, rows)
  exponentials = f32[12,12] exponential(differences)
  zero = f32[] constant(0)
  sums = f32[12] reduce(exponentials, zero), dimensions={0}, to_apply=add
  logarithms = f32[12] log(sums)
  ROOT t = (s32[], f32[12]) tuple(next, logarithms)
}
ENTRY e {
  x = f32[12] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[12]) tuple(zero, x)
  ROOT w = (s32[], f32[12]) while(start), condition=below, body=step
}
"""


def test_sums_of_exponentials_along_columns_have_lanes_in_a_loop() -> None:
    """LLVM unrolls the loop over the columns instead."""
    executable = hloc.compile(FORWARD)
    assert isinstance(executable, Executable)
    module = executable.compiled
    assert isinstance(module, CpuModule)
    lanes = host_target().vector_bytes // 4
    vector = f"<{min(lanes, 8)} x float>"
    assert any(vector in kernel.text for kernel in module.kernels)
    x = np.sin(np.arange(12, dtype=np.float32))
    for got, want in zip(executable(x), hloc.evaluate(hloc.parse(FORWARD), x), strict=True):
        np.testing.assert_allclose(got, want, **bounds("f32 few roundings"))


SQUARES = """HloModule squares

below {
  s = (s32[], c128[16,16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT
}
step {
  s = (s32[], c128[16,16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = c128[16,16] get-tuple-element(s), index=1
  square = c128[16,16] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  fourth = c128[16,16] dot(square, square), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (s32[], c128[16,16]) tuple(next, fourth)
}
ENTRY e {
  x = c128[16,16] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], c128[16,16]) tuple(zero, x)
  w = (s32[], c128[16,16]) while(start), condition=below, body=step
  ROOT r = c128[16,16] get-tuple-element(w), index=1
}
"""


def test_a_long_kernel_of_several_steps_is_called() -> None:
    """One product for both steps, whose copies would take twice as long to compile."""
    executable = hloc.compile(SQUARES)
    (loop,) = _loops(executable)
    assert len(loop.called) == 1
    real, imaginary = np.random.default_rng(0).uniform(0, 1 / 16, (2, 16, 16))
    x = real + 1j * imaginary
    (found,) = executable(x)
    np.testing.assert_allclose(found, np.linalg.matrix_power(x, 64), **bounds("f64 factors"))


POWERS = """HloModule powers

below {{
  s = (s32[], f32[{0}], f32[{0},{0}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2)
  ROOT r = pred[] compare(i, n), direction=LT
}}
step {{
  s = (s32[], f32[{0}], f32[{0},{0}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[{0}] get-tuple-element(s), index=1
  m = f32[{0},{0}] get-tuple-element(s), index=2
  once = f32[{0}] dot(m, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  twice = f32[{0}] dot(m, once), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT r = (s32[], f32[{0}], f32[{0},{0}]) tuple(next, twice, m)
}}
ENTRY e {{
  x = f32[{0}] parameter(0)
  m = f32[{0},{0}] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], f32[{0}], f32[{0},{0}]) tuple(zero, x, m)
  w = (s32[], f32[{0}], f32[{0},{0}]) while(start), condition=below, body=step
  ROOT r = f32[{0}] get-tuple-element(w), index=1
}}
"""


@pytest.mark.parametrize(("n", "called"), [(8, 0), (40, 1)])
def test_a_slow_kernel_of_several_steps_is_called(n: int, called: int) -> None:
    """One of few lines, whose copies take long to vectorise; a fast one is inlined."""
    executable = hloc.compile(POWERS.format(n))
    (loop,) = _loops(executable)
    assert len(loop.called) == called
    random = np.random.default_rng(0)
    x, m = random.uniform(0, 1, n), random.uniform(0, 1 / n, (n, n))
    (found,) = executable(x.astype(np.float32), m.astype(np.float32))
    np.testing.assert_allclose(found, np.linalg.matrix_power(m, 4) @ x, **bounds("f32 one sign"))


def test_a_loop_does_not_ask_to_be_unrolled_as_its_last_kernel_is(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """LLVM would warn that it cannot unroll a loop without an end."""
    hloc.compile(
        """HloModule m
        below {
          s = (s32[], f32[6,2,2]) parameter(0)
          i = s32[] get-tuple-element(s), index=0
          n = s32[] constant(3)
          ROOT r = pred[] compare(i, n), direction=LT
        }
        step {
          s = (s32[], f32[6,2,2]) parameter(0)
          i = s32[] get-tuple-element(s), index=0
          x = f32[6,2,2] get-tuple-element(s), index=1
          u = f32[2,2,2] slice(x), slice={[1:3], [0:2], [0:2]}
          zero = s32[] constant(0)
          z = f32[6,2,2] dynamic-update-slice(x, u, zero, zero, zero)
          ROOT r = (s32[], f32[6,2,2]) tuple(i, z)
        }
        ENTRY e {
          i = s32[] parameter(0)
          x = f32[6,2,2] parameter(1)
          start = (s32[], f32[6,2,2]) tuple(i, x)
          ROOT w = (s32[], f32[6,2,2]) while(start), condition=below, body=step
        }"""
    )
    assert capfd.readouterr().err == ""
