"""The backend for AMD GPUs: HLO to assembly and relocatable objects.

It shares all kernels with the backend for NVIDIA GPUs and differs in the prelude, the function
headers and the address spaces. A linker (`ld.lld -shared`) turns the object into a code object that
a driver loads. Objects do not run in this process; the kernels do, compiled for the host.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloc.codegen.backend import Stage
from hloc.codegen.gpu.amdgcn.chips import CHIPS, DEFAULT_CHIP, TRIPLE, target_for_chip
from hloc.codegen.gpu.amdgcn.kernel_text import kernels_text
from hloc.codegen.gpu.amdgcn.prelude import is_known
from hloc.codegen.gpu.backend import COMMON_STAGES, GpuModule, kernels_of
from hloc.codegen.gpu.code_cache import cached_code
from hloc.codegen.gpu.kernel import GpuKernel
from hloc.codegen.gpu.legality import check_legal
from hloc.codegen.gpu.worker import Job
from hloc.errors import UnsupportedError
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.options import CompileOptions

INTRINSICS = "llvm.amdgcn"

STAGES = (
    *COMMON_STAGES,
    Stage("asm", "assembly of one chip", ".s"),
    Stage("object", "a relocatable object; `ld.lld -shared` makes it loadable", ".o", False),
)


@dataclass(slots=True, eq=False)
class AmdgcnModule(GpuModule):
    """A compiled module; code of all kernels is generated together, on demand."""

    target: str = "amdgcn"
    stages: tuple[Stage, ...] = STAGES

    def _code(self, name: str) -> str | bytes:
        text = kernels_text(self.kernels)
        if name == "llvm-ir":
            return text
        check_legal(text, INTRINSICS)
        level, is_object = max(self.options.opt_level, 1), name == "object"
        source = f"module {self.module.name}"
        job = Job(source, text, TRIPLE, self.chip.cpu, self.chip.features, level, is_object)
        code = cached_code(job)
        return code if is_object else code.decode()


@dataclass(frozen=True, slots=True)
class AmdgcnBackend:
    """The built-in backend for AMD GPUs; `--mcpu` names the chip."""

    name: str = "amdgcn"
    stages: tuple[Stage, ...] = STAGES
    takes_cpu: bool = True

    def processors(self) -> dict[str, str]:
        """Return a description of each chip."""
        marks = {DEFAULT_CHIP: "; the default"}
        return {name: chip.summary + marks.get(name, "") for name, chip in CHIPS.items()}

    def compile(self, module: Module, options: CompileOptions) -> AmdgcnModule:
        """Compile an optimised module, which is changed.

        Raises:
            UnsupportedError: lists all instructions that cannot run on one GPU, with reasons.
            HloError: the chip is unknown; constants are elided in the text.
        """
        chip = target_for_chip(options.cpu, options.features)
        plan, kernels, boundary = kernels_of(module, options, chip)
        _refuse_unknown_helpers(kernels)
        return AmdgcnModule(module, plan, kernels, chip, options, boundary)


def _refuse_unknown_helpers(kernels: Sequence[GpuKernel]) -> None:
    """Raise one `UnsupportedError` for all kernels that need functions missing from the prelude."""
    faults = []
    for kernel in kernels:
        helpers = dict.fromkeys(name for f in kernel.functions for name in f.helpers)
        missing = [name for name in helpers if not is_known(name)]
        if missing:
            faults.append(f"the kernel of {kernel.source} needs {', '.join(missing)}")
    if faults:
        raise UnsupportedError(f"target amdgcn lacks functions: {'; '.join(faults)}")
