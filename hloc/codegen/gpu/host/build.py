"""Kernels as one LLVM module for the host processor, with the code that runs launches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from hloc.codegen.gpu.host.arithmetic import ARITHMETIC
from hloc.codegen.gpu.host.coroutine import coroutine, exchanges_of
from hloc.codegen.gpu.host.shuffles import exchange_text
from hloc.codegen.gpu.host.structures import STRUCTURES
from hloc.codegen.gpu.kernel import GpuKernel
from hloc.codegen.llvm.python_subset import translate
from hloc.errors import UnsupportedError
from hloc.lazy_dataclass import dataclass

_NAME = re.compile(r"@[\w.$]+")
RUN = "host_run"
"""Name of the function that runs a launch."""

_DECLARATIONS = (
    "declare token @llvm.coro.id(i32, ptr, ptr, ptr)",
    "declare i64 @llvm.coro.size.i64()",
    "declare ptr @llvm.coro.begin(token, ptr)",
    "declare i8 @llvm.coro.suspend(token, i1)",
    "declare void @llvm.coro.end(ptr, i1, token)",
    "declare void @llvm.coro.resume(ptr)",
    "declare float @llvm.exp2.f32(float)",
    "declare float @llvm.fma.f32(float, float, float)",
)

_RESUME = """\
define internal i64 @host_resume(i64 %handle) nounwind {
  %coroutine = inttoptr i64 %handle to ptr
  call void @llvm.coro.resume(ptr %coroutine)
  ret i64 0
}
"""


@dataclass(frozen=True, slots=True)
class HostBuild:
    """LLVM text of kernels.

    Attributes:
        sites: for each function, the helpers at the calls at which its threads can wait.
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
    declarations = {_declared(d): d for d in (*asked, *_DECLARATIONS)}
    shared = [line for f in functions for line in f.shared]
    if any(f.dynamic_shared_bytes for f in functions):
        raise UnsupportedError("the host build does not support dynamic shared memory")
    coroutines = {f.name: coroutine(f) for f in functions}
    texts = [exchange_text(name) for name in exchanges]
    parts = [
        *declarations.values(),
        *shared,
        _scheduler(),
        *texts,
        *(ARITHMETIC[name] for name in arithmetic),
        *(c.text for c in coroutines.values()),
    ]
    return HostBuild("\n".join(parts), {name: c.sites for name, c in coroutines.items()})


@cache
def _scheduler() -> str:
    """Return the LLVM text of `scheduler.py`."""
    source = Path(__file__).with_name("scheduler.py").read_text()
    text, _ = translate(source, STRUCTURES, prelude=_RESUME, prelude_functions={"host_resume": 1})
    return text


def _declared(text: str) -> str:
    """Return the name that a declaration or a constant defines."""
    match = _NAME.search(text)
    assert match is not None
    return match[0]
