"""The backend `c`: a plan of kernels and control flow as portable C99, run through a C compiler."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hloc.codegen.backend import Stage
from hloc.codegen.lower.hidden_sizes import DynamicBoundary
from hloc.codegen.plan.plan import Plan
from hloc.codegen.plan.planning import KernelRules, plan_program
from hloc.errors import HloError, InternalError, UnsupportedError
from hloc.ir.module import Module
from hloc.options import CompileOptions
from hloc.runtime.executable import Executable
from hloc.runtime.host_programs import load_planned

from .control_flow import control_flow_text
from .kernels import kernel_text, needs_defusion, plan_kernel

STAGES = (
    Stage("hlo", "the module after all passes, in the order it runs", ".hlo"),
    Stage("c", "C99 source with the entry function hloc_entry", ".c"),
)
# Places of the arena are used again with other types, which C would not let a program do.
_FLAGS = ("-std=c99", "-O2", "-fno-strict-aliasing", "-fPIC", "-shared", "-w")


@dataclass(frozen=True, slots=True, eq=False)
class SharedLibrary:
    """Code in this process; `address` is that of the entry."""

    address: int
    library: ctypes.CDLL


@dataclass(frozen=True, slots=True, eq=False)
class CModule:
    """A module in C; the attributes are those that `hloc.runtime.executable` asks for."""

    module: Module
    plan: Plan
    boundary: DynamicBoundary
    options: CompileOptions
    source: str
    target: str = "c"
    stages: tuple[Stage, ...] = STAGES

    def stage(self, name: str) -> str:
        if name == "hlo":
            return self.module.to_text(style="short", large_constants=True)
        if name == "c":
            return self.source
        raise HloError(f"there is no stage {name!r}; stages are hlo, c")

    def load(self) -> Executable:
        """Compile the source; the executable checks arguments and owns memory."""
        return load_planned(self, lambda: _compiled(self.source))


def _compiled(source: str) -> SharedLibrary:
    compiler = shlex.split(os.environ.get("CC") or "cc")
    if shutil.which(compiler[0]) is None:
        raise UnsupportedError("the target c needs a C compiler to run: cc, or the one CC names")
    with TemporaryDirectory(prefix="hloc-c-") as folder:
        path, library = Path(folder, "module.c"), Path(folder, "module.so")
        path.write_text(source)
        words = [*compiler, *_FLAGS, "-o", str(library), str(path), "-lm"]
        made = subprocess.run(words, capture_output=True, text=True, check=False)
        if made.returncode:
            raise InternalError(f"the C compiler refuses what hloc wrote:\n{made.stderr[:2000]}")
        loaded = ctypes.CDLL(str(library))  # stays in memory when the file is gone
    address = ctypes.cast(loaded.hloc_entry, ctypes.c_void_p).value
    assert address is not None
    return SharedLibrary(address, loaded)


@dataclass(frozen=True, slots=True)
class CBackend:
    """Portable C99 source, which runs through the C compiler of this machine."""

    name: str = "c"
    stages: tuple[Stage, ...] = STAGES

    def compile(self, module: Module, options: CompileOptions) -> CModule:
        rules = KernelRules(plan_kernel, needs_defusion, "the target c has no emitter for it")
        program = plan_program(module, options, rules)
        plan = program.plan
        kernels = [kernel_text(k, f"kernel_{n}") for n, k in enumerate(plan.kernels)]
        prelude = Path(__file__).with_name("prelude.h").read_text()
        source = "\n".join([prelude, *kernels, control_flow_text(plan)])
        return CModule(module, plan, program.boundary, options, source)
