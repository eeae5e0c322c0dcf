"""Products by warpgroups: the kernel in the interpreter, where copies come as late as they may."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hloc import evaluate
from hloc.codegen.gpu.nvptx.backend import NvptxBackend
from hloc.driver import parse_text
from hloc.options import CompileOptions
from hloc.ptx import PtxFault
from hloc.runtime.gpu import simulated
from hloc.runtime.gpu.cuda import CudaDevice
from hloc.runtime.gpu.cuda_driver import CudaDriver
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.simulated import SimulatedDevice
from tests.inputs import inputs_for
from tests.tolerance import assert_close
from tests.unit.gpu.fake_cuda import FakeCuda
from tests.unit.gpu.simulate import check, compiled, entry
from tests.unit.gpu.warpgroups import (
    CHIP,
    changed,
    check_registers,
    check_warnings,
    needs_assembler,
    needs_ptxas,
)


def dot(
    rows: int,
    columns: int,
    depth: int,
    order: str = "dd",
    kinds: str = "bf16",
    result: str = "f32",
    more: str = "",
) -> str:
    """Return a product; `dl`: the left side lies along its depth, the right one along its lines.

    `kinds` are the types of both sides, or the one that they share.
    """
    left, right = (
        (f"{lines},{depth}", 1) if by == "d" else (f"{depth},{lines}", 0)
        for lines, by in ((rows, order[0]), (columns, order[1]))
    )
    contracted = f"lhs_contracting_dims={{{left[1]}}}, rhs_contracting_dims={{{right[1]}}}{more}"
    first, second = (kinds.split() * 2)[:2]
    return entry(
        f"{first}[{left[0]}];{second}[{right[0]}]",
        f"{result}[{rows},{columns}] dot(p0, p1), {contracted}",
    )


small = pytest.mark.usefixtures("small_ones_too")


def run(text: str) -> SimulatedDevice:
    """Check a module on the chip; its product is made by warpgroups."""
    assert "wgmma" in compiled(text, cpu=CHIP).ptx
    return check(text, cpu=CHIP)


@small
@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_both_types(kind: str) -> None:
    run(dot(128, 128, 64, kinds=kind))


@small
@pytest.mark.parametrize(
    ("rows", "columns", "depth"),
    [
        (128, 256, 64),
        # more than a tile each way, and a piece of 16 bytes more
        pytest.param(136, 264, 72, marks=pytest.mark.slow),
        (130, 131, 72),  # lines that no copy or write can take by 16 bytes
        (128, 128, 640),  # the ring of stages goes round
    ],
)
def test_edges(rows: int, columns: int, depth: int) -> None:
    run(dot(rows, columns, depth))


@small
def test_edges_where_lines_are_contiguous() -> None:
    """Copies go beyond the last line by a part of a row, and beyond the depth."""
    run(dot(136, 200, 70, "ll"))


@small
def test_narrow_results() -> None:
    run(dot(128, 136, 64, result="bf16"))


@small
def test_a_batch_between_rows_and_depth() -> None:
    """Strides of the batch are smaller than those of rows; results are transposed."""
    dims = "lhs_batch_dims={1}, rhs_batch_dims={1}, lhs_contracting_dims={2}"
    text = entry(
        "bf16[128,3,64];bf16[144,3,64]",
        f"f32[3,128,144] dot(p0, p1), {dims}, rhs_contracting_dims={{2}}",
    )
    run(text)


@small
def test_two_batches_that_do_not_merge() -> None:
    dims = "lhs_batch_dims={0,2}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}"
    text = entry(
        "f16[2,128,2,64];f16[2,2,128,64]",
        f"f32[2,2,128,128] dot(p0, p1), {dims}, rhs_contracting_dims={{3}}",
    )
    run(text)


@small
def test_any_number_of_blocks_makes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six tiles of two steps: rings and phases go on from one tile to the next."""
    text = dot(384, 512, 128)
    arrays = inputs_for(parse_text(text), 0, special=False)
    module, found = compiled(text, cpu=CHIP), []
    for processors in (1, 4, 6):
        monkeypatch.setattr(simulated, "PROCESSORS", processors)
        (result,) = GpuExecutable(module, SimulatedDevice())(*arrays)
        found.append(result.tobytes())
    assert found[0] == found[1] == found[2]
    assert_close(result, evaluate(text, *arrays)[0])


EPILOGUE = """HloModule m
f {
  x = bf16[128,128] parameter(0)
  w = bf16[128,160] parameter(1)
  bias = f32[160] parameter(2)
  residual = bf16[128,160] parameter(3)
  product = f32[128,160] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  biases = f32[128,160] broadcast(bias), dimensions={1}
  sum = f32[128,160] add(product, biases)
  zero = f32[] constant(0)
  zeros = f32[128,160] broadcast(zero), dimensions={}
  active = f32[128,160] maximum(sum, zeros)
  narrow = bf16[128,160] convert(active)
  ROOT r = bf16[128,160] add(narrow, residual)
}
ENTRY e {
  residual = bf16[128,160] parameter(3)
  bias = f32[160] parameter(2)
  w = bf16[128,160] parameter(1)
  x = bf16[128,128] parameter(0)
  ROOT r = bf16[128,160] fusion(x, w, bias, residual), kind=kOutput, calls=f
}"""


@small
def test_an_epilogue_runs_on_the_sums() -> None:
    device = run(EPILOGUE)
    assert len(device.reports) == 1


@small
def test_a_long_depth_is_cut() -> None:
    """Two launches: parts to scratch memory, then their sums in order."""
    device = run(dot(128, 128, 1088))
    assert len(device.reports) == 2


LONG = dot(128, 128, 640)
WAIT = r"mbarrier\.try_wait\.parity\.shared::cta\.b64 p, \[%rd\d+\], %r\d+"
BAD = {
    "no wait for copies": ("inc", WAIT, "setp.eq.b32 p, 0, 0", "before the wait|uninitialised"),
    "no wait for readers": ("dec", WAIT, "setp.eq.b32 p, 0, 0", "more arrivals|under way|race"),
    "stages are given back too soon": (
        "inc",
        r"wait_group\.sync\.aligned 1",
        "wait_group.sync.aligned 2",
        "before the wait|race",
    ),
    "sums are read too soon": (
        "inc",
        r"wgmma\.wait_group\.sync\.aligned 0;",
        "",
        "accessed before the wait for its product",
    ),
    "fewer bytes than arrive": ("dec", r"\b32768;", "32752;", "mbarrier that never ends"),
    "tiles overlap": ("dec", r"(tile\S* \[)(%rd\d+)\]", r"\1\2+16384]", "under way"),
    "stages are never given back": ("", r"(mov\.b32 \t%r\d+), 8;", r"\1, 9;", "never ends"),
}


@small
@pytest.mark.parametrize("name", BAD)
def test_a_planted_bug_is_found(name: str) -> None:
    """The pipeline of 10 steps and 4 stages, with one instruction changed.

    `inc` and `dec` say which warpgroups do it: those that take registers, or give them away. What
    is before is done by all.
    """
    side, pattern, wrong, message = BAD[name]
    module = compiled(LONG, cpu=CHIP)
    module._ptx = changed(module.ptx, side, pattern, wrong)
    arrays = inputs_for(parse_text(LONG), 0, special=False)
    with pytest.raises(PtxFault, match=message):
        GpuExecutable(module, SimulatedDevice())(*arrays)


def on_cuda(text: str, api: FakeCuda, calls: int) -> GpuExecutable:
    """Run a module on a CUDA device some times and compare with the evaluator."""
    device = CudaDevice(CudaDriver(api))
    executable = GpuExecutable(compiled(text, cpu=CHIP), device)
    for seed in range(calls):
        arrays = inputs_for(parse_text(text), seed, special=False)
        for found, wanted in zip(executable(*arrays), evaluate(text, *arrays), strict=True):
            assert_close(found, wanted)
    return executable


@small
def test_a_device_gets_tensor_maps_of_both_sides() -> None:
    """The driver makes tensor maps once per address; a launch takes them behind its pointers."""
    api = FakeCuda(capability=90)
    on_cuda(dot(128, 128, 64, "ld"), api, calls=3)
    assert api.calls.count("cuTensorMapEncodeTiled") == 2
    assert api.calls.count("cuKernelSetAttribute") == 1  # more than 48 KiB of shared memory


@small
def test_recorded_launches_keep_their_tensor_maps() -> None:
    text = """HloModule m
    ENTRY e {
      x = bf16[128,128] parameter(0)
      first = bf16[128,128] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT second = bf16[128,128] dot(first, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }"""
    api = FakeCuda(capability=90)
    on_cuda(text, api, calls=4)
    assert api.calls.count("cuGraphLaunch") == 3
    assert api.calls.count("cuLaunchKernel") == 4


@small
def test_the_package_takes_what_the_driver_is_called_with() -> None:
    real = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")

    def mirror(name: str, arguments: tuple[Any, ...]) -> None:
        if name in ("cuTensorMapEncodeTiled", "cuLaunchKernel"):
            with pytest.raises(RuntimeError, match="library"):
                getattr(real, name)(*arguments)

    on_cuda(dot(128, 128, 64), FakeCuda(real, capability=90, on_call=mirror), calls=1)


@small
@pytest.mark.parametrize("order", ["dd", "dl", "ld", "ll"])
def test_orders_read_no_byte_in_vain_and_no_bank_twice(order: str) -> None:
    """Every wavefront of a product, of the writes and of the reads behind it is a full one."""
    report = run(dot(128, 256, 128, order)).reports[0][1]
    assert report.bank_conflict_ratio == 1.0
    assert report.sector_efficiency == 1.0


CODE = {
    "plain": dot(2048, 2048, 2048),
    "turned": dot(2048, 2048, 2048, "ll", "f16", "f16"),
    "narrow": dot(512, 1024, 512, "dl"),
    "edges": dot(1001, 999, 1000),
    "epilogue": EPILOGUE,
}


@small
@needs_assembler
@pytest.mark.parametrize("name", CODE)
def test_sums_stay_in_registers(name: str) -> None:
    """Nothing but the products touches them, or the assembler would wait after each product."""
    check_registers(compiled(CODE[name], cpu=CHIP), r"mma_async.*(?s:(.*))wait_group\S* 1;")


@small
@needs_ptxas
@pytest.mark.parametrize("name", CODE)
def test_the_assembler_warns_of_nothing(name: str, tmp_path: Path) -> None:
    """It says so where it has to make products one after another."""
    check_warnings(compiled(CODE[name], cpu=CHIP).ptx, tmp_path)


@pytest.mark.parametrize("chip", ["sm_90a", "sm_90", "sm_100a", "sm_80"])
def test_only_one_chip_has_warpgroups(chip: str) -> None:
    assert ("wgmma" in compiled(CODE["plain"], cpu=chip).ptx) == (chip == CHIP)


REFUSED = {
    "small": dot(256, 256, 256),
    "few rows": dot(64, 2048, 2048),
    "strides that are no multiple of 16 bytes": dot(2048, 2048, 2044),
    "lines that are no multiple of 16 bytes": dot(2044, 2044, 2048, "ll"),
    "another type": dot(2048, 2048, 2048, kinds="f32"),
    "two types": dot(2048, 2048, 2048).replace("p1 = bf16", "p1 = f16"),
    "a fused producer": EPILOGUE.replace("128", "2048")
    .replace("160", "2048")
    .replace("dot(x, w)", "dot(y, w)")
    .replace("  w =", "  y = bf16[2048,2048] negate(x)\n  w =", 1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_products_are_made_as_before(name: str) -> None:
    assert "wgmma" not in compiled(REFUSED[name], cpu=CHIP).ptx


def test_code_of_this_machine_has_no_warpgroups() -> None:
    """The host build of sm_90a takes the kernels of sm_90."""
    options = CompileOptions(target="nvptx64", cpu=CHIP, simulate="host")
    compiled_text = NvptxBackend().compile(parse_text(CODE["narrow"]), options)
    assert not any(f.tiled for kernel in compiled_text.kernels for f in kernel.functions)
