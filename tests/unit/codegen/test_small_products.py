"""Products with few rows, columns or steps of k: which routine takes them, and that it is right."""

from __future__ import annotations

import random

import numpy as np
import pytest

import hloc
from hloc.codegen.cpu.backend import CpuBackend
from hloc.codegen.cpu.emitters.gemm.dot import micro_gemm
from hloc.codegen.cpu.emitters.gemm.packed.packed_gemm import PackedGemm, stays_in_rows
from hloc.codegen.cpu.emitters.gemm.unpacked.inner_gemm import MAX_ROWS, InnerGemm
from hloc.codegen.cpu.kernel import emit_kernel
from hloc.codegen.llvm import matrix_registers
from hloc.codegen.llvm.target import host_target, target_for
from hloc.codegen.plan.kernel_request import KernelRequest
from hloc.options import CompileOptions
from tests.unit.codegen.harness import (
    assert_close,
    check_root,
    emit,
    module_text,
    parse_text,
    random_arrays,
)
from tests.unit.codegen.processors import IS_X86
from tests.unit.codegen.test_matrix_registers import needs_amx, routine_text
from tests.unit.codegen.test_products import dims, narrower, product, tolerances

TYPES = [
    ("f32", "f32"), ("f64", "f64"), ("f16", "f16"), ("bf16", "bf16"), ("bf16", "f32"),
    ("s8", "s32"), ("u8", "s32"), ("s32", "s32"),
]  # fmt: skip


def check(text: str, dtype: str, *, pieces: int = 1, bits: int = 512) -> np.ndarray:
    """Compare with the evaluator, and if there are some pieces, with the whole, bit by bit."""
    arrays = random_arrays(text)
    machine = narrower(bits)
    (found,) = check_root(text, arrays, target=machine, pieces=pieces, **tolerances(dtype))
    if pieces > 1:
        (whole,) = check_root(text, arrays, target=machine, **tolerances(dtype))
        np.testing.assert_array_equal(found, whole)
    return found


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize(("dtype", "result"), TYPES)
@pytest.mark.parametrize("right", [0, 1])
def test_few_steps_of_k(bits: int, dtype: str, result: str, right: int) -> None:
    text = product(f"{dtype}[61,5]", dtype + dims(5, 200, right), f"{result}[61,200]", 1, right)
    assert isinstance(micro_gemm(parse_text(text).entry.root), PackedGemm)
    check(text, dtype, bits=bits)


# Vectors of f32 hold 16: 15 and 63 end in a vector that is not full, as 1, 33 and 100 do.
@pytest.mark.parametrize(("dtype", "result"), TYPES)
@pytest.mark.parametrize(
    "columns", [1, 17, 33, 65, 100, *(pytest.param(n, marks=pytest.mark.slow) for n in (15, 63))]
)
def test_vectors_of_the_last_tile(dtype: str, result: str, columns: int) -> None:
    """Every number of vectors that the last tile of a row may need, shared by threads or not."""
    text = product(f"{dtype}[50,40]", f"{dtype}[40,{columns}]", f"{result}[50,{columns}]", 1, 0)
    check(text, dtype, pieces=2)


@needs_amx
@pytest.mark.parametrize(("dtype", "result"), [("s8", "s32"), ("u8", "s32"), ("bf16", "f32")])
@pytest.mark.parametrize(("rows", "columns"), [(49, 17), (64, 9), (100, 64), (257, 5)])
@pytest.mark.parametrize("depth", [128, 135, 257])
@pytest.mark.parametrize("right", [0, 1])
def test_rows_that_stay_where_they_are(
    dtype: str, result: str, rows: int, columns: int, depth: int, right: int
) -> None:
    """Whole tiles, rows after the last of them, and the end of k."""
    rhs = dtype + dims(depth, columns, right)
    text = product(f"{dtype}[{rows},{depth}]", rhs, f"{result}[{rows},{columns}]", 1, right)
    check(text, dtype, pieces=3)


@needs_amx
@pytest.mark.parametrize("pieces", [1, 2, 5])
def test_batches_of_rows_that_stay(pieces: int) -> None:
    root = (
        "s32[5,100,12] dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={1}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={2}"
    )
    text = module_text(["s8[5,100,140]", "s8[12,5,140]"], root)
    found = micro_gemm(parse_text(text).entry.root)
    assert isinstance(found, PackedGemm)
    assert stays_in_rows(found)
    assert "row_tiles" in routine_text(text, host_target())
    check(text, "s8", pieces=pieces)


@needs_amx
def test_not_a_number_stays_in_its_row_in_place() -> None:
    """Neither the next row nor what memory held before reaches a result."""
    text = product("bf16[83,70]", "bf16[70,20]", "f32[83,20]", 1, 0)
    assert "row_tiles" in routine_text(text, host_target())
    root = parse_text(text).entry.root
    dtype = root.operands[0].array.dtype.numpy
    lhs, rhs = np.ones((83, 70), dtype), np.ones((70, 20), dtype)
    lhs[7, 0], lhs[82, 69] = np.nan, np.inf
    (found,) = check_root(text, [lhs, rhs])
    assert np.isnan(found[7]).all()
    assert np.isposinf(found[82]).all()
    assert (np.delete(found, (7, 82), axis=0) == 70).all()


def test_machines_without_matrix_registers_pack_rows() -> None:
    text = product("s8[64,170]", "s8[170,12]", "s32[64,12]", 1, 0)
    for machine in (narrower(256), target_for("aarch64"), target_for(cpu="x86-64-v4")):
        assert "row_tiles" not in routine_text(text, machine)
    wide = target_for("x86_64", "sapphirerapids")
    assert matrix_registers.uses_matrix_registers(routine_text(text, wide))
    assert "row_tiles" in routine_text(text, wide)


@pytest.mark.parametrize("rows", [MAX_ROWS, MAX_ROWS + 1, 31, 32])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("pieces", [1, 2])
def test_rows_along_k_in_two_parts(rows: int, dtype: str, pieces: int) -> None:
    text = product(f"{dtype}[90,133]", f"{dtype}[{rows},133]", f"{dtype}[90,{rows}]", 1, 1)
    found = micro_gemm(parse_text(text).entry.root)
    assert isinstance(found, InnerGemm)
    assert sum(found.row_parts) == rows
    check(text, dtype, pieces=pieces)


@pytest.mark.parametrize("columns", range(1, 49, 3))
def test_columns_along_k_that_fill_no_square(columns: int) -> None:
    """Squares of 16 columns are packed at a time; the last repeats its last column."""
    text = product("f32[160,165]", f"f32[{columns},165]", f"f32[160,{columns}]", 1, 1)
    check(text, "f32")


# Any of them may find what the others do not; the default run takes some.
@pytest.mark.parametrize(
    "seed", [*range(24), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(24, 40))]
)
def test_random_sizes(seed: int) -> None:
    """Any sizes, order of dimensions, types, vectors and pieces."""
    r = random.Random(seed)
    dtype, result = r.choice(TYPES)
    sizes = (1, 2, 3, 5, 8, 12, 16, 17, 31, 33, 48, 64, 65, 100, 129, 200)
    m, n, k = (r.choice(sizes) for _ in range(3))
    left, right, batch = r.randint(0, 1), r.randint(0, 1), r.choice((0, 0, 1, 3))
    b = f"{batch}," if batch else ""
    lhs, rhs = dims(m, k, 1 - left), dims(k, n, right)
    at = int(batch > 0)
    batches = "lhs_batch_dims={0}, rhs_batch_dims={0}, " if batch else ""
    root = (
        f"{result}[{b}{m},{n}] dot(p0, p1), {batches}"
        f"lhs_contracting_dims={{{left + at}}}, rhs_contracting_dims={{{right + at}}}"
    )
    text = module_text([f"{dtype}[{b}{lhs[1:]}", f"{dtype}[{b}{rhs[1:]}"], root)
    check(text, dtype, pieces=r.choice((1, 2, 3)), bits=r.choice((256, 512, 512)))


STEP = """
  d = f32[8,48] dot(s, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
"""
ONCE = f"""HloModule m
ENTRY e {{
  s = f32[8,48] parameter(0)
  w = f32[48,48] parameter(1){STEP}  ROOT r = f32[8,48] copy(d)
}}
"""
LOOP = f"""HloModule m
below {{
  t = (s32[], f32[8,48], f32[48,48]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}}
body {{
  t = (s32[], f32[8,48], f32[48,48]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  s = f32[8,48] get-tuple-element(t), index=1
  w = f32[48,48] get-tuple-element(t), index=2{STEP}
  ROOT r = (s32[], f32[8,48], f32[48,48]) tuple(j, d, w)
}}
ENTRY e {{
  s = f32[8,48] parameter(0)
  w = f32[48,48] parameter(1)
  z = s32[] constant(0)
  t = (s32[], f32[8,48], f32[48,48]) tuple(z, s, w)
  l = (s32[], f32[8,48], f32[48,48]) while(t), condition=below, body=body
  ROOT r = f32[8,48] get-tuple-element(l), index=1
}}
"""


def multiplications(text: str) -> int:
    """Return how many multiplications the code of all kernels of a module writes."""
    compiled = CpuBackend().compile(parse_text(text), CompileOptions())
    return sum(kernel.text.count("fmul") for kernel in compiled.kernels)


def test_in_a_loop_four_rows_share_a_pass_over_four_steps_of_k() -> None:
    """A product that runs once calls a routine, with the same bits."""
    assert multiplications(ONCE) == 0
    assert multiplications(LOOP) == 16
    state, weights = random_arrays(ONCE)
    step, steps = hloc.compile(ONCE), hloc.compile(LOOP)
    expected = state
    for _ in range(3):
        (expected,) = step(expected, weights)
    np.testing.assert_array_equal(steps(state, weights)[0], expected)


SMALL = [
    ("[6,6]", "[6,6]", "[6,6]", ""),
    ("[33,65]", "[65,9]", "[33,9]", ""),
    ("[5,200]", "[200,3]", "[5,3]", ""),
    ("[11,7,6]", "[11,6,19]", "[11,7,19]", "lhs_batch_dims={0}, rhs_batch_dims={0}, "),
    ("[3,4,7,5]", "[3,4,5,6]", "[3,4,7,6]", "lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, "),
    ("[2,3,4,5]", "[5,17]", "[2,3,4,17]", ""),
]


@pytest.mark.parametrize("sizes", SMALL, ids=lambda sizes: sizes[2])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("bits", [256, 512])
def test_small_products_that_run_once_call_a_routine(
    sizes: tuple[str, str, str, str], dtype: str, pieces: int, bits: int
) -> None:
    """Vectors of all lengths, tiles of 8, 4, 2 and 1 rows, batches inside and outside."""
    lhs, rhs, result, batches = sizes
    left, right = lhs.count(","), rhs.count(",") - 1
    root = f"{batches}lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}"
    text = module_text([dtype + lhs, dtype + rhs], f"{dtype}{result} dot(p0, p1), {root}")
    kernel = emit(parse_text(text).entry.root, target=narrower(bits))
    assert [routine.name for routine in kernel.routines] == [f"small_gemm_{dtype}"]
    assert kernel.level == 0
    check(text, dtype, pieces=pieces, bits=bits)


@pytest.mark.parametrize("cpu", ["", *(["x86-64-v3"] if IS_X86 else [])])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_operands_may_lie_anywhere(cpu: str, dtype: str, width: int) -> None:
    """Columns that lie as packing would leave them are read in place, aligned to an element."""
    root = "lhs_contracting_dims={1}, rhs_contracting_dims={1}"
    shapes = [f"{dtype}[50,9]", f"{dtype}[60,9,{width}]"]
    text = module_text(shapes, f"{dtype}[50,60,{width}] dot(p0, p1), {root}")
    arrays = []
    for array in random_arrays(text):
        moved = np.empty(array.size + 1, array.dtype)[1:].reshape(array.shape)
        moved[...] = array
        arrays.append(moved)
    (found,), (expected,) = hloc.compile(text, cpu=cpu)(*arrays), hloc.evaluate(text, *arrays)
    assert_close(found, expected, **tolerances(dtype))


TINY = [("[20,30]", "[30]", "[20]"), ("[30]", "[31,30]", "[31]"), ("[5,24]", "[7,24]", "[5,7]")]
LONE = [("[100]", "[100]", "[]"), ("[3,61]", "[61]", "[3]")]


def inner(dtype: str, sizes: tuple[str, str, str]) -> str:
    lhs, rhs, result = sizes
    contracted = f"{{{lhs.count(',')}}}, rhs_contracting_dims={{{rhs.count(',')}}}"
    root = f"{dtype}{result} dot(p0, p1), lhs_contracting_dims={contracted}"
    return module_text([dtype + lhs, dtype + rhs], root)


@pytest.mark.parametrize("sizes", [*TINY, *LONE], ids=str)
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "c64", "c128"])
@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("bits", [256, 512])
def test_a_few_inner_products_that_run_once_call_a_routine(
    sizes: tuple[str, str, str], dtype: str, pieces: int, bits: int
) -> None:
    """In a loop they are written for their sizes; two complex vectors are, too."""
    text = inner(dtype, sizes)
    machine = narrower(bits)
    root = parse_text(text).entry.root
    kernel = emit(root, target=machine)
    repeated = emit_kernel(KernelRequest(root, (None,)), "repeated", machine, is_repeated=True)
    assert (kernel.level, bool(kernel.routines)) == (
        (None, False) if dtype[0] == "c" and sizes[2] == "[]" else (0, True)
    )
    assert not repeated.routines
    check(text, dtype, pieces=pieces, bits=bits)


@pytest.mark.parametrize("sizes", [("[300]", "[300]", "[]"), ("[10,333]", "[333]", "[10]")])
def test_inner_products_that_a_routine_would_slow_down_are_loops(
    sizes: tuple[str, str, str],
) -> None:
    assert not emit(parse_text(inner("f32", sizes)).entry.root).routines
