"""GPU kernels give the evaluator's answers, checked access by access in the PTX interpreter."""

from __future__ import annotations

import pytest

from tests.unit.gpu.simulate import check, compiled, entry

_ADD = """add {
  x = #[] parameter(0)
  y = #[] parameter(1)
  ROOT r = #[] add(x, y)
}
"""

# ---------------------------------------------------------------- elementwise


@pytest.mark.parametrize("shape", ["f32[]", "f32[1]", "f32[7]", "bf16[40003]", "f64[5,1,9]"])
def test_elements_of_any_count(shape: str) -> None:
    """Tails that do not fill a vector, and scalars."""
    check(entry(f"{shape};{shape}", f"{shape} add(p0, p1)"), special=True)


@pytest.mark.parametrize(
    "dtype", ["pred", "s4", "u8", "s16", "u32", "s64", "f8e4m3fn", "f16", "c64", "c128"]
)
def test_elements_of_any_type(dtype: str) -> None:
    check(
        entry(f"{dtype}[37];{dtype}[37]", f"{dtype}[37] select(c, p0, p1)").replace(
            "  ROOT", "  c = pred[37] compare(p0, p1), direction=NE\n  ROOT"
        )
    )


@pytest.mark.parametrize("opcode", ["shift-left", "shift-right-logical", "shift-right-arithmetic"])
def test_shifts_by_more_than_32_bits_hold(opcode: str) -> None:
    """Amounts whose low half is zero or small are no small amounts."""
    amounts = "{0, 1, 63, 64, 4294967296, 4294967299, 9223372036854775808, 18446744073709551615}"
    others = f"  y = u64[8] constant({amounts})\n  ROOT"
    text = entry("u64[8]", f"u64[8] {opcode}(p0, z)").replace("  ROOT", others)
    check(text.replace("  ROOT", "  z = u64[8] opt-barrier(y)\n  ROOT"))


def test_neighbours_are_read_and_written_together() -> None:
    """Sixteen bytes per access, and every sector of memory is touched once."""
    device = check(entry("f32[262144];f32[262144]", "f32[262144] multiply(p0, p1)"))
    ((_, report),) = device.reports
    assert report.global_sectors * 32 == report.global_bytes == 3 * 262144 * 4
    assert (
        "ld.global.nc.v4"
        in compiled(entry("f32[262144];f32[262144]", "f32[262144] multiply(p0, p1)")).ptx
    )


def test_results_of_several_sizes() -> None:
    text = """HloModule m
fused {
  p = f32[6,5] parameter(0)
  n = f32[6,5] negate(p)
  s = f32[2,5] slice(p), slice={[0:2], [0:5]}
  ROOT t = (f32[6,5], f32[2,5]) tuple(n, s)
}
ENTRY e {
  p = f32[6,5] parameter(0)
  ROOT f = (f32[6,5], f32[2,5]) fusion(p), kind=kLoop, calls=fused
}
"""
    check(text, opt_level=0)


@pytest.mark.parametrize("name", ["exponential", "log", "tanh", "sine", "cosine", "cbrt", "erf"])
def test_f64_functions_need_no_library(name: str) -> None:
    check(entry("f64[50]", f"f64[50] {name}(p0)"))


def test_remainder() -> None:
    check(entry("f32[50];f32[50]", "f32[50] remainder(p0, p1)"), special=True)
    check(entry("f64[50];f64[50]", "f64[50] remainder(p0, p1)"), special=True)


# ---------------------------------------------------------------- reductions


@pytest.mark.parametrize(
    ("dims", "reduced"),
    [
        ((7, 33), (1,)),
        ((300, 500), (1,)),
        ((3, 20000), (1,)),
        ((20001,), (0,)),
        ((500, 70), (0,)),
        ((20000, 3), (0,)),
        ((5, 64, 9), (0, 2)),
        ((9, 5, 40), (1,)),
        ((6, 1, 4), (1,)),
        ((4, 7), ()),
        ((1, 1), (0, 1)),
    ],
)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "s32"])
def test_sums(dims: tuple[int, ...], reduced: tuple[int, ...], dtype: str) -> None:
    """Rows, columns and both, short and long, whole and cut into parts."""
    kept = [size for dim, size in enumerate(dims) if dim not in reduced]
    shape, result = (f"{dtype}[{','.join(map(str, sizes))}]" for sizes in (dims, kept))
    root = f"{result} reduce(p0, p1), dimensions={{{','.join(map(str, reduced))}}}, to_apply=add"
    check(entry(f"{shape};{dtype}[]", root, _ADD.replace("#", dtype)))


def test_argmax() -> None:
    """Two results that are joined together, with the first of equal ones."""
    text = """HloModule m
largest {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  more = pred[] compare(a, b), direction=GT
  same = pred[] compare(a, b), direction=EQ
  first = pred[] compare(i, j), direction=LT
  tie = pred[] and(same, first)
  left = pred[] or(more, tie)
  x = f32[] select(left, a, b)
  k = s32[] select(left, i, j)
  ROOT t = (f32[], s32[]) tuple(x, k)
}
ENTRY e {
  p = s32[40,1000] parameter(0)
  f = f32[40,1000] convert(p)
  n = s32[40,1000] iota(), iota_dimension=1
  low = f32[] constant(-inf)
  zero = s32[] constant(0)
  ROOT r = (f32[40], s32[40]) reduce(f, n, low, zero), dimensions={1}, to_apply=largest
}
"""
    check(text)


def test_long_sums_do_not_depend_on_the_order_of_blocks() -> None:
    """A second launch joins the parts; nothing is added up by atomics."""
    text = entry(
        "f32[300000];f32[]",
        "f32[] reduce(p0, p1), dimensions={0}, to_apply=add",
        _ADD.replace("#", "f32"),
    )
    module = compiled(text)
    assert [len(kernel.functions) for kernel in module.kernels] == [2]
    assert "atom" not in module.ptx
    assert "red.global" not in module.ptx


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize(
    ("rows", "size", "dtype"),
    [
        (300, 40, "f32"),
        (5, 17, "f32"),
        (33, 256, "f32"),
        (3, 100, "bf16"),
        (3, 1000, "f32"),
        (2, 4096, "f32"),
        (1, 9001, "bf16"),
    ],
)
def test_softmax_is_one_kernel(rows: int, size: int, dtype: str) -> None:
    text = _softmax(rows, size, dtype)
    device = check(text)
    assert len(device.reports) == 1


def test_rows_may_be_overwritten_by_what_is_made_from_them() -> None:
    """Threads beyond the last row leave it alone: its own threads may be done with it."""
    text = f"""HloModule m
{_ADD.replace("#", "f32")}
ENTRY e {{
  p = f32[20,8] parameter(0)
  x = f32[20,8] sine(p)
  zero = f32[] constant(0)
  sum = f32[20] reduce(x, zero), dimensions={{1}}, to_apply=add
  b = f32[20,8] broadcast(sum), dimensions={{0}}
  m = f32[20,8] multiply(x, b)
  q = f32[20,8] cosine(m)
  top = f32[20] reduce(q, zero), dimensions={{1}}, to_apply=add
  c = f32[20,8] broadcast(top), dimensions={{0}}
  ROOT r = f32[20,8] divide(q, c)
}}
"""
    check(text)


def test_a_row_is_read_once() -> None:
    """Later stages find the row in registers."""
    ((_, report),) = check(_softmax(64, 1024, "f32")).reports
    assert report.global_bytes == 2 * 64 * 1024 * 4
    assert ".local" not in compiled(_softmax(64, 1024, "f32")).ptx


def _softmax(rows: int, size: int, dtype: str) -> str:
    wide, thin = f"{dtype}[{rows},{size}]", f"{dtype}[{rows}]"
    larger = _ADD.replace("#", dtype).replace("add {", "max {").replace("add(", "maximum(")
    return f"""HloModule m
{_ADD.replace("#", dtype)}
{larger}
ENTRY e {{
  p = {wide} parameter(0)
  low = {dtype}[] constant(-inf)
  zero = {dtype}[] constant(0)
  m = {thin} reduce(p, low), dimensions={{1}}, to_apply=max
  mb = {wide} broadcast(m), dimensions={{0}}
  d = {wide} subtract(p, mb)
  x = {wide} exponential(d)
  s = {thin} reduce(x, zero), dimensions={{1}}, to_apply=add
  sb = {wide} broadcast(s), dimensions={{0}}
  ROOT r = {wide} divide(x, sb)
}}
"""


# ---------------------------------------------------------------- transposes


@pytest.mark.parametrize("dims", [(64, 96), (33, 70), (3, 40, 50), (100, 17), (2, 3, 16, 18)])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "c64"])
def test_transposes(dims: tuple[int, ...], dtype: str) -> None:
    order = [*range(len(dims) - 2), len(dims) - 1, len(dims) - 2]
    source = f"{dtype}[{','.join(map(str, dims))}]"
    result = f"{dtype}[{','.join(str(dims[d]) for d in order)}]"
    root = f"{result} transpose(p0), dimensions={{{','.join(map(str, order))}}}"
    check(entry(source, root))


def test_tiles_of_a_transpose_have_no_conflicts() -> None:
    """Every sector once, and no two threads of a warp on one bank of shared memory."""
    text = entry("f32[128,128]", "f32[128,128] transpose(p0), dimensions={1,0}")
    ((_, report),) = check(text).reports
    assert report.global_sectors * 32 == report.global_bytes
    assert report.bank_conflict_ratio == pytest.approx(1.0)


# ---------------------------------------------------------------- control flow


def test_loops_and_branches_run_from_the_host() -> None:
    text = """HloModule m
condition {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[4] sine(x)
  ROOT t = (s32[], f32[4]) tuple(j, y)
}
left {
  x = f32[4] parameter(0)
  ROOT r = f32[4] negate(x)
}
right {
  x = f32[4] parameter(0)
  ROOT r = f32[4] exponential(x)
}
ENTRY e {
  k = s32[] parameter(0)
  x = f32[4] parameter(1)
  zero = s32[] constant(0)
  s = (s32[], f32[4]) tuple(zero, x)
  w = (s32[], f32[4]) while(s), condition=condition, body=body
  y = f32[4] get-tuple-element(w), index=1
  ROOT c = f32[4] conditional(k, y, x), branch_computations={left, right}
}
"""
    for seed in range(3):
        check(text, opt_level=0, seed=seed)
