"""Transpositions by tiles: whole sectors whatever the permutation, and nothing changes.

Sectors are those of the interpreter: bytes of memory handed out, over bytes asked for.
"""

import pytest

from hloc.codegen.gpu.emitters.movement.transpose_plan import transpose_tiles
from hloc.driver import parse_text
from tests.unit.gpu.simulate import check, compiled, entry


def transpose(dtype: str, dims: tuple[int, ...], permutation: tuple[int, ...]) -> str:
    shape = f"{dtype}[{','.join(map(str, dims))}]"
    result = f"{dtype}[{','.join(str(dims[p]) for p in permutation)}]"
    order = ",".join(map(str, permutation))
    return entry(shape, f"{result} transpose(p0), dimensions={{{order}}}")


ALIGNED = [
    ("f32", (64, 96), (1, 0)),
    ("bf16", (64, 96), (1, 0)),
    ("s8", (64, 96), (1, 0)),
    ("f64", (64, 32), (1, 0)),
    ("f32", (8, 32, 16), (0, 2, 1)),
    ("f32", (8, 32, 16), (2, 1, 0)),
    ("f32", (8, 32, 16), (1, 2, 0)),
    ("bf16", (16, 32, 16), (2, 0, 1)),
    ("bf16", (8, 32, 4, 16), (0, 3, 1, 2)),
    ("f32", (1024, 3), (1, 0)),
    ("f32", (3, 1024), (1, 0)),
    ("f32", (512, 12), (1, 0)),
    ("f32", (64, 32, 4), (0, 2, 1)),
    ("bf16", (64, 32, 2), (1, 0, 2)),
    ("s8", (64, 32, 8), (1, 0, 2)),
    ("f32", (2, 16, 4, 8), (0, 2, 3, 1)),
]


@pytest.mark.parametrize(("dtype", "dims", "permutation"), ALIGNED)
def test_all_bytes_of_all_sectors_are_used(
    dtype: str, dims: tuple[int, ...], permutation: tuple[int, ...]
) -> None:
    ((_, report),) = check(transpose(dtype, dims, permutation)).reports
    assert report.global_sectors * 32 <= 1.01 * report.global_bytes
    assert report.bank_conflict_ratio <= 2.6


ODD = [
    ("f32", (33, 65), (1, 0)),
    ("bf16", (35, 70), (1, 0)),
    ("pred", (45, 37), (1, 0)),
    ("c64", (45, 37), (1, 0)),
    ("s4", (40, 37), (1, 0)),
    ("f32", (5, 33, 7), (2, 0, 1)),
    ("f32", (3, 5, 9, 11), (3, 1, 2, 0)),
    ("s16", (3, 40, 3, 5), (1, 2, 0, 3)),
    ("f32", (1, 40, 1, 33), (3, 0, 1, 2)),
    ("u8", (7, 3, 5, 2, 9), (3, 1, 4, 0, 2)),
]


@pytest.mark.parametrize(("dtype", "dims", "permutation"), ODD)
def test_sizes_that_fit_no_tile(
    dtype: str, dims: tuple[int, ...], permutation: tuple[int, ...]
) -> None:
    check(transpose(dtype, dims, permutation))


def fusion(*lines: str) -> str:
    """Return a module with one fusion of f32 arrays: x is [64,96], y and the result [96,64]."""
    body = "\n".join(lines)
    return f"""HloModule m
f {{
  x = f32[64,96] parameter(0)
  y = f32[96,64] parameter(1)
  {body}
}}
ENTRY e {{
  p = f32[64,96] parameter(0)
  q = f32[96,64] parameter(1)
  ROOT r = f32[96,64] fusion(p, q), kind=kLoop, calls=f
}}"""


HEROES = {
    "what lies as the result is read when it is written": (
        "t = f32[96,64] transpose(x), dimensions={1,0}",
        "n = f32[96,64] negate(t)",
        "ROOT s = f32[96,64] add(n, y)",
    ),
    "two arrays are turned at once": (
        "n = f32[64,96] tanh(x)",
        "t = f32[96,64] transpose(x), dimensions={1,0}",
        "u = f32[96,64] transpose(n), dimensions={1,0}",
        "v = f32[96,64] multiply(t, u)",
        "ROOT s = f32[96,64] add(v, y)",
    ),
}


@pytest.mark.parametrize("name", HEROES)
def test_fused_arrays_are_read_in_whole_sectors(name: str) -> None:
    ((_, report),) = check(fusion(*HEROES[name]), opt_level=0).reports
    assert report.global_sectors * 32 == report.global_bytes
    assert report.bank_conflict_ratio == 1.0


ELSEWHERE = {
    "turned round as well": (
        "t = f32[96,64] transpose(x), dimensions={1,0}",
        "b = f32[96,64] reverse(t), dimensions={0}",
        "ROOT s = f32[96,64] add(t, b)",
    ),
    "turned twice": (
        "t = f32[96,64] transpose(x), dimensions={1,0}",
        "u = f32[64,96] transpose(t), dimensions={1,0}",
        "v = f32[64,96] negate(u)",
        "w = f32[96,64] transpose(v), dimensions={1,0}",
        "ROOT s = f32[96,64] add(w, y)",
    ),
    "chosen by one value for all": (
        "i = f32[1,1] slice(x), slice={[0:1], [0:1]}",
        "j = f32[] reshape(i)",
        "z = f32[] constant(0)",
        "c = pred[] compare(j, z), direction=GT",
        "t = f32[96,64] transpose(x), dimensions={1,0}",
        "ROOT s = f32[96,64] select(c, t, y)",
    ),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_is_read_at_two_places_is_made_at_both(name: str) -> None:
    check(fusion(*ELSEWHERE[name]), opt_level=0)


def test_layouts_are_transpositions_too() -> None:
    text = entry("f32[64,96]{0,1}", "f32[64,96]{1,0} copy(p0)")
    ((_, report),) = check(text).reports
    assert report.global_sectors * 32 == report.global_bytes


def test_groups_of_dimensions_move_as_one() -> None:
    """[16,32,4,16] -> [16,16,32,4] exchanges 128 with 16 sixteen times."""
    text = transpose("bf16", (16, 32, 4, 16), (0, 3, 1, 2))
    plan = transpose_tiles(parse_text(text).entry.root)
    assert plan is not None
    assert plan.exchange.read == (1,)
    assert plan.exchange.written == (2, 3)
    assert plan.exchange.others == (0,)


def test_long_runs_need_no_tiles() -> None:
    text = transpose("f32", (16, 32, 8), (1, 0, 2))
    assert transpose_tiles(parse_text(text).entry.root) is None
    assert "bar.sync" not in compiled(text).ptx
