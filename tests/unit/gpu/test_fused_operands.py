"""Producers that products run as they read their operands, on the simulated GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hloc.codegen.gpu.emitters.gemm.gemm import Way, problem_of, way_of
from hloc.codegen.gpu.nvptx.cubin import assemble
from hloc.driver import parse_text
from hloc.runtime.gpu.simulated import SimulatedDevice
from tests.unit.gpu.simulate import SPILL_BYTES, check, compiled, entry

CHIPS = (
    "sm_90",
    *(pytest.param(chip, marks=pytest.mark.slow) for chip in ("sm_80", "sm_100")),
)

Dims = tuple[int, ...]


@dataclass
class Body:
    """The text of a fused computation under construction."""

    parameters: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def parameter(self, shape: str) -> str:
        self.parameters.append(shape)
        return f"p{len(self.parameters) - 1}"

    def add(self, shape: str, text: str) -> str:
        self.lines.append(f"  v{len(self.lines)} = {shape} {text}")
        return f"v{len(self.lines) - 1}"

    def module(self, result: str) -> str:
        """Return a module whose entry calls the fusion, with result `shape name`."""
        shape, root = result.split(" ", 1)
        inside = [f"  p{i} = {s} parameter({i})" for i, s in enumerate(self.parameters)]
        names = ", ".join(f"p{i}" for i in range(len(self.parameters)))
        call = f"  ROOT r = {shape} fusion({names}), kind=kOutput, calls=fused"
        fused = ["fused {", *inside, *self.lines, f"  ROOT d = {shape} {root}", "}"]
        return "\n".join(["HloModule m", *fused, "ENTRY e {", *inside, call, "}"])


Producer = Callable[[Body, str, Dims], str]
"""Adds instructions that compute an array of a type and sizes; returns its name."""


def text_of(dtype: str, dims: Dims) -> str:
    return f"{dtype}[{','.join(map(str, dims))}]"


def plain(b: Body, dtype: str, dims: Dims) -> str:
    return b.parameter(text_of(dtype, dims))


def unary(opcode: str) -> Producer:
    def add(b: Body, dtype: str, dims: Dims) -> str:
        shape = text_of(dtype, dims)
        return b.add(shape, f"{opcode}({b.parameter(shape)})")

    return add


def converted(source: str) -> Producer:
    def add(b: Body, dtype: str, dims: Dims) -> str:
        return b.add(text_of(dtype, dims), f"convert({b.parameter(text_of(source, dims))})")

    return add


def quantised(source: str, dim: int) -> Producer:
    """Numbers times a scale per index of the last dimensions but `dim`."""

    def add(b: Body, dtype: str, dims: Dims) -> str:
        shape, kept = text_of(dtype, dims), len(dims) - 2 + dim
        value = converted(source)(b, dtype, dims)
        scale = b.parameter(text_of(dtype, (dims[kept],)))
        wide = b.add(shape, f"broadcast({scale}), dimensions={{{kept}}}")
        return b.add(shape, f"multiply({value}, {wide})")

    return add


def in_groups(b: Body, dtype: str, dims: Dims) -> str:
    """Numbers in s8 and a scale for each four neighbours of the first dimension."""
    shape, first = text_of(dtype, dims), -(-dims[0] // 4)
    value = converted("s8")(b, dtype, dims)
    scale = b.parameter(text_of(dtype, (first, *dims[1:])))
    kept = ",".join(str(d) for d in range(len(dims) + 1) if d != 1)
    wide = b.add(
        text_of(dtype, (first, 4, *dims[1:])), f"broadcast({scale}), dimensions={{{kept}}}"
    )
    flat = b.add(text_of(dtype, (first * 4, *dims[1:])), f"reshape({wide})")
    ranges = ", ".join(f"[0:{d}]" for d in dims)
    cut = b.add(shape, f"slice({flat}), slice={{{ranges}}}")
    return b.add(shape, f"multiply({value}, {cut})")


def masked(b: Body, dtype: str, dims: Dims) -> str:
    """Three where the last index is below the first one."""
    shape, last = text_of(dtype, dims), len(dims) - 1
    row = b.add(text_of("s32", dims), "iota(), iota_dimension=0")
    column = b.add(text_of("s32", dims), f"iota(), iota_dimension={last}")
    below = b.add(text_of("pred", dims), f"compare({column}, {row}), direction=LT")
    three = b.add(f"{dtype}[]", "constant(3)")
    wide = b.add(shape, f"broadcast({three}), dimensions={{}}")
    return b.add(shape, f"select({below}, {wide}, {b.parameter(shape)})")


def transposed(b: Body, dtype: str, dims: Dims) -> str:
    order = ",".join(str(d) for d in reversed(range(len(dims))))
    value = b.parameter(text_of(dtype, dims[::-1]))
    return b.add(text_of(dtype, dims), f"transpose({value}), dimensions={{{order}}}")


def reshaped(b: Body, dtype: str, dims: Dims) -> str:
    count = 1
    for size in dims:
        count *= size
    return b.add(text_of(dtype, dims), f"reshape({b.parameter(text_of(dtype, (count,)))})")


def sliced(b: Body, dtype: str, dims: Dims) -> str:
    value = b.parameter(text_of(dtype, tuple(2 * d + 3 for d in dims)))
    ranges = ", ".join(f"[3:{2 * d + 3}:2]" for d in dims)
    return b.add(text_of(dtype, dims), f"slice({value}), slice={{{ranges}}}")


def padded(b: Body, dtype: str, dims: Dims) -> str:
    """With twos, on both sides of the last two dimensions."""
    first = dims[:-2]
    value = b.parameter(text_of(dtype, (*first, *(d - 3 for d in dims[-2:]))))
    two = b.add(f"{dtype}[]", "constant(2)")
    padding = "x".join([*("0_0" for _ in first), "1_2", "2_1"])
    return b.add(text_of(dtype, dims), f"pad({value}, {two}), padding={padding}")


def joined(b: Body, dtype: str, dims: Dims) -> str:
    first = dims[-1] // 3
    left = b.parameter(text_of(dtype, (*dims[:-1], first)))
    right = b.parameter(text_of(dtype, (*dims[:-1], dims[-1] - first)))
    last = len(dims) - 1
    return b.add(text_of(dtype, dims), f"concatenate({left}, {right}), dimensions={{{last}}}")


def gathered(b: Body, dtype: str, dims: Dims) -> str:
    """Rows of a table, as an embedding."""
    table = b.parameter(text_of(dtype, (11, *dims[1:])))
    rows = b.parameter(text_of("s32", (dims[0],)))
    offsets = ",".join(map(str, range(1, len(dims))))
    sizes = ",".join(map(str, (1, *dims[1:])))
    return b.add(
        text_of(dtype, dims),
        f"gather({table}, {rows}), offset_dims={{{offsets}}}, collapsed_slice_dims={{0}}, "
        f"start_index_map={{0}}, index_vector_dim=1, slice_sizes={{{sizes}}}",
    )


def spread(b: Body, dtype: str, dims: Dims) -> str:
    """The same scalar everywhere, so that only the edges tell."""
    value = b.add(f"{dtype}[]", f"cosine({b.parameter(f'{dtype}[]')})")
    return b.add(text_of(dtype, dims), f"broadcast({value}), dimensions={{}}")


def activated(b: Body, dtype: str, dims: Dims) -> str:
    """Exponential of x times logistic of x: 1 where x is 0."""
    shape = text_of(dtype, dims)
    x = b.parameter(shape)
    gate = b.add(shape, f"logistic({x})")
    value = b.add(shape, f"multiply({x}, {gate})")
    return b.add(shape, f"exponential({value})")


PRODUCERS: dict[str, Producer] = {
    "plain": plain,
    "exponential": unary("exponential"),
    "cosine": unary("cosine"),
    "activated": activated,
    "s8": converted("s8"),
    "u4": converted("u4"),
    "f8": converted("f8e4m3fn"),
    "f32": converted("f32"),
    "bf16": converted("bf16"),
    "s8 by line": quantised("s8", 1),
    "u4 by depth": quantised("u4", 0),
    "in groups": in_groups,
    "masked": masked,
    "transposed": transposed,
    "reshaped": reshaped,
    "sliced": sliced,
    "padded": padded,
    "joined": joined,
    "gathered": gathered,
    "spread": spread,
}
"""By name. Most are not zero where what they read is."""

ORDERS = {
    "plain": ("mk", "kn"),
    "right": ("mk", "nk"),
    "left": ("km", "kn"),
    "both": ("km", "nk"),
}


def product(sizes: tuple[int, int, int], dtype: str, order: str, left: str, right: str) -> str:
    """Return a module with a dot of rows, columns and depth `sizes`, and producers by name."""
    lengths = dict(zip("mnk", sizes, strict=True))
    letters = ORDERS[order]
    b = Body()
    x, y = (
        PRODUCERS[name](b, dtype, tuple(lengths[c] for c in side))
        for name, side in zip((left, right), letters, strict=True)
    )
    numbers = ", ".join(
        f"{name}_contracting_dims={{{side.index('k')}}}"
        for name, side in zip(("lhs", "rhs"), letters, strict=True)
    )
    return b.module(f"f32[{sizes[0]},{sizes[1]}] dot({x}, {y}), {numbers}")


def one_kernel(text: str, cpu: str = "") -> SimulatedDevice:
    """Check that the fusion stays whole, and its result beside the evaluator's."""
    assert len(compiled(text, 1, cpu).kernels) == 1
    return check(text, 1, cpu=cpu)


def way(text: str) -> Way:
    return way_of(problem_of(parse_text(text).entry.root))


# ---------------------------------------------------------------- dots


@pytest.mark.parametrize("name", PRODUCERS)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_what_computes_a_side(name: str, dtype: str) -> None:
    """On the left, then on the right; edges in rows, columns and depth, which count as zero."""
    one_kernel(product((37, 43, 35), dtype, "plain", name, "plain"))
    one_kernel(product((35, 37, 43), dtype, "both", "spread", name))


@settings(max_examples=12, deadline=None)
@given(
    st.tuples(st.integers(4, 70), st.integers(4, 70), st.integers(4, 70)),
    st.sampled_from(["f32", "bf16", "f16"]),
    st.sampled_from(list(ORDERS)),
    st.sampled_from(list(PRODUCERS)),
    st.sampled_from(list(PRODUCERS)),
)
def test_any_sides(
    sizes: tuple[int, int, int], dtype: str, order: str, left: str, right: str
) -> None:
    """Elements, few rows, tiles and tensor cores, by the sizes."""
    one_kernel(product(sizes, dtype, order, left, right))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["s8 by line", "in groups", "activated", "transposed"])
@pytest.mark.parametrize("sizes", [(3, 96, 200), (96, 5, 200), (2, 33, 131)])
def test_few_rows(sizes: tuple[int, int, int], name: str, order: str) -> None:
    text = product(sizes, "f32", order, "exponential", name)
    assert way(text) is Way.FEW_ROWS
    one_kernel(text)


@pytest.mark.parametrize("order", ORDERS)
def test_s8_of_activations_and_weights(order: str) -> None:
    """Integer tensor cores read what is rounded and clamped on the way."""
    letters = ORDERS[order]
    lengths = {"m": 48, "n": 50, "k": 72}
    b = Body()
    names = []
    for side in letters:
        dims = tuple(lengths[c] for c in side)
        shape = text_of("f32", dims)
        ten = b.add(shape, f"broadcast({b.add('f32[]', 'constant(10)')}), dimensions={{}}")
        scaled = b.add(shape, f"multiply({b.parameter(shape)}, {ten})")
        rounded = b.add(shape, f"round-nearest-even({scaled})")
        names.append(b.add(text_of("s8", dims), f"convert({rounded})"))
    numbers = (
        f"lhs_contracting_dims={{{letters[0].index('k')}}}, "
        f"rhs_contracting_dims={{{letters[1].index('k')}}}"
    )
    text = b.module(f"s32[48,50] dot({names[0]}, {names[1]}), {numbers}")
    assert "mma" in compiled(text, 1, "sm_90").ptx
    one_kernel(text, "sm_90")


def test_batches_and_an_epilogue() -> None:
    """Both sides computed, the depth in parts, an epilogue that reads a producer's operand too."""
    b = Body()
    x = b.parameter("f32[2,3,33,130]")
    left = b.add("f32[2,3,33,130]", f"exponential({x})")
    right = quantised("s8", 1)(b, "f32", (2, 3, 130, 36))
    numbers = (
        "lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, "
        "lhs_contracting_dims={3}, rhs_contracting_dims={2}"
    )
    d = b.add("f32[2,3,33,36]", f"dot({left}, {right}), {numbers}")
    rest = b.parameter("f32[2,3,33,36]")
    one_kernel(b.module(f"f32[2,3,33,36] add({d}, {rest})"))


def test_a_side_that_is_read_by_both() -> None:
    """The product of an array with itself: one producer, both sides."""
    b = Body()
    x = unary("exponential")(b, "f32", (40, 40))
    numbers = "lhs_contracting_dims={1}, rhs_contracting_dims={1}"
    one_kernel(b.module(f"f32[40,40] dot({x}, {x}), {numbers}"))


# ---------------------------------------------------------------- tensor cores


@pytest.mark.parametrize("name", ["s8 by line", "u4 by depth", "f8", "f32", "in groups"])
def test_weights_are_converted_on_the_way_to_tensor_cores(name: str) -> None:
    text = product((64, 64, 64), "bf16", "plain", "plain", name)
    assert "mma.sync" in compiled(text, 1, "sm_90").ptx
    one_kernel(text, "sm_90")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["s8 by line", "exponential", "f32"])
def test_sectors_are_whole_and_banks_do_not_collide(name: str, order: str) -> None:
    text = product((128, 128, 64), "bf16", order, "plain", name)
    ((_, report),) = one_kernel(text, "sm_90").reports
    assert report.global_sectors * 32 <= 1.01 * report.global_bytes
    assert report.bank_conflict_ratio == 1.0


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        ("bf16", "s8 by line"),
        ("bf16", "in groups"),
        ("bf16", "exponential"),
        ("bf16", "f32"),
        ("f32", "s8 by line"),
        ("f32", "activated"),
        ("f32", "f8"),
    ],
)
@pytest.mark.parametrize("left", ["plain", "the same"])
def test_nothing_spills(left: str, dtype: str, name: str, chip: str) -> None:
    """Also in the largest tiles, with both sides computed."""
    producers = (name if left == "the same" else left, name)
    ptx = compiled(product((4096, 4096, 1024), dtype, "plain", *producers), 1, chip).ptx
    (use,) = assemble(ptx, chip).uses.values()
    assert use.spill_bytes <= (SPILL_BYTES if chip == "sm_100" else 0)


# ---------------------------------------------------------------- convolutions


WINDOWS = {
    "padded": ("size=3x3 pad=1_1x1_1", (9, 8)),
    "strided": ("size=3x3 stride=2x2 pad=2_0x1_1", (5, 4)),
    "holes": ("size=3x3 pad=1_1x1_1 lhs_dilate=2x2 rhs_reversal=1x1", (17, 15)),
    "wide": ("size=3x3 pad=2_2x2_2 rhs_dilate=2x2", (9, 8)),
    "cropped": ("size=3x3 pad=-1_-1x-1_0", (5, 5)),
}
"""Windows, and the positions that they give on 9x8."""


def convolution(dtype: str, left: str, right: str, window: str, groups: int = 1) -> str:
    """Return a module with a convolution of 9x8 positions and 16 channels to 24."""
    b = Body()
    x = PRODUCERS[left](b, dtype, (2, 9, 8, 16))
    y = PRODUCERS[right](b, dtype, (3, 3, 16 // groups, 24))
    text, (rows, columns) = WINDOWS[window]
    return b.module(
        f"f32[2,{rows},{columns},24] convolution({x}, {y}), window={{{text}}}, "
        f"dim_labels=b01f_01io->b01f, feature_group_count={groups}"
    )


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_padding_and_holes_are_zero(dtype: str, window: str) -> None:
    """Where a producer has no input; its own value for zero would be 1."""
    one_kernel(convolution(dtype, "exponential", "s8 by line", window))
    one_kernel(convolution(dtype, "spread", "plain", window))


@settings(max_examples=6, deadline=None)
@given(
    st.sampled_from(["f32", "bf16"]),
    st.sampled_from(list(PRODUCERS)),
    st.sampled_from(list(WINDOWS)),
    st.sampled_from([1, 4, 8]),
)
def test_any_input_of_a_convolution(dtype: str, left: str, window: str, groups: int) -> None:
    """Tiles, and elements one by one where groups are narrow."""
    one_kernel(convolution(dtype, left, "cosine", window, groups))


def test_conversions_to_f32_leave_tensor_cores_their_type() -> None:
    """The product of two arrays of bf16, as for dots."""
    text = convolution("f32", "bf16", "bf16", "padded")
    assert "mma" in compiled(text, 1, "sm_90").ptx
    one_kernel(text, "sm_90")


# ---------------------------------------------------------------- by the passes


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_the_passes_fuse_weights_in_s8(dtype: str, rows: int) -> None:
    text = entry(
        f"{dtype}[{rows},64];s8[64,96];{dtype}[96]",
        f"f32[{rows},96] dot(p0, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
    ).replace(
        "  ROOT",
        f"  c = {dtype}[64,96] convert(p1)\n"
        f"  b = {dtype}[64,96] broadcast(p2), dimensions={{1}}\n"
        f"  y = {dtype}[64,96] multiply(c, b)\n  ROOT",
    )
    assert len(compiled(text, cpu="sm_90").kernels) == 1
    check(text, cpu="sm_90")


def test_the_passes_fuse_the_input_of_a_convolution() -> None:
    """One that is 1 where there is no input, with a bias behind it: one kernel."""
    text = entry(
        "f32[2,9,8,16];f32[3,3,16,24];f32[2,9,8,24]",
        "f32[2,9,8,24] add(d, p2)",
    ).replace(
        "  ROOT",
        "  x = f32[2,9,8,16] exponential(p0)\n"
        "  d = f32[2,9,8,24] convolution(x, p1), window={size=3x3 pad=1_1x1_1}, "
        "dim_labels=b01f_01io->b01f\n  ROOT",
    )
    assert len(compiled(text, cpu="sm_90").kernels) == 1
    check(text, cpu="sm_90")
