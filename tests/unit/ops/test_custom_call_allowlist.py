"""A text runs no code but the targets that hloc knows or this process has registered."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hloc
from hloc.codegen.kernels.linalg import lapack
from hloc.codegen.kernels.linalg.lapack import lapack_call, lapack_target
from hloc.errors import HloError, UnsupportedError
from hloc.ops.custom_calls.custom_call_targets import is_target

ROOT = Path(__file__).resolve().parents[3]

MODULE = """HloModule m
ENTRY e {{
  x = f32[4,4] parameter(0)
  ROOT c = {shape} custom-call(x), custom_call_target="{target}", api_version={version}{more}
}}
"""

SYMBOLS = (
    "system", "abort", "exit", "memcpy", "malloc", "dlopen", "PyRun_SimpleString", "LLVMParseIR",
    "main", "entry", "kernel_0", "os.system", "builtins.eval", "numpy.load", "/bin/sh", "",
    "hloc_threads_run", "xla_python_cpu_callback", "xla_ffi_python_cpu_callback",
    "xla_ffi_partitioned_python_cpu_callback", "xla_python_gpu_callback", "tpu_custom_call",
    "hloc_linalg_nothing__n",
    "__cublas$gemm", "__triton$kernel", "hloc_linalg_", "hloc_linalg_lapack_",
    "hloc_linalg_lapack_ssyevd", "hloc_linalg_lapack_sgetrf_VL", "hloc_linalg_lapack_ssyevd_VL",
    "hloc_linalg_lapack_xerbla_", "hloc_linalg_lapack_csyevd_VL",
    "hloc_blas_nn_gemm", "hloc_blas_xx_gemm",
)  # fmt: skip

VERSIONS = (
    "API_VERSION_ORIGINAL", "API_VERSION_STATUS_RETURNING", "API_VERSION_STATUS_RETURNING_UNIFIED",
    "API_VERSION_TYPED_FFI",
)  # fmt: skip


def pointer() -> int:
    """Return the address of a function of this process that would leave a mark."""
    address = ctypes.cast(_called, ctypes.c_void_p).value
    assert address
    return address


_calls: list[int] = []


def _call(*arguments: int) -> int:
    _calls.append(len(arguments))
    return 0


_called = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t)(_call)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("target", SYMBOLS)
def test_a_target_names_no_function_of_the_process(target: str, version: str) -> None:
    here = pointer()
    for more in (
        "",
        f', backend_config="{here}"',
        f', backend_config="descriptor={here}"',
        f', backend_config="{{callback = {here} : ui64, index = 0 : ui64}}"',
        f", backend_config={{callback = {here} : ui64}}",
        f', backend_config="{(0).to_bytes(0, "little").hex()}{here:x}"',
    ):
        for shape in ("f32[4,4]", "(f32[4,4], s32[])"):
            text = MODULE.format(shape=shape, target=target, version=version, more=more)
            with pytest.raises(HloError):
                hloc.compile(text)(np.ones((4, 4), np.float32))
            with pytest.raises(HloError):
                hloc.evaluate(hloc.parse(text), np.ones((4, 4), np.float32))
    assert not _calls


def test_a_target_with_the_spelling_of_an_address_is_none() -> None:
    for target in (str(pointer()), hex(pointer()), f"0x{pointer():016x}"):
        text = MODULE.format(shape="f32[4,4]", target=target, version=VERSIONS[0], more="")
        with pytest.raises(UnsupportedError, match="is not known"):
            hloc.compile(text)
        assert not is_target(target)


def test_the_test_can_fail() -> None:
    name = "test_allowlist_registered"
    text = MODULE.format(shape="f32[4,4]", target=name, version=VERSIONS[0], more="")
    with pytest.raises(HloError):
        hloc.compile(text)
    hloc.register_custom_call(name, lambda x: x + 1)
    assert hloc.compile(text)(np.ones((4, 4), np.float32))[0][0, 0] == 2


RESULTS = (
    ("ssyevd", "VL", "(f32[6,6]{0,1}, f32[6], s32[])"),
    ("sgesdd", "A", "(f32[6,6]{0,1}, f32[6], f32[6,6]{0,1}, f32[6,6]{0,1}, s32[])"),
    ("sgesvd", "A", "(f32[6,6]{0,1}, f32[6], f32[6,6]{0,1}, f32[6,6]{0,1}, s32[])"),
    ("sgeev", "VN", "(f32[6], f32[6], c64[6,6]{0,1}, c64[6,6]{0,1}, s32[])"),
    ("sgees", "VN", "(f32[6,6]{0,1}, f32[6,6]{0,1}, f32[6], f32[6], s32[], s32[])"),
    ("sgehrd", "1_6", "(f32[6,6]{0,1}, f32[5], s32[])"),
    ("ssytrd", "U", "(f32[6,6]{0,1}, f32[6], f32[5], f32[5], s32[])"),
)


@pytest.mark.parametrize(("routine", "letters", "shape"), RESULTS)
def test_lapack_is_called_with_the_arrays_that_it_writes(
    monkeypatch: pytest.MonkeyPatch, routine: str, letters: str, shape: str
) -> None:
    """The routine believes the numbers that it is given, so each array has to fit them."""
    target = f"hloc_linalg_lapack_{routine}_{letters}"
    monkeypatch.setattr(lapack, "_arguments", lambda *_: ())  # which SciPy would be asked for

    def is_called(target: str, shape: str, operand: str = "f32[6,6]") -> bool:
        text = MODULE.format(shape=shape, target=target, version=VERSIONS[0], more="")
        module = hloc.parse(text.replace("f32[4,4] parameter", f"{operand} parameter"))
        return lapack_call(module.entry.root) is not None

    assert is_called(target, shape)
    for wrong in (
        shape.replace("6,6", "2,2"),
        shape.replace("f32[6,6]{0,1}", "f32[2,2]{0,1}", 1),
        shape.replace("f32[6]", "f32[2]"),
        shape.replace("f32[6]", "f16[6]"),
        shape.replace("s32[]", "s8[]"),
        shape.replace("s32[]", "pred[]"),
        shape.replace("{0,1}", ""),
        shape.replace("(", "((f32[1]), "),
        shape.replace(")", ", s32[])"),
        shape.replace("f32[6,6]{0,1}", "f32[6,2]{0,1}").replace("f32[6,2]", "f32[6,6]", 1),
    ):
        if wrong != shape:
            assert not is_called(target, wrong), wrong
    for wrong in (
        f"{target}L", f"{target}_L", target[:-1], target.replace(routine, "sgetrf"),
        target.replace(f"_{routine}", f"_d{routine[1:]}"), target.replace(routine, routine[1:]),
        f"{target[: -len(letters)]}{'O' * len(letters)}",
    ):  # fmt: skip
        assert not is_called(wrong, shape), wrong
    assert not is_called(target, shape, "f32[7,7]")
    assert not is_called(target, shape, "f32[3,6,6]")
    assert not is_called(target, shape, "f64[6,6]")


def test_singular_vectors_fit_the_job() -> None:
    """With `A` LAPACK writes all columns, though the result has room for the first two."""
    text = MODULE.format(
        shape="(f32[6,2]{0,1}, f32[2], f32[6,2]{0,1}, f32[2,2]{0,1}, s32[])",
        target="lapack_sgesdd_ffi", version=VERSIONS[3], more="",
    ).replace("f32[4,4]", "f32[6,2]")  # fmt: skip
    inst = hloc.parse(text).entry.root
    assert lapack_target(inst, "gesdd", "S")
    assert lapack_target(inst, "gesdd", "N")
    assert not lapack_target(inst, "gesdd", "A")
    assert not lapack_target(inst, "gesdd", "O")


@pytest.mark.parametrize("index", ["0", "1", "-1", "99999999999999999999", "9" * 5000, "0x10"])
def test_callbacks_of_jax_are_those_that_came_with_the_run(index: str) -> None:
    """The text gives a number in the list of functions of the run, never an address."""
    from hloc.pjrt.callbacks import function_of

    name = "xla_ffi_partitioned_python_cpu_callback"
    more = f', backend_config="{{index = {index} : ui64}}"'
    text = MODULE.format(shape="f32[4,4]", target=name, version=VERSIONS[3], more=more)
    with pytest.raises(HloError, match="known to JAX only"):
        function_of(hloc.parse(text).entry.root)


def test_a_text_that_would_overwrite_memory_is_refused(tmp_path: Path) -> None:
    """It ended the process by `corrupted double-linked list` where SciPy is installed."""
    path = tmp_path / "m.hlo"
    target = "hloc_linalg_lapack_ssyevd_VL"
    shape = "(f32[2,2], f32[2], s32[])"
    text = MODULE.format(shape=shape, target=target, version=VERSIONS[0], more="")
    path.write_text(text.replace("f32[4,4]", "f32[64,64]"))
    done = subprocess.run(
        [sys.executable, "-m", "hloc", "run", str(path), "-O0"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
