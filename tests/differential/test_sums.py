"""Sums of f32 stay within the bound that docs/numerics.md states, whatever the shape.

The bound of each opcode is `FACTORS(n) * 2^-24 * sum|x|` for n addends. Equal addends are the worst
case of a chain of additions: all roundings of a binade go the same way, so an error of 2^17
addends in one chain is thousands of units. Random ones of one sign and of both are tried as well.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hloc

Array = np.ndarray[Any, np.dtype[Any]]
Reference = Callable[..., Array]

UNIT = 2.0**-24
MOST_ADDENDS = 1 << 17


FACTORS: dict[str, tuple[str, Callable[[int], float]]] = {
    "reduce": ("1024", lambda n: 1024),
    "cumulative sum": ("1024", lambda n: 1024),
    "reduce-window": ("4096", lambda n: 4096),
    "scatter": ("4096", lambda n: 4096),
    "dot": ("2048 + n / 384", lambda n: 2048 + n / 384),
    "convolution": ("4096 + n / 384", lambda n: 4096 + n / 384),
}
"""The factor by opcode, as docs/numerics.md has it and as a function of the number of addends."""


@dataclass(frozen=True)
class Case:
    """A module with one sum per element of its result.

    Attributes:
        opcode: a row of the table.
        addends: of one element.
        reference: the sums; of absolute values it gives the sums of those.
    """

    name: str
    opcode: str
    addends: int
    dims: tuple[tuple[int, ...], ...]
    reference: Reference
    text: str


ADD = """HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY e {
  zero = f32[] constant(0)
"""

ZERO = "zero = c64[] constant((0, 0))"


def text_of(dims: Sequence[int]) -> str:
    return ",".join(map(str, dims))


def case(
    name: str,
    opcode: str,
    addends: int,
    dims: Sequence[tuple[int, ...]],
    root: str,
    reference: Reference,
    layouts: Sequence[str] = ("", ""),
) -> Case:
    lines = [
        f"  p{i} = f32[{text_of(sizes)}]{layout} parameter({i})\n"
        for i, (sizes, layout) in enumerate(zip(dims, layouts, strict=False))
    ]
    text = ADD + "".join(lines) + f"  ROOT r = {root}\n}}\n"
    return Case(name, opcode, addends, tuple(dims), reference, text)


def reduces() -> Iterator[Case]:
    shapes: tuple[tuple[tuple[int, ...], tuple[int, ...], str], ...] = (
        ((MOST_ADDENDS,), (0,), ""),
        ((MOST_ADDENDS + 3,), (0,), ""),
        ((MOST_ADDENDS, 1), (0,), ""),
        ((MOST_ADDENDS, 3), (0,), ""),
        ((MOST_ADDENDS, 16), (0,), ""),
        ((1 << 15, 64), (0,), ""),
        ((3, MOST_ADDENDS), (1,), ""),
        ((2, 1 << 16, 5), (1,), ""),
        ((300, 4, 301), (0, 2), ""),
        ((1 << 15, 3, 2), (0, 2), ""),
        ((2, 1 << 14, 3, 5), (1, 3), ""),
        ((2, 700, 3, 5), (1, 3), ""),
        ((257, 511), (0, 1), ""),
        ((MOST_ADDENDS, 4), (0,), "{0,1}"),
        ((4, MOST_ADDENDS), (1,), "{0,1}"),
        ((64, 3, 2048), (0, 2), "{0,2,1}"),
    )
    for dims, over, layout in shapes:
        kept = [size for d, size in enumerate(dims) if d not in over]
        root = (
            f"f32[{text_of(kept)}] reduce(p0, zero), dimensions={{{text_of(over)}}}, to_apply=add"
        )
        yield case(
            f"reduce {text_of(dims)}{layout} over {text_of(over)}",
            "reduce",
            prod(dims[d] for d in over),
            [dims],
            root,
            lambda p, over=over: p.sum(axis=over),
            [layout],
        )


def dots() -> Iterator[Case]:
    depth = MOST_ADDENDS
    for rows, columns in ((1, 1), (1, 3), (5, 1), (16, 16), (3, 70)):
        for left in (0, 1):
            for right in (0, 1):
                lhs = (rows, depth) if left else (depth, rows)
                rhs = (columns, depth) if right else (depth, columns)
                equation = ("ik" if left else "ki") + "," + ("jk" if right else "kj") + "->ij"
                yield case(
                    f"dot {rows}x{columns} {equation}",
                    "dot",
                    depth,
                    [lhs, rhs],
                    f"f32[{rows},{columns}] dot(p0, p1), lhs_contracting_dims={{{left}}}, "
                    f"rhs_contracting_dims={{{right}}}",
                    lambda p, q, equation=equation: np.einsum(equation, p, q, optimize=True),
                )
    yield case(
        "dot of vectors",
        "dot",
        4 * depth,
        [(4 * depth,), (4 * depth,)],
        "f32[] dot(p0, p1), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        lambda p, q: p @ q,
    )
    yield case(
        "dot of a batch",
        "dot",
        depth,
        [(3, 2, depth), (3, depth, 5)],
        "f32[3,2,5] dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        lambda p, q: p @ q,
    )
    yield case(
        "dot over two dimensions",
        "dot",
        depth,
        [(depth // 64, 3, 64), (64, 2, depth // 64)],
        "f32[3,2] dot(p0, p1), lhs_contracting_dims={0,2}, rhs_contracting_dims={2,0}",
        lambda p, q: np.einsum("aib,bja->ij", p, q, optimize=True),
    )


def windows() -> Iterator[Case]:
    n = 1 << 16
    whole = f"reduce-window(p0, zero), window={{size={n}"
    yield case(
        "windows that slide",
        "reduce-window",
        n,
        [(n + 3,)],
        f"f32[4] {whole}}}, to_apply=add",
        lambda p: np.array([p[i : i + n].sum() for i in range(4)]),
    )
    yield case(
        "windows of columns",
        "reduce-window",
        n,
        [(n + 3, 3)],
        f"f32[4,3] {whole}x1}}, to_apply=add",
        lambda p: np.array([p[i : i + n].sum(0) for i in range(4)]),
    )
    yield case(
        "windows apart",
        "reduce-window",
        n,
        [(3 * n,)],
        f"f32[3] {whole} stride={n}}}, to_apply=add",
        lambda p: p.reshape(3, n).sum(1),
    )
    yield case(
        "windows of two dimensions",
        "reduce-window",
        299 * 299,
        [(300, 300)],
        "f32[2,2] reduce-window(p0, zero), window={size=299x299}, to_apply=add",
        lambda p: np.array([[p[i : i + 299, j : j + 299].sum() for j in (0, 1)] for i in (0, 1)]),
    )
    for name, sizes, window in (
        ("cumulative sum", (n,), f"size={n} pad={n - 1}_0"),
        ("cumulative sum of columns", (n, 3), f"size={n}x1 pad={n - 1}_0x0_0"),
    ):
        yield case(
            name,
            "cumulative sum",
            n,
            [sizes],
            f"f32[{text_of(sizes)}] reduce-window(p0, zero), window={{{window}}}, to_apply=add",
            lambda p: p.cumsum(0),
        )


def scatters() -> Iterator[Case]:
    n = MOST_ADDENDS
    for name, row, window in (("scatter of numbers", (), ""), ("scatter of rows", (8,), "1")):
        yield case(
            name,
            "scatter",
            n + 1,
            [(4, *row), (n, *row)],
            f"f32[{text_of((4, *row))}] scatter(p0, i, p1), update_window_dims={{{window}}}, "
            "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
            "to_apply=add",
            _all_to_row_1,
        )


def _all_to_row_1(operand: Array, updates: Array) -> Array:
    result = operand.copy()
    result[1] += updates.sum(0)
    return result


def convolutions() -> Iterator[Case]:
    n = 1 << 16
    for groups in (1, 8):
        yield case(
            f"convolution of long windows in {groups} groups",
            "convolution",
            n,
            [(1, groups, n + 1), (groups, 1, n)],
            f"f32[1,{groups},2] convolution(p0, p1), window={{size={n}}}, "
            f"dim_labels=bf0_oi0->bf0, feature_group_count={groups}",
            lambda p, q: np.stack([(p[:, :, i : i + n] * q[:, 0]).sum(2) for i in (0, 1)], 2),
        )
    for outputs in (2, 16, 40):
        yield case(
            f"convolution of many features to {outputs}",
            "convolution",
            9 * (n // 4),
            [(1, 4, 4, n // 4), (3, 3, n // 4, outputs)],
            f"f32[1,2,2,{outputs}] convolution(p0, p1), window={{size=3x3}}, "
            "dim_labels=b01f_01io->b01f",
            _windows_3x3,
        )
    yield case(
        "convolution of many features by tiles",
        "convolution",
        9 * 2048,
        [(1, 30, 30, 2048), (3, 3, 2048, 32)],
        "f32[1,28,28,32] convolution(p0, p1), window={size=3x3}, dim_labels=b01f_01io->b01f",
        _windows_3x3,
    )
    yield case(
        "convolution for the gradient of a kernel",
        "convolution",
        8 * 112 * 112,
        [(8, 114, 114, 3), (8, 112, 112, 4)],
        "f32[3,3,3,4] convolution(p0, p1), window={size=112x112}, dim_labels=f01b_i01o->01bf",
        lambda p, q: np.stack(
            [
                np.stack(
                    [
                        np.einsum("nxyc,nxyo->co", p[:, i : i + 112, j : j + 112], q)
                        for j in range(3)
                    ]
                )
                for i in range(3)
            ]
        ),
    )


def _windows_3x3(p: Array, q: Array) -> Array:
    lines, columns = p.shape[1] - 2, p.shape[2] - 2
    places = [(i, j) for i in range(3) for j in range(3)]
    parts = [p[:, i : i + lines, j : j + columns] @ q[i, j] for i, j in places]
    total: Array = np.sum(parts, axis=0)
    return total


CASES = [*reduces(), *dots(), *windows(), *scatters(), *convolutions()]
VALUES: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "equal": lambda _, dims: np.full(dims, 0.1, np.float32),
    "positive": lambda random, dims: random.random(dims, np.float32),
    "both signs": lambda random, dims: random.standard_normal(dims, np.float32),
}


@pytest.mark.parametrize("opt_level", [0, 2])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name.replace(" ", "-"))
def test_the_error_is_within_the_bound(case: Case, opt_level: int) -> None:
    compiled = hloc.compile(hloc.parse(_indexed(case)), opt_level=opt_level)
    random = np.random.default_rng(20)
    for name, draw in VALUES.items():
        arrays = [draw(random, dims) for dims in case.dims]
        (found,) = compiled(*arrays)
        units = _units_off(case, found, arrays)
        assert units <= FACTORS[case.opcode][1](case.addends), f"{name}: {units:.0f} units"


def _indexed(case: Case) -> str:
    """Return the text of a case; the updates of a scatter all go to row 1."""
    if case.opcode != "scatter":
        return case.text
    ones = f"  one = s32[] constant(1)\n  i = s32[{case.dims[1][0]},1] broadcast(one), "
    return case.text.replace("  ROOT r", ones + "dimensions={}\n  ROOT r")


def _units_off(case: Case, found: Array, arrays: Sequence[Array]) -> float:
    """Return the largest error of the sums `found`, in units of `2^-24 * sum|x|`."""
    wide = [array.astype(np.float64) for array in arrays]
    exact, magnitude = case.reference(*wide), case.reference(*map(np.abs, wide))
    return float((np.abs(found - exact) / (UNIT * magnitude)).max())


@pytest.mark.parametrize("opt_level", [0, 2])
@pytest.mark.parametrize(
    "case", [*reduces(), *windows(), *scatters()], ids=lambda c: c.name.replace(" ", "-")
)
def test_parts_of_complex_sums_are_within_the_bound(case: Case, opt_level: int) -> None:
    if case.opcode == "cumulative sum" and opt_level == 0:
        pytest.skip("each element is a sum of its own, of up to 65,536 numbers")
    text = _indexed(case).replace("f32", "c64").replace("zero = c64[] constant(0)", ZERO)
    compiled = hloc.compile(hloc.parse(text), opt_level=opt_level)
    random = np.random.default_rng(21)
    for name, draw in VALUES.items():
        parts = [[draw(random, dims) for dims in case.dims] for _ in range(2)]
        (found,) = compiled(*(x + np.complex64(1j) * y for x, y in zip(*parts, strict=True)))
        for got, arrays in zip((found.real, found.imag), parts, strict=True):
            units = _units_off(case, got, arrays)
            assert units <= FACTORS[case.opcode][1](case.addends), f"{name}: {units:.0f} units"


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_the_evaluator_sums_long_scatters_as_compiled_code_does(dtype: str) -> None:
    """5,000 ones: a chain of bf16 would stop at 256."""
    n = 5000
    root = next(case for case in scatters() if case.name == "scatter of numbers").text
    text = root.replace(str(MOST_ADDENDS), str(n)).replace("f32", dtype)
    ones = f"  one = s32[] constant(1)\n  i = s32[{n},1] broadcast(one), dimensions={{}}\n"
    module = hloc.parse(text.replace("  ROOT r", ones + "  ROOT r"))
    numpy = module.entry.root.array.dtype.numpy
    arrays = [np.zeros(4, numpy), np.ones(n, numpy)]
    want = np.asarray([0, n, 0, 0]).astype(numpy)
    np.testing.assert_array_equal(hloc.evaluate(module, *arrays)[0], want)
    np.testing.assert_array_equal(np.asarray(hloc.compile(module)(*arrays)).reshape(4), want)


def test_the_page_states_the_factors() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "numerics.md").read_text()
    for opcode, (factor, _) in FACTORS.items():
        assert f"| {opcode} | {factor} |" in page
