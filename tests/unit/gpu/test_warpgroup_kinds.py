"""Products by warpgroups of f8, TF32 and bytes, whose sides may have to be transposed first."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hloc import evaluate
from hloc.codegen.gpu.emitters.gemm.gemm import problem_of
from hloc.codegen.gpu.emitters.gemm.matrix_problem import MatrixProblem
from hloc.codegen.gpu.emitters.gemm.tensor_core_kinds import kind_of
from hloc.codegen.gpu.emitters.gemm.warpgroup_gemm import kind_for, plans_for
from hloc.driver import parse_text
from hloc.dtypes import F16
from hloc.ptx import PtxFault
from hloc.runtime.gpu import simulated
from hloc.runtime.gpu.cuda import CudaDevice
from hloc.runtime.gpu.cuda_driver import CudaDriver
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.simulated import SimulatedDevice
from tests.inputs import Array, inputs_for
from tests.tolerance import assert_close, difference
from tests.unit.gpu.fake_cuda import FakeCuda
from tests.unit.gpu.simulate import compiled, entry
from tests.unit.gpu.test_warpgroup_product import dot, small
from tests.unit.gpu.warpgroups import (
    CHIP,
    check_registers,
    check_warnings,
    needs_assembler,
    needs_ptxas,
)

ORDERS = ("dd", "dl", "ld", "ll")
TF32 = ", algorithm=dot_tf32_tf32_f32"
FAST = ", algorithm=dot_any_f8_any_f8_f32_fast_accum"
KINDS = {  # types, result, attributes -> types of the instruction
    "tf32": ("f32", "f32", TF32, "f32.tf32.tf32"),
    "e4m3": ("f8e4m3fn", "bf16", "", "f32.e4m3.e4m3"),
    "e5m2": ("f8e5m2", "bf16", "", "f32.e5m2.e5m2"),
    "e4m3 e5m2": ("f8e4m3fn f8e5m2", "bf16", "", "f32.e4m3.e5m2"),
    "e5m2 e4m3": ("f8e5m2 f8e4m3fn", "bf16", FAST, "f32.e5m2.e4m3"),
    "s8": ("s8", "s32", "", "s32.s8.s8"),
    "u8": ("u8", "s32", "", "s32.u8.u8"),
}


def product(kind: str, rows: int, columns: int, depth: int, order: str = "dd") -> str:
    """Return a product of one of `KINDS`."""
    types, result, more, _ = KINDS[kind]
    return dot(rows, columns, depth, order, types, result, more)


def arrays_for(text: str, seed: int = 0) -> list[Array]:
    """Return arguments: bytes of all values, and f32 that are TF32 already."""
    random = np.random.default_rng(seed)
    found = []
    for array in inputs_for(parse_text(text), seed, special=False):
        if array.dtype in (np.int8, np.uint8):
            array = random.integers(0, 256, array.shape, np.uint8).view(array.dtype)
        elif array.dtype == np.float32:
            array = (array.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        found.append(array)
    return found


def run(text: str, seed: int = 0) -> SimulatedDevice:
    """Check a module whose product warpgroups make; returns the device."""
    module, device = compiled(text, cpu=CHIP), SimulatedDevice(metrics=True)
    assert "wgmma" in module.ptx
    arrays = arrays_for(text, seed)
    for found, wanted in zip(
        GpuExecutable(module, device)(*arrays), evaluate(text, *arrays), strict=True
    ):
        assert_close(found, wanted)
    return device


EVERY_ORDER = [(kind, order) for kind in ("tf32", "e4m3", "u8") for order in ORDERS]
SOME = [("e5m2", "dl"), ("e4m3 e5m2", "ld"), ("e5m2 e4m3", "ll"), ("s8", "ll")]


@small
@pytest.mark.parametrize(("kind", "order"), [*EVERY_ORDER, *SOME])
def test_orders_read_no_byte_in_vain_and_no_bank_twice(kind: str, order: str) -> None:
    """Every wavefront of copies, transpositions, products and writes is a full one."""
    report = run(product(kind, 128, 256, 256, order)).reports[0][1]
    assert report.bank_conflict_ratio == 1.0
    assert report.sector_efficiency == 1.0


@small
@pytest.mark.parametrize("kind", KINDS)
def test_the_instruction_has_the_types(kind: str) -> None:
    ptx = compiled(product(kind, 128, 128, 128), cpu=CHIP).ptx
    (opcode,) = {*re.findall(r"wgmma\.mma_async\.sync\.aligned\.m64n\d+k(?:\d+)\.(\S+)", ptx)}
    assert opcode == KINDS[kind][3]


@small
@pytest.mark.parametrize(
    ("kind", "sizes", "order"),
    [
        ("e4m3", (130, 200, 144), "dd"),  # the tile of 192 columns and a bit more
        ("e4m3 e5m2", (144, 272, 130), "ll"),  # beyond the last line and the depth
        ("e5m2", (131, 144, 272), "dl"),
        ("tf32", (132, 260, 36), "ll"),
        ("tf32", (140, 131, 100), "ld"),
        ("s8", (144, 150, 272), "ld"),
        ("u8", (129, 272, 160), "dl"),
    ],
)
def test_edges(kind: str, sizes: tuple[int, int, int], order: str) -> None:
    run(product(kind, *sizes, order))


@small
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_any_sizes(seed: int) -> None:
    """Sizes, kinds and orders by chance; contiguous dimensions have whole pieces of 16 bytes."""
    random = np.random.default_rng(seed)
    kind, order = str(random.choice(list(KINDS))), str(random.choice(ORDERS))
    step = 4 if kind == "tf32" else 16
    sizes = [int(random.integers(low, high)) for low, high in ((128, 300), (128, 400), (128, 400))]
    contiguous = {2 if by == "d" else side for side, by in enumerate(order)}
    rows, columns, depth = (
        -(-size // step) * step if side in contiguous else size for side, size in enumerate(sizes)
    )
    run(product(kind, rows, columns, depth, order), seed)


@small
@pytest.mark.parametrize("kind", ["tf32", "e4m3", "s8"])
def test_the_ring_of_stages_goes_round(kind: str) -> None:
    """Six stages, one side transposed; the tile of 192 columns needs both along the depth."""
    depth = 192 if kind == "tf32" else 768
    run(product(kind, 128, 128, depth, "ld"))


@small
@pytest.mark.parametrize("kind", ["tf32", "e4m3 e5m2", "u8"])
def test_a_long_depth_is_cut(kind: str) -> None:
    """Two launches: parts to scratch memory, then their sums in order."""
    depth = 512 if kind == "tf32" else 2048
    assert len(run(product(kind, 128, 128, depth, "dl")).reports) == 2


@small
def test_two_batches_and_a_transposed_side() -> None:
    dims = "lhs_batch_dims={0,2}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}"
    text = entry(
        "f8e4m3fn[2,128,2,128];f8e5m2[2,2,128,128]",
        f"bf16[2,2,128,128] dot(p0, p1), {dims}, rhs_contracting_dims={{2}}",
    )
    run(text)


@small
@pytest.mark.parametrize("kind", ["tf32", "e4m3"])
def test_any_number_of_blocks_makes_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three tiles of two steps: rings and phases go on from one tile to the next."""
    text = product(kind, 384, 128, 64 if kind == "tf32" else 256, "ll")
    arrays, module, found = arrays_for(text), compiled(text, cpu=CHIP), []
    for processors in (1, 2, 3):
        monkeypatch.setattr(simulated, "PROCESSORS", processors)
        (result,) = GpuExecutable(module, SimulatedDevice())(*arrays)
        found.append(result.tobytes())
    assert found[0] == found[1] == found[2]
    assert_close(result, evaluate(text, *arrays)[0])


QUANTISED = """HloModule m
f {
  x = s8[128,128] parameter(0)
  w = s8[128,160] parameter(1)
  scale = f32[160] parameter(2)
  bias = f32[160] parameter(3)
  product = s32[128,160] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  wide = f32[128,160] convert(product)
  scales = f32[128,160] broadcast(scale), dimensions={1}
  biases = f32[128,160] broadcast(bias), dimensions={1}
  scaled = f32[128,160] multiply(wide, scales)
  sum = f32[128,160] add(scaled, biases)
  zero = f32[] constant(0)
  zeros = f32[128,160] broadcast(zero), dimensions={}
  ROOT r = f32[128,160] maximum(sum, zeros)
}
ENTRY e {
  bias = f32[160] parameter(3)
  scale = f32[160] parameter(2)
  w = s8[128,160] parameter(1)
  x = s8[128,128] parameter(0)
  ROOT r = f32[128,160] fusion(x, w, scale, bias), kind=kOutput, calls=f
}"""
F8 = (
    QUANTISED.replace("s8[", "f8e4m3fn[")
    .replace("s32[", "f32[")
    .replace("ROOT r = f32[128,160] maximum", "m = f32[128,160] maximum")
    .replace("zeros)\n}", "zeros)\n  ROOT r = bf16[128,160] convert(m)\n}")
    .replace("ROOT r = f32", "ROOT r = bf16")
)


@small
@pytest.mark.parametrize("text", [QUANTISED, F8], ids=["s8", "f8"])
def test_scales_and_bias_join_the_product(text: str) -> None:
    assert len(run(text).reports) == 1


@small
@pytest.mark.parametrize(("kind", "order"), [("tf32", "dl"), ("e5m2", "ll"), ("e4m3", "ld")])
def test_infinities_and_nan(kind: str, order: str) -> None:
    text = product(kind, 128, 128, 128, order)
    a, b = arrays_for(text)
    a.reshape(-1)[:130:43] = [np.nan, np.inf, -np.inf, -0.0]
    (found,) = GpuExecutable(compiled(text, cpu=CHIP), SimulatedDevice())(a, b)
    (wanted,) = evaluate(text, a, b)
    assert not np.isfinite(wanted.astype(np.float32)).all()
    assert_close(found, wanted)


@small
@pytest.mark.parametrize("order", ["dd", "ll"])
def test_factors_are_rounded_to_tf32(order: str) -> None:
    """Copies round to nearest: each factor is off by half a unit, each product by a whole one."""
    text = product("tf32", 128, 128, 64, order)
    a, b = inputs_for(parse_text(text), 0, special=False)
    (found,) = GpuExecutable(compiled(text, cpu=CHIP), SimulatedDevice())(a, b)
    left, right = (a, b.T) if order == "dd" else (a.T, b)
    allowed = np.abs(left) @ np.abs(right) * 2.0**-10
    exact = left.astype(np.float64) @ right
    assert np.all(np.abs(found - exact) <= allowed)
    assert difference(found, exact.astype(np.float32))  # they are not computed in f32


# ---------------------------------------------------------------- f8: sums with more bits


@small
def test_sums_of_f8_are_added_outside_the_tensor_cores() -> None:
    """After each tile of depth; a module that allows fast sums keeps them in the tensor core."""
    careful, fast = (
        compiled(dot(4096, 3072, 2048, "dd", "f8e4m3fn", "f32", more), cpu=CHIP).ptx
        for more in ("", FAST)
    )
    assert "m64n192k32" in careful
    assert careful.count("add.f32") == 192 // 2
    assert "wait_group.sync.aligned 1" not in careful
    assert "m64n256k32" in fast
    assert "add.f32" not in fast
    assert "wait_group.sync.aligned 1" in fast


def errors(more: str) -> Array:
    """Return the relative errors of sums of 1024 positive products of f8."""
    text = dot(128, 128, 1024, "dd", "f8e4m3fn", "f32", more)
    arrays = [np.abs(array.astype(np.float32)).astype(array.dtype) for array in arrays_for(text)]
    (found,) = GpuExecutable(compiled(text, cpu=CHIP), SimulatedDevice())(*arrays)
    exact = arrays[0].astype(np.float64) @ arrays[1].astype(np.float64).T
    return np.asarray(np.abs(found - exact) / exact)


@small
def test_sums_of_f8_stay_near_those_of_f32() -> None:
    """The interpreter cuts their addends to 14 bits, as the device does."""
    careful, fast = errors(""), errors(FAST)
    assert careful.max() < 2.0**-9
    assert fast.mean() > 8 * careful.mean()


PRECISE = {
    "more precision": dot(
        256, 256, 256, "dd", "f8e4m3fn", "f32", ", operand_precision={highest,highest}"
    ),
    "an algorithm in f32": dot(
        256, 256, 256, "dd", "f8e4m3fn", "f32", ", algorithm=dot_f32_f32_f32"
    ),
    "factors that were converted": """HloModule m
f {
  x = f8e4m3fn[256,256] parameter(0)
  w = f8e4m3fn[256,256] parameter(1)
  y = f32[256,256] convert(x)
  v = f32[256,256] convert(w)
  ROOT r = f32[256,256] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
ENTRY e {
  w = f8e4m3fn[256,256] parameter(1)
  x = f8e4m3fn[256,256] parameter(0)
  ROOT r = f32[256,256] fusion(x, w), kind=kOutput, calls=f
}""",
}


def problem(text: str) -> MatrixProblem:
    return problem_of(parse_text(text).entry.root)


@pytest.mark.parametrize("name", PRECISE)
def test_sums_that_need_more_bits_are_those_of_f16(name: str) -> None:
    p = problem(PRECISE[name])
    assert kind_for(p) is None
    kind = kind_of(p)
    assert kind is not None
    assert kind.factors is F16


REFUSED = {
    "another f8": dot(256, 256, 256, "dd", "f8e4m3b11fnuz"),
    "an f8 with infinity": dot(256, 256, 256, "dd", "f8e4m3"),
    "two types": dot(256, 256, 256, "dd", "f8e4m3fn f16"),
    "bytes of both signs": dot(256, 256, 256, "dd", "s8 u8", "s32"),
    "nibbles": dot(256, 256, 256, "dd", "s4", "s32"),
    "f32 that must stay": dot(256, 256, 256, "dd", "f32"),
    "TF32 with other sums": dot(256, 256, 256, "dd", "f32", "f64", TF32),
    "lines that are no multiple of 16 bytes": product("e4m3", 256, 264, 256, "dl"),
    "a depth that is less than a tile": product("e4m3", 256, 256, 112),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_products_are_made_as_before(name: str) -> None:
    assert kind_for(problem(REFUSED[name])) is None


@pytest.mark.parametrize(
    ("kind", "size", "joint"),
    [("tf32", 512, False), ("tf32", 1024, True), ("e4m3", 512, False), ("e4m3", 1024, True)],
)
def test_the_cost_model_chooses(kind: str, size: int, joint: bool) -> None:
    assert ("wgmma" in compiled(product(kind, size, size, size), cpu=CHIP).ptx) == joint


@pytest.mark.parametrize("kind", ["tf32", "e5m2 e4m3", "s8"])
def test_transpositions_prefer_large_tiles(kind: str) -> None:
    """They move as many bytes per line, whose products are fewer in a small tile."""
    columns = []
    for order in ("dd", "ll"):
        p = problem(product(kind, 2048, 2176, 2048, order))
        joint = kind_for(p)
        assert joint is not None
        columns.append(plans_for(p, joint)[0].tile.columns)
    assert columns == [128, 256]


# ---------------------------------------------------------------- faults


WAIT = r"mbarrier\.try_wait\.parity\.shared::cta\.b64 p, \[%rd\d+\], %r\d+"
BAD = {
    "transposed before it arrives": (
        rf"{WAIT}(?=(?s:(?!try_wait).)*ldmatrix)",
        "setp.eq.b32 p, 0, 0",
        "before the wait|uninitialised",
    ),
    "multiplied before it is transposed": (
        rf"{WAIT}(?=(?s:(?!try_wait).)*mma_async)",
        "setp.eq.b32 p, 0, 0",
        "before the wait|uninitialised|race",
    ),
    "transposed where products do not see it": (
        r"fence\.proxy\.async\.shared::cta;(?!(?s:.)*fence\.proxy)",
        "",
        r"without a fence\.proxy\.async",
    ),
}


@small
@pytest.mark.parametrize("name", BAD)
def test_a_planted_bug_is_found(name: str) -> None:
    """The pipeline of 8 steps and 4 stages, with one instruction changed."""
    pattern, wrong, message = BAD[name]
    text = product("e4m3", 128, 128, 1024, "ll")
    module = compiled(text, cpu=CHIP)
    module._ptx, changes = re.subn(pattern, wrong, module.ptx, count=1)
    assert changes == 1
    with pytest.raises(PtxFault, match=message):
        GpuExecutable(module, SimulatedDevice())(*arrays_for(text))


# ---------------------------------------------------------------- the assembler, the driver

CODE = {
    "tf32": product("tf32", 4096, 3072, 2048, "ll"),
    "f8": product("e4m3", 4096, 3072, 2048),
    "f8, one side": product("e4m3 e5m2", 4096, 3072, 2048, "dl"),
    "fast f8": product("e5m2 e4m3", 4096, 3072, 2048, "ll"),
    "s8": product("s8", 4096, 3072, 2048, "ld"),
    "edges": product("tf32", 1004, 996, 1000, "dl"),
    "epilogue": QUANTISED,
    "epilogue of f8": F8,
}


@small
@needs_assembler
@pytest.mark.parametrize("name", CODE)
def test_sums_stay_in_registers(name: str) -> None:
    check_registers(compiled(CODE[name], cpu=CHIP), r"mma_async(?s:(.*?))wait_group")


@small
@needs_ptxas
@pytest.mark.parametrize("name", CODE)
def test_the_assembler_warns_of_nothing(name: str, tmp_path: Path) -> None:
    check_warnings(compiled(CODE[name], cpu=CHIP).ptx, tmp_path)


@small
@pytest.mark.parametrize(
    ("kind", "name"), [("tf32", "TFLOAT32"), ("e4m3 e5m2", "UINT8"), ("s8", "UINT8")]
)
def test_the_driver_gets_the_element_types(kind: str, name: str) -> None:
    told: list[Any] = []

    def note(call: str, arguments: tuple[Any, ...]) -> None:
        if call == "cuTensorMapEncodeTiled":
            told.append(getattr(arguments[0], "name", arguments[0]))

    text, api = product(kind, 128, 128, 128, "dl"), FakeCuda(capability=90, on_call=note)
    GpuExecutable(compiled(text, cpu=CHIP), CudaDevice(CudaDriver(api)))(*arrays_for(text))
    assert told == [f"CU_TENSOR_MAP_DATA_TYPE_{name}"] * 2
