"""LLVM text of kernels for AMD GPUs.

Arguments point to global memory and variables live in private memory, each in its own address
space; both are cast to generic pointers at the start, and LLVM infers the spaces again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hloc.codegen.gpu.amdgcn.prelude import prelude_text
from hloc.codegen.gpu.kernel import GpuFunction, GpuKernel
from hloc.codegen.gpu.module_text import module_text

_VARIABLE = re.compile(r"^  (%\w+) = alloca (.*)$", re.MULTILINE)
_ENTRY = "entry:\n"


def kernels_text(kernels: Sequence[GpuKernel]) -> str:
    """Return one LLVM module of `kernels`, whose helpers the prelude must define."""
    return module_text(kernels, prelude_text, _function_text)


def _function_text(f: GpuFunction) -> str:
    attributes = [f'"amdgpu-flat-work-group-size"="{f.threads},{f.threads}"']
    attributes.append('"uniform-work-group-size"="true"')
    parameters = [text.replace("ptr ", "ptr addrspace(1) ", 1) + ".global" for text in f.parameters]
    head = f"define amdgpu_kernel void @{f.name}({', '.join(parameters)})"
    return f"{head} nounwind {' '.join(attributes)} {{\n{_body(f)}"


def _body(f: GpuFunction) -> str:
    names = [text.rsplit(" ", 1)[1] for text in f.parameters]
    casts = [f"  {name} = addrspacecast ptr addrspace(1) {name}.global to ptr\n" for name in names]
    body = _VARIABLE.sub(
        r"  \1.private = alloca \2, addrspace(5)"
        "\n"
        r"  \1 = addrspacecast ptr addrspace(5) \1.private to ptr",
        f.body,
    )
    return body.replace(_ENTRY, _ENTRY + "".join(casts), 1)
