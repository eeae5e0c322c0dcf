"""Peak rates of this machine, in one thread: multiply-adds, and bytes from each memory.

Measured with two loops of LLVM IR: independent chains of fused multiply-adds on the widest vectors,
and the triad `a = b + s * c` of the STREAM benchmark (McCalpin, 1995) over arrays that fit a cache
or do not. Each is the best of several runs; together they take a second.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np

from hloc.codegen.llvm.target import Target, create_target_machine, host_target
from hloc.codegen.plan.pointer_table import ENTRY
from hloc.lazy_dataclass import dataclass
from hloc.runtime.cpu_loader import LoadedCode, load_objects

_CHAINS = 12
_SECONDS = 0.12
_MEMORY_BYTES = 96 << 20


@dataclass(frozen=True, slots=True)
class MachinePeaks:
    """Operations per second on f32, and (name, bytes per second) of memories, fastest first."""

    flops: float
    memories: tuple[tuple[str, float], ...]


def measure_peaks() -> MachinePeaks:
    """Measure the machine this process runs on."""
    target = host_target()
    width = target.vector_bits // 32
    return MachinePeaks(_peak_flops(target, width), tuple(_bandwidths(target, width)))


def _peak_flops(target: Target, width: int) -> float:
    code = _load(_fma_text(target, width), target)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.address)
    numbers = np.full(width * 2, 0.5, np.float32)
    rounds = 200_000

    def once() -> None:
        function(numbers.ctypes.data, rounds)

    return 2.0 * width * _CHAINS * rounds / _best(once)


def _bandwidths(target: Target, width: int) -> list[tuple[str, float]]:
    """Return bytes per second by level of memory; three arrays together fill half of a cache."""
    code = _load(_triad_text(width), target)
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_int64)
    function = kind(code.address)
    result = []
    sizes = (("L1", target.l1_bytes // 2), ("L2", target.l2_bytes // 2), ("memory", _MEMORY_BYTES))
    for name, size in sizes:
        step = width * 4
        count = size // 3 // 4 // step * step
        a, b, c = (np.ones(count, np.float32) for _ in range(3))
        times = max(1, (8 << 20) // size)

        def once(
            a: object = a, b: object = b, c: object = c, n: int = count, t: int = times
        ) -> None:
            function(*(x.ctypes.data for x in (a, b, c)), n, t)  # type: ignore[attr-defined]

        result.append((name, 12.0 * count * times / _best(once)))
    return result


def _best(once: Callable[[], None]) -> float:
    """Return the seconds of the fastest of many calls."""
    once()
    best, stop = float("inf"), time.perf_counter() + _SECONDS
    while (start := time.perf_counter()) < stop:
        once()
        best = min(best, time.perf_counter() - start)
    return best


def _load(text: str, target: Target) -> LoadedCode:
    machine = create_target_machine(target, 3)
    module = llvm.parse_assembly(f'target triple = "{target.triple}"\n{text}')
    module.verify()
    return load_objects([machine.emit_object(module)], target)


def _fma_text(target: Target, width: int) -> str:
    """Return a loop of `_CHAINS` independent multiply-adds: enough to hide their latency.

    The result is stored times zero, so that LLVM cannot remove the loop.
    """
    vector = f"<{width} x float>"
    fused = target.has("fma") or not target.triple.startswith(("x86_64", "i686"))
    chains = range(_CHAINS)
    lines = [
        f"declare {vector} @llvm.fma.v{width}f32({vector}, {vector}, {vector})",
        f"define void @{ENTRY}(ptr %data, i64 %rounds) {{",
        "entry:",
        f"  %x = load {vector}, ptr %data, align 4",
        f"  %p = getelementptr {vector}, ptr %data, i64 1",
        f"  %y = load {vector}, ptr %p, align 4",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
        *(f"  %a{k} = phi {vector} [ %x, %entry ], [ %b{k}, %loop ]" for k in chains),
    ]
    for k in chains:
        if fused:
            call = f"call {vector} @llvm.fma.v{width}f32"
            lines.append(f"  %b{k} = {call}({vector} %a{k}, {vector} %x, {vector} %y)")
        else:
            lines.append(f"  %m{k} = fmul {vector} %a{k}, %x")
            lines.append(f"  %b{k} = fadd {vector} %m{k}, %y")
    lines += [
        "  %next = add i64 %i, 1",
        "  %more = icmp slt i64 %next, %rounds",
        "  br i1 %more, label %loop, label %end",
        "end:",
        f"  %s0 = fadd {vector} %b0, %b0",
        *(f"  %s{k} = fadd {vector} %s{k - 1}, %b{k}" for k in chains[1:]),
        f"  %zero = fmul {vector} %s{_CHAINS - 1}, zeroinitializer",
        f"  %sum = fadd {vector} %zero, %y",
        f"  store {vector} %sum, ptr %p, align 4",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


def _triad_text(width: int) -> str:
    """Return the triad `a = b + 0.5 c`, four vectors per iteration, repeated `times`."""
    vector = f"<{width} x float>"
    lines = [
        f"define void @{ENTRY}(ptr %a, ptr %b, ptr %c, i64 %count, i64 %times) {{",
        "entry:",
        "  br label %again",
        "again:",
        "  %t = phi i64 [ 0, %entry ], [ %t1, %done ]",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %again ], [ %next, %loop ]",
    ]
    for k in range(4):
        lines += [
            f"  %i{k} = add i64 %i, {k * width}",
            *(f"  %{x}{k} = getelementptr float, ptr %{x}, i64 %i{k}" for x in "abc"),
            f"  %vb{k} = load {vector}, ptr %b{k}, align 4",
            f"  %vc{k} = load {vector}, ptr %c{k}, align 4",
            f"  %m{k} = fmul {vector} %vc{k}, splat (float 5.0e-01)",
            f"  %v{k} = fadd {vector} %m{k}, %vb{k}",
            f"  store {vector} %v{k}, ptr %a{k}, align 4",
        ]
    lines += [
        f"  %next = add i64 %i, {4 * width}",
        "  %more = icmp slt i64 %next, %count",
        "  br i1 %more, label %loop, label %done",
        "done:",
        "  %t1 = add i64 %t, 1",
        "  %again1 = icmp slt i64 %t1, %times",
        "  br i1 %again1, label %again, label %end",
        "end:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)
