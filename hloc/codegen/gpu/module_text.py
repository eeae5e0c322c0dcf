"""Kernels as one LLVM module, with shared declarations and the target's function headers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hloc.codegen.gpu.kernel import GpuFunction, GpuKernel


def module_text(
    kernels: Sequence[GpuKernel],
    prelude: Callable[[dict[str, None]], str],
    function_text: Callable[[GpuFunction], str],
) -> str:
    """Return LLVM text of `kernels` with everything that they need.

    Args:
        kernels: with or without functions.
        prelude: returns the definitions of helpers, by name.
        function_text: returns a function with the header of its target.
    """
    functions = [f for kernel in kernels for f in kernel.functions]
    helpers = dict.fromkeys(name for f in functions for name in f.helpers)
    declarations = dict.fromkeys(d for f in functions for d in f.declarations)
    shared = [line for f in functions for line in f.shared]
    texts = [function_text(f) for f in functions]
    return "\n".join([*declarations, *shared, prelude(helpers), "", *texts])
