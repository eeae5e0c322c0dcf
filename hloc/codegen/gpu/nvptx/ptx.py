"""Kernels to PTX: headers and prelude are added, then LLVM compiles them in a child process.

Each kernel is compiled alone, so that equal kernels of all modules are compiled once; the texts are
joined afterwards, since a PTX file has a single header.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hloc.codegen.gpu.code_cache import cached_code
from hloc.codegen.gpu.kernel import GpuFunction, GpuKernel
from hloc.codegen.gpu.legality import check_legal
from hloc.codegen.gpu.module_text import module_text
from hloc.codegen.gpu.nvptx.chips import TRIPLE
from hloc.codegen.gpu.nvptx.prelude import prelude_text
from hloc.codegen.gpu.worker import Job
from hloc.codegen.llvm.target import Target

INTRINSICS = "llvm.nvvm"

_TILED = 'ptr byval([128 x i8]) align 64 "nvvm.grid_constant" %tiled{}'
"""A tensor map as a parameter."""

_HEAD_LINE = re.compile(r"^\.(version|target|address_size)\b.*$", re.MULTILINE)
_COMMENT = re.compile(r"^//.*\n", re.MULTILINE)


def kernel_text(kernel: GpuKernel) -> str:
    """Return the LLVM text of a kernel, with everything that it needs."""
    return module_text([kernel], prelude_text, _function_text)


def _function_text(f: GpuFunction) -> str:
    attributes = [f'"nvvm.reqntid"="{",".join(map(str, f.block))}"']
    if f.min_blocks:
        attributes.append(f'"nvvm.minctasm"="{f.min_blocks}"')
    parameters = [*f.parameters, *(_TILED.format(i) for i in range(len(f.tiled)))]
    head = f"define ptx_kernel void @{f.name}({', '.join(parameters)})"
    return f"{head} nounwind {' '.join(attributes)} {{\n{f.body}"


def ptx_of(kernels: Sequence[GpuKernel], target: Target, level: int) -> list[str]:
    """Return the PTX of every kernel, a whole file each.

    Raises:
        InternalError: LLVM fails; the message names the kernel.
    """
    return [_ptx_of(kernel, target, level) for kernel in kernels]


def _ptx_of(kernel: GpuKernel, target: Target, level: int) -> str:
    text = kernel_text(kernel)
    check_legal(text, INTRINSICS)
    job = Job(kernel.source, text, TRIPLE, target.cpu, target.features, level)
    return cached_code(job).decode()


def joined(texts: Iterable[str]) -> str:
    """Return one PTX file of several for the same chip, with the highest PTX version."""
    texts = list(texts)
    heads = [dict((m[1], m[0]) for m in _HEAD_LINE.finditer(text)) for text in texts]
    if not heads:
        return ""
    first = max(heads, key=lambda head: float(head["version"].split()[1]))
    bodies = [_COMMENT.sub("", _HEAD_LINE.sub("", text)).strip() for text in texts]
    head = "\n".join(first[name] for name in ("version", "target", "address_size"))
    return "\n\n".join([head, *bodies, ""])
