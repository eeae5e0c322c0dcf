"""Kernels as one LLVM module for the host processor, together with the code that runs launches."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hloc.codegen.gpu.host.arithmetic import ARITHMETIC
from hloc.codegen.gpu.host.copies import COPIES, COPY_DECLARATIONS
from hloc.codegen.gpu.host.coroutine import coroutine, exchanges_of
from hloc.codegen.gpu.host.scheduler import DECLARATIONS, SCHEDULER
from hloc.codegen.gpu.host.shuffles import exchange_text
from hloc.codegen.gpu.kernel import GpuKernel
from hloc.errors import UnsupportedError
from hloc.lazy_dataclass import dataclass

_NAME = re.compile(r"@[\w.$]+")
_MATH = ("declare float @llvm.exp2.f32(float)", "declare float @llvm.fma.f32(float, float, float)")


@dataclass(frozen=True, slots=True)
class HostBuild:
    """LLVM text of kernels.

    Attributes:
        sites: of each function, the helpers that are called where its threads can wait.
    """

    text: str
    sites: dict[str, list[str]]


def host_build(kernels: Sequence[GpuKernel]) -> HostBuild:
    """Return the module of all functions of `kernels`.

    Raises:
        UnsupportedError: they need GPU hardware.
    """
    functions = [f for kernel in kernels for f in kernel.functions]
    exchanges = dict.fromkeys(name for f in functions for name in exchanges_of(f))
    arithmetic = dict.fromkeys(name for f in functions for name in f.helpers if name in ARITHMETIC)
    asked = [d for f in functions for d in f.declarations]
    declarations = {_declared(d): d for d in (*asked, *DECLARATIONS, *COPY_DECLARATIONS, *_MATH)}
    shared = [line for f in functions for line in f.shared]
    if any(f.dynamic_shared_bytes for f in functions):
        raise UnsupportedError("the host build has no shared memory that a launch asks for")
    coroutines = {f.name: coroutine(f) for f in functions}
    texts = [exchange_text(name) for name in exchanges]
    parts = [
        *declarations.values(),
        *shared,
        SCHEDULER,
        COPIES,
        *texts,
        *(ARITHMETIC[name] for name in arithmetic),
        *(c.text for c in coroutines.values()),
    ]
    return HostBuild("\n".join(parts), {name: c.sites for name, c in coroutines.items()})


def _declared(text: str) -> str:
    """Return the name that a declaration or a constant gives."""
    match = _NAME.search(text)
    assert match is not None
    return match[0]
