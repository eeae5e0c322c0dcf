"""Kernels for GPUs as code of this machine: right at larger sizes, in either order of threads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hloc import evaluate
from hloc.codegen.gpu.kernel import GpuFunction, GpuKernel
from hloc.driver import parse_text
from hloc.errors import HloError, UnsupportedError
from hloc.report.inputs import random_inputs
from hloc.runtime.gpu.executable import GpuExecutable
from hloc.runtime.gpu.host_device import HostDevice
from tests.tolerance import assert_close
from tests.unit.gpu.simulate import Array, compiled, entry

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SUM = """add.1 { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }"""
LESS = """lt { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }"""


def _reduction(shape: str, result: str, dims: str) -> str:
    root = f"{result} reduce(p0, z), dimensions={{{dims}}}, to_apply=add.1"
    return entry(shape, root, SUM).replace("  ROOT", "  z = f32[] constant(0)\n  ROOT")


def _product(kind: str, result: str, extra: str = "") -> str:
    dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    return entry(f"{kind}[251,77];{kind}[77,190]", f"{result}[251,190] dot(p0, p1), {dims}{extra}")


_ORDERS = (False, True)

MODULES = {
    "loop": entry("f32[30001]", "f32[30001] tanh(p0)"),
    "rows": _reduction("f32[513,3001]", "f32[513]", "1"),
    "columns": _reduction("f32[1513,701]", "f32[701]", "0"),
    "everything": _reduction("f32[1513,701]", "f32[]", "0,1"),
    "transpose": entry("f32[1000,777]", "f32[777,1000] transpose(p0), dimensions={1,0}"),
    "sort": entry("f32[20000]", "f32[20000] sort(p0), dimensions={0}, to_apply=lt", LESS),
    "product": _product("f32", "f32"),
    "product of bf16": _product("bf16", "bf16"),
    "product of f16": _product("f16", "f32"),
    "product of s8": _product("s8", "s32"),
    "softmax": (EXAMPLES / "softmax_relu.hlo").read_text(),
    "gpt": (EXAMPLES / "gpt_block.hlo").read_text(),
}


_SLOW = ("product of f16",)
"""The kernel of bf16, with another type in its instructions."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in _SLOW else []) for name in MODULES],
)
def test_results_are_right_and_do_not_depend_on_the_order_of_threads(name: str) -> None:
    """Threads that race would see each other's values in one order and not in the other."""
    text = MODULES[name]
    module = compiled(text)
    arrays = random_inputs(parse_text(text), 0)
    forward, backward = (GpuExecutable(module, HostDevice(reverse=r))(*arrays) for r in _ORDERS)
    for a, b, wanted in zip(forward, backward, evaluate(text, *arrays), strict=True):
        assert a.tobytes() == b.tobytes()
        assert_close(a, wanted)


# ---- kernels that are wrong


def _kernel(
    body: str, helpers: tuple[str, ...], threads: int = 64, shared: tuple[str, ...] = ()
) -> GpuKernel:
    """Return a kernel with arguments %out and %in; `%t` is the thread."""
    text = f"entry:\n  %t = call i32 @gpu.thread.x()\n{body}\n  ret void\n}}\n"
    function = GpuFunction(
        "kernel_of_test",
        ("ptr %out", "ptr %in"),
        text,
        (1, 1, 1),
        (threads, 1, 1),
        shared,
        ("thread.x", *helpers),
    )
    return GpuKernel(function.name, (function,), source="test")


def _run(kernel: GpuKernel, *, reverse: bool = False) -> Array:
    """Run a kernel on 0, 1, 2 ...; returns its words."""
    device = HostDevice(reverse=reverse)
    code = device.load_kernels([kernel], 1)
    size = 4 * kernel.functions[0].threads
    target, source = device.allocate(size), device.allocate(size)
    device.write(source, np.arange(size // 4, dtype=np.int32))
    device.write(target, np.full(size // 4, -2, np.int32))
    device.launch(code, kernel.functions[0], [target, source])
    return device.read(target, size).view(np.int32)


_UNDER_A_BRANCH = """  %few = icmp ult i32 %t, {count}
  br i1 %few, label %b1, label %b2
b1:
  {call}
  br label %b2
b2:"""


@pytest.mark.parametrize("count", [16, 32])
def test_a_barrier_that_some_threads_never_reach_is_reported(count: int) -> None:
    body = _UNDER_A_BRANCH.format(count=count, call="call void @gpu.barrier()")
    with pytest.raises(HloError, match="threads of the block never reach barrier"):
        _run(_kernel(body, ("barrier",)))


def test_a_shuffle_that_some_lanes_never_reach_is_reported() -> None:
    call = "%v = call i32 @gpu.shuffle.xor.i32(i32 %t, i32 1)"
    body = _UNDER_A_BRANCH.format(count=40, call=call)
    with pytest.raises(HloError, match=r"lanes of a warp never reach shuffle\.xor\.i32"):
        _run(_kernel(body, ("shuffle.xor.i32",)))


def test_a_missing_barrier_shows_in_one_order() -> None:
    """Every thread reads what its neighbour wrote, without waiting for it."""
    body = """  %mine = getelementptr i32, ptr addrspace(3) @s, i32 %t
  store volatile i32 %t, ptr addrspace(3) %mine
  BARRIER
  %other = xor i32 %t, 1
  %theirs = getelementptr i32, ptr addrspace(3) @s, i32 %other
  %v = load volatile i32, ptr addrspace(3) %theirs
  %place = getelementptr i32, ptr %out, i32 %t
  store i32 %v, ptr %place"""
    shared = ("@s = internal addrspace(3) global [64 x i32] zeroinitializer",)
    wrong = _kernel(body.replace("BARRIER", ""), (), shared=shared)
    assert not np.array_equal(_run(wrong), _run(wrong, reverse=True))
    right = _kernel(body.replace("BARRIER", "call void @gpu.barrier()"), ("barrier",), 64, shared)
    wanted = np.arange(64) ^ 1
    assert np.array_equal(_run(right), wanted)
    assert np.array_equal(_run(right, reverse=True), wanted)


@pytest.mark.parametrize(("groups", "has_come"), [(0, True), (1, False)])
def test_copies_arrive_when_they_are_waited_for(groups: int, has_come: bool) -> None:
    """A wait that leaves one group on its way does not see the data of the only group."""
    body = f"""  %source = addrspacecast ptr %in to ptr addrspace(1)
  store volatile i32 -1, ptr addrspace(3) @s
  call void @gpu.copy_async.16(ptr addrspace(3) @s, ptr addrspace(1) %source)
  call void @gpu.copy_async.commit()
  call void @gpu.copy_async.wait.{groups}()
  %last = getelementptr i32, ptr addrspace(3) @s, i32 3
  %v = load volatile i32, ptr addrspace(3) %last
  store i32 %v, ptr %out"""
    helpers = ("copy_async.16", "copy_async.commit", f"copy_async.wait.{groups}")
    shared = ("@s = internal addrspace(3) global [4 x i32] zeroinitializer, align 16",)
    assert (_run(_kernel(body, helpers, 4, shared))[0] == 3) == has_come


@pytest.mark.parametrize(
    ("how", "by", "wanted"),
    [
        ("xor", 3, lambda t: t ^ 3),
        ("up", 2, lambda t: np.where(t % 32 < 2, t, t - 2)),
        ("down", 5, lambda t: np.where(t % 32 > 26, t, t + 5)),
        ("index", 7, lambda t: t // 32 * 32 + 7),
    ],
)
def test_shuffles_stay_in_their_warp(how: str, by: int, wanted: Callable[[Any], Any]) -> None:
    """Lanes without a partner get their own value back."""
    body = f"""  %v = call i32 @gpu.shuffle.{how}.i32(i32 %t, i32 {by})
  %place = getelementptr i32, ptr %out, i32 %t
  store i32 %v, ptr %place"""
    found = _run(_kernel(body, (f"shuffle.{how}.i32",)))
    assert np.array_equal(found, wanted(np.arange(64)))


def test_an_unknown_helper_is_reported() -> None:
    with pytest.raises(UnsupportedError, match="no function teleport"):
        _run(_kernel("", ("teleport",)))
