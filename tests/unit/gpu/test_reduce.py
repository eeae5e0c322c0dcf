"""Reductions of all forms: whole sectors, and few instructions for each element."""

import pytest

from hloc.codegen.gpu.emitters.reduction.reduce_plan import reduce_plan
from hloc.driver import parse_text
from tests.unit.gpu.simulate import check, compiled

Dims = tuple[int, ...]


def reduction(dims: Dims, reduced: Dims, layout: str = "", dtype: str = "f32") -> str:
    kept = [size for dim, size in enumerate(dims) if dim not in reduced]
    shape = f"{dtype}[{','.join(map(str, dims))}]{layout}"
    result = f"{dtype}[{','.join(map(str, kept))}]"
    zero = "(0, 0)" if dtype == "c64" else "0"
    return f"""HloModule m
add {{
  a = {dtype}[] parameter(0)
  b = {dtype}[] parameter(1)
  ROOT c = {dtype}[] add(a, b)
}}
ENTRY e {{
  x = {shape} parameter(0)
  z = {dtype}[] constant({zero})
  ROOT r = {result} reduce(x, z), dimensions={{{",".join(map(str, reduced))}}}, to_apply=add
}}"""


CASES: list[tuple[Dims, Dims, str, str]] = [
    ((32, 64, 32), (0, 2), "", "f32"),
    ((32, 64, 32), (1,), "", "f32"),
    ((32, 64, 32), (0,), "", "f32"),
    ((32, 64, 32), (2,), "", "f32"),
    ((32, 64, 32), (0, 1), "", "f32"),
    ((32, 64, 32), (0, 1, 2), "", "f32"),
    ((32, 64, 32), (0, 2), "{0,1,2}", "f32"),
    ((32, 64, 32), (2,), "{1,0,2}", "f32"),
    ((32, 64, 32), (0, 2), "{1,2,0}", "f32"),
    ((32, 64, 32), (2,), "", "bf16"),
    ((4096, 3), (0,), "", "f32"),
    ((16384, 2), (0,), "", "f32"),
    ((8, 1024, 8), (0,), "", "f32"),
    ((16, 8, 16, 16), (0, 2, 3), "", "f32"),
    ((100, 1, 64, 1), (2,), "", "f32"),
    ((256, 256), (1,), "", "bf16"),
    ((64, 1024), (1,), "", "f32"),
]


@pytest.mark.parametrize(("dims", "reduced", "layout", "dtype"), CASES)
def test_sectors_are_whole_and_instructions_few(
    dims: Dims, reduced: Dims, layout: str, dtype: str
) -> None:
    """Bytes of touched sectors over bytes asked for; at most 20 instructions for an element."""
    reports = [report for _, report in check(reduction(dims, reduced, layout, dtype)).reports]
    sectors = sum(report.global_sectors for report in reports)
    assert sectors * 32 <= 1.2 * sum(report.global_bytes for report in reports)
    elements = 1
    for size in dims:
        elements *= size
    assert sum(report.thread_instructions for report in reports) <= 20 * elements


ODD: list[tuple[Dims, Dims, str]] = [
    ((7, 13), (0,), "f32"),
    ((7, 13), (1,), "f32"),
    ((1, 5), (0,), "f32"),
    ((3, 2), (1,), "bf16"),
    ((65, 33), (1,), "f64"),
    ((5, 700), (1,), "f32"),
    ((1001, 5), (0,), "s32"),
    ((17, 3, 11), (0, 2), "f32"),
    ((3, 5, 7, 9), (1, 3), "s8"),
    ((2, 4099), (1,), "f32"),
    ((2, 8200), (1,), "bf16"),
    ((33, 9, 2), (1,), "c64"),
    ((4, 260), (1,), "f32"),
]


@pytest.mark.parametrize(("dims", "reduced", "dtype"), ODD)
def test_sizes_that_fit_nothing(dims: Dims, reduced: Dims, dtype: str) -> None:
    check(reduction(dims, reduced, "", dtype))


def test_a_thread_takes_neighbours_at_once() -> None:
    assert "ld.global.nc.v4.b32" in compiled(reduction((64, 1024), (1,))).ptx
    assert "ld.global.nc.v4" not in compiled(reduction((64, 1023), (1,))).ptx


def test_plans() -> None:
    """Threads of a row, columns of a block, neighbours and parts for typical sizes."""

    def plan(dims: Dims, reduced: Dims) -> tuple[int, int, int, int]:
        root = parse_text(reduction(dims, reduced)).entry.root
        found = reduce_plan(root)
        assert found is not None
        return found.threads, found.columns, found.width, found.parts

    assert plan((4096, 32), (1,)) == (4, 1, 4, 1)  # eight elements for each of four threads
    assert plan((4096, 1024), (1,)) == (128, 1, 4, 1)
    assert plan((4096, 1 << 16), (1,)) == (256, 1, 4, 1)
    assert plan((4096, 3), (1,)) == (4, 1, 1, 1)
    assert plan((4096, 4096), (0,)) == (8, 32, 1, 2)
    assert plan((8, 4096), (0,)) == (2, 128, 1, 1)  # short columns: more of them in a block
    assert plan((1 << 16, 3), (0,)) == (64, 4, 1, 128)  # few columns: more rows in a block
