"""The emitters, in order of preference; the general loop comes last."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType

from hloc.codegen.cpu.emitters import loop, unrolled
from hloc.codegen.cpu.emitters.attention import attention
from hloc.codegen.cpu.emitters.convolution import (
    convolution_gemm,
    dilated_gemm,
    direct_convolution,
    grouped_epilogue,
    windowed_gemm,
    winograd,
)
from hloc.codegen.cpu.emitters.gemm import dot, gemm_epilogue
from hloc.codegen.cpu.emitters.movement import zeros
from hloc.codegen.cpu.emitters.reduction import pool, reduce, row_region
from hloc.codegen.kernels import random_bits, select_and_scatter, triangular
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.kernels.emitter import Emitter, KernelPlan
from hloc.ir.instruction import Instruction
from hloc.lazy_dataclass import dataclass


@dataclass(frozen=True)
class _DeferredPlan:
    """The function `plan` of a file that is imported when it is first called.

    Most programs need none of these files, and to import one takes 0.2 ms.
    """

    module: str

    def load(self) -> ModuleType:
        return import_module(f"hloc.codegen.cpu.emitters.{self.module}")

    def __call__(self, inst: Instruction) -> KernelPlan[KernelContext] | None:
        found = self.load().plan(inst)
        assert found is None or isinstance(found, KernelPlan)
        return found


def _deferred(name: str, module: str, *roots: str) -> Emitter[KernelContext]:
    return Emitter(name, _DeferredPlan(module), roots)


@cache
def import_all() -> None:
    """Import the deferred emitters, so that no later compilation waits for them."""
    for emitter in EMITTERS:
        if isinstance(emitter.plan, _DeferredPlan):
            emitter.plan.load()


EMITTERS: tuple[Emitter[KernelContext], ...] = (
    unrolled.SUMS,
    attention.EMITTER,
    winograd.EPILOGUE,
    gemm_epilogue.EMITTER,
    grouped_epilogue.EMITTER,
    row_region.EMITTER,
    dot.EMITTER,
    reduce.EMITTER,
    _deferred("cumulative", "reduction.cumulative", "reduce-window"),
    pool.EMITTER,
    dilated_gemm.EMITTER,
    winograd.EMITTER,
    windowed_gemm.EMITTER,
    convolution_gemm.EMITTER,
    direct_convolution.EMITTER,
    select_and_scatter.EMITTER,
    _deferred("sort-by-routines", "sort.sort_calls", "sort"),
    _deferred("sort", "sort.sort", "sort"),
    _deferred("topk-by-routines", "sort.topk_calls", "topk"),
    _deferred("topk", "sort.topk", "topk"),
    _deferred("fft", "fft.fft", "fft"),
    _deferred("linear-algebra", "linalg.linalg", "custom-call", "cholesky", "triangular-solve"),
    _deferred("lapack", "linalg.lapack", "custom-call"),
    triangular.SOLVE,
    triangular.CHOLESKY,
    random_bits.EMITTER,
    _deferred("scatter", "movement.scatter", "scatter"),
    _deferred("dynamic-update-slice", "movement.dynamic_update_slice", "dynamic-update-slice"),
    _deferred("concatenate", "movement.concatenate", "concatenate"),
    zeros.EMITTER,
    unrolled.EMITTER,
    _deferred("pad", "movement.pad", "pad"),
    loop.EMITTER,
)
