"""The backend for NVIDIA GPUs: HLO to PTX, and to cubins where an assembler is installed."""

from __future__ import annotations

from dataclasses import field

from hloc.codegen.backend import Stage
from hloc.codegen.gpu.backend import COMMON_STAGES, GpuModule, kernels_of
from hloc.codegen.gpu.library.table import NAMES
from hloc.codegen.gpu.nvptx.chips import CHIPS, DEFAULT_CHIP, target_for_chip, without_warpgroups
from hloc.codegen.gpu.nvptx.cubin import assemble
from hloc.codegen.gpu.nvptx.ptx import joined, kernel_text, ptx_of
from hloc.ir.module import Module
from hloc.lazy_dataclass import dataclass
from hloc.options import CompileOptions

STAGES = (
    *COMMON_STAGES,
    Stage("ptx", "PTX, which the driver of a GPU assembles", ".ptx"),
    Stage("cubin", "machine code of one chip, by nvJitLink or ptxas", ".cubin", is_text=False),
)


@dataclass(slots=True, eq=False)
class NvptxModule(GpuModule):
    """A compiled module; its PTX is generated on demand and kept."""

    target: str = "nvptx64"
    stages: tuple[Stage, ...] = STAGES
    _ptx: str | None = field(default=None)

    @property
    def ptx(self) -> str:
        """All kernels as one PTX file."""
        if self._ptx is None:
            kernels = [kernel for kernel in self.kernels if kernel.functions]
            self._ptx = joined(ptx_of(kernels, self.chip, max(self.options.opt_level, 1)))
        return self._ptx

    def _code(self, name: str) -> str | bytes:
        if name == "llvm-ir":
            return "\n".join(map(kernel_text, self.kernels))
        return self.ptx if name == "ptx" else assemble(self.ptx, self.chip.cpu).data


@dataclass(frozen=True, slots=True)
class NvptxBackend:
    """The built-in backend for NVIDIA GPUs; `--simulate` runs its code where there is none."""

    name: str = "nvptx64"
    stages: tuple[Stage, ...] = STAGES
    takes_cpu: bool = True
    libraries: tuple[str, ...] = NAMES

    def processors(self) -> dict[str, str]:
        """Return a description of each chip."""
        marks = {DEFAULT_CHIP: "; the default"}
        return {name: chip.summary + marks.get(name, "") for name, chip in CHIPS.items()}

    def compile(self, module: Module, options: CompileOptions) -> NvptxModule:
        """Compile an optimised module, which is changed.

        Raises:
            UnsupportedError: lists all instructions that cannot run on one GPU, with reasons.
            HloError: the chip is unknown; constants are elided in the text.
        """
        name = options.cpu
        if options.simulator == "host":
            name = without_warpgroups(name)
        chip = target_for_chip(name, options.features)
        plan, kernels, boundary = kernels_of(module, options, chip)
        return NvptxModule(module, plan, kernels, chip, options, boundary)
