"""Sorts that routines make: all types and orders, payloads, columns, short rows; bit for bit.

The evaluator sorts with NumPy and shares no code with the routines.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from hloc.codegen.cpu.emitters.sort.sort_calls import call_plan
from hloc.codegen.cpu.emitters.sort.sort_columns import groups_of
from hloc.codegen.cpu.emitters.sort.sort_keys import operand_order
from hloc.codegen.cpu.emitters.sort.sort_routines import LONG_ROW, listed_routines
from hloc.codegen.cpu.emitters.sort.topk_routines import listed_routines as listed_topk
from hloc.codegen.cpu.emitters.sort.topk_routines import topk_routines
from hloc.codegen.llvm.object_file import compile_object
from hloc.codegen.llvm.target import host_target, target_for
from hloc.dtypes import DTYPES
from hloc.ops.comparators import keys_of
from tests.unit.codegen.harness import Array, emit, evaluate, parse_text, run_instruction

FLOATS = ("bf16", "f16", "f32", "f64")
INTEGERS = ("pred", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")

CANONICAL_KEY = """
  {0}.zero = {1}[] constant(0)
  {0}.nan = {1}[] constant(nan)
  {0}.is_zero = pred[] compare({0}, {0}.zero), direction=EQ
  {0}.is_nan = pred[] compare({0}, {0}), direction=NE
  {0}.one = {1}[] select({0}.is_zero, {0}.zero, {0})
  {0}.key = {1}[] select({0}.is_nan, {0}.nan, {0}.one)"""


def _comparator(types: Sequence[str], order: str, keys: int) -> str:
    """Return the computation `less` on pairs of `types`, the first `keys` of which are keys.

    `order` is "LT" or "GT", with " total" for the order of all bits of floats, or " canonical" for
    that of JAX, in which zeros are equal, and NaN are.
    """
    direction, _, kind = order.partition(" ")
    lines, firsts, equals = [], [], []
    for number, dtype in enumerate(types):
        pair = f"x{number}", f"y{number}"
        lines += [f"  {x} = {dtype}[] parameter({2 * number + i})" for i, x in enumerate(pair)]
        if number >= keys:
            continue
        suffix = ""
        if kind and dtype in FLOATS:
            suffix = ", type=TOTALORDER"
            if kind == "canonical":
                lines += [CANONICAL_KEY.format(x, dtype) for x in pair]
                pair = f"{pair[0]}.key", f"{pair[1]}.key"
        compare = f"pred[] compare({', '.join(pair)}), direction="
        firsts.append(f"{compare}{direction}{suffix}")
        equals.append(f"{compare}EQ{suffix}")
    for number in reversed(range(keys)):
        head = "ROOT " if number == 0 else ""
        if number == keys - 1:
            lines.append(f"  {head}less{number} = {firsts[number]}")
            continue
        lines.append(f"  first{number} = {firsts[number]}")
        lines.append(f"  same{number} = {equals[number]}")
        lines.append(f"  rest{number} = pred[] and(same{number}, less{number + 1})")
        lines.append(f"  {head}less{number} = pred[] or(first{number}, rest{number})")
    return "\n".join(["less {", *lines, "}"])


def _text(shapes: Sequence[str], order: str, dim: int, keys: int = 1) -> str:
    """Return a module that sorts arrays along `dim`."""
    types = [shape.partition("[")[0] for shape in shapes]
    lines = [f"  p{i} = {shape} parameter({i})" for i, shape in enumerate(shapes)]
    result = shapes[0] if len(shapes) == 1 else f"({', '.join(shapes)})"
    operands = ", ".join(f"p{i}" for i in range(len(shapes)))
    lines.append(
        f"  ROOT r = {result} sort({operands}), dimensions={{{dim}}}, is_stable=true, to_apply=less"
    )
    return "\n".join(["HloModule m", _comparator(types, order, keys), "ENTRY e {", *lines, "}"])


def _bits(array: Array) -> Array:
    size = array.dtype.itemsize
    return np.ascontiguousarray(array).view(f"u{size}" if size <= 8 else "u8")


def _array(shape: str, seed: int, *, with_nan: bool = True) -> Array:
    """Return elements of all kinds, many of which come more than once."""
    name, _, dims_text = shape.partition("[")
    dims = tuple(int(size) for size in dims_text.partition("]")[0].split(",") if size)
    rng, kind = np.random.default_rng(seed), DTYPES[name].numpy
    if name == "pred":
        return np.asarray(rng.random(dims) < 0.5)
    if DTYPES[name].is_complex:
        return np.asarray(rng.standard_normal(dims) + 1j).astype(kind)
    if DTYPES[name].is_integer:
        limits = np.iinfo(kind)
        values = rng.integers(limits.min, limits.max, dims, kind, endpoint=True)
        return np.where(rng.random(dims) < 0.3, values // 16 * 16, values).astype(kind)
    values = rng.standard_normal(dims).astype(kind)
    for share, special in ((0.1, 0.0), (0.1, -0.0), (0.03, np.inf), (0.03, -np.inf)):
        values[rng.random(dims) < share] = special
    if with_nan:
        bits = values.view(f"u{kind.itemsize}")
        some = rng.random(dims) < 0.1
        top = 1 << (8 * kind.itemsize - 1)
        payloads = rng.integers(1, 5, dims).astype(bits.dtype)
        quiet = _bits(np.array(np.nan, kind).reshape(1))[0] & (top - 1)
        signs = np.where(rng.random(dims) < 0.5, 0, top).astype(bits.dtype)
        bits[some] = (quiet | payloads | signs)[some]
    return values


def _check(
    text: str, arrays: Sequence[Array], *, by_routines: bool = True, cpu: str = "", pieces: int = 1
) -> None:
    """Run the sort and compare all bits with the evaluator's."""
    entry = parse_text(text).entry
    assert (call_plan(entry.root) is not None) == by_routines
    expected = evaluate(entry, arrays)
    target = target_for(cpu=cpu) if cpu else None
    found = run_instruction(entry.root, arrays, pieces=pieces, target=target, level=0)
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(_bits(x), _bits(y))


@pytest.mark.parametrize("order", ["LT canonical", "GT canonical", "LT total", "GT total"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_with_nan_of_both_signs_and_two_zeros(dtype: str, order: str) -> None:
    """Equal elements keep their order and their bits: zeros, and NaN with what they carry."""
    for size in (2, 33, 700, LONG_ROW + 9):
        shape = f"{dtype}[2,{size}]"
        _check(_text([shape], order, 1), [_array(shape, size)])


@pytest.mark.parametrize("order", ["LT", "GT"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype: str, order: str) -> None:
    for size in (1, 20, 129, 700, LONG_ROW + 9):
        shape = f"{dtype}[2,{size}]"
        _check(_text([shape], order, 1), [_array(shape, size)])


@pytest.mark.parametrize("order", ["LT", "GT"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_compared_without_total_order(dtype: str, order: str) -> None:
    """Zeros are equal then; where NaN go is not said."""
    shape = f"{dtype}[3,300]"
    _check(_text([shape], order, 1), [_array(shape, 3, with_nan=False)])


@pytest.mark.parametrize("size", [1, 7, 16, 40, 127, 128, 129, 1000])
@pytest.mark.parametrize(
    ("key", "other"), [("f32", "s32"), ("s64", "f32"), ("bf16", "c64"), ("u8", "s64")]
)
def test_one_operand_goes_along(key: str, other: str, size: int) -> None:
    shapes = [f"{key}[3,{size}]", f"{other}[3,{size}]"]
    arrays = [_array(shape, seed) for seed, shape in enumerate(shapes)]
    _check(_text(shapes, "LT canonical", 1), arrays)


@pytest.mark.parametrize("size", [5, 100, 600])
@pytest.mark.parametrize(
    ("types", "keys"),
    [
        (("f32", "bf16"), 1),
        (("f32", "pred"), 1),
        (("f32", "c128"), 1),
        (("s32", "f64", "u8"), 1),
        (("s8", "f32"), 2),
        (("f32", "s16", "f64", "s32"), 3),
        (("pred", "u8", "f16"), 3),
    ],
    ids=lambda x: "-".join(x) if isinstance(x, tuple) else str(x),
)
def test_several_operands_and_keys(types: tuple[str, ...], keys: int, size: int) -> None:
    shapes = [f"{dtype}[2,{size}]" for dtype in types]
    arrays = [_array(shape, seed) for seed, shape in enumerate(shapes)]
    arrays[0] = arrays[0] if keys == 1 else _few(arrays[0])
    _check(_text(shapes, "GT canonical", 1, keys), arrays)


def _few(array: Array) -> Array:
    """Return the same with only its first elements, again and again, so that other keys decide."""
    return np.ascontiguousarray(array[:, np.arange(array.shape[1]) % 5])


@pytest.mark.parametrize(
    ("dims", "dim"),
    [("600,20", 0), ("2,600,5", 1), ("600,37", 0), ("40,9", 0), ("3,40,9", 1), ("2,3,50", 2)],
)
@pytest.mark.parametrize("types", [("f32",), ("f32", "s64"), ("s16", "f32", "u8")], ids="-".join)
def test_columns(types: tuple[str, ...], dims: str, dim: int) -> None:
    """Long columns are brought side by side in groups, the last of which may be narrower."""
    shapes = [f"{dtype}[{dims}]" for dtype in types]
    arrays = [_array(shape, seed) for seed, shape in enumerate(shapes)]
    text = _text(shapes, "LT canonical", dim)
    for pieces in (1, 2):
        _check(text, arrays, pieces=pieces)


def test_columns_are_taken_in_groups() -> None:
    """16 columns of f32 are a line; a group and the one line more per column fit the scratch."""
    groups = groups_of(parse_text(_text(["f32[2,600,37]"], "LT total", 1)).entry.root)
    assert (groups.width, groups.extent) == (16, 6)
    assert all(pitch > 4 * 600 for pitch in groups.pitches)
    alone = groups_of(parse_text(_text(["f32[2,600,37]"], "LT total", 2)).entry.root)
    assert (alone.width, alone.extent) == (1, 1200)


@pytest.mark.parametrize("layouts", [("0,1", "0,1"), ("1,0", "0,1")])
def test_layouts_of_operands_may_differ(layouts: tuple[str, str]) -> None:
    shapes = [f"s32[600,6]{{{layouts[0]}}}", f"f32[600,6]{{{layouts[1]}}}"]
    arrays = [_array(shape, seed) for seed, shape in enumerate(shapes)]
    for dim in (0, 1):
        _check(_text(shapes, "LT", dim), arrays)


@pytest.mark.parametrize("values", ["equal", "sorted", "low", "high"])
def test_digits_that_all_share_take_no_pass(values: str) -> None:
    """The first pass that is needed may be any, and the last one too."""
    numbers = np.random.default_rng(0).integers(0, 200, (2, 500)).astype(np.int32)
    arrays = {
        "equal": np.full((2, 500), 7, np.int32),
        "sorted": np.sort(numbers, axis=1),
        "low": numbers,
        "high": numbers << 24,
    }
    places = np.arange(1000, dtype=np.int32).reshape(2, 500)
    shapes = ["s32[2,500]", "s32[2,500]"]
    _check(_text(shapes, "LT", 1), [arrays[values], places])


@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3"])
@pytest.mark.parametrize("size", [10, 30, 60, 900])
def test_narrow_vectors(cpu: str, size: int) -> None:
    if not target_for().triple.startswith("x86_64") or not target_for(cpu=cpu).is_host:
        pytest.skip("for processors of x86-64")
    shapes = [f"f32[3,{size}]", f"s32[3,{size}]"]
    arrays = [_array(shape, seed) for seed, shape in enumerate(shapes)]
    _check(_text(shapes, "LT canonical", 1), arrays, cpu=cpu)
    _check(_text([f"s64[3,{size}]"], "GT", 1), [_array(f"s64[3,{size}]", 0)], cpu=cpu)


# ---------------------------------------------------------------- what is recognised


def _order_known(key: str, dtype: str = "f32") -> bool:
    """True if a sort by `key` of x, which is written for both sides, is by an operand."""
    sides = [key.format(x=x) for x in ("x", "y")]
    text = f"""HloModule m
less {{
  x = {dtype}[] parameter(0)
  y = {dtype}[] parameter(1)
  {sides[0]}
  {sides[1]}
  ROOT r = pred[] compare(x.key, y.key), direction=LT, type=TOTALORDER
}}
ENTRY e {{
  p = {dtype}[64] parameter(0)
  ROOT s = {dtype}[64] sort(p), dimensions={{0}}, to_apply=less
}}"""
    keys = keys_of(parse_text(text).entry.root.called[0])
    assert keys is not None
    return operand_order(keys[0]) is not None


SELECTS = """{{x}}.zero = f32[] constant({zero})
  {{x}}.nan = f32[] constant({nan})
  {{x}}.is_zero = pred[] compare({{x}}, {{x}}.zero), direction={equal}
  {{x}}.is_nan = pred[] compare({{x}}, {{x}}), direction=NE
  {{x}}.one = f32[] select({{x}}.is_zero, {{x}}.zero, {{x}})
  {{x}}.key = f32[] select({{x}}.is_nan, {{x}}.nan, {{x}}.one)"""


@pytest.mark.parametrize(
    ("zero", "nan", "equal", "known"),
    [
        ("0", "nan", "EQ", True),
        ("-0.0", "nan", "EQ", False),
        ("1", "nan", "EQ", False),
        ("0", "-nan", "EQ", False),
        ("0", "inf", "EQ", False),
        ("0", "nan", "LE", False),
        ("0", "nan", "NE", False),
    ],
)
def test_only_the_order_that_jax_means_is_taken_for_it(
    zero: str, nan: str, equal: str, known: bool
) -> None:
    assert _order_known(SELECTS.format(zero=zero, nan=nan, equal=equal)) == known


def test_zeros_or_nan_alone_are_no_order_that_routines_know() -> None:
    only_zeros = """{x}.zero = f32[] constant(0)
  {x}.is_zero = pred[] compare({x}, {x}.zero), direction=EQ
  {x}.key = f32[] select({x}.is_zero, {x}.zero, {x})"""
    assert not _order_known(only_zeros)
    assert not _order_known("{x}.key = f32[] abs({x})")
    assert not _order_known("{x}.key = f32[] copy({x})")


@pytest.mark.parametrize("dtype", ["s4", "u2", "f8e5m2", "f8e4m3fn"])
def test_other_types_are_sorted_without_routines(dtype: str) -> None:
    shape = f"{dtype}[2,300]"
    entry = parse_text(_text([shape], "LT total", 1)).entry
    assert call_plan(entry.root) is None


# ---------------------------------------------------------------- topk


@pytest.mark.parametrize("largest", ["true", "false"])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_topk(dtype: str, largest: str) -> None:
    """By total order, so that NaN of either sign and both zeros have their places."""
    for size, k in ((1, 1), (9, 2), (33, 8), (130, 30), (1000, 40), (1000, 600)):
        shape = f"{dtype}[3,{size}]"
        values = _array(shape, size)
        values[1] = values[1, 0]  # all are candidates
        _check_topk(shape, values, k, largest)


@pytest.mark.parametrize("largest", ["true", "false"])
@pytest.mark.parametrize("dtype", ["s2", "u4", "s4", "f8e4m3fn", "f8e5m2", "f8e8m0fnu", "f4e2m1fn"])
def test_topk_of_types_that_take_a_byte_each(dtype: str, largest: str) -> None:
    """Routines know those of eight bits; others are sorted by comparisons."""
    bits = np.arange(1 << DTYPES[dtype].bits, dtype=np.uint8)
    row = np.random.default_rng(1).choice(bits, 300)
    values: Array = np.stack([row, row[::-1]])
    if DTYPES[dtype].is_signed:  # NumPy holds negative numbers in all bits of the byte
        shift = 8 - DTYPES[dtype].bits
        values = (values << shift).view(np.int8) >> shift
    _check_topk(f"{dtype}[2,300]", values.view(DTYPES[dtype].numpy), 40, largest)


def _check_topk(shape: str, values: Array, k: int, largest: str) -> None:
    dtype, dims = shape.removesuffix("]").split("[")
    outer = dims.rpartition(",")[0]
    results = f"({dtype}[{outer},{k}], s32[{outer},{k}])"
    text = f"""HloModule m
ENTRY e {{
  p = {shape} parameter(0)
  ROOT r = {results} topk(p), k={k}, largest={largest}
}}"""
    entry = parse_text(text).entry
    expected = evaluate(entry, [values])
    found, places = run_instruction(entry.root, [values], level=0)
    size = DTYPES[dtype].bits % 8 if dtype != "pred" else 0
    unused = 0xFF >> size << size if size else 0  # bits above a type of less than a byte
    np.testing.assert_array_equal(_bits(found) | unused, _bits(expected[0]) | unused)
    np.testing.assert_array_equal(places, expected[1])


def test_topk_of_many_rows_and_of_one_long_row() -> None:
    _check_topk("f32[2,3,70]", _array("f32[2,3,70]", 0), 4, "true")
    _check_topk("f32[1,20000]", _array("f32[1,20000]", 0), 100, "true")


# ---------------------------------------------------------------- how they compile


def test_kernels_are_a_few_lines_that_llvm_leaves_as_they_are() -> None:
    for text in (
        _text(["f32[9,700]", "s32[9,700]"], "LT canonical", 1),
        "HloModule m\nENTRY e {\n  p = f32[9,700] parameter(0)\n"
        "  ROOT r = (f32[9,5], s32[9,5]) topk(p), k=5, largest=true\n}",
    ):
        kernel = emit(parse_text(text).entry.root)
        assert kernel.level == 0
        assert kernel.routines
        assert kernel.text.count("\n") < 40


def test_direction_and_length_are_arguments() -> None:
    """Sorts that differ in them share a routine, which is compiled once."""
    texts = [_text(["f32[700]"], "LT canonical", 0), _text(["f32[9,99]"], "GT total", 1)]
    first, second = (emit(parse_text(text).entry.root).routines for text in texts)
    assert first == second


@pytest.mark.parametrize("triple", ["x86_64", "aarch64", "riscv64", "wasm32"])
def test_routines_compile_for_other_machines(triple: str) -> None:
    target = target_for(triple)
    wanted = {"sort_float_32_0", "sort_integer_8_32", "sort_float_64_64"}
    for routines in listed_routines(target):
        if routines.name in wanted:
            assert compile_object(routines.text, target, routines.level)
    for bits in (8, 64):
        own, inner = topk_routines(bits, target)
        assert compile_object(own.text, target, own.level, frozenset(inner.symbols))


def test_listed_routines_are_those_that_kernels_call() -> None:
    listed = {r.name: r for maker in (listed_routines, listed_topk) for r in maker(host_target())}
    for dtype in (*FLOATS, *INTEGERS):
        shape = f"{dtype}[3,700]"
        for shapes in ([shape], [shape, "s32[3,700]"], [shape, "s64[3,700]"]):
            for routines in emit(parse_text(_text(shapes, "LT total", 1)).entry.root).routines:
                assert listed[routines.name] == routines
