"""Kernels as one LLVM module: what they share is there once, and heads suit the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hloc.codegen.gpu.kernel import GpuFunction, GpuKernel


def module_text(
    kernels: Sequence[GpuKernel],
    prelude: Callable[[dict[str, None]], str],
    function_text: Callable[[GpuFunction], str],
) -> str:
    """Return LLVM text that holds all that `kernels` need.

    Args:
        kernels: with or without functions.
        prelude: writes the definitions of helpers, by name.
        function_text: writes a function with the head that its target wants.
    """
    functions = [f for kernel in kernels for f in kernel.functions]
    helpers = dict.fromkeys(name for f in functions for name in f.helpers)
    declarations = dict.fromkeys(d for f in functions for d in f.declarations)
    shared = [line for f in functions for line in f.shared]
    texts = [function_text(f) for f in functions]
    return "\n".join([*declarations, *shared, prelude(helpers), "", *texts])
