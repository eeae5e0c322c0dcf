"""Kernels on an NVIDIA GPU: hloc beside XLA:GPU and PyTorch where they are installed, in one run.

    python benchmarks/gpu.py [NAME...]

Every figure is the wall time of one call with its arguments on the device, until its results are
complete; the programs are called in turn. `kernels` is the time on the device alone, of hloc. The
goals are those of docs/gpu.md, as shares of the bandwidth of a copy or of the speed of XLA.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import hloc
from benchmarks import xla
from benchmarks.harness import measure
from hloc.driver import parse_text
from hloc.dtypes import dtype_named, dtype_of_numpy
from hloc.errors import HloError
from hloc.runtime.gpu.cuda_devices import first_device, native_chip
from hloc.runtime.gpu.profile import profile
from hloc.shapes import ArrayShape

COPY, XLA = "copy", "XLA"
_MEBI = 1 << 20
_ELEMENTS = 64 * _MEBI  # 256 MiB of f32: no cache holds it
_SIDE = 8192

_ADD = """add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = f32[] add(x, y)
}
"""
_MAX = _ADD.replace("add", "max").replace("max(x, y)", "maximum(x, y)")


@dataclass(frozen=True)
class Case:
    """One module.

    Attributes:
        size_bytes, flops: what it has to move and to do.
        goal: share of the speed of `beside` that hloc is to reach.
        torch: the same in PyTorch, from its module and the arguments.
    """

    name: str
    text: str
    size_bytes: int
    flops: int
    goal: float
    beside: str
    torch: Callable[..., Any] | None = None


def _module(parameters: Sequence[str], body: str, functions: str = "") -> str:
    lines = [f"  p{i} = {shape} parameter({i})" for i, shape in enumerate(parameters)]
    return "\n".join(["HloModule m", functions, "ENTRY e {", *lines, body, "}\n"])


def _rows(name: str, body: str, functions: str, torch: Callable[..., Any]) -> Case:
    text = _module([f"f32[{_SIDE},{_SIDE}]"], body.replace("N", str(_SIDE)), functions)
    return Case(name, text, 2 * 4 * _SIDE * _SIDE, 0, 0.85, COPY, torch)


_PRODUCTS: dict[str, tuple[str, str, str, Callable[..., Any] | None]] = {
    "f32": ("f32", "f32", "", lambda t, x, y: x @ y),
    "bf16": ("bf16", "bf16", "", lambda t, x, y: x @ y),
    "tf32": ("f32", "f32", ", algorithm=dot_tf32_tf32_f32", None),
    "f8": ("f8e4m3fn", "bf16", "", None),
    "s8": ("s8", "s32", "", lambda t, x, y: t._int_mm(x, y)),
}
"""Types of the factors and the result, attributes, and the same in PyTorch."""


def _product(kind: str, size: int, chip: str) -> Case:
    factors, result, more, torch = _PRODUCTS[kind]
    body = (
        f"  ROOT r = {result}[{size},{size}] dot(p0, p1), "
        f"lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{more}"
    )
    text = _module([f"{factors}[{size},{size}]"] * 2, body)
    item = 2 * dtype_named(factors).storage_bytes + dtype_named(result).storage_bytes
    goal = _product_goal(kind, size, chip)
    return Case(f"gemm-{kind}-{size}", text, item * size**2, 2 * size**3, goal, XLA, torch)


def _product_goal(kind: str, size: int, chip: str) -> float:
    """Return which share of the speed of cuBLAS products are to reach; warpgroups reach more."""
    if kind == "f32":
        return 0.7
    return 0.85 if chip == "sm_90a" and size >= 2048 else 0.55


def cases(chip: str = "") -> list[Case]:
    """Return all cases; the copy, which others are compared with, comes first."""
    n, side = _ELEMENTS, _SIDE
    square = f"f32[{side},{side}]"
    zero = "  z = f32[] constant(0)\n"
    found = [
        Case(
            "copy", _module([f"f32[{n}]"], f"  ROOT r = f32[{n}] copy(p0)"), 8 * n, 0, 1.0, COPY,
            lambda t, x: x.clone(),
        ),
        Case(
            "elementwise",
            _module([f"f32[{n}]"] * 2, f"  a = f32[{n}] multiply(p0, p1)\n"
                    f"  ROOT r = f32[{n}] tanh(a)"),
            12 * n, 2 * n, 0.9, COPY, lambda t, x, y: t.tanh(x * y),
        ),
        Case(
            "row-sum",
            _module([square], f"{zero}  ROOT r = f32[{side}] reduce(p0, z), dimensions={{1}}, "
                    "to_apply=add", _ADD),
            4 * side * side, side * side, 0.85, COPY, lambda t, x: x.sum(1),
        ),
        Case(
            "column-sum",
            _module([square], f"{zero}  ROOT r = f32[{side}] reduce(p0, z), dimensions={{0}}, "
                    "to_apply=add", _ADD),
            4 * side * side, side * side, 0.8, COPY, lambda t, x: x.sum(0),
        ),
        Case(
            "transpose",
            _module([square], f"  ROOT r = {square} transpose(p0), dimensions={{1,0}}"),
            8 * side * side, 0, 0.8, COPY, lambda t, x: x.t().contiguous(),
        ),
        _rows("softmax", _SOFTMAX, _ADD + _MAX, lambda t, x: t.softmax(x, 1)),
        _rows(
            "layernorm", _LAYERNORM, _ADD,
            lambda t, x: t.nn.functional.layer_norm(x, (_SIDE,), eps=1e-5),
        ),
    ]  # fmt: skip
    found += [_product(kind, size, chip) for kind in _PRODUCTS for size in (1024, 2048, 4096, 8192)]
    found.append(_attention(heads=16, length=4096, depth=64))
    return found


_SOFTMAX = """  low = f32[] constant(-inf)
  m = f32[N] reduce(p0, low), dimensions={1}, to_apply=max
  mb = f32[N,N] broadcast(m), dimensions={0}
  d = f32[N,N] subtract(p0, mb)
  e = f32[N,N] exponential(d)
  z = f32[] constant(0)
  s = f32[N] reduce(e, z), dimensions={1}, to_apply=add
  sb = f32[N,N] broadcast(s), dimensions={0}
  ROOT r = f32[N,N] divide(e, sb)"""

_LAYERNORM = """  z = f32[] constant(0)
  n = f32[] constant(N)
  nb = f32[N] broadcast(n), dimensions={}
  s = f32[N] reduce(p0, z), dimensions={1}, to_apply=add
  mean = f32[N] divide(s, nb)
  mb = f32[N,N] broadcast(mean), dimensions={0}
  d = f32[N,N] subtract(p0, mb)
  dd = f32[N,N] multiply(d, d)
  v = f32[N] reduce(dd, z), dimensions={1}, to_apply=add
  variance = f32[N] divide(v, nb)
  tiny = f32[] constant(1e-05)
  tb = f32[N] broadcast(tiny), dimensions={}
  safe = f32[N] add(variance, tb)
  i = f32[N] rsqrt(safe)
  ib = f32[N,N] broadcast(i), dimensions={0}
  ROOT r = f32[N,N] multiply(d, ib)"""


def _attention(heads: int, length: int, depth: int) -> Case:
    """Return attention without a mask, one program per head."""
    arrays, scores = f"bf16[{heads},{length},{depth}]", f"[{heads},{length},{length}]"
    rows = f"[{heads},{length}]"
    body = f"""  s = f32{scores} dot(p0, p1), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, \
lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
  k = f32[] constant({depth**-0.5})
  kb = f32{scores} broadcast(k), dimensions={{}}
  t = f32{scores} multiply(s, kb)
  low = f32[] constant(-inf)
  m = f32{rows} reduce(t, low), dimensions={{2}}, to_apply=max
  mb = f32{scores} broadcast(m), dimensions={{0,1}}
  d = f32{scores} subtract(t, mb)
  e = f32{scores} exponential(d)
  z = f32[] constant(0)
  sum = f32{rows} reduce(e, z), dimensions={{2}}, to_apply=add
  sb = f32{scores} broadcast(sum), dimensions={{0,1}}
  q = f32{scores} divide(e, sb)
  w = bf16{scores} convert(q)
  ROOT r = {arrays} dot(w, p2), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, \
lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}"""
    return Case(
        f"attention-{length}", _module([arrays] * 3, body, _ADD + _MAX),
        4 * 2 * heads * length * depth, 4 * heads * length * length * depth, 3.0, XLA,
        lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v),
    )  # fmt: skip


def _arrays(text: str) -> list[Any]:
    random = np.random.default_rng(0)
    shapes = [p.shape for p in parse_text(text).entry.parameters]
    return [
        random.standard_normal(s.dims, np.float32).astype(s.dtype.numpy)
        for s in shapes
        if isinstance(s, ArrayShape)
    ]


def _has_gpu_of_xla() -> bool:
    if not xla.available():
        return False
    import jax

    try:
        return bool(jax.devices("gpu"))
    except RuntimeError:
        return False


def _torch() -> Any:
    """Return PyTorch if it is installed and sees a GPU, else None."""
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    return torch if torch.cuda.is_available() else None


def _torch_call(torch: Any, case: Case, device_arrays: Sequence[Any]) -> Callable[[], object]:
    tensors = [torch.from_dlpack(array) for array in device_arrays]
    function = case.torch
    assert function is not None

    def run() -> object:
        result = function(torch, *tensors)
        torch.cuda.synchronize()
        return result

    return run


def run_case(case: Case, torch: Any, with_xla: bool, copy_rate: float) -> float:
    """Measure one case, print its line, and return the bytes per second of hloc."""
    arrays = _arrays(case.text)
    executable: Any = hloc.compile(case.text, target="nvptx64")
    identity = [_identity(array) for array in arrays]
    calls: dict[str, Callable[[], object]] = {"hloc": lambda: executable.on_device(*identity)}
    (found,) = executable(*arrays)
    if with_xla:
        calls[XLA] = xla.compiled(case.text, arrays, "gpu")
        wanted = np.asarray(xla.compiled(case.text, arrays, "gpu")()[0])
    else:
        wanted = hloc.evaluate(case.text, *arrays)[0] if not case.flops else found
    if torch is not None and case.torch is not None:
        calls["torch"] = _torch_call(torch, case, identity)
    times = {name: timing.median for name, timing in measure(calls).items()}
    kernels = sum(k.seconds or 0.0 for k in profile(executable, arrays).kernels)
    rate = case.size_bytes / times["hloc"]
    share = rate / (copy_rate or rate)
    if case.beside == XLA:
        share = times[XLA] / times["hloc"] if XLA in times else float("nan")
    scale = float(np.abs(wanted.astype(np.float64)).max())
    error = float(np.abs(found.astype(np.float64) - wanted.astype(np.float64)).max()) / scale
    text = "  ".join(f"{name} {seconds * 1e6:9.1f} us" for name, seconds in times.items())
    verdict = "reached" if share >= case.goal else "missed"
    print(
        f"{case.name:18s} {text}  kernels {kernels * 1e6:9.1f} us  {rate / 1e12:5.2f} TB/s "
        f"{case.flops / times['hloc'] / 1e12:6.1f} TFLOP/s  {share:5.0%} of {case.beside}, goal "
        f"{case.goal:.0%} {verdict}  error {error:.1e}"
    )
    return rate


def _identity(array: Any) -> Any:
    """Return `array` on the device, as the result of a module that hands it on."""
    dtype = dtype_of_numpy(array.dtype)
    assert dtype is not None
    shape = f"{dtype.name}[{','.join(map(str, array.shape))}]"
    text = _module([shape], f"  ROOT r = {shape} copy(p0)")
    executable: Any = hloc.compile(text, target="nvptx64")
    return executable.on_device(array)[0]


def main() -> int:
    """Run the cases that the command line names, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="cases whose names contain one of these")
    names = parser.parse_args().names
    try:
        device = first_device()
    except HloError as fault:
        print(f"there is no NVIDIA GPU here to measure: {fault.message}", file=sys.stderr)
        return 2
    torch, with_xla = _torch(), _has_gpu_of_xla()
    beside = [name for name, there in (("XLA:GPU", with_xla), ("PyTorch", torch)) if there]
    print(f"{device.name}; hloc beside {' and '.join(beside) or 'nothing: install jax[cuda]'}")
    copy_rate = 0.0
    for case in cases(native_chip()):
        if case.name == COPY or not names or any(name in case.name for name in names):
            rate = run_case(case, torch, with_xla, copy_rate)
            copy_rate = copy_rate or rate
    return 0


if __name__ == "__main__":
    sys.exit(main())
