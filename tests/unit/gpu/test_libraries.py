"""Calls of libraries take the place of kernels and give the same results.

Stand-ins do what the libraries' documents say, on the fake driver's memory and as late as it lets
them; where the real packages are installed, the arguments are shown to them, too.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from hloc import evaluate
from hloc.codegen.gpu.library.table import NAMES
from hloc.codegen.gpu.library_call import CholeskyCall, ConvolutionCall, FourierCall, MatmulCall
from hloc.codegen.gpu.nvptx.backend import NvptxBackend, NvptxModule
from hloc.driver import compile_module, optimise, parse_text
from hloc.errors import HloError, UnsupportedError
from hloc.options import CompileOptions
from hloc.runtime.gpu.cuda_driver import CudaError
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.library import libraries
from hloc.runtime.gpu.library.packages import library_module
from hloc.runtime.gpu.profile import profile
from hloc.runtime.gpu.simulated import SimulatedDevice
from tests.inputs import inputs_for
from tests.tolerance import assert_close
from tests.unit.gpu.fake_cuda import FakeCuda
from tests.unit.gpu.fake_libraries import fake_libraries
from tests.unit.gpu.simulate import entry
from tests.unit.gpu.test_cuda import device_of


def compiled(text: str, names: tuple[str, ...] = NAMES, opt_level: int = 2) -> NvptxModule:
    options = CompileOptions(opt_level=opt_level, target="nvptx64", use_library=names)
    module = parse_text(text)
    optimise(module, options)
    return NvptxBackend().compile(module, options)


def check(
    text: str, monkeypatch: pytest.MonkeyPatch, *arrays: Any, api: FakeCuda | None = None
) -> NvptxModule:
    """Run a module three times, at last from a recording, and compare with the evaluator."""
    cuda = api or FakeCuda(seed=5)
    monkeypatch.setattr(libraries, "library_module", fake_libraries(cuda).__getitem__)
    module = compiled(text)
    executable = GpuExecutable(module, device_of(cuda))
    for seed in range(3):
        given = arrays or inputs_for(parse_text(text), seed, special=False)
        for a, b in zip(executable(*given), evaluate(text, *given), strict=True):
            assert_close(a, b)
    return module


def calls_of(module: NvptxModule) -> list[Any]:
    return [kernel.library for kernel in module.kernels if kernel.library is not None]


def dot(left: str, right: str, result: str, contract: tuple[int, int], batch: str = "") -> str:
    numbers = f"lhs_contracting_dims={{{contract[0]}}}, rhs_contracting_dims={{{contract[1]}}}"
    if batch:
        numbers += f", lhs_batch_dims={{{batch}}}, rhs_batch_dims={{{batch}}}"
    return entry(f"{left};{right}", f"{result} dot(p0, p1), {numbers}")


@pytest.mark.parametrize(
    "text",
    [
        dot("f32[96,64]", "f32[64,80]", "f32[96,80]", (1, 0)),
        dot("f32[64,96]", "f32[64,80]", "f32[96,80]", (0, 0)),
        dot("f32[96,64]", "f32[80,64]", "f32[96,80]", (1, 1)),
        dot("f32[64,96]", "f32[80,64]", "f32[96,80]", (0, 1)),
        dot("f32[96,64]", "f32[64,80]{0,1}", "f32[96,80]{0,1}", (1, 0)),
        dot("f32[3,40,64]", "f32[3,64,48]", "f32[3,40,48]", (2, 1), "0"),
        dot("f32[1,512]", "f32[512,256]", "f32[1,256]", (1, 0)),
        dot("f64[96,64]", "f64[64,80]", "f64[96,80]", (1, 0)),
        dot("c64[48,64]", "c64[64,80]", "c64[48,80]", (1, 0)),
        dot("c128[48,64]", "c128[64,80]", "c128[48,80]", (1, 0)),
        dot("f16[96,64]", "f16[64,80]", "f16[96,80]", (1, 0)),
        dot("bf16[96,64]", "bf16[64,80]", "f32[96,80]", (1, 0)),
        dot("s8[96,64]", "s8[80,64]", "s32[96,80]", (1, 1)),
    ],
)  # fmt: skip
def test_products(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = check(text, monkeypatch)
    (call,) = calls_of(module)
    assert isinstance(call, MatmulCall)
    assert not any(kernel.functions for kernel in module.kernels)


def test_bias_and_relu_are_part_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    fused = """HloModule m
body {
  x = f32[96,64] parameter(0)
  w = f32[64,80] parameter(1)
  b = f32[80] parameter(2)
  d = f32[96,80] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bb = f32[96,80] broadcast(b), dimensions={1}
  s = f32[96,80] add(d, bb)
  z = f32[] constant(0)
  zz = f32[96,80] broadcast(z), dimensions={}
  ROOT r = f32[96,80] maximum(s, zz)
}
ENTRY e {
  x = f32[96,64] parameter(0)
  w = f32[64,80] parameter(1)
  b = f32[80] parameter(2)
  ROOT r = f32[96,80] fusion(x, w, b), kind=kOutput, calls=body
}
"""
    (call,) = calls_of(check(fused, monkeypatch))
    assert (call.bias, call.relu) == (2, True)


@pytest.mark.parametrize(
    "text",
    [
        dot("f32[8,8]", "f32[8,8]", "f32[8,8]", (1, 0)),  # small
        dot("s8[96,63]", "s8[80,63]", "s32[96,80]", (1, 1)),  # odd depth
        dot("s8[96,64]", "s8[64,80]", "s32[96,80]", (1, 0)),  # the depth is not contiguous
        dot("s32[96,64]", "s32[64,80]", "s32[96,80]", (1, 0)),
        entry(
            "f32[96,64];f32[64,80]",
            "f32[96,80] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
            "algorithm=dot_bf16_bf16_f32_x6",
        ),
    ],
)  # fmt: skip
def test_products_that_stay_with_hloc(text: str) -> None:
    assert not calls_of(compiled(text))


@pytest.mark.parametrize(
    "text",
    [
        entry("c64[6,30]", "c64[6,30] fft(p0), fft_type=FFT, fft_length={30}"),
        entry("c64[5,6,10]", "c64[5,6,10] fft(p0), fft_type=IFFT, fft_length={6,10}"),
        entry("f32[6,30]", "f32[6,30] negate(p0)").replace(
            "f32[6,30] negate(p0)", "c64[6,16] fft(p0), fft_type=RFFT, fft_length={30}"
        ),
        entry("c64[6,16]", "f32[6,30] fft(p0), fft_type=IRFFT, fft_length={30}"),
        entry("f64[2,6,8]", "c128[2,6,5] fft(p0), fft_type=RFFT, fft_length={6,8}"),
        entry("c128[12]", "c128[12] fft(p0), fft_type=IFFT, fft_length={12}"),
    ],
)
def test_transforms(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (call,) = calls_of(check(text, monkeypatch))
    assert isinstance(call, FourierCall)


def positive(dims: tuple[int, ...], dtype: Any) -> Any:
    rng = np.random.default_rng(0)
    half = rng.standard_normal(dims)
    if np.issubdtype(dtype, np.complexfloating):
        half = half + 1j * rng.standard_normal(dims)
    return (half @ half.conj().swapaxes(-1, -2) + 64 * np.eye(dims[-1])).astype(dtype)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize(("name", "dtype"), [("f32", np.float32), ("c128", np.complex128)])
def test_factors(name: str, dtype: Any, lower: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second matrix has no factor."""
    text = entry(f"{name}[3,64,64]", f"{name}[3,64,64] cholesky(p0), lower={str(lower).lower()}")
    matrices = positive((3, 64, 64), dtype)
    matrices[1, 7, 7] = -1
    (call,) = calls_of(check(text, monkeypatch, matrices))
    assert isinstance(call, CholeskyCall)


@pytest.mark.parametrize(
    "text",
    [
        entry(
            "f32[2,9,8,4];f32[3,3,4,6]",
            "f32[2,9,8,6] convolution(p0, p1), window={size=3x3 pad=1_1x1_1}, "
            "dim_labels=b01f_01io->b01f",
        ),
        entry(
            "bf16[2,4,9,8];bf16[6,2,3,2]",
            "bf16[2,6,4,5] convolution(p0, p1), window={size=3x2 stride=2x2 pad=0_0x1_2 "
            "rhs_dilate=1x2}, dim_labels=bf01_oi01->bf01, feature_group_count=2",
        ),
    ],
)
def test_convolutions(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (call,) = calls_of(check(text, monkeypatch))
    assert isinstance(call, ConvolutionCall)


def test_a_convolution_takes_bias_and_relu(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """HloModule m
body {
  x = f32[2,9,8,4] parameter(0)
  w = f32[3,3,4,6] parameter(1)
  b = f32[6] parameter(2)
  c = f32[2,7,6,6] convolution(x, w), window={size=3x3}, dim_labels=b01f_01io->b01f
  bb = f32[2,7,6,6] broadcast(b), dimensions={3}
  s = f32[2,7,6,6] add(bb, c)
  z = f32[] constant(0)
  zz = f32[2,7,6,6] broadcast(z), dimensions={}
  ROOT r = f32[2,7,6,6] maximum(zz, s)
}
ENTRY e {
  x = f32[2,9,8,4] parameter(0)
  w = f32[3,3,4,6] parameter(1)
  b = f32[6] parameter(2)
  ROOT r = f32[2,7,6,6] fusion(x, w, b), kind=kOutput, calls=body
}
"""
    (call,) = calls_of(check(text, monkeypatch))
    assert (call.bias, call.relu) == (2, True)


def test_gradients_of_convolutions_stay_with_hloc() -> None:
    text = entry(
        "f32[2,4,4,6];f32[3,3,4,6]",
        "f32[2,8,8,4] convolution(p0, p1), window={size=3x3 pad=1_2x1_2 lhs_dilate=2x2 "
        "rhs_reversal=1x1}, dim_labels=b01f_01oi->b01f",
    )
    assert not calls_of(compiled(text))


TWO = """HloModule two
ENTRY e {
  x = f32[64,64] parameter(0)
  y = f32[64,64] parameter(1)
  a = f32[64,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[64,64] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[64,64], f32[64,64]) tuple(a, b)
}
"""


@pytest.mark.parametrize("seed", range(4))
def test_equal_calls_beside_one_another_have_room_of_their_own(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both dots are one kernel; in a recorded run they go to two streams."""
    cuda = FakeCuda(seed=seed)
    module = check(TWO, monkeypatch, api=cuda)
    assert len(calls_of(module)) == 1
    assert "cuGraphLaunch" in cuda.calls


def test_without_the_option_there_are_no_calls() -> None:
    assert not calls_of(compiled(TWO, ()))
    assert not calls_of(compiled(TWO, ("cufft",)))


def test_the_interpreter_has_no_libraries() -> None:
    with pytest.raises(UnsupportedError, match="cublaslt cannot run on the simulated GPU"):
        GpuExecutable(compiled(TWO), SimulatedDevice())


def test_a_missing_package_is_named() -> None:
    library_module.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "nvmath.bindings.cufft", None)
        with pytest.raises(UnsupportedError, match=r"needs the module nvmath\.bindings\.cufft"):
            library_module("cufft")
    library_module.cache_clear()


def test_faults_of_a_library_name_the_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("CUBLAS_STATUS_INTERNAL_ERROR")

    cuda = FakeCuda()
    stand_ins = fake_libraries(cuda)
    monkeypatch.setattr(type(stand_ins["cublaslt"]), "_matmul", fail)
    monkeypatch.setattr(libraries, "library_module", stand_ins.__getitem__)
    executable = GpuExecutable(compiled(TWO), device_of(cuda))
    with pytest.raises(CudaError, match="a: cublaslt: CUBLAS_STATUS_INTERNAL_ERROR"):
        executable(*inputs_for(parse_text(TWO), 0, special=False))


@pytest.mark.parametrize(
    "refused",
    [
        "_matmul_desc_set_attribute",
        "_matrix_layout_set_attribute",
        "_matmul_preference_set_attribute",
        "_matmul_algo_get_heuristic",
    ],
)
def test_a_refused_product_leaves_nothing_behind(
    refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = dot("f32[3,64,40]", "f32[3,64,48]", "f32[3,40,48]", (1, 1), "0")

    def fail(*_: Any) -> None:
        raise ValueError("CUBLAS_STATUS_NOT_SUPPORTED")

    cuda = FakeCuda()
    stand_ins = fake_libraries(cuda)
    library = stand_ins["cublaslt"]
    monkeypatch.setattr(type(library), refused, fail)
    monkeypatch.setattr(libraries, "library_module", stand_ins.__getitem__)
    executable = GpuExecutable(compiled(text), device_of(cuda))
    with pytest.raises(CudaError, match="NOT_SUPPORTED"):
        executable(*inputs_for(parse_text(text), 0, special=False))
    assert set(library.things.values()) == {"handle"}


def test_calls_are_timed_like_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda()
    monkeypatch.setattr(libraries, "library_module", fake_libraries(cuda).__getitem__)
    executable = GpuExecutable(compiled(TWO), device_of(cuda))
    found = profile(executable, inputs_for(parse_text(TWO), 0, special=False))
    assert [(kernel.opcode, kernel.runs) for kernel in found.kernels] == [("dot", 2)]


def test_an_unknown_library_is_refused() -> None:
    options = CompileOptions(target="nvptx64", use_library=("blas",))
    with pytest.raises(HloError, match="it calls cublaslt, cufft, cusolver, cudnn"):
        compile_module(parse_text(TWO), options)


def test_nvmath_takes_the_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a driver, a call with right arguments fails for that reason alone."""
    modules = {
        name: pytest.importorskip(f"nvmath.bindings.{module}", exc_type=ImportError)
        for name, module in (
            ("cublaslt", "cublasLt"), ("cufft", "cufft"), ("cusolver", "cusolverDn")
        )
    }  # fmt: skip
    if libraries_found(modules["cublaslt"]):
        pytest.skip("there is a driver, which these calls would reach")
    seen = set()

    def mirror(library: str, name: str, arguments: tuple[Any, ...]) -> None:
        if library == "cudnn" or name == "MatmulHeuristicResult":
            return
        seen.add(name)
        with pytest.raises(RuntimeError, match="not found"):
            getattr(modules[library], name)(*arguments)

    cuda = FakeCuda()
    stand_ins = fake_libraries(cuda, mirror)
    monkeypatch.setattr(libraries, "library_module", stand_ins.__getitem__)
    for text in (TWO, entry("c64[6,8]", "c64[6,8] fft(p0), fft_type=FFT, fft_length={8}"),
                 entry("f32[6,8]", "c64[6,5] fft(p0), fft_type=RFFT, fft_length={8}"),
                 entry("f32[64,64]", "f32[64,64] cholesky(p0), lower=true")):  # fmt: skip
        executable = GpuExecutable(compiled(text), device_of(cuda))
        executable(*inputs_for(parse_text(text), 0, special=False))
        del executable
        gc.collect()
    assert {"matmul", "make_plan_many64", "exec_c2c", "exec_r2c", "spotrf", "destroy"} <= seen


def libraries_found(module: Any) -> bool:
    try:
        module.get_version()
    except RuntimeError:
        return False
    return True
