"""Options of a compilation."""

from __future__ import annotations

from hloc.errors import HloError
from hloc.lazy_dataclass import dataclass

FILL_CONSTANTS = ("error", "zeros")
SIMULATORS = ("ptx", "host")
LINKS = ("local", "pcie", "nvlink", "ici", "infiniband", "ethernet100")
"""Links between devices, by name (`hloc/analysis/network/links.py`)."""

DEFAULT_LINK = "nvlink"

GROUPINGS = ("opcode", "dtype", "scope", "computation", "source")


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """The options of `hloc.compile` and of the command line.

    Attributes:
        opt_level: 0 to 3.
        target: name of a backend, e.g. `cpu`.
        triple, cpu, features: the target machine, as for `target_for`; all empty for the
            machine of this process. Other backends interpret `cpu` and `features` in their own way.
        passes: pipeline text that replaces the pipeline of `opt_level`, "" for that pipeline.
        disabled_passes, disabled_rules: names left out of the pipeline.
        fill_constants: treatment of `constant({...})`: `error` rejects it, `zeros` fills it.
        fast_math: allow rules that are not exact, and `flush_subnormals`.
        flush_subnormals: subnormal operands and results of f32 and f64 arithmetic count as zero, on
            processors that have a mode for it.
        threads: number of threads of a run; 0 for HLOC_NUM_THREADS, or all cores without it.
        memory_limit_bytes: reject a module that needs more memory, 0 for no limit.
        verify_each: verify after every pass.
        simulate: run code for a GPU without one: `ptx` (or True) in the PTX interpreter, which
            checks every access; `host` as code for this machine, which is faster and checks less.
        autotune: measure equivalent kernels on this machine, and use the fastest: of matrix
            products, on the CPU of loops too. There results have the same bits with and without it.
        use_library: names of libraries whose routines replace hloc's kernels
            where they fit; each backend has its list (`hloc.codegen.backend.libraries_of`).
        standalone: the code calls no functions of this process, for objects linked into other
            programs.
        fast_collectives: on GPUs NCCL may choose the order of float sums.
    """

    opt_level: int = 2
    target: str = "cpu"
    triple: str = ""
    cpu: str = ""
    features: str = ""
    passes: str = ""
    disabled_passes: tuple[str, ...] = ()
    disabled_rules: tuple[str, ...] = ()
    fill_constants: str = "error"
    fast_math: bool = False
    flush_subnormals: bool = False
    threads: int = 0
    memory_limit_bytes: int = 0
    verify_each: bool = False
    simulate: bool | str = False
    autotune: bool = False
    use_library: tuple[str, ...] = ()
    standalone: bool = False
    fast_collectives: bool = False

    def __post_init__(self) -> None:
        if self.opt_level not in (0, 1, 2, 3):
            raise HloError(f"opt_level is 0, 1, 2 or 3, not {self.opt_level}")
        if self.threads < 0:
            raise HloError(f"threads is a number of threads, 0 for all cores, not {self.threads}")
        if self.simulate not in (*SIMULATORS, "", True, False):
            raise HloError(f"simulate is True, {' or '.join(SIMULATORS)}, not {self.simulate!r}")
        if self.fill_constants not in FILL_CONSTANTS:
            raise HloError(
                f"fill_constants is one of {', '.join(FILL_CONSTANTS)}, not {self.fill_constants!r}"
            )

    @property
    def simulator(self) -> str:
        """The simulator of a GPU: `ptx`, `host`, or "" for none."""
        return "ptx" if self.simulate is True else self.simulate or ""
