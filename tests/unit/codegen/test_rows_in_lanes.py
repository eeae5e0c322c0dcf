"""Short rows that are computed side by side, a row in each lane of a vector."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hloc.codegen.cpu.emitters.reduction import lane_tiles, rows_in_lanes
from hloc.codegen.cpu.kernel import emit_kernel
from hloc.codegen.llvm.target import host_target, target_for
from hloc.codegen.plan.kernel_request import KernelRequest
from hloc.ir.instruction import Instruction
from tests.tolerance import bounds, bounds_of
from tests.unit.codegen.harness import (
    check_root,
    emit,
    module_text,
    parse_text,
    random_arrays,
    reducer,
    run_instruction,
)
from tests.unit.codegen.processors import IS_X86

AVX2 = target_for("x86_64", "haswell")
RUNS = pytest.mark.skipif(
    not IS_X86 or not host_target().has("avx2"), reason="vectors of eight lanes without masks"
)


def reducers(dtype: str) -> str:
    return reducer("add", "add", dtype) + reducer("top", "maximum", dtype)


def softmax(rows: int, size: int, dtype: str = "f32", results: str = "q, l, e") -> str:
    """Return a softmax; `q` are its elements, `l` logarithms of sums, `e` exponentials."""
    whole, row = f"{dtype}[{rows},{size}]", f"{dtype}[{rows}]"
    shapes = ", ".join(row if name == "l" else whole for name in results.split(", "))
    body = f"""
f {{
  x = {whole} parameter(0)
  low = {dtype}[] constant(-inf)
  zero = {dtype}[] constant(0)
  m = {row} reduce(x, low), dimensions={{1}}, to_apply=top
  mb = {whole} broadcast(m), dimensions={{0}}
  d = {whole} subtract(x, mb)
  e = {whole} exponential(d)
  s = {row} reduce(e, zero), dimensions={{1}}, to_apply=add
  sb = {whole} broadcast(s), dimensions={{0}}
  q = {whole} divide(e, sb)
  l = {row} log(s)
  ROOT r = ({shapes}) tuple({results})
}}"""
    return module_text(
        [whole], f"({shapes}) fusion(p0), kind=kInput, calls=f", reducers(dtype) + body
    )


def norm(rows: str, size: int) -> str:
    """Return a layer norm; `rows` are the sizes before the last."""
    dims, outer = f"{rows},{size}", ",".join(map(str, range(rows.count(",") + 1)))
    whole, row, last = f"f32[{dims}]", f"f32[{rows}]", rows.count(",") + 1
    body = f"""
f {{
  x = {whole} parameter(0)
  w = f32[{size}] parameter(1)
  zero = f32[] constant(0)
  n = f32[] constant({size})
  nb = {row} broadcast(n), dimensions={{}}
  s = {row} reduce(x, zero), dimensions={{{last}}}, to_apply=add
  mean = {row} divide(s, nb)
  meanb = {whole} broadcast(mean), dimensions={{{outer}}}
  d = {whole} subtract(x, meanb)
  d2 = {whole} multiply(d, d)
  v = {row} reduce(d2, zero), dimensions={{{last}}}, to_apply=add
  one = f32[] constant(1)
  ones = {row} broadcast(one), dimensions={{}}
  v1 = {row} add(v, ones)
  q = {row} rsqrt(v1)
  qb = {whole} broadcast(q), dimensions={{{outer}}}
  wb = {whole} broadcast(w), dimensions={{{last}}}
  y = {whole} multiply(d, qb)
  ROOT r = {whole} multiply(y, wb)
}}"""
    return module_text(
        [whole, f"f32[{size}]"],
        f"{whole} fusion(p0, p1), kind=kInput, calls=f",
        reducers("f32") + body,
    )


def root(text: str) -> Instruction:
    inst = parse_text(text).entry.root
    assert isinstance(inst, Instruction)
    return inst


def is_side_by_side(text: str, *, in_place: bool = False) -> bool:
    return rows_in_lanes.plan(root(text), AVX2, in_place=in_place) is not None


def test_the_code_of_a_row_does_not_grow_with_its_elements() -> None:
    short, long = (emit(root(softmax(40, size)), target=AVX2) for size in (9, 20))
    assert short.text.count("\n") == long.text.count("\n")
    assert len(re.findall(r"call .*<8 x float> @llvm.maximum", short.text)) == 1


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (softmax(40, 10, results="q"), ["rows_to_tile_f32_8", "tile_to_rows_f32_8"]),
        (softmax(40, 10, results="l"), ["rows_to_tile_f32_8"]),
        (softmax(40, 10), ["rows_to_tile_f32_8", "tile_to_rows_f32_8", "tile_to_rows_f32_8"]),
        (norm("40", 9), ["rows_to_tile_f32_8", "tile_to_rows_f32_8"]),
        (softmax(40, 7, results="q"), []),  # shorter than a vector
        (softmax(40, 10, "bf16", results="q"), []),
    ],
)
def test_routines_move_whole_rows_to_lanes_and_back(text: str, calls: list[str]) -> None:
    kernel = emit(root(text), target=AVX2).text
    assert re.findall(r"call void @(\w+)\(", kernel) == calls
    # Elements of such rows are neither put into lanes nor taken out of them.
    assert ("extractelement" in kernel) == (not calls)


def test_rows_in_a_loop_are_moved_by_its_own_code() -> None:
    request = KernelRequest(root(softmax(16, 10, results="q")), (None,))
    kernel = emit_kernel(request, "kernel", AVX2, is_repeated=True)
    assert not kernel.routines
    assert "extractelement" in kernel.text


def test_the_routines_of_rows_in_lanes_are_there_before_a_program() -> None:
    listed = {routine.name for routine in lane_tiles.listed_routines(AVX2)}
    assert listed == {"rows_to_tile_f32_8", "tile_to_rows_f32_8"}
    for processor in ("", "skylake-avx512"):
        assert not list(lane_tiles.listed_routines(target_for("x86_64", processor)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (softmax(40, 10), True),
        (softmax(40, 16), False),  # fills vectors
        (softmax(40, 21), False),  # too many elements to store one by one
        (softmax(40, 21, results="l"), True),
        (softmax(40, 65, results="l"), False),
        (softmax(7, 10), False),  # fewer rows than lanes
        (softmax(40, 10, "f64"), False),  # four lanes
        (norm("40", 10), True),
        (norm("40", 12), False),
        (norm("40,1", 10), True),
        (norm("8,5", 10), False),  # lanes would cross a dimension
    ],
)
def test_rows_are_side_by_side_where_that_is_faster(text: str, expected: bool) -> None:
    assert is_side_by_side(text) == expected
    assert rows_in_lanes.plan(root(text), target_for("x86_64"), in_place=False) is None
    skylake = target_for("x86_64", "skylake-avx512")
    assert rows_in_lanes.plan(root(text), skylake, in_place=False) is None  # it has masks


def test_rows_in_place_are_side_by_side_if_they_fill_vectors() -> None:
    """The last vector computes rows of the one before again, whose operands are overwritten."""
    assert is_side_by_side(softmax(40, 10), in_place=True)
    assert is_side_by_side(softmax(41, 10))
    assert not is_side_by_side(softmax(41, 10), in_place=True)


@RUNS
@pytest.mark.parametrize(("rows", "pieces"), [(8, 1), (9, 1), (37, 1), (48, 3)])
@pytest.mark.parametrize("size", [2, 3, 4, 5, 7, 9, 10, 15, 17, 20])
def test_softmax(rows: int, pieces: int, size: int) -> None:
    """Parts of threads begin at multiples of a vector."""
    text = softmax(rows, size)
    assert is_side_by_side(text)
    (x,) = random_arrays(text)
    x[0, -1], x[1, 0], x[2, 1] = np.inf, -np.inf, np.nan
    x[3] = -np.inf
    q, logarithm, e = run_instruction(root(text), [x], pieces=pieces, target=AVX2)
    with np.errstate(all="ignore"):
        d = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
        sums = d.sum(-1, keepdims=True)
        wanted = d / sums
    np.testing.assert_allclose(e, d, **bounds("f32 one sign"))
    np.testing.assert_allclose(q, wanted, **bounds("f32 one sign"))
    np.testing.assert_allclose(logarithm, np.log(sums[:, 0]), **bounds("f32 short sum"))


@RUNS
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("results", ["l", "q", "l, q"])
def test_results_of_rows_and_of_elements(dtype: str, results: str) -> None:
    text = softmax(21, 11, dtype, results)
    assert is_side_by_side(text)
    check_root(text, random_arrays(text), target=AVX2, **bounds_of("softmax", dtype))


@RUNS
@pytest.mark.parametrize(("rows", "size"), [("19", 5), ("19", 7), ("23", 10), ("1,24,1", 9)])
def test_norms(rows: str, size: int) -> None:
    text = norm(rows, size)
    assert is_side_by_side(text)
    check_root(text, random_arrays(text), target=AVX2)


@RUNS
def test_a_result_in_place_of_the_operand() -> None:
    text = softmax(32, 10, results="q")
    (x,) = random_arrays(text)
    (wanted,) = run_instruction(root(text), [x], target=AVX2)
    (found,) = run_instruction(root(text), [x], aliased=(0,), target=AVX2)
    assert found.tobytes() == wanted.tobytes()


@RUNS
def test_the_place_of_the_greatest_beside_a_softmax() -> None:
    body = """
best {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  c = f32[] parameter(2)
  j = s32[] parameter(3)
  more = pred[] compare(a, c), direction=GE
  value = f32[] select(more, a, c)
  place = s32[] select(more, i, j)
  ROOT pair = (f32[], s32[]) tuple(value, place)
}
f {
  x = f32[24,10] parameter(0)
  places = s32[24,10] iota(), iota_dimension=1
  low = f32[] constant(-inf)
  none = s32[] constant(0)
  zero = f32[] constant(0)
  pair = (f32[24], s32[24]) reduce(x, places, low, none), dimensions={1}, to_apply=best
  place = s32[24] get-tuple-element(pair), index=1
  m = f32[24] get-tuple-element(pair), index=0
  mb = f32[24,10] broadcast(m), dimensions={0}
  d = f32[24,10] subtract(x, mb)
  e = f32[24,10] exponential(d)
  s = f32[24] reduce(e, zero), dimensions={1}, to_apply=add
  ROOT r = (s32[24], f32[24]) tuple(place, s)
}"""
    text = module_text(
        ["f32[24,10]"],
        "(s32[24], f32[24]) fusion(p0), kind=kInput, calls=f",
        reducers("f32") + body,
    )
    assert is_side_by_side(text)
    (x,) = random_arrays(text)
    place, s = run_instruction(root(text), [x], target=AVX2)
    np.testing.assert_array_equal(place, x.argmax(1))
    wanted = np.exp(x.astype(np.float64) - x.max(1, keepdims=True)).sum(1)
    np.testing.assert_allclose(s, wanted, **bounds("f32 short sum"))
