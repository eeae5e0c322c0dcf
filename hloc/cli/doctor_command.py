"""`hloc doctor`: checks the installation and reports the features of this machine.

With a folder, `dump_doctor` explains the dump in it.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from hloc import __version__
from hloc.cache_directory import cache_directory, cached_sizes, why_no_cache
from hloc.cli.talk import Talk
from hloc.codegen.backend import backend_origin
from hloc.codegen.backend_names import backend_names
from hloc.codegen.gpu.nvptx.cubin import HOW_TO_ASSEMBLE, assembler
from hloc.codegen.llvm.object_file import compile_object
from hloc.codegen.llvm.target import (
    available_cores,
    host_target,
    llvm_version,
    physical_memory_bytes,
)
from hloc.errors import HloError, InternalError, UnsupportedError, printable
from hloc.quantities import size_text
from hloc.report.exits import Exit
from hloc.report.json_report import json_report
from hloc.report.text import plural
from hloc.runtime.gpu.cuda_driver import installed_driver
from hloc.runtime.threads import thread_count

REQUIRED = ("lark", "llvmlite", "numpy", "ml_dtypes")
OPTIONAL = {
    "prompt_toolkit": "hlo-repl",
    "rich": "hlo-repl",
    "jax": "dumps of your own programs",
    "jaxlib": "comparison with XLA",
    "nvmath-python": "--use-library on NVIDIA GPUs",
}
JAX_TESTED = "0.10"
_NOTED_FEATURES = ("avx2", "fma", "f16c", "avx512f", "avx512vl", "avx512vnni", "avx512bf16", "neon")


def doctor(arguments: Namespace, talk: Talk) -> int:
    """Print the findings; exit 1 if hloc cannot work here, or a dump cannot be read in full."""
    if arguments.files:
        from hloc.cli.dump_doctor import doctor_of_dumps

        return doctor_of_dumps(arguments, talk)
    if arguments.format == "json":
        found = [{"title": t, "text": text, "fault": bad} for t, text, bad in _findings()]
        talk.product(json_report("doctor", {"findings": found}))
        return Exit.FAULT if any(row["fault"] for row in found) else Exit.OK
    faults: list[str] = []
    for title, text, is_fault in _findings():
        mark = talk.product_paint.bad("fault") if is_fault else "ok"
        talk.page(f"{mark:6s}{title:16s}{text}")
        if is_fault:
            faults.append(title)
    if faults:
        raise HloError(f"hloc cannot work here: {', '.join(faults)}")
    return Exit.OK


def _findings() -> Iterator[tuple[str, str, bool]]:
    """Yield title, text, and whether it is a fault."""
    yield "hloc", __version__, False
    python = f"{platform.python_version()} {platform.python_implementation()}"
    yield "python", python, sys.version_info < (3, 11)
    for name in REQUIRED:
        found = _version(name)
        yield name, found or "missing", not found
    yield "llvm", llvm_version(), False
    yield from _machine()
    backends = (f"{name} ({backend_origin(name)})" for name in backend_names())
    yield "backends", ", ".join(backends), False
    yield _cache()
    yield from _gpu()
    compiler = shutil.which(os.environ.get("CC", "cc"))
    yield "c compiler", compiler or "none; only needed to link what `hloc -c` makes", False
    for name, use in OPTIONAL.items():
        found = _version(name)
        text = found or f"not there; only needed for {use}"
        if name == "jaxlib" and found and not found.startswith(f"{JAX_TESTED}."):
            text += f"; hloc is tested with the text of {JAX_TESTED}"
        yield name, text, False


def _machine() -> Iterator[tuple[str, str, bool]]:
    host = host_target()
    features = ", ".join(name for name in _NOTED_FEATURES if host.has(name)) or "none of note"
    yield "machine", f"{host.triple}, {host.cpu}, vectors of {host.vector_bits} bits", False
    yield "features", features, False
    caches = ", ".join(size_text(n) for n in (host.l1_bytes, host.l2_bytes, host.l3_bytes))
    memory = size_text(physical_memory_bytes())
    yield "memory", f"{memory}, caches {caches}, {os.cpu_count()} processors", False
    yield _threads()
    try:
        compile_object("define void @f() {\n  ret void\n}\n", host, 2)
    except (InternalError, RuntimeError) as fault:
        yield "code", f"LLVM makes none: {fault}", True
    else:
        yield "code", "LLVM makes objects for this machine", False


def _gpu() -> Iterator[tuple[str, str, bool]]:
    """Report what is installed for NVIDIA GPUs; compiling for them needs none of it."""
    tool = assembler()
    yield "gpu assembler", tool or f"none; only needed for --emit=cubin: {HOW_TO_ASSEMBLE}", False
    try:
        installed_driver()
    except UnsupportedError as fault:
        yield (
            "gpu",
            f"none to run on: {fault.message}; --simulate[=ptx|host] runs without one",
            False,
        )
    else:
        yield "gpu", f"NVIDIA's driver is there, cuda-bindings {_version('cuda-bindings')}", False


def _threads() -> tuple[str, str, bool]:
    try:
        count = thread_count()
    except HloError as fault:
        return "threads", fault.message, True
    return "threads", f"{count} share a large kernel, of {plural(available_cores(), 'core')}", False


def _cache() -> tuple[str, str, bool]:
    directory = cache_directory()
    if directory is None:
        return "cache", f"none: {printable(why_no_cache())}", False
    return "cache", f"{directory}, {size_text(sum(cached_sizes()))}", False


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
