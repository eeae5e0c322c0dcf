"""A second function of a kernel, which routines call as soon as part of the result is final.

It reads the arrays of its kernel through pointers that the kernel stores for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.cpu.emitters.gemm.packed.gemm_loops import FINISH_PARAMETERS
from hloc.codegen.kernels.context import KernelContext
from hloc.codegen.llvm.writer import FunctionWriter


class FinishContext(KernelContext):
    """The function that is being emitted: as its kernel, but without scratch memory and range.

    Attributes:
        kernel: the kernel that it belongs to.
    """

    def __init__(self, kernel: KernelContext) -> None:
        self.kernel = kernel
        self._count = 0
        name = f"{kernel.fn.name}.finish"
        super().__init__(kernel.inst, kernel.aliased, name, kernel.target, False, kernel.lanes)

    def _function(self, name: str, pointers: Sequence[str], size: str) -> FunctionWriter:
        self._count = len(pointers)
        attributes = f'{size}nounwind "prefer-vector-width"="{self.target.vector_bits}" '
        fn = FunctionWriter(name, list(FINISH_PARAMETERS), attributes)
        for number in range(self._count):
            slot = fn.value(f"getelementptr ptr, ptr %context, i64 {number}")
            fn.line(f"%arg{number} = load ptr, ptr {slot}")
        return fn

    def close(self) -> str:
        """Add the function to its kernel; return the context pointer for its calls."""
        kernel = self.kernel.fn
        for text in (*self.fn.declarations, self._definition()):
            kernel.declare(text)
        context = kernel.allocate("ptr", self._count)
        for number in range(self._count):
            slot = kernel.value(f"getelementptr ptr, ptr {context}, i64 {number}")
            kernel.line(f"store ptr %arg{number}, ptr {slot}")
        return context

    def _definition(self) -> str:
        return self.fn.finish().replace("define void", "define internal void", 1)
