"""Elements at start indices that differ from lane to lane: loaded one by one into vectors."""

from __future__ import annotations

import numpy as np
import pytest

from hloc.codegen.llvm.routine import FINAL_WITH_SLOTS
from hloc.codegen.llvm.target import target_for
from tests.unit.codegen.harness import check_root, emit, module_text, parse_text, random_arrays
from tests.unit.codegen.processors import PROCESSOR

WINDOW = (
    "offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
    "slice_sizes={1}"
)
PAIRS = WINDOW.replace("{0}", "{0,1}").replace("{1}", "{1,1}")


def check(text: str, cpu: str = "", pieces: int = 1, *, in_lanes: bool = True) -> None:
    """Compare with the evaluator, for indices of which some are out of bounds."""
    root, machine = parse_text(text).entry.root, target_for(cpu=cpu)
    assert (emit(root, target=machine).level == FINAL_WITH_SLOTS) is in_lanes
    arrays = random_arrays(text)
    table = arrays[0]
    for indices in arrays[1:]:
        if indices.dtype.kind in "iu":
            least = -3 if indices.dtype.kind == "i" else 0
            numbers = np.random.default_rng(0).integers(least, len(table) + 3, indices.shape)
            indices[...] = numbers
            indices.flat[:2] = np.iinfo(indices.dtype).max, np.iinfo(indices.dtype).min
    check_root(text, arrays, target=machine, pieces=pieces)


@PROCESSOR
@pytest.mark.parametrize("index", ["s32", "u8", "s16", "u32", "s64", "u64"])
@pytest.mark.parametrize("size", [64, 67])
def test_types_of_indices(cpu: str, index: str, size: int) -> None:
    """Clamped by their own sign, in whole vectors and in one that overlaps its neighbour."""
    root = f"f32[{size}] gather(p0, p1), {WINDOW}"
    check(module_text(["f32[50]", f"{index}[{size},1]"], root), cpu)


@PROCESSOR
@pytest.mark.parametrize("dtype", ["f64", "bf16", "f16", "s8", "u16", "pred", "c64", "s4"])
def test_types_of_elements(cpu: str, dtype: str) -> None:
    text = module_text([f"{dtype}[50]", "s32[64,1]"], f"{dtype}[64] gather(p0, p1), {WINDOW}")
    check(text, cpu)


def fused(parameters: list[str], lines: list[str], result: str) -> str:
    """Return a module whose root is one fusion; `pN` are its parameters, the last line its root."""
    inside = [f"  p{n} = {shape} parameter({n})" for n, shape in enumerate(parameters)]
    *others, last = lines
    body = "\n".join([*inside, *(f"  {line}" for line in others), f"  ROOT {last}"])
    names = ", ".join(f"p{n}" for n in range(len(parameters)))
    root = f"  ROOT f = {result} fusion({names}), kind=kLoop, calls=fused"
    entry = "\n".join([*inside, root])
    return f"HloModule test\n\nfused {{\n{body}\n}}\n\nENTRY e {{\n{entry}\n}}\n"


@PROCESSOR
@pytest.mark.parametrize("pieces", [1, 3])
def test_places_of_two_components(cpu: str, pieces: int) -> None:
    lines = [
        "c = s32[67,2] concatenate(p1, p2), dimensions={1}",
        f"g = f32[67] gather(p0, c), {PAIRS}",
        "t = f32[67] multiply(g, g)",
    ]
    check(fused(["f32[50,30]", "s32[67,1]", "s32[67,1]"], lines, "f32[67]"), cpu, pieces)


@PROCESSOR
def test_places_that_depend_on_the_row_and_the_lane(cpu: str) -> None:
    """A batch of tables along lanes, and one along rows."""
    for rows, columns, batch in ((67, 16, 0), (5, 67, 1)):
        window = (
            f"offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, "
            f"operand_batching_dims={{1}}, start_indices_batching_dims={{{batch}}}, "
            "index_vector_dim=2, slice_sizes={1,1}"
        )
        many = (rows, columns)[batch]
        root = f"f32[{rows},{columns}] gather(p0, p1), {window}"
        check(module_text([f"f32[50,{many}]", f"s32[{rows},{columns},1]"], root), cpu)


def test_sums_of_gathered_elements() -> None:
    lines = [
        f"g = f32[20,64] gather(p0, p1), {WINDOW.replace('dim=1', 'dim=2')}",
        "m = f32[20,64] multiply(g, p2)",
        "z = f32[] constant(0)",
        "r = f32[20] reduce(m, z), dimensions={1}, to_apply=add",
    ]
    text = fused(["f32[50]", "s32[20,64,1]", "f32[20,64]"], lines, "f32[20]")
    add = "add {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = f32[] add(x, y)\n}"
    check(text.replace("fused {", f"{add}\n\nfused {{", 1))


def test_tables_that_are_constant() -> None:
    lines = ["t = s32[5] constant({3,1,4,1,5})", f"g = s32[64] gather(t, p0), {WINDOW}"]
    check(fused(["s32[64,1]"], lines, "s32[64]"))


def test_elements_that_are_computed_are_scalars() -> None:
    lines = ["n = f32[50] negate(p0)", f"g = f32[64] gather(n, p1), {WINDOW}"]
    check(fused(["f32[50]", "s32[64,1]"], lines, "f32[64]"), in_lanes=False)


@pytest.mark.parametrize("dtype", ["f32", "c64", "s64", "bf16", "pred"])
def test_instructions_that_gather_where_they_are_fast(dtype: str) -> None:
    """They have no form for elements of less than four bytes."""
    text = module_text([f"{dtype}[50]", "s32[64,1]"], f"{dtype}[64] gather(p0, p1), {WINDOW}")
    found = {
        cpu: "@llvm.masked.gather" in emit(parse_text(text).entry.root, target=machine).text
        for cpu in ("sapphirerapids", "icelake-server", "znver4", "haswell")
        for machine in [target_for("x86_64", cpu)]
    }
    has_form = dtype not in ("bf16", "pred")
    assert found == dict.fromkeys(found, False) | {"sapphirerapids": has_form}
