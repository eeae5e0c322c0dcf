"""Dots on the simulated GPU: every kernel for products, against the evaluator."""

from __future__ import annotations

import numpy as np
import pytest

from hloc.codegen.gpu.emitters.gemm import gemm, gemm_plan
from hloc.codegen.gpu.emitters.gemm.gemm import Way, problem_of, way_of
from hloc.codegen.gpu.nvptx.cubin import assemble
from hloc.driver import parse_text
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.simulated import SimulatedDevice
from tests.unit.gpu.simulate import SPILL_BYTES, check, compiled, entry

CHIPS = (
    "sm_90",
    *(pytest.param(chip, marks=pytest.mark.slow) for chip in ("sm_80", "sm_100")),
)

ORDERS = {
    "plain": ("{m},{k}", "{k},{n}", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    "right": ("{m},{k}", "{n},{k}", "lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
    "left": ("{k},{m}", "{k},{n}", "lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
    "both": ("{k},{m}", "{n},{k}", "lhs_contracting_dims={0}, rhs_contracting_dims={1}"),
}
"""Which operands are transposed."""


def dot(m: int, n: int, k: int, types: str, order: str = "plain", more: str = "") -> str:
    """Return a module; `types` are of both operands and the result: `f32 f32 f32`."""
    left, right, result = types.split()
    lhs, rhs, numbers = ORDERS[order]
    sizes = {"m": m, "n": n, "k": k}
    operands = f"{left}[{_filled(lhs, sizes)}];{right}[{_filled(rhs, sizes)}]"
    return entry(operands, f"{result}[{m},{n}] dot(p0, p1), {numbers}{more}")


def _filled(text: str, sizes: dict[str, int]) -> str:
    return text.format(**sizes)


def way(text: str) -> Way:
    return way_of(problem_of(parse_text(text).entry.root))


@pytest.fixture
def one_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans for a chip that small products fill: the largest tiles, nothing cut."""
    monkeypatch.setattr(gemm_plan, "PROCESSORS", 1)


# ---------------------------------------------------------------- tiles of any type


@pytest.mark.parametrize(
    "types",
    [
        "f32 f32 f32",
        "f64 f64 f64",
        "c64 c64 c64",
        "c128 c128 c128",
        "pred pred pred",
        "s8 s8 s8",
        "u4 u4 u4",
        "s32 s32 s32",
        "s64 s64 s64",
        "bf16 f32 f32",
        "f32 f32 bf16",
        "f8e4m3fn f8e4m3fn f8e4m3fn",
    ],
)
def test_tiles_of_any_type(types: str) -> None:
    """Edges in rows, columns and depth at once."""
    text = dot(35, 50, 21, types)
    assert way(text) is Way.TILES
    check(text)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sizes", [(40, 48, 16), (33, 47, 9)])
def test_tiles_of_any_order(order: str, sizes: tuple[int, int, int]) -> None:
    check(dot(*sizes, "f32 f32 f32", order))


@pytest.mark.parametrize(
    ("operands", "root"),
    [
        (
            "f32[3,35,4,8];f32[4,3,8,48]",
            "f32[3,35,48] dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={1}, "
            "lhs_contracting_dims={2,3}, rhs_contracting_dims={0,2}",
        ),
        (
            "f32[3,5,9,7]{0,2,1,3};f32[3,9,48]{1,0,2}",
            "f32[3,5,7,48]{1,3,2,0} dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={0}, "
            "lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        ),
        (
            "f32[40,16]{0,1};f32[16,40]",
            "f32[40,40]{0,1} dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ),
    ],
)
def test_dimension_numbers_and_layouts(operands: str, root: str) -> None:
    """Many batch, free and contracted dimensions, in any order of memory."""
    text = entry(operands, root)
    assert way(text) is Way.TILES
    check(text)


def test_long_depth_is_cut() -> None:
    """Parts of the depth go to blocks of their own; a second launch adds them in order."""
    text = dot(33, 32, 520, "f32 f32 f32")
    first, second = compiled(text).kernels[0].functions
    assert first.grid[1] > 1
    assert second.grid[1] == 1
    check(text)


@pytest.mark.usefixtures("one_processor")
def test_large_tiles_read_whole_sectors_without_bank_conflicts() -> None:
    for order in ("plain", "right"):
        device = check(dot(128, 128, 16, "f32 f32 f32", order))
        ((_, report),) = device.reports
        assert report.global_sectors * 32 == report.global_bytes
        assert report.bank_conflict_ratio == 1.0


# ---------------------------------------------------------------- tensor cores


@pytest.mark.parametrize(
    ("types", "order"),
    [
        *(("bf16 bf16 f32", order) for order in ORDERS),
        ("s8 s8 s32", "plain"),
        ("s8 s8 s32", "both"),
        *(pytest.param("s8 s8 s32", o, marks=pytest.mark.slow) for o in ("left", "right")),
        ("f16 f16 f16", "both"),
        ("u8 u8 s32", "plain"),
    ],
)
def test_tensor_cores(types: str, order: str) -> None:
    """All orders of both operands, in whole tiles of memory and with edges everywhere."""
    assert "mma.sync" in compiled(dot(32, 64, 64, types, order)).ptx
    for m, n, k in ((32, 64, 64), (50, 40, 72), (35, 33, 45)):
        check(dot(m, n, k, types, order))


@pytest.mark.parametrize("types", ["s4 s8 s32", "u4 u8 s32", "f8e4m3fn f8e5m2 f32"])
def test_narrow_factors_are_widened_on_the_way_to_tensor_cores(types: str) -> None:
    text = dot(40, 32, 80, types)
    assert "mma.sync" in compiled(text).ptx
    check(text)


def test_scales_do_not_fit_into_tensor_cores() -> None:
    """Powers of two beyond those of f16."""
    assert "mma" not in compiled(dot(32, 32, 32, "f8e8m0fnu f8e8m0fnu f32")).ptx


@pytest.mark.usefixtures("one_processor")
@pytest.mark.parametrize("order", ORDERS)
def test_large_tensor_tiles_have_no_bank_conflicts(order: str) -> None:
    """The swizzle of both layouts, and the way out; memory is touched in whole sectors."""
    text = dot(128, 128, 96, "bf16 bf16 bf16", order)
    assert compiled(text).kernels[0].functions[0].grid == (1, 1, 1)
    ((_, report),) = check(text).reports
    assert report.global_sectors * 32 == report.global_bytes
    assert report.bank_conflict_ratio == 1.0


def test_tensor_cores_by_batch_and_in_parts() -> None:
    batch = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}"
    root = f"bf16[3,40,32] dot(p0, p1), {batch}, rhs_contracting_dims={{1}}"
    check(entry("bf16[3,40,48];bf16[3,48,32]", root))
    text = dot(32, 32, 2048, "bf16 bf16 bf16")
    assert compiled(text).kernels[0].functions[0].grid[1] > 1
    check(text)


@pytest.mark.parametrize(
    ("algorithm", "bits"), [("dot_tf32_tf32_f32", 10), ("dot_bf16_bf16_f32", 7)]
)
def test_algorithms_that_allow_less(algorithm: str, bits: int) -> None:
    """Factors of f32 lose bits only where the module says that they may."""
    plain = dot(40, 32, 80, "f32 f32 f32")
    text = dot(40, 32, 80, "f32 f32 f32", more=f", algorithm={algorithm}")
    assert "mma" not in compiled(plain).ptx
    assert "mma.sync" in compiled(text).ptx
    random = np.random.default_rng(0)
    a = random.normal(size=(40, 80)).astype(np.float32)
    b = random.normal(size=(80, 32)).astype(np.float32)
    (found,) = GpuExecutable(compiled(text), SimulatedDevice())(a, b)
    # Each factor is off by a unit in its last place at most, each product by two.
    allowed = np.abs(a) @ np.abs(b) * 2.0 ** (1 - bits)
    assert np.all(np.abs(found - a @ b) <= allowed)


def test_older_chips_use_tiles() -> None:
    text = dot(64, 64, 64, "bf16 bf16 f32")
    assert "mma" not in compiled(text, cpu="sm_75").ptx


# ---------------------------------------------------------------- fusions

_AROUND = """HloModule m
fused {{
  a = {a}[70,64] parameter(0)
  b = {b}[64,48] parameter(1)
  bias = f32[48] parameter(2)
  rest = f32[70,48] parameter(3)
  x = {type}[70,64] convert(a)
  y = {type}[64,48] convert(b)
  d = f32[70,48] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  w = f32[70,48] broadcast(bias), dimensions={{1}}
  s = f32[70,48] add(d, w)
  t = f32[70,48] add(s, rest)
  q = f32[70,48] multiply(t, d)
  ROOT c = bf16[70,48] convert(q)
}}
ENTRY e {{
  a = {a}[70,64] parameter(0)
  b = {b}[64,48] parameter(1)
  bias = f32[48] parameter(2)
  rest = f32[70,48] parameter(3)
  ROOT f = bf16[70,48] fusion(a, b, bias, rest), kind=kOutput, calls=fused
}}
"""


@pytest.mark.parametrize("types", ["bf16 bf16 bf16", "s8 f32 bf16", "f16 f32 f32", "f32 f32 f32"])
def test_what_is_fused_around_a_dot(types: str) -> None:
    """Conversions before it, bias, residual and a second use of the sums behind it: one kernel."""
    a, b, factors = types.split()
    text = _AROUND.format(a=a, b=b, type=factors)
    (kernel,) = compiled(text, 1).kernels
    assert len(kernel.functions) == 1
    check(text, 1)


def test_what_is_fused_behind_parts() -> None:
    """The second launch does it, once all parts are there."""
    text = _AROUND.format(a="f32", b="f32", type="f32").replace("64", "256")
    (kernel,) = compiled(text, 1).kernels
    assert len(kernel.functions) == 2
    check(text, 1)


def test_what_follows_a_large_dot_joins_it() -> None:
    """The passes make such fusions, and the kernel takes them."""
    text = entry(
        "f32[1024,24];f32[24,1024]",
        "f32[1024,1024] negate(d)",
    ).replace(
        "  ROOT",
        "  d = f32[1024,1024] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "  ROOT",
    )
    assert len(compiled(text).kernels) == 1


def test_a_dot_under_a_transposition_is_taken_apart() -> None:
    text = _AROUND.format(a="f32", b="f32", type="f32")
    turned = "  v = f32[48,70] reshape(d)\n  e = f32[70,48] transpose(v), dimensions={1,0}\n"
    text = text.replace("add(d, w)", "add(e, w)").replace("  w = f32", turned + "  w = f32")
    assert len(compiled(text, 1).kernels) > 1
    check(text, 1)


# ---------------------------------------------------------------- few rows, and small ones


@pytest.mark.parametrize(
    ("types", "order"),
    [
        *(("bf16 bf16 bf16", order) for order in ("plain", "right")),
        # c64 and s32 below have these orders, which are not read in wide pieces.
        *(pytest.param("bf16 bf16 bf16", o, marks=pytest.mark.slow) for o in ("left", "both")),
        ("f32 f32 f32", "plain"),
        ("f32 f32 f32", "right"),
        ("c64 c64 c64", "left"),
        ("pred pred pred", "plain"),
        ("s32 s32 s32", "both"),
    ],
)
def test_few_rows(types: str, order: str) -> None:
    """Few rows or few columns; lanes along the depth or along columns; edges."""
    for m, n, k in ((1, 96, 512), (90, 3, 261)):
        text = dot(m, n, k, types, order)
        assert way(text) is Way.FEW_ROWS
        check(text)


def test_rows_of_a_batch_and_vectors() -> None:
    batch = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}"
    root = f"f32[5,2,33] dot(p0, p1), {batch}, rhs_contracting_dims={{2}}"
    check(entry("f32[5,300,2];f32[5,33,300]", root))
    numbers = "lhs_contracting_dims={0}, rhs_contracting_dims={0}"
    check(entry("f32[5000];f32[5000]", f"f32[] dot(p0, p1), {numbers}"))


@pytest.mark.parametrize("order", ORDERS)
def test_few_rows_and_few_columns(order: str) -> None:
    """A long depth is shared by lanes even where they do not read neighbours."""
    text = dot(3, 5, 700, "f32 f32 f32", order)
    assert way(text) is Way.FEW_ROWS
    check(text)


def test_few_rows_read_whole_sectors() -> None:
    """The large operand is read 16 bytes at a time, neighbours by neighbours."""
    ((_, report), *_) = check(dot(2, 64, 2048, "bf16 bf16 bf16", "right")).reports
    assert report.global_bytes / (report.global_sectors * 32) > 0.95


@pytest.mark.parametrize("sizes", [(3, 4, 5), (7, 100, 3), (2, 2, 0), (40, 50, 0)])
def test_small_and_empty_ones(sizes: tuple[int, int, int]) -> None:
    text = dot(*sizes, "f32 f32 f32")
    assert way(text) is Way.ELEMENTS
    check(text)


# ---------------------------------------------------------------- plans and registers


def test_plans() -> None:
    """Large results get large tiles; where few tiles would leave chips idle, others are taken."""

    def first(text: str, cpu: str = "") -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        function = compiled(text, cpu=cpu).kernels[0].functions[0]
        return function.grid, function.block

    assert first(dot(4096, 4096, 64, "f32 f32 f32")) == ((1024, 1, 1), (256, 1, 1))
    assert first(dot(4096, 4096, 64, "bf16 bf16 f32")) == ((1024, 1, 1), (256, 1, 1))
    assert first(dot(256, 256, 64, "f32 f32 f32"))[0] == (64, 1, 1)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("types", "order", "ceiling"),
    [
        ("bf16 bf16 bf16", "plain", 128),
        ("bf16 bf16 bf16", "both", 128),
        ("s8 s8 s32", "right", 128),
        ("f32 f32 f32", "plain", 128),
        ("f64 f64 f64", "plain", 208),
        ("c128 c128 c128", "plain", 255),
    ],
)
def test_nothing_spills(types: str, order: str, ceiling: int, chip: str) -> None:
    """The tiles are sized for the registers of a thread: two blocks of the large ones at once."""
    ptx = compiled(dot(4096, 4096, 1024, types, order), cpu=chip).ptx
    (use,) = assemble(ptx, chip).uses.values()
    assert use.spill_bytes <= SPILL_BYTES
    assert use.registers <= ceiling


def test_every_dot_has_an_emitter() -> None:
    inst = parse_text(dot(3, 4, 5, "f32 f32 f32")).entry.root
    assert gemm.EMITTER.plan(inst)
