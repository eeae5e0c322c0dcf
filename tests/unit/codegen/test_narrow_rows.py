"""Rows shorter than a vector: a row in each lane, and rows that a bit of each row chooses."""

from __future__ import annotations

import pytest

from hloc.codegen.cpu.cpu_plan import CpuPlan
from hloc.codegen.cpu.kernel import plan_kernel
from hloc.codegen.llvm.target import Target, target_for
from tests.tolerance import bounds_of
from tests.unit.codegen.harness import check_root, emit, module_text, parse_text, random_arrays

AVX2 = target_for("x86_64", "haswell")
AVX512 = target_for("x86_64", "skylake-avx512")
NEON = target_for("aarch64", "neoverse-n1")


def fusion(parameters: list[str], body: str, result: str) -> str:
    """Return a module whose root is a fusion of all parameters."""
    lines = "".join(f"  p{i} = {shape} parameter({i})\n" for i, shape in enumerate(parameters))
    operands = ", ".join(f"p{i}" for i in range(len(parameters)))
    return module_text(
        parameters,
        f"{result} fusion({operands}), kind=kLoop, calls=f",
        f"f {{\n{lines}{body}\n}}",
    )


def sliced(rows: str, size: int, opcode: str = "tanh", dtype: str = "f32") -> str:
    """Return a function of some columns of an array of `size` + 2; `rows` are the sizes before."""
    starts = "".join(f"[0:{n}], " for n in rows.split(","))
    part = f"{dtype}[{rows},{size}]"
    body = f"""
  s = {part} slice(p0), slice={{{starts}[1:{size + 1}]}}
  ROOT r = {part} {opcode}(s)"""
    return fusion([f"{dtype}[{rows},{size + 2}]"], body, part)


def concatenated(rows: int, sizes: list[int], opcode: str = "tanh", dtype: str = "f32") -> str:
    """Return a concatenation of a function of arrays of `sizes` columns."""
    shapes = [f"{dtype}[{rows},{size}]" for size in sizes]
    members = "".join(f"  m{i} = {shape} {opcode}(p{i})\n" for i, shape in enumerate(shapes))
    names = ", ".join(f"m{i}" for i in range(len(sizes)))
    whole = f"{dtype}[{rows},{sum(sizes)}]"
    return fusion(
        shapes, f"{members}  ROOT r = {whole} concatenate({names}), dimensions={{1}}", whole
    )


DIFFERENCES = fusion(
    ["f32[20,3]", "f32[30,3]"],
    """
  a = f32[20,30,3] broadcast(p0), dimensions={0,2}
  b = f32[20,30,3] broadcast(p1), dimensions={1,2}
  d = f32[20,30,3] subtract(a, b)
  ROOT r = f32[20,30,3] exponential(d)""",
    "f32[20,30,3]",
)
MATRICES = fusion(
    ["f32[40]", "f32[3,3]"],
    """
  a = f32[40,3,3] broadcast(p0), dimensions={0}
  b = f32[40,3,3] broadcast(p1), dimensions={1,2}
  m = f32[40,3,3] multiply(a, b)
  ROOT r = f32[40,3,3] cosine(m)""",
    "f32[40,3,3]",
)
GATHERED = fusion(
    ["f32[4,5]", "s32[37]"],
    """
  g = f32[37,5] gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1,5}
  ROOT r = f32[37,5] tanh(g)""",
    "f32[37,5]",
)
PARTLY = fusion(
    ["f32[33,3]", "f32[33,5]", "pred[33]"],
    """
  t = f32[33,3] tanh(p0)
  c = pred[33,3] broadcast(p2), dimensions={0}
  n = f32[33,3] negate(p0)
  s = f32[33,3] select(c, t, n)
  ROOT r = f32[33,8] concatenate(s, p1), dimensions={1}""",
    "f32[33,8]",
)


def plain(size: int, dtype: str, sizes: str = "41") -> str:
    """Return a sum of some columns and a reversed array, with a second result of bits."""
    part = f"{dtype}[{sizes},{size}]"
    bits, last = f"pred[{sizes},{size}]", sizes.count(",") + 1
    starts = "".join(f"[0:{n}], " for n in sizes.split(","))
    body = f"""
  s = {part} slice(p0), slice={{{starts}[1:{size + 1}]}}
  v = {part} reverse(p1), dimensions={{{last}}}
  a = {part} add(s, v)
  b = {bits} compare(a, v), direction=NE
  ROOT r = ({part}, {bits}) tuple(a, b)"""
    return fusion([f"{dtype}[{sizes},{size + 2}]", part], body, f"({part}, {bits})")


def in_two_layouts(first: str, second: str) -> str:
    """Return a sum and a difference of arrays in some layouts."""
    kind = "f32[40,3,2]"
    body = f"""
  a = {kind}{first} add(p0, p1)
  b = {kind}{second} subtract(p0, p1)
  ROOT r = ({kind}{first}, {kind}{second}) tuple(a, b)"""
    return fusion([kind, kind], body, f"({kind}{first}, {kind}{second})")


def masked(rows: int, size: int) -> str:
    """Return rows of one array or of another, by a bit of each row."""
    whole = f"f32[{rows},{size}]"
    body = f"""
  c = pred[{rows},{size}] broadcast(p2), dimensions={{0}}
  n = {whole} negate(p1)
  ROOT r = {whole} select(c, p0, n)"""
    return fusion([whole, whole, f"pred[{rows}]"], body, whole)


def has_rows_in_lanes(text: str, target: Target = AVX2) -> bool:
    planned = plan_kernel(parse_text(text).entry.root)
    return (
        planned is not None
        and isinstance(planned.plan, CpuPlan)
        and planned.plan.rows_in_lanes(target) is not None
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (sliced("40", 5), True),
        (sliced("40", 1), False),  # one loop over all rows
        (sliced("40", 4), False),  # fills a vector of half a width
        (sliced("40", 8), False),  # fills a vector
        (sliced("40", 12), False),  # more than a vector
        (sliced("8", 5), False),  # no more rows than lanes
        (sliced("40", 5, "negate"), True),
        (sliced("40,4", 5), True),  # lanes along the first dimension
        (sliced("40,4", 5, "negate"), False),  # too many elements to store at once
        (sliced("40,4,4", 5), False),  # too many to store one by one
        (sliced("40", 3, "negate", "s8"), True),
        (sliced("40", 5, "negate", "s8"), False),  # too many bytes to shuffle
        (concatenated(40, [3, 4]), True),
        (concatenated(40, [1, 1]), False),  # LLVM puts rows in lanes
        (concatenated(40, [12, 20]), False),  # vectors along the rows
        (concatenated(40, [3, 60]), False),
        (concatenated(40, [3, 4], "negate"), False),
        (DIFFERENCES, True),
        (MATRICES, True),
        (GATHERED, True),
        (PARTLY, True),
    ],
)
def test_narrow_rows_with_functions_are_in_lanes(text: str, expected: bool) -> None:
    assert has_rows_in_lanes(text) == expected


@pytest.mark.parametrize(("target", "expected"), [(AVX512, True), (AVX2, False), (NEON, False)])
def test_what_is_narrow_depends_on_the_vectors(target: Target, expected: bool) -> None:
    assert has_rows_in_lanes(sliced("40", 12), target) == expected
    assert has_rows_in_lanes(sliced("40", 3), target)


@pytest.mark.parametrize("pieces", [1, 2, 3])
@pytest.mark.parametrize(
    "text",
    [
        *(sliced("41", size) for size in (2, 3, 5, 7, 9, 12)),
        sliced("3,21", 3),
        sliced("40,2", 3),
        sliced("40", 3, dtype="f64"),
        sliced("40", 3, dtype="bf16"),
        DIFFERENCES,
        MATRICES,
        GATHERED,
    ],
)
def test_loops_over_narrow_rows(text: str, pieces: int) -> None:
    dtype = parse_text(text).entry.root.array.dtype.name
    check_root(text, random_arrays(text), pieces=pieces, **bounds_of("elementwise", dtype))


@pytest.mark.parametrize("pieces", [1, 2, 3])
@pytest.mark.parametrize(
    "text",
    [
        concatenated(41, [3, 3]),
        concatenated(41, [2, 5, 1]),
        concatenated(41, [12, 20]),
        concatenated(41, [3, 12, 8]),
        concatenated(41, [3, 60]),
        concatenated(40, [3, 4], dtype="f64"),
        concatenated(40, [3, 12], dtype="bf16"),
        concatenated(40, [3, 4], dtype="c64"),  # parts of complex numbers stay together
        PARTLY,
    ],
)
def test_concatenations_of_narrow_rows(text: str, pieces: int) -> None:
    dtype = parse_text(text).entry.root.array.dtype.name
    check_root(text, random_arrays(text), pieces=pieces, **bounds_of("elementwise", dtype))


@pytest.mark.parametrize("size", [2, 3, 5, 6, 7])
@pytest.mark.parametrize("pieces", [1, 3])
def test_rows_of_cheap_operations_are_stored_at_once(size: int, pieces: int) -> None:
    text = plain(size, "f32")
    assert has_rows_in_lanes(text)
    check_root(text, random_arrays(text), pieces=pieces, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", ["f64", "bf16", "f16", "s8", "u8", "s32", "s64", "c64"])
@pytest.mark.parametrize("sizes", ["41", "3,37", "40,3"])
def test_rows_of_other_types(dtype: str, sizes: str) -> None:
    text = plain(3, dtype, sizes)
    check_root(text, random_arrays(text), pieces=2, rtol=0, atol=0)


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize(
    ("first", "second"), [("{2,1,0}", "{1,2,0}"), ("{1,2,0}", "{2,1,0}"), ("{0,1,2}", "{2,1,0}")]
)
def test_results_in_layouts_of_their_own(first: str, second: str, pieces: int) -> None:
    text = in_two_layouts(first, second)
    assert not has_rows_in_lanes(text)
    check_root(text, random_arrays(text), pieces=pieces, rtol=0, atol=0)


@pytest.mark.parametrize("size", [2, 3, 4, 7, 8, 9, 16, 21, 33])
def test_rows_that_a_bit_chooses(size: int) -> None:
    text = masked(70, size)
    check_root(text, random_arrays(text), rtol=0, atol=0)


def test_only_short_rows_are_chosen_without_a_branch() -> None:
    """A mask that is the same for many vectors is predicted."""
    short, long = (emit(parse_text(masked(70, size)).entry.root, target=AVX2) for size in (12, 40))
    assert "select <8 x i1>" in short.text
    assert "select <8 x i1>" not in long.text
