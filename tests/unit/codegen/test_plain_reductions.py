"""Reductions of arrays in memory, which call routines of any size.

They are compared with NumPy in f64, for every form of rows and columns, on every kind of vector,
and with themselves in several parts, which must have the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import pytest

from hloc.codegen.cpu.emitters.reduction.fold_routine import LISTED_FOLDS
from hloc.codegen.cpu.emitters.reduction.plain_reduction import listed_routines, plain_reduction
from hloc.codegen.cpu.emitters.routine_table import all_routines
from hloc.codegen.llvm.object_file import compile_object
from hloc.codegen.llvm.target import Target, host_target
from tests.tolerance import bounds
from tests.unit.codegen.harness import (
    Array,
    emit,
    module_text,
    parse_text,
    random_arrays,
    reducer,
    run_instruction,
)
from tests.unit.codegen.processors import OTHERS, TARGETS

FORMS = [
    ((8, 8), (1,)),
    ((8, 8), (0,)),
    ((33, 17), (1,)),  # short rows, several at a time, and a rest of them
    ((9, 9), (1,)),
    ((40, 400), (1,)),  # rows one by one
    ((5, 2500), (1,)),  # several blocks of a sum
    ((17, 1000), (0,)),
    ((1100, 40), (0,)),
    ((9, 2061), (0,)),  # strips, the last of less than a vector
    ((2500, 7), (0,)),  # less than a vector of columns
    ((3, 70, 9), (1,)),
    ((5, 33, 70), (1,)),
    ((5, 33, 70), (0, 2)),  # rows in several runs
    ((6, 4, 5, 60), (0, 2)),  # columns in several runs
    ((3, 4, 5, 6), (1, 2)),
    ((3000,), (0,)),
    ((1, 9), (1,)),
]

FOLDS = [
    ("add", "f32", 2e-6),
    ("add", "f64", 1e-14),
    ("add", "bf16", 1e-2),
    ("add", "f16", 2e-3),
    ("add", "s32", 0),
    ("add", "s64", 0),
    ("multiply", "f32", 1e-4),
    ("maximum", "f32", 0),
    ("minimum", "f64", 0),
    ("maximum", "bf16", 0),
    ("minimum", "f16", 0),
    ("maximum", "s32", 0),
    ("minimum", "u32", 0),
    ("minimum", "s8", 0),
    ("maximum", "u8", 0),
    ("and", "pred", 0),
    ("or", "pred", 0),
]

MIDDLE = (("add", "f32"), ("add", "bf16"), ("maximum", "bf16"))
"""What vectors of 256 bits are tried with by default."""

_NUMPY = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.logical_and,
    "or": np.logical_or,
}


def reduction(opcode: str, dtype: str, dims: tuple[int, ...], reduced: tuple[int, ...]) -> str:
    """Return a module that is one reduction."""
    kept = ",".join(str(size) for dim, size in enumerate(dims) if dim not in reduced)
    order = ",".join(map(str, reduced))
    root = f"{dtype}[{kept}] reduce(p0, p1), dimensions={{{order}}}, to_apply=f"
    operand = f"{dtype}[{','.join(map(str, dims))}]"
    return module_text([operand, f"{dtype}[]"], root, reducer("f", opcode, dtype))


def arguments(text: str, opcode: str) -> list[Array]:
    """Return random numbers, whose product is not too large; to be compared, with NaN and zeros."""
    operand, start = random_arrays(text)
    if opcode == "multiply":
        return [np.clip(operand, 0.9, 1.1), start]
    if operand.dtype.kind not in "biu" and opcode in ("maximum", "minimum"):
        flat = operand.reshape(-1)
        flat[0], flat[-1] = -0.0, np.inf
        flat[flat.size // 2] = np.nan
    return [operand, start]


def check(found: Array, expected: Array, size: Array, tolerance: float) -> None:
    """Compare with an error relative to `size`; exactly if there is no tolerance."""
    assert found.shape == expected.shape
    if tolerance == 0:
        np.testing.assert_array_equal(found.astype(expected.dtype), expected)
        return
    error = np.abs(found.astype(np.float64) - expected)
    assert np.all(error <= tolerance * size + 1e-12)


# Vectors of 256 bits take the way of those of 128 with another length, so they are slow but for
# one sum and one maximum; the longest have masked loads, and the shortest have no conversions.
@pytest.mark.parametrize(
    ("opcode", "dtype", "tolerance", "target"),
    [
        pytest.param(
            *fold,
            target,
            id=f"{fold[0]}-{fold[1]}-{target.cpu}",
            marks=[pytest.mark.slow] if number == 1 and fold[:2] not in MIDDLE else [],
        )
        for number, target in enumerate(TARGETS)
        for fold in FOLDS
    ],
)
def test_every_form(opcode: str, dtype: str, tolerance: float, target: Target) -> None:
    for dims, reduced in FORMS:
        text = reduction(opcode, dtype, dims, reduced)
        given = arguments(text, opcode)
        operand, start = (x if x.dtype.kind in "biu" else x.astype(np.float64) for x in given)
        fold = _NUMPY[opcode]
        expected = fold(fold.reduce(operand, axis=reduced), start)
        (found,) = run_instruction(parse_text(text).entry.root, given, target=target)
        # An error counts against what is added up, and once more against what is stored.
        size = np.abs(operand).sum(axis=reduced) * (1e-2 if dtype in ("bf16", "f16") else 1)
        check(found, expected, size + np.abs(expected) if tolerance else size, tolerance)


@pytest.mark.parametrize(("dims", "reduced"), FORMS)
@pytest.mark.parametrize(("opcode", "dtype"), [("add", "f32"), ("maximum", "bf16")])
def test_parts_have_the_same_bits(
    opcode: str, dtype: str, dims: tuple[int, ...], reduced: tuple[int, ...]
) -> None:
    """Threads take parts of rows, of batches, or strips of columns."""
    text = reduction(opcode, dtype, dims, reduced)
    given = arguments(text, opcode)
    root = parse_text(text).entry.root
    (whole,) = run_instruction(root, given)
    for pieces in (2, 3):
        (found,) = run_instruction(root, given, pieces=pieces)
        assert found.tobytes() == whole.tobytes()


@pytest.mark.parametrize(("dims", "reduced"), FORMS)
def test_a_plain_reduction_is_a_call(dims: tuple[int, ...], reduced: tuple[int, ...]) -> None:
    """The kernel is short, makes no use of LLVM's passes, and its routine comes compiled."""
    root = parse_text(reduction("add", "f32", dims, reduced)).entry.root
    kernel = emit(root)
    if not host_target().has("avx512bw") and dims[-1] < 16 and len(dims) - 1 not in reduced:
        return  # too few columns for machines that cannot load a part of a vector
    (routine,) = kernel.routines
    assert all_routines(host_target())[routine.name] == routine
    assert kernel.level == 0
    assert kernel.text.count("\n") < 40


def test_tiny_batches_and_rows_have_loops_of_their_own() -> None:
    """Where little is folded at a time, sizes that are known are worth more."""
    for dims in ((20, 4, 3), (50, 3, 1)):
        assert not emit(parse_text(reduction("add", "f32", dims, (1,))).entry.root).routines


CONVERTED = """HloModule m
f {{
  a = {total}[] parameter(0)
  b = {total}[] parameter(1)
  ROOT r = {total}[] add(a, b)
}}
body {{
  x = {source}[40,50] parameter(0)
  w = {total}[40,50] convert(x)
  z = {total}[] constant(0)
  s = {total}[40] reduce(w, z), dimensions={{1}}, to_apply=f
  ROOT r = {result}[40] convert(s)
}}
ENTRY e {{
  p0 = {source}[40,50] parameter(0)
  ROOT r = {result}[40] fusion(p0), kind=kInput, calls=body
}}
"""


@pytest.mark.parametrize(
    ("source", "total", "result"),
    [("bf16", "f32", "bf16"), ("f16", "f32", "f16"), ("bf16", "f32", "f32"), ("s8", "s32", "s32")],
)
def test_conversions_belong_to_it(source: str, total: str, result: str) -> None:
    """Sums of narrow types are made in wider ones; jax.numpy.sum asks for that."""
    text = CONVERTED.format(source=source, total=total, result=result)
    (operand,) = random_arrays(text)
    root = parse_text(text).entry.root
    assert emit(root).routines
    (found,) = run_instruction(root, [operand])
    expected = operand.astype(np.float64).sum(axis=1)
    np.testing.assert_allclose(found.astype(np.float64), expected, **bounds("narrow sum"))


def norm(squares: bool, finish: str, dims: tuple[int, ...], reduced: tuple[int, ...]) -> str:
    """Return a module that reduces elements or their squares, and applies `finish` to results."""
    full = f"f32[{','.join(map(str, dims))}]"
    kept = ",".join(str(size) for dim, size in enumerate(dims) if dim not in reduced)
    order, elements = ",".join(map(str, reduced)), "y" if squares else "x"
    return f"""HloModule m
{reducer("f", "add", "f32")}
body {{
  x = {full} parameter(0)
  y = {full} multiply(x, x)
  z = f32[] constant(0)
  s = f32[{kept}] reduce({elements}, z), dimensions={{{order}}}, to_apply=f
  seven = f32[] constant(7)
  eighth = f32[] constant(0.125)
  sevens = f32[{kept}] broadcast(seven), dimensions={{}}
  eighths = f32[{kept}] broadcast(eighth), dimensions={{}}
  ROOT r = f32[{kept}] {finish}
}}
ENTRY e {{
  p0 = {full} parameter(0)
  ROOT r = f32[{kept}] fusion(p0), kind=kInput, calls=body
}}
"""


NORMS: dict[str, tuple[bool, str, Callable[[Array], Array]]] = {
    "mean": (False, "divide(s, sevens)", lambda x: x / 7),
    "mean-of-a-power-of-two": (False, "multiply(s, eighths)", lambda x: x / 8),
    "mean-of-squares": (True, "divide(s, sevens)", lambda x: x / 7),
    "norm": (True, "sqrt(s)", np.sqrt),
}


@pytest.mark.parametrize("target", TARGETS, ids=[target.cpu for target in TARGETS])
@pytest.mark.parametrize("name", NORMS)
def test_means_and_norms(name: str, target: Target) -> None:
    squares, finish, of_sum = NORMS[name]
    for dims, reduced in FORMS:
        root = parse_text(norm(squares, finish, dims, reduced)).entry.root
        operand = np.random.default_rng(0).random(dims, np.float32)
        addends = operand.astype(np.float64) ** (2 if squares else 1)
        (found,) = run_instruction(root, [operand], target=target)
        expected = of_sum(addends.sum(axis=reduced))
        check(found, expected, expected, 2e-6)
        (in_parts,) = run_instruction(root, [operand], target=target, pieces=3)
        assert in_parts.tobytes() == found.tobytes()


@pytest.mark.parametrize("name", NORMS)
def test_means_and_norms_are_calls(name: str) -> None:
    squares, finish, _ = NORMS[name]
    for dims, reduced in (((40, 400), (1,)), ((17, 1000), (0,)), ((3000,), (0,))):
        kernel = emit(parse_text(norm(squares, finish, dims, reduced)).entry.root)
        (routine,) = kernel.routines
        assert all_routines(host_target())[routine.name] == routine
        assert kernel.level == 0


def test_other_factors_are_not_taken() -> None:
    for factor, is_taken in (("0.125", True), ("0.1", False), ("0", False), ("inf", False)):
        text = norm(False, "multiply(s, eighths)", (40, 50), (1,)).replace("0.125", factor)
        assert (plain_reduction(parse_text(text).entry.root) is not None) == is_taken


def test_flags_are_counted() -> None:
    """The sum of bytes of 0 and 1 is not that of truths."""
    text = CONVERTED.format(source="pred", total="s32", result="s32")
    (operand,) = random_arrays(text)
    (found,) = run_instruction(parse_text(text).entry.root, [operand])
    np.testing.assert_array_equal(found, operand.sum(axis=1))


@pytest.mark.parametrize(
    "root",
    [
        "f32[33] reduce(p0, p1), dimensions={1}, to_apply=f",
        "f32[17,3] reduce(p0, p1), dimensions={0}, to_apply=f",
    ],
)
def test_other_orders_in_memory_are_not_taken(root: str) -> None:
    """Results lie in memory as the elements do that they are made of, or loops are written."""
    operand = "f32[33,17]{0,1}" if "[33]" in root else "f32[8,17,3]{0,1,2}"
    text = module_text([operand, "f32[]"], root, reducer("f", "add", "f32"))
    found = plain_reduction(parse_text(text).entry.root)
    assert (found is not None) == ("[33]" in root)
    if found is not None:
        assert [group.size for group in found.groups] == [17, 33]


def test_long_sums_keep_their_digits() -> None:
    """2**22 addends of one sign, in f32, by rows and by columns."""
    for dims, reduced in [((1 << 22,), (0,)), ((1 << 18, 16), (0,))]:
        text = reduction("add", "f32", dims, reduced)
        operand = np.random.default_rng(0).random(dims, np.float32)
        (found,) = run_instruction(parse_text(text).entry.root, [operand, np.zeros((), np.float32)])
        exact = operand.astype(np.float64).sum(axis=reduced)
        np.testing.assert_allclose(found, exact, **bounds("f32 one rounding"))


def test_there_is_no_routine_for_what_is_empty() -> None:
    for dims in ((3, 0), (0, 3)):
        root = parse_text(reduction("add", "f32", dims, (1,))).entry.root
        assert prod(dims) == 0
        assert plain_reduction(root) is None


@pytest.mark.parametrize("target", OTHERS, ids=["haswell", "x86-64", "aarch64"])
def test_routines_compile_for_other_machines(target: Target) -> None:
    listed = [r for r in listed_routines(target) if r.name.startswith("fold_add_f32_f32_f32")]
    assert len({r.name for r in listed}) >= 4
    for routine in listed:
        assert compile_object(routine.text, target, routine.level, frozenset(routine.symbols))


def test_what_is_listed_is_listed_once() -> None:
    assert len(set(LISTED_FOLDS)) == len(LISTED_FOLDS)
    names = [routine.name for routine in listed_routines(host_target())]
    assert len(set(names)) == len(names)
